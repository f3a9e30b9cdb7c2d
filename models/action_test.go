package models

import (
	"slices"
	"strings"
	"testing"
	"time"
)

var midday = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// paidOrder is an order that Shopify decides, read a moment ago.
func paidOrder(change func(*Order)) Order {
	o := Order{ID: 7, ConnectionID: 1, Platform: Shopify, Store: true, Placed: midday.Add(-time.Hour), Axes: map[Axis]AxisRecord{},
		Amounts: Amounts{Currency: "HKD", Total: 10000, Received: 10000}}
	for _, a := range Axes {
		o.Axes[a] = AxisRecord{State: Resting[a], Check: Verified, CheckedAt: midday.Add(-time.Second), Connection: 1, Platform: Shopify, Since: midday.Add(-time.Minute)}
	}
	o.set(Payment, PaymentPaid)
	if change != nil {
		change(&o)
	}
	return o
}

func (o *Order) set(a Axis, s State) {
	rec := o.Axes[a]
	rec.State = s
	o.Axes[a] = rec
}

func (o *Order) doubt(a Axis, c Check, d Doubt) {
	rec := o.Axes[a]
	rec.Check, rec.Doubt = c, d
	o.Axes[a] = rec
}

// gateOf judges an order whose platform answers.
func gateOf(o Order, change func(*Gate)) Gate {
	g := Gate{Order: o, Now: midday, Fresh: map[int64]time.Duration{1: time.Minute},
		Health: map[int64]Health{1: {State: APIUp, Settle: time.Minute, Review: time.Hour, Unsent: 6 * time.Hour}}}
	if change != nil {
		change(&g)
	}
	return g
}

func TestWhatAHighRiskActionWaitsFor(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		order  func(*Order)
		gate   func(*Gate)
		action func(*Action)
		want   string
	}{
		"nothing":                             {},
		"an unprocessed event":                {gate: func(g *Gate) { g.Unprocessed = true }, want: "verified"},
		"an event that is being processed":    {gate: func(g *Gate) { g.health(func(h *Health) { h.Waiting = midday.Add(-time.Second) }) }, want: "verified"},
		"an axis in doubt":                    {order: func(o *Order) { o.doubt(Dispute, Unverified, ReportedOnly) }, want: "verified"},
		"an axis in review":                   {order: func(o *Order) { o.doubt(Return, ToReview, UnclearWord) }, want: "verified"},
		"a reading that is old":               {gate: func(g *Gate) { g.Now = midday.Add(2 * time.Minute) }, want: "fresh"},
		"a reading made for it":               {gate: func(g *Gate) { g.Now, g.Since = midday.Add(2*time.Minute), midday.Add(-2*time.Second) }},
		"a platform that fails":               {gate: func(g *Gate) { g.health(func(h *Health) { h.State = APIThrottled }) }, want: "asked"},
		"platforms that disagree":             {order: func(o *Order) { o.DisagreeSince = midday }, want: "agree"},
		"money":                               {order: func(o *Order) { o.set(Payment, PaymentAuthorized) }, want: "paid"},
		"no money where it is due on arrival": {order: func(o *Order) { o.Method = "Cash on Delivery (COD)"; o.set(Payment, PaymentPending) }},
		"a hold":                              {gate: func(g *Gate) { g.Held = []string{"shop"} }, want: "no_hold"},
		"an exception":                        {gate: func(g *Gate) { g.Cases = []Exception{pausing(9, midday)} }, want: "no_exception"},
		"nothing: cancelled":                  {order: func(o *Order) { o.set(Cancellation, CancellationCancelled) }, want: "not_ended"},
		"nothing: refunded":                   {order: func(o *Order) { o.set(Refund, RefundFull) }, want: "not_ended"},
		"nothing: disputed":                   {order: func(o *Order) { o.set(Dispute, DisputeOpen) }, want: "not_ended"},
		"not a dispute that was won":          {order: func(o *Order) { o.set(Dispute, DisputeWon) }},
		"a person, after a partial refund":    {order: func(o *Order) { o.set(Refund, RefundPartial) }, want: "not_refunded_partly"},
		"the platform's hold":                 {order: func(o *Order) { o.set(Fulfillment, FulfillmentHeld) }, want: "not_held"},
		"goods that left already":             {order: func(o *Order) { o.set(Fulfillment, FulfillmentPartial) }, want: "not_shipped"},
		"nothing, for goods that come on top": {order: func(o *Order) { o.set(Fulfillment, FulfillmentFulfilled) },
			action: func(a *Action) { a.Stage = "more:1" }},
		"a person, because the order is old": {action: func(a *Action) { a.Person = true }, want: "released"},
		"its time":                           {action: func(a *Action) { a.NotBefore = midday.Add(time.Second) }, want: "not_before"},
		"a person, because it waited long":   {action: func(a *Action) { a.Planned = midday.Add(-14 * 24 * time.Hour) }, want: "not_expired"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := Action{Kind: FulfillmentInstruction, Stage: WholeOrder, Official: true, State: ActionWaiting, Planned: midday.Add(-time.Hour)}
			if c.action != nil {
				c.action(&a)
			}
			got := gateOf(paidOrder(c.order), c.gate).Conditions(a)
			if Unmet(got) != c.want {
				t.Errorf("%q, want %q: %+v", Unmet(got), c.want, got)
			}
			for _, cond := range got {
				if !slices.Contains(ConditionKeys, cond.Key) {
					t.Errorf("%s isn't among the keys", cond.Key)
				}
			}
		})
	}
}

