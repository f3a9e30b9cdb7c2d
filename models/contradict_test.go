package models

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestContradictionsTable(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	for _, r := range Contradictions {
		if r.Rule().Key == "" {
			t.Errorf("%s %s follows no row of the policies", r.Kind, r.Case)
		}
		fmt.Fprintln(&b, r)
	}
	golden(t, "contradictions.golden", b.String())
}

var atNoon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// lived is a store's order with states in the order of Axes, 100.00 paid for two pieces.
func livedBy(states ...State) Order {
	o := Order{ID: 1, Store: true, Platform: Shopify, Method: "card", Axes: map[Axis]AxisRecord{}, Items: Items{Ordered: 2},
		Amounts: Amounts{Currency: "HKD", Total: 10000, Received: 10000}}
	for i, a := range Axes {
		o.Axes[a] = AxisRecord{State: states[i], Connection: 1, Platform: Shopify}
	}
	return o
}

// shopView is what the shop says of an order, with its parts.
func shopView(o Order, cancelled time.Time, parts ...Part) ObjectView {
	seen := &Observation{Basis: Official, Store: true, Amounts: &o.Amounts, Items: &o.Items, Parts: parts, Axes: map[Axis]Statement{}}
	for a, rec := range o.Axes {
		seen.Axes[a] = Statement{State: rec.State}
	}
	seen.Axes[Cancellation] = Statement{State: o.State(Cancellation), At: cancelled}
	return ObjectView{ID: 1, Connection: 1, Platform: Shopify, Official: seen, Ref: ObjectRef{Kind: "order", ID: "1"}}
}

func cameIn(id string, amount int64, currency string) Part {
	return Part{Axis: Payment, ID: id, State: PaymentPaid, Amount: amount, Currency: currency, Counts: true, At: atNoon}
}

func wentBack(amount int64, at time.Time) Part {
	return Part{Axis: Refund, ID: "r" + at.String(), State: RefundPartial, Amount: amount, Currency: "HKD", Counts: true, At: at}
}

func parcelAt(at time.Time) Part {
	return Part{Axis: Fulfillment, ID: "f" + at.String(), State: FulfillmentFulfilled, Counts: true, At: at}
}

