package models

import "slices"

// Unreplaceable says, as a catalogue key, why nobody can ask for a second shipment of
// the order now: it doesn't ask for goods any more, or nothing of it left. actions are
// the order's. Empty: a replacement can be asked for.
func (o Order) Unreplaceable(actions []Action) string {
	if axis, ended := o.Withdraws(); ended {
		return "error.still_ended." + string(axis)
	}
	if o.Announced || o.Test || o.Platform == ReceiptRoller {
		return "error.nothing_to_replace"
	}
	goods := o.State(Fulfillment)
	left := o.Items.Shipped > 0 || goods == FulfillmentPartial || goods == FulfillmentFulfilled ||
		slices.ContainsFunc(actions, func(a Action) bool { return a.Kind == FulfillmentInstruction && (a.Left() || a.Heard()) })
	if !left {
		return "error.nothing_to_replace"
	}
	return ""
}
