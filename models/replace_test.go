package models

import "testing"

func TestUnreplaceable(t *testing.T) {
	t.Parallel()
	order := func(change func(o *Order)) Order {
		o := Order{Platform: Shopify, Axes: map[Axis]AxisRecord{Payment: {State: PaymentPaid}, Refund: {State: RefundNone}, Dispute: {State: DisputeNone},
			Fulfillment: {State: FulfillmentUnfulfilled}, Cancellation: {State: CancellationActive}}}
		change(&o)
		return o
	}
	as := func(a Axis, s State) func(o *Order) {
		return func(o *Order) {
			o.Items.Shipped = 1
			o.Axes[a] = AxisRecord{State: s}
		}
	}
	nothing := func(*Order) {}
	instruction := func(s ActionState, why NotNeeded) []Action {
		return []Action{{Kind: FulfillmentInstruction, State: s, Why: string(why)}}
	}
	const none = "error.nothing_to_replace"
	for name, c := range map[string]struct {
		change  func(o *Order)
		actions []Action
		want    string
	}{
		"nothing left":                 {nothing, nil, none},
		"a piece left":                 {func(o *Order) { o.Items.Shipped = 1 }, nil, ""},
		"a part left":                  {as(Fulfillment, FulfillmentPartial), nil, ""},
		"all left":                     {as(Fulfillment, FulfillmentFulfilled), nil, ""},
		"an instruction was sent":      {nothing, instruction(ActionDone, ""), ""},
		"one is on its way":            {nothing, instruction(ActionSending, ""), ""},
		"one's outcome is unclear":     {nothing, instruction(ActionUnclear, ""), ""},
		"one would have been sent":     {nothing, instruction(ActionWatched, ""), ""},
		"it had left already":          {nothing, instruction(ActionNotNeeded, ShippedAlready), ""},
		"one waits":                    {nothing, instruction(ActionWaiting, ""), none},
		"one was withdrawn":            {nothing, instruction(ActionWithdrawn, ""), none},
		"only a message was sent":      {nothing, []Action{{Kind: CustomerMessage, State: ActionDone}}, none},
		"cancelled after it left":      {as(Cancellation, CancellationCancelled), instruction(ActionDone, ""), "error.still_ended.cancellation"},
		"refunded after it left":       {as(Refund, RefundFull), instruction(ActionDone, ""), "error.still_ended.refund"},
		"disputed after it left":       {as(Dispute, DisputeOpen), instruction(ActionDone, ""), "error.still_ended.dispute"},
		"a test order":                 {func(o *Order) { o.Test, o.Items.Shipped = true, 1 }, instruction(ActionDone, ""), none},
		"a receipt":                    {func(o *Order) { o.Platform, o.Items.Shipped = ReceiptRoller, 1 }, nil, none},
		"only announced":               {func(o *Order) { o.Announced, o.Items.Shipped = true, 1 }, nil, none},
		"part of the sum was refunded": {as(Refund, RefundPartial), nil, ""},
	} {
		if got := order(c.change).Unreplaceable(c.actions); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