func TestContradictions(t *testing.T) {
	t.Parallel()
	const (
		open, away = FulfillmentUnfulfilled, FulfillmentFulfilled
		stands     = CancellationActive
		off        = CancellationCancelled
	)
	order := func(pay, back, goods, ends State) Order {
		return livedBy(pay, back, DisputeNone, goods, ends, ReturnNone)
	}
	with := func(o Order, change func(*Order)) Order { change(&o); return o }
	money := func(received, refunded int64) func(*Order) {
		return func(o *Order) { o.Received, o.Refunded = received, refunded }
	}
	items := func(i Items) func(*Order) { return func(o *Order) { o.Items = i } }
	sent := []Action{{ID: 1, Kind: FulfillmentInstruction, Stage: WholeOrder, State: ActionDone}}
	waits := []Action{{ID: 1, Kind: FulfillmentInstruction, Stage: WholeOrder, State: ActionWaiting}}
	paid := order(PaymentPaid, RefundNone, open, stands)
	for name, c := range map[string]struct {
		s    Sight
		want string
	}{
		"paid, then shipped":             {Sight{Before: paid, After: order(PaymentPaid, RefundNone, away, stands)}, ""},
		"read for the first time":        {Sight{After: order(PaymentPaid, RefundNone, away, stands)}, ""},
		"shipped unpaid":                 {Sight{After: with(order(PaymentPending, RefundNone, away, stands), money(0, 0))}, "contradiction/shipped_unpaid"},
		"shipped, payment failed":        {Sight{Before: paid, After: with(order(PaymentFailed, RefundNone, FulfillmentPartial, stands), money(0, 0))}, "contradiction/shipped_unpaid"},
		"pay on delivery":                {Sight{After: with(order(PaymentPending, RefundNone, away, stands), func(o *Order) { o.Received, o.Method = 0, "Cash on Delivery (COD)" })}, ""},
		"shipped, taken when shipped":    {Sight{After: with(order(PaymentAuthorized, RefundNone, away, stands), money(0, 0))}, ""},
		"an edit raised what was paid":   {Sight{After: with(order(PaymentPartiallyPaid, RefundNone, away, stands), func(o *Order) { o.Total = 12000 })}, ""},
		"nothing asked":                  {Sight{After: with(order(PaymentPending, RefundNone, away, stands), func(o *Order) { o.Total, o.Received = 0, 0 })}, ""},
		"a test":                         {Sight{After: with(order(PaymentPending, RefundNone, away, stands), func(o *Order) { o.Received, o.Test = 0, true })}, ""},
		"at the counter":                 {Sight{After: with(order(PaymentPending, RefundNone, away, stands), func(o *Order) { o.Received, o.Channel = 0, "pos" })}, ""},
		"a receipt":                      {Sight{After: with(order(PaymentPending, RefundNone, away, stands), func(o *Order) { o.Received, o.Platform = 0, ReceiptRoller })}, ""},
		"a bare payment":                 {Sight{After: with(order(PaymentPaid, RefundFull, open, stands), func(o *Order) { o.Refunded, o.Store = 10000, false })}, ""},
		"cancelled after it left":        {sightAt(order(PaymentPaid, RefundNone, away, stands), with(order(PaymentPaid, RefundFull, away, off), money(10000, 10000)), atNoon.Add(time.Hour), parcelAt(atNoon)), ""},
		"both told at once, left before": {sightAt(paid, with(order(PaymentPaid, RefundFull, away, off), money(10000, 10000)), atNoon.Add(time.Hour), parcelAt(atNoon), wentBack(10000, atNoon.Add(time.Hour))), ""},
		"both told at once, left after":  {sightAt(paid, with(order(PaymentPaid, RefundPending, away, off), money(10000, 0)), atNoon, parcelAt(atNoon.Add(time.Hour))), "contradiction/shipped_after_cancel"},
		"left after by our entries":      {Sight{Before: with(order(PaymentVoided, RefundNone, open, off), money(0, 0)), After: with(order(PaymentVoided, RefundNone, away, off), func(o *Order) { o.Received, o.Total = 0, 0 })}, "contradiction/shipped_after_cancel"},
		"cancelled and left, no times":   {Sight{Before: paid, After: with(order(PaymentPaid, RefundPending, away, off), money(10000, 0))}, ""},
		"judged once":                    {sightAt(order(PaymentPaid, RefundPending, away, off), order(PaymentPaid, RefundPending, away, off), atNoon, parcelAt(atNoon.Add(time.Hour))), ""},
		"refunded after a return":        {sightAt(order(PaymentPaid, RefundNone, away, stands), with(order(PaymentPaid, RefundFull, away, stands), money(10000, 10000)), time.Time{}, parcelAt(atNoon), wentBack(10000, atNoon.Add(time.Hour))), ""},
		"shipped after a refund":         {sightAt(paid, with(order(PaymentPaid, RefundFull, away, stands), money(10000, 10000)), time.Time{}, wentBack(10000, atNoon), parcelAt(atNoon.Add(time.Hour))), "contradiction/shipped_after_refund"},
		"shipped after a partial refund": {sightAt(paid, with(order(PaymentPaid, RefundPartial, away, stands), money(10000, 3000)), time.Time{}, wentBack(3000, atNoon), parcelAt(atNoon.Add(time.Hour))), ""},
		"a replacement after a refund": {withActions(sightAt(paid, with(order(PaymentPaid, RefundFull, away, stands), money(10000, 10000)), time.Time{}, wentBack(10000, atNoon), parcelAt(atNoon.Add(time.Hour))),
			[]Action{{Kind: FulfillmentInstruction, Stage: "replacement:1", State: ActionDone}}), ""},
		"cancelled, not refunded":         {Sight{Before: paid, After: order(PaymentPaid, RefundNone, open, off)}, "contradiction/cancelled_not_refunded"},
		"cancelled, a part is here still": {Sight{After: with(order(PaymentPaid, RefundPartial, open, off), money(10000, 4000))}, "contradiction/cancelled_not_refunded"},
		"cancelled, money under way":      {sightAt(paid, order(PaymentPaid, RefundNone, open, off), atNoon, Part{Axis: Refund, ID: "r", State: RefundPending, Amount: 10000, Currency: "HKD"}), ""},
		"cancelled and unpaid":            {Sight{After: with(order(PaymentVoided, RefundNone, open, off), money(0, 0))}, ""},
		"cancelled, the bank took it":     {Sight{After: with(order(PaymentPaid, RefundNone, open, off), func(o *Order) { o.Axes[Dispute] = AxisRecord{State: DisputeLost} })}, ""},
		"refunded, would still ship":      {Sight{Before: paid, After: with(order(PaymentPaid, RefundFull, open, stands), money(10000, 10000))}, "contradiction/refunded_not_cancelled"},
		"refunded at one of two platforms": {Sight{Before: paid, After: with(order(PaymentPaid, RefundFull, open, stands), func(o *Order) {
			o.Refunded = 10000
			o.Axes[Refund] = AxisRecord{State: RefundFull, Check: Unverified, Doubt: Differs}
		})}, ""},
		"refunded and taken out":          {Sight{Before: paid, After: with(order(PaymentPaid, RefundFull, open, stands), func(o *Order) { o.Refunded = 10000; o.Items.Removed = 2 })}, ""},
		"refunded and cancelled":          {Sight{Before: paid, After: with(order(PaymentPaid, RefundFull, open, off), money(10000, 10000))}, ""},
		"taken out after the instruction": {Sight{Before: paid, After: with(paid, items(Items{Ordered: 2, Removed: 1})), Instructions: sent}, "contradiction/changed_after_instruction"},
		"taken out before it":             {Sight{Before: paid, After: with(paid, items(Items{Ordered: 2, Removed: 1})), Instructions: waits}, ""},
		"added after the instruction":     {Sight{Before: paid, After: with(paid, items(Items{Ordered: 3})), Instructions: sent}, ""},
		"taken out after it left":         {Sight{Before: order(PaymentPaid, RefundNone, away, stands), After: with(order(PaymentPaid, RefundNone, away, stands), items(Items{Ordered: 2, Removed: 1, Shipped: 2})), Instructions: sent}, ""},
		"paid twice":                      {sightAt(paid, with(paid, money(20000, 0)), time.Time{}, cameIn("a", 10000, "HKD"), cameIn("b", 10000, "HKD")), "paid_twice/"},
		"paid twice, one went back":       {sightAt(paid, with(order(PaymentPaid, RefundPartial, open, stands), money(20000, 10000)), time.Time{}, cameIn("a", 10000, "HKD"), cameIn("b", 10000, "HKD"), wentBack(10000, atNoon)), ""},
		"a gift card and a card":          {sightAt(paid, paid, time.Time{}, cameIn("a", 4000, "HKD"), cameIn("b", 6000, "HKD")), ""},
		"a tip":                           {sightAt(paid, with(paid, money(11500, 0)), time.Time{}, cameIn("a", 11500, "HKD")), ""},
		"a split and a tip":               {sightAt(paid, with(paid, money(11500, 0)), time.Time{}, cameIn("a", 4000, "HKD"), cameIn("b", 7500, "HKD")), ""},
		"became cheaper":                  {sightAt(paid, with(paid, func(o *Order) { o.Total = 8000 }), time.Time{}, cameIn("a", 10000, "HKD")), ""},
		"another currency":                {sightAt(paid, paid, time.Time{}, cameIn("a", 10000, "HKD"), cameIn("b", 1300, "USD")), ""},
		"more left than ordered":          {Sight{Before: with(order(PaymentPaid, RefundNone, away, stands), items(Items{Ordered: 2, Shipped: 2})), After: with(order(PaymentPaid, RefundNone, away, stands), items(Items{Ordered: 2, Shipped: 4}))}, "shipped_twice/"},
		"a replacement":                   {Sight{Before: with(order(PaymentPaid, RefundNone, away, stands), items(Items{Ordered: 2, Shipped: 2})), After: with(order(PaymentPaid, RefundNone, away, stands), items(Items{Ordered: 2, Shipped: 4})), Instructions: []Action{{Stage: "replacement:1", State: ActionDone}}}, ""},
		"a parcel called off, another":    {Sight{Before: with(paid, items(Items{Ordered: 2})), After: with(order(PaymentPaid, RefundNone, away, stands), items(Items{Ordered: 2, Shipped: 2}))}, ""},
		"what was taken out left too":     {Sight{Before: with(paid, items(Items{Ordered: 2, Removed: 1})), After: with(order(PaymentPaid, RefundNone, away, stands), items(Items{Ordered: 2, Removed: 1, Shipped: 2}))}, "shipped_twice/"},
		"refunded after it left":          {Sight{Before: with(order(PaymentPaid, RefundNone, away, stands), items(Items{Ordered: 2, Shipped: 2})), After: with(order(PaymentPaid, RefundPartial, away, stands), items(Items{Ordered: 2, Removed: 1, Shipped: 2}))}, ""},
		"left while we still wait":        {Sight{Before: paid, After: order(PaymentPaid, RefundNone, away, stands), Instructions: waits, Live: true}, "action_differs/shipped_unasked"},
		"left as told":                    {Sight{Before: paid, After: order(PaymentPaid, RefundNone, away, stands), Instructions: sent, Live: true}, ""},
		"left where nothing is sent":      {Sight{Before: paid, After: order(PaymentPaid, RefundNone, away, stands), Instructions: waits}, ""},
		"quiet import":                    {Sight{After: with(order(PaymentPaid, RefundNone, away, stands), items(Items{Ordered: 2, Shipped: 4})), Quiet: true}, ""},
	} {
		var got []string
		for _, p := range Contradict(c.s) {
			got = append(got, string(p.Kind)+"/"+p.Case)
		}
		if list := strings.Join(got, " "); list != c.want {
			t.Errorf("%s: %q, expected %q", name, list, c.want)
		}
	}
}

func sightAt(before, after Order, cancelled time.Time, parts ...Part) Sight {
	return Sight{Before: before, After: after, Objects: []ObjectView{shopView(after, cancelled, parts...)}}
}

func withActions(s Sight, list []Action) Sight {
	s.Instructions = list
	return s
}