func (g *Gate) health(change func(*Health)) {
	h := g.Health[1]
	change(&h)
	g.Health[1] = h
}

func TestWhatAnInvoiceWaitsFor(t *testing.T) {
	t.Parallel()
	g := gateOf(paidOrder(func(o *Order) { o.set(Cancellation, CancellationCancelled) }), func(g *Gate) { g.Held = []string{"order"} })
	for want, a := range map[string]Action{
		"":           {Kind: Invoice, Official: true},
		"official":   {Kind: CustomerMessage},
		"released":   {Kind: Invoice, Official: true, Person: true},
		"not_before": {Kind: Invoice, Official: true, NotBefore: midday.Add(time.Hour)},
	} {
		if got := Unmet(g.Conditions(a)); got != want {
			t.Errorf("%+v waits for %q, not %q", a, got, want)
		}
	}
}

func TestAReadingIsMadeOnlyWhereItHelps(t *testing.T) {
	t.Parallel()
	old := func(g *Gate) { g.Now = midday.Add(2 * time.Minute) }
	for name, c := range map[string]struct {
		order  func(*Order)
		gate   func(*Gate)
		action func(*Action)
		want   []int64
	}{
		"read a moment ago": {},
		"read long ago":     {gate: old, want: []int64{1}},
		"an outage left it": {order: func(o *Order) { o.doubt(Payment, Unverified, APIDown) }, want: []int64{1}},
		"the platform fails": {gate: func(g *Gate) {
			g.health(func(h *Health) { h.State = APIDownState; h.Since = midday.Add(-2 * time.Hour) })
		}, want: []int64{1}},
		"it is held":           {gate: func(g *Gate) { old(g); g.Held = []string{"order"} }},
		"a word is unclear":    {order: func(o *Order) { o.doubt(Payment, ToReview, UnclearWord) }, gate: old},
		"an event is waiting":  {gate: func(g *Gate) { old(g); g.Unprocessed = true }},
		"there is no API":      {gate: func(g *Gate) { old(g); g.health(func(h *Health) { h.State = APINone }) }},
		"it is only announced": {order: func(o *Order) { o.Announced = true }, gate: old},
		"it is a message":      {gate: old, action: func(a *Action) { a.Kind = CustomerMessage }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := Action{Kind: FulfillmentInstruction, Stage: WholeOrder}
			if c.action != nil {
				c.action(&a)
			}
			if got := gateOf(paidOrder(c.order), c.gate).Readings(a); !slices.Equal(got, c.want) {
				t.Errorf("%v, want %v", got, c.want)
			}
		})
	}
}

