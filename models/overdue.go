package models

import "time"

// How long each of the things that should happen to an order may take.
const (
	shipWithin   = 2 // working days after the payment
	payWithin    = 14 * day
	refundWithin = 10 * day
	returnWithin = 3 // working days after the return was closed
	// ActWithin is how long goods may stay after an instruction to ship them was done.
	ActWithin = 48 * time.Hour
	// EventWithin is how long an event may wait for nothing.
	EventWithin = 30 * time.Minute
)

// A Duty is something that should happen to an order by a time.
type Duty struct {
	Case string // of overdue
	Axis Axis
	Due  time.Time
}

// Duties lists what should happen to an order as it is now. Tests have none, nor has
// what is sold over the counter. from, where it is later, is when goods may be shipped.
func (o Order) Duties(from time.Time, zone *time.Location) []Duty {
	if o.Announced || o.Test || o.MergedInto != 0 || len(o.Axes) == 0 {
		return nil
	}
	var out []Duty
	since := func(a Axis) time.Time { return o.Axes[a].Since }
	_, ended := o.Withdraws()
	goods := o.Store && o.overCounter() == Needed
	if goods && !ended && o.State(Payment) == PaymentPaid && !o.gone() && o.State(Fulfillment) != FulfillmentHeld && !since(Payment).IsZero() {
		if paid := since(Payment); paid.After(from) {
			from = paid
		}
		out = append(out, Duty{CaseOverdueUnshipped, Fulfillment, WorkingDays(from, shipWithin, zone)})
	}
	if goods && !ended && o.PaysOnDelivery() && left(o) && o.State(Payment) == PaymentPending && o.Items.CameBack == 0 && o.State(Return) != ReturnReceived && !since(Fulfillment).IsZero() {
		out = append(out, Duty{CaseOverdueUnpaid, Payment, since(Fulfillment).Add(payWithin)})
	}
	if o.State(Refund) == RefundPending && !since(Refund).IsZero() {
		out = append(out, Duty{CaseOverdueRefund, Refund, since(Refund).Add(refundWithin)})
	}
	if goods && o.State(Return) == ReturnReceived && o.Items.CameBack > 0 && o.State(Refund) == RefundNone && o.Received > 0 && !since(Return).IsZero() {
		out = append(out, Duty{CaseOverdueReturn, Return, WorkingDays(since(Return), returnWithin, zone)})
	}
	return out
}

// gone tells whether everything that was kept of the order has left.
func (o Order) gone() bool {
	return o.State(Fulfillment) == FulfillmentFulfilled || o.Items.Ordered > 0 && o.Items.Shipped >= o.Items.kept()
}

// NextDuty is the earliest moment at which something of the order can be overdue,
// wherever its shop is; zero: nothing can.
func (o Order) NextDuty() time.Time {
	var next time.Time
	for _, d := range o.Duties(time.Time{}, time.UTC) {
		due := d.Due
		if d.Case == CaseOverdueUnshipped || d.Case == CaseOverdueReturn {
			due = o.Axes[d.Axis].Since
			if d.Case == CaseOverdueUnshipped {
				due = o.Axes[Payment].Since
			}
			due = due.Add(shipWithin * day)
		}
		if next.IsZero() || due.Before(next) {
			next = due
		}
	}
	return next
}

// WorkingDays is the moment n working days after another, in a zone. Saturday and
// Sunday are none; public holidays aren't known.
func WorkingDays(from time.Time, n int, zone *time.Location) time.Time {
	at := from.In(zone)
	for at.Weekday() == time.Saturday || at.Weekday() == time.Sunday {
		y, m, d := at.Date()
		at = time.Date(y, m, d+1, 0, 0, 0, 0, zone)
	}
	for n > 0 {
		at = at.AddDate(0, 0, 1)
		if at.Weekday() != time.Saturday && at.Weekday() != time.Sunday {
			n--
		}
	}
	return at.UTC()
}
