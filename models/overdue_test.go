package models

import (
	"testing"
	"time"
)

func TestWorkingDays(t *testing.T) {
	t.Parallel()
	zone := time.FixedZone("HKT", 8*3600)
	for from, want := range map[string]string{
		"2026-11-30T10:00:00+08:00": "2026-12-02T10:00:00+08:00", // Monday → Wednesday
		"2026-12-03T23:00:00+08:00": "2026-12-07T23:00:00+08:00", // Thursday → Monday
		"2026-12-05T10:00:00+08:00": "2026-12-09T00:00:00+08:00", // Saturday counts from Monday
		"2026-12-04T20:00:00Z":      "2026-12-09T00:00:00+08:00", // Saturday there already
	} {
		at, err := time.Parse(time.RFC3339, from)
		if err != nil {
			t.Fatal(err)
		}
		if got := WorkingDays(at, 2, zone).In(zone).Format(time.RFC3339); got != want {
			t.Errorf("two working days after %s: %s, expected %s", from, got, want)
		}
	}
}

func TestDuties(t *testing.T) {
	t.Parallel()
	of := func(pay, back, goods, ends, came State, change func(*Order)) Order {
		o := livedBy(pay, back, DisputeNone, goods, ends, came)
		for a, rec := range o.Axes {
			rec.Since = atNoon
			o.Axes[a] = rec
		}
		if change != nil {
			change(&o)
		}
		return o
	}
	const stands = CancellationActive
	cod := func(o *Order) { o.Method = "Cash on Delivery (COD)" }
	for name, c := range map[string]struct {
		o    Order
		want string
	}{
		"paid and unshipped":      {of(PaymentPaid, RefundNone, FulfillmentUnfulfilled, stands, ReturnNone, nil), CaseOverdueUnshipped},
		"partly shipped":          {of(PaymentPaid, RefundNone, FulfillmentPartial, stands, ReturnNone, func(o *Order) { o.Items.Shipped = 1 }), CaseOverdueUnshipped},
		"the rest was taken out":  {of(PaymentPaid, RefundNone, FulfillmentPartial, stands, ReturnNone, func(o *Order) { o.Items.Shipped, o.Items.Removed = 1, 1 }), ""},
		"shipped":                 {of(PaymentPaid, RefundNone, FulfillmentFulfilled, stands, ReturnNone, nil), ""},
		"held at the platform":    {of(PaymentPaid, RefundNone, FulfillmentHeld, stands, ReturnNone, nil), ""},
		"cancelled":               {of(PaymentPaid, RefundNone, FulfillmentUnfulfilled, CancellationCancelled, ReturnNone, nil), ""},
		"a test":                  {of(PaymentPaid, RefundPending, FulfillmentUnfulfilled, stands, ReturnNone, func(o *Order) { o.Test = true }), ""},
		"a bare payment":          {of(PaymentPaid, RefundNone, FulfillmentUnfulfilled, stands, ReturnNone, func(o *Order) { o.Store = false }), ""},
		"a receipt":               {of(PaymentPaid, RefundNone, FulfillmentUnfulfilled, stands, ReturnNone, func(o *Order) { o.Platform = ReceiptRoller }), ""},
		"at the counter":          {of(PaymentPaid, RefundNone, FulfillmentUnfulfilled, stands, ReturnNone, func(o *Order) { o.Channel = "pos" }), ""},
		"pay on delivery, left":   {of(PaymentPending, RefundNone, FulfillmentFulfilled, stands, ReturnNone, cod), CaseOverdueUnpaid},
		"pay on delivery, open":   {of(PaymentPending, RefundNone, FulfillmentUnfulfilled, stands, ReturnNone, cod), ""},
		"pay on delivery, back":   {of(PaymentPending, RefundNone, FulfillmentFulfilled, stands, ReturnReceived, cod), ""},
		"a refund under way":      {of(PaymentPaid, RefundPending, FulfillmentFulfilled, stands, ReturnNone, nil), CaseOverdueRefund},
		"back, not refunded":      {of(PaymentPaid, RefundNone, FulfillmentFulfilled, stands, ReturnReceived, func(o *Order) { o.Items.CameBack = 1 }), CaseOverdueReturn},
		"closed, nothing came":    {of(PaymentPaid, RefundNone, FulfillmentFulfilled, stands, ReturnReceived, nil), ""},
		"back, partly refunded":   {of(PaymentPaid, RefundPartial, FulfillmentFulfilled, stands, ReturnReceived, func(o *Order) { o.Items.CameBack = 1 }), ""},
		"known by name only":      {Order{Announced: true, Store: true}, ""},
		"part of another one now": {of(PaymentPaid, RefundNone, FulfillmentUnfulfilled, stands, ReturnNone, func(o *Order) { o.MergedInto = 2 }), ""},
	} {
		got, due := "", c.o.Duties(time.Time{}, time.UTC)
		for _, d := range due {
			got += d.Case
		}
		if got != c.want {
			t.Errorf("%s: %q, expected %q", name, got, c.want)
		}
		next := c.o.NextDuty()
		if next.IsZero() != (c.want == "") || len(due) == 1 && next.After(due[0].Due) {
			t.Errorf("%s: looked at %s, due %v", name, next, due)
		}
	}
}