func TestWhatMovesPlan(t *testing.T) {
	t.Parallel()
	unpaid := paidOrder(func(o *Order) { o.set(Payment, PaymentPending) })
	pay := []Move{{Axis: Payment, From: PaymentPending, To: PaymentPaid}}
	appears := func(s State) []Move { return []Move{{Axis: Payment, To: s}} }
	refund := func(from, to int64) Move {
		return Move{Axis: Refund, From: RefundPartial, To: RefundPartial, Before: Amounts{Refunded: from}, After: Amounts{Refunded: to}}
	}
	cod := func(s State) func(*Order) {
		return func(o *Order) { o.Method = "貨到付款"; o.set(Payment, s) }
	}
	all := "fulfillment_instruction/order invoice/order customer_message/payment_received"
	for name, c := range map[string]struct {
		before Order
		after  func(*Order)
		moves  []Move
		quiet  bool
		want   string
	}{
		"paid":                            {unpaid, nil, pay, false, all},
		"paid before it was first read":   {Order{}, nil, appears(PaymentPaid), false, all},
		"paid again after an edit":        {unpaid, nil, []Move{{Axis: Payment, From: PaymentPartiallyPaid, To: PaymentPaid}}, false, all},
		"only the amount changed":         {paidOrder(nil), nil, []Move{{Axis: Payment, From: PaymentPaid, To: PaymentPaid}}, false, ""},
		"authorized":                      {unpaid, nil, []Move{{Axis: Payment, From: PaymentPending, To: PaymentAuthorized}}, false, ""},
		"pay on delivery appears":         {Order{}, cod(PaymentPending), appears(PaymentPending), false, "fulfillment_instruction/order"},
		"pay on delivery appears as paid": {Order{}, cod(PaymentPaid), appears(PaymentPaid), false, all},
		"pay on delivery is paid later":   {unpaid, cod(PaymentPaid), pay, false, "invoice/order customer_message/payment_received"},
		"pending otherwise":               {Order{}, func(o *Order) { o.set(Payment, PaymentPending) }, appears(PaymentPending), false, ""},
		"refunds":                         {paidOrder(nil), nil, []Move{refund(0, 18000), refund(18000, 20000)}, false, "customer_message/refund:18000 customer_message/refund:20000"},
		"a refund that shrank":            {paidOrder(nil), nil, []Move{refund(20000, 0)}, false, ""},
		"shipped already": {unpaid, func(o *Order) { o.set(Fulfillment, FulfillmentFulfilled) }, pay, false,
			"fulfillment_instruction/order=shipped_already invoice/order customer_message/payment_received"},
		"shipped, as a payload says": {unpaid, func(o *Order) {
			o.set(Fulfillment, FulfillmentFulfilled)
			o.doubt(Fulfillment, Unverified, ReportedOnly)
		}, pay, false, all},
		"a part was shipped": {unpaid, func(o *Order) { o.set(Fulfillment, FulfillmentPartial) }, pay, false, all},
		"sold at the till": {unpaid, func(o *Order) { o.Channel = "POS" }, pay, false,
			"fulfillment_instruction/order=point_of_sale invoice/order customer_message/payment_received"},
		"a receipt": {Order{}, func(o *Order) { o.Platform = ReceiptRoller }, appears(PaymentPaid), false,
			"fulfillment_instruction/order=receipt invoice/order customer_message/payment_received"},
		"a test": {unpaid, func(o *Order) { o.Test = true }, pay, false,
			"fulfillment_instruction/order=test invoice/order=test customer_message/payment_received=test"},
		"imported": {Order{}, nil, appears(PaymentPaid), true,
			"fulfillment_instruction/order=imported invoice/order=imported customer_message/payment_received=imported"},
		"first seen when it was old": {Order{}, func(o *Order) { o.Placed = midday.Add(-15 * 24 * time.Hour) }, appears(PaymentPaid), false,
			"fulfillment_instruction/order? invoice/order? customer_message/payment_received?"},
		"old, but known": {unpaid, func(o *Order) { o.Placed = midday.Add(-15 * 24 * time.Hour) }, pay, false, all},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, p := range RulesOf(nil).Plan(c.before, paidOrder(c.after), c.moves, c.quiet, midday) {
				text := string(p.Kind) + "/" + p.Stage
				if p.Not != Needed {
					text += "=" + string(p.Not)
				}
				if p.Person {
					text += "?"
				}
				got = append(got, text)
			}
			if text := strings.Join(got, " "); text != c.want {
				t.Errorf("plans\n%s\nwant\n%s", text, c.want)
			}
		})
	}
}
