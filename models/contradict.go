package models

import (
	"slices"
	"strings"
	"time"
)

// A Sight is what the contradictions of an order are judged by: how it was, how it is
// now, what the platforms say of it, and what this console told others to do.
type Sight struct {
	Before, After Order
	Objects       []ObjectView
	// Instructions are its fulfillment instructions; Live: they go somewhere.
	Instructions []Action
	Live         bool
	// Quiet: existing orders are imported. What happened before that is no news.
	Quiet bool
}

// A ContradictionRule is one row of the table of states that don't fit together. The
// table is printed on /rules and in a golden file.
type ContradictionRule struct {
	Kind ExceptionKind
	Case string
	Axis Axis // of its exception; empty: it isn't about one
	// Once: it is judged when it happens, and later readings don't take it back. The
	// others are judged by every reading, and close when it isn't so any more.
	Once bool
	hold func(Sight) bool
	tell func(Sight) (platform, local, detail string)
}

// Contradictions is the table, in the order in which /rules prints it. No two rows of
// one axis can be true at once, unless they are of different kinds.
var Contradictions = []ContradictionRule{
	{Kind: Contradiction, Case: CaseShippedUnpaid, Axis: Payment, hold: Sight.shippedUnpaid, tell: goodsAgainst(Payment)},
	{Kind: Contradiction, Case: CaseShippedAfterCancel, Axis: Cancellation, Once: true, hold: Sight.shippedAfterCancel, tell: goodsAgainst(Cancellation)},
	{Kind: Contradiction, Case: CaseShippedAfterRefund, Axis: Refund, Once: true, hold: Sight.shippedAfterRefund, tell: goodsAgainst(Refund)},
	{Kind: Contradiction, Case: CaseCancelledNotRefunded, Axis: Refund, hold: Sight.cancelledNotRefunded, tell: func(s Sight) (string, string, string) {
		o := s.After
		return o.Axes[Cancellation].Word, string(o.State(Refund)), Decimal(o.Received-o.Refunded, o.Currency)
	}},
	{Kind: Contradiction, Case: CaseRefundedNotCancelled, Axis: Cancellation, hold: Sight.refundedNotCancelled, tell: func(s Sight) (string, string, string) {
		return s.After.Axes[Refund].Word, string(s.After.State(Cancellation)), ""
	}},
	{Kind: Contradiction, Case: CaseChangedAfterInstruction, Once: true, hold: Sight.changedAfterInstruction, tell: func(s Sight) (string, string, string) {
		return itoa(int64(s.After.Items.kept())), itoa(int64(s.Before.Items.kept())), ""
	}},
	{Kind: PaidTwice, Axis: Payment, hold: Sight.paidTwice, tell: func(s Sight) (string, string, string) {
		o := s.After
		return Decimal(s.stays(), o.Currency), Decimal(o.Total, o.Currency), ""
	}},
	{Kind: ShippedTwice, Axis: Fulfillment, Once: true, hold: Sight.shippedTwice, tell: func(s Sight) (string, string, string) {
		return itoa(int64(s.After.Items.Shipped)), itoa(int64(s.After.Items.kept())), ""
	}},
	{Kind: ActionDiffers, Case: CaseShippedUnasked, Axis: Fulfillment, Once: true, hold: Sight.shippedUnasked, tell: goodsAgainst(Payment)},
}

// goodsAgainst tells of goods that left, and of the axis that says they shouldn't have.
func goodsAgainst(a Axis) func(Sight) (string, string, string) {
	return func(s Sight) (string, string, string) {
		return s.After.Axes[Fulfillment].Word, string(s.After.State(a)), ""
	}
}

// StandingCases are the cases that stay open though later readings are right again.
var StandingCases = []string{CaseMovedBack, CaseShippedWhilePaused, CaseShippedAfterCancel, CaseShippedAfterRefund, CaseChangedAfterInstruction, CaseShippedUnasked}

// Contradict lists what doesn't fit together. It cries at nothing that happens in an
// ordinary life: not at tests, at the counter, at receipts, at payments without goods.
func Contradict(s Sight) []Problem {
	o := s.After
	if o.Announced || o.Test || !o.Store || o.overCounter() != Needed {
		return nil
	}
	var out []Problem
	for _, r := range Contradictions {
		if r.Once && s.Quiet || !r.hold(s) {
			continue
		}
		p := Problem{Kind: r.Kind, Case: r.Case, Axis: r.Axis}
		p.PlatformState, p.LocalState, p.Detail = r.tell(s)
		out = append(out, p)
	}
	return out
}

// Settled tells whether the change of an order after its instruction is over: what was
// kept of it has left, or the order has ended.
func (s Sight) Settled() bool {
	o := s.After
	_, ended := o.Withdraws()
	return ended || o.Shipped() && o.Items.Shipped <= o.Items.kept()
}

// kept are the pieces that weren't taken out of the order again.
func (i Items) kept() int { return i.Ordered - i.Removed }

func left(o Order) bool {
	s := o.State(Fulfillment)
	return s == FulfillmentPartial || s == FulfillmentFulfilled
}

// shippedMore tells whether goods left with this reading. Of an order that is read for
// the first time, all that left did.
func (s Sight) shippedMore() bool {
	if s.Before.first() {
		return left(s.After)
	}
	return s.Before.ShippedMore(s.After)
}

// ShippedMore tells whether goods left between two readings of an order.
func (o Order) ShippedMore(after Order) bool {
	was, is := o.State(Fulfillment), after.State(Fulfillment)
	return after.Items.Shipped > o.Items.Shipped ||
		was != is && (is == FulfillmentFulfilled || is == FulfillmentPartial && was != FulfillmentFulfilled)
}

// replaces tells whether people had something shipped on top, of which others heard.
func (s Sight) replaces() bool {
	return slices.ContainsFunc(s.Instructions, func(a Action) bool { return a.Stage != WholeOrder && a.Heard() })
}

// shippedUnpaid: nothing came in for goods that left. Money that the bank reserved is
// taken by many when they ship, and an edit that raises the total is no unpaid order.
func (s Sight) shippedUnpaid() bool {
	o := s.After
	switch o.State(Payment) {
	case PaymentPending, PaymentFailed, PaymentVoided:
		return left(o) && o.Total > 0 && o.Received == 0 && !o.PaysOnDelivery()
	}
	return false
}

// shippedAfterCancel goes by the platform's own times, and where it has none by the
// order of our entries: both states alone say nothing, what left may have been on its
// way before.
func (s Sight) shippedAfterCancel() bool {
	if s.After.State(Cancellation) != CancellationCancelled || !s.shippedMore() {
		return false
	}
	return s.after(s.stated(Cancellation), s.Before.State(Cancellation) == CancellationCancelled)
}

func (s Sight) shippedAfterRefund() bool {
	o := s.After
	if o.State(Refund) != RefundFull || !s.shippedMore() || s.replaces() {
		return false
	}
	return s.after(s.last(Refund), s.Before.State(Refund) == RefundFull)
}

// after tells whether the newest shipment left after a moment; told: our own record
// knew of that before it knew of the shipment.
func (s Sight) after(moment time.Time, told bool) bool {
	shipped := s.last(Fulfillment)
	if shipped.IsZero() || moment.IsZero() {
		return told
	}
	return shipped.After(moment)
}

// stated is when the platform says that an axis became what it is.
func (s Sight) stated(a Axis) time.Time {
	for _, v := range s.Objects {
		if st, _, ok := v.statement(a); ok && v.Connection == s.After.Axes[a].Connection && st.State == s.After.State(a) {
			return st.At
		}
	}
	return time.Time{}
}

// last is when the newest part of an axis that counts happened.
func (s Sight) last(a Axis) time.Time {
	var last time.Time
	for _, v := range s.Objects {
		o := v.latest()
		if o == nil {
			continue
		}
		for _, p := range o.Parts {
			if p.Axis == a && p.Counts && p.At.After(last) {
				last = p.At
			}
		}
	}
	return last
}

// cancelledNotRefunded: money of a cancelled order is still here. What a bank took back
// by a dispute isn't.
func (s Sight) cancelledNotRefunded() bool {
	o := s.After
	back := o.State(Refund)
	return o.State(Cancellation) == CancellationCancelled && o.Received > o.Refunded && (back == RefundNone || back == RefundPartial) &&
		o.State(Dispute) != DisputeOpen && o.State(Dispute) != DisputeLost && o.Axes[Refund].Doubt != Differs && !s.refunding()
}

// refunding tells whether money is on its way back.
func (s Sight) refunding() bool {
	return slices.ContainsFunc(s.Objects, func(v ObjectView) bool {
		o := v.latest()
		return o != nil && slices.ContainsFunc(o.Parts, func(p Part) bool { return p.Axis == Refund && p.standing() == MoneyMoving })
	})
}

// refundedNotCancelled: all money went back and the goods would still go out. An order
// of which everything was taken out has nothing to ship. While platforms disagree on
// the refund, that is the case.
func (s Sight) refundedNotCancelled() bool {
	o := s.After
	return o.State(Refund) == RefundFull && o.Axes[Refund].Doubt != Differs && o.State(Cancellation) == CancellationActive && !left(o) && o.Items.Shipped == 0 &&
		o.Items.CameBack == 0 && o.Items.Returning == 0 && o.Items.InReturned == 0 && (o.Items.Ordered == 0 || o.Items.kept() > 0)
}

// changedAfterInstruction: goods were taken out of an order that others were told to
// ship. Goods that were added get an instruction of their own, which waits for people.
func (s Sight) changedAfterInstruction() bool {
	was, is := s.Before.Items, s.After.Items
	if s.Before.first() || was.Ordered == 0 || left(s.After) || is.kept() >= was.kept() || is.CameBack > 0 || is.Returning > 0 {
		return false
	}
	if _, ended := s.After.Withdraws(); ended {
		return false
	}
	return slices.ContainsFunc(s.Instructions, func(a Action) bool { return a.Stage == WholeOrder && a.Heard() })
}

// paid are the payments that came in, each once, like with like: in the order's own
// currency. What several platforms tell of one payment is one.
func (s Sight) paid() []Movement {
	var in []Movement
	for _, m := range Movements(s.sure(), Payment, s.After.Currency) {
		if m.Standing == MoneyMoved && m.Currency == s.After.Currency {
			in = append(in, m)
		}
	}
	return in
}

func (s Sight) sure() []Object {
	f := OrderFile{}
	for _, v := range s.Objects {
		f.Objects = append(f.Objects, Object{ObjectView: v})
	}
	sure, _ := f.sureObjects()
	return sure
}

// stays is what came in and hasn't gone back.
func (s Sight) stays() int64 {
	var sum int64
	for _, m := range s.paid() {
		sum += m.Amount
	}
	for _, m := range Movements(s.sure(), Refund, s.After.Currency) {
		if m.Currency == s.After.Currency && (m.Standing == MoneyMoved || m.Standing == MoneyMoving) {
			sum -= m.Amount
		}
	}
	return sum
}

// paidTwice: without one of several payments the order would be paid all the same. An
// order that became cheaper, a tip, a deposit and its rest, a gift card and a card aren't.
func (s Sight) paidTwice() bool {
	in := s.paid()
	if len(in) < 2 || s.After.Total <= 0 || s.After.State(Cancellation) == CancellationCancelled {
		return false
	}
	stays := s.stays()
	return slices.ContainsFunc(in, func(m Movement) bool { return m.Amount > 0 && stays-m.Amount >= s.After.Total })
}

// shippedTwice: more left than was ordered, or all of it although a part had been taken
// out before anything left. A parcel that was called off doesn't count, and one that
// people sent on top is meant.
func (s Sight) shippedTwice() bool {
	was, is := s.Before.Items, s.After.Items
	if is.Ordered == 0 || !s.shippedMore() || s.replaces() {
		return false
	}
	if is.Shipped > is.Ordered {
		return s.Before.first() || is.Shipped > was.Shipped
	}
	return !s.Before.first() && was.Shipped == 0 && was.Ordered == is.Ordered && was.Removed == is.Removed && is.CameBack == 0 && is.Returning == 0 &&
		is.Shipped > is.kept()
}

// shippedUnasked: goods left at the platform while our instruction to ship them was
// still here. Where instructions go nowhere, or rest on a person's list, others ship.
func (s Sight) shippedUnasked() bool {
	o := s.After
	if !s.Live || s.Before.first() || !s.shippedMore() {
		return false
	}
	// Goods that shouldn't have left at all have their own rows.
	if _, ended := o.Withdraws(); ended || s.shippedUnpaid() {
		return false
	}
	told, waits := false, false
	for _, a := range s.Instructions {
		told = told || a.Heard() || a.State == ActionManual || a.State == ActionWatched || a.State == ActionNotNeeded
		waits = waits || a.State == ActionPlanned || a.State == ActionWaiting || a.State == ActionWithdrawn
	}
	return waits && !told
}

// String is the row as the golden file prints it.
func (r ContradictionRule) String() string {
	words := []string{string(r.Kind)}
	if r.Case != "" {
		words = append(words, r.Case)
	}
	p := Problem{Kind: r.Kind, Case: r.Case, Axis: r.Axis}
	rule := p.Rule()
	words = append(words, "axis="+string(r.Axis), string(rule.Policy), "grace="+rule.Grace.String(), string(rule.Urgency), string(rule.Desk))
	if r.Once {
		words = append(words, "once")
	}
	if rule.Tell {
		words = append(words, "tell")
	}
	return strings.Join(words, " ")
}

// Rule is the row of the policies that the contradiction follows.
func (r ContradictionRule) Rule() CaseRule {
	return Problem{Kind: r.Kind, Case: r.Case, Axis: r.Axis}.Rule()
}

// Word is the row's key below the catalogue's contradictions.
func (r ContradictionRule) Word() string { return either(r.Case != "", r.Case, string(r.Kind)) }
