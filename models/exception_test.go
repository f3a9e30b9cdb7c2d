package models

import "testing"

// The rows are those of the product's default policies, as people know them.
func TestDefaultPolicies(t *testing.T) {
	t.Parallel()
	paid := func(state State) map[Axis]AxisRecord { return map[Axis]AxisRecord{Payment: {State: state}} }
	shipped := Order{Axes: map[Axis]AxisRecord{Payment: {State: PaymentPaid}, Fulfillment: {State: FulfillmentFulfilled}}}
	open := Order{Axes: map[Axis]AxisRecord{Payment: {State: PaymentPaid}, Fulfillment: {State: FulfillmentPartial}}}
	for _, c := range []struct {
		row     string
		problem Problem
		order   Order
		want    Policy
	}{
		{"missed payment", Problem{Kind: MissedNotification, Axis: Payment}, open, PolicyWait},
		{"missed refund", Problem{Kind: MissedNotification, Axis: Refund}, open, PolicyHold},
		{"missed dispute", Problem{Kind: MissedNotification, Axis: Dispute}, open, PolicyHold},
		{"missed cancellation", Problem{Kind: MissedNotification, Axis: Cancellation}, open, PolicyHold},
		{"missed fulfillment", Problem{Kind: MissedNotification, Axis: Fulfillment}, open, PolicyWait},
		{"missed return", Problem{Kind: MissedNotification, Axis: Return}, open, PolicyWait},
		{"ours paid, platform not", Problem{Kind: StateDiffers, Axis: Payment, LocalState: "paid"}, open, PolicyHold},
		{"payment moved back", Problem{Kind: StateDiffers, Case: "moved_back", Axis: Payment, LocalState: "authorized"}, open, PolicyHold},
		{"platform paid, ours not", Problem{Kind: StateDiffers, Axis: Payment, LocalState: "pending"}, open, PolicyWait},
		{"refund differs", Problem{Kind: StateDiffers, Case: "moved_back", Axis: Refund}, open, PolicyHold},
		{"cancellation differs", Problem{Kind: StateDiffers, Axis: Cancellation}, open, PolicyHold},
		{"dispute differs", Problem{Kind: StateDiffers, Case: "moved_back", Axis: Dispute}, open, PolicyHold},
		{"fulfillment behind", Problem{Kind: StateDiffers, Case: "moved_back", Axis: Fulfillment}, open, PolicyAsk},
		{"return differs", Problem{Kind: StateDiffers, Case: "moved_back", Axis: Return}, open, PolicyWait},
		{"received less", Problem{Kind: AmountDiffers, Case: "received", Axis: Payment}, open, PolicyHold},
		{"another currency", Problem{Kind: AmountDiffers, Case: "currency", Axis: Payment}, open, PolicyHold},
		{"a payment that doesn't fit", Problem{Kind: AmountDiffers, Case: "link", Axis: Payment}, open, PolicyAsk},
		{"refunded differs, unshipped", Problem{Kind: AmountDiffers, Case: "refunded_more", Axis: Refund}, open, PolicyHold},
		{"refunded differs, shipped", Problem{Kind: AmountDiffers, Case: "refunded_more", Axis: Refund}, shipped, PolicyAsk},
		{"total edited", Problem{Kind: AmountDiffers, Case: "total", Axis: Payment}, open, PolicyWait},
		{"disagree on payment", Problem{Kind: PlatformsDisagree, Axis: Payment}, shipped, PolicyHold},
		{"disagree on refund, unshipped", Problem{Kind: PlatformsDisagree, Axis: Refund}, open, PolicyHold},
		{"disagree on refund, shipped", Problem{Kind: PlatformsDisagree, Axis: Refund}, shipped, PolicyAsk},
		{"disagree on cancellation", Problem{Kind: PlatformsDisagree, Axis: Cancellation}, open, PolicyHold},
		{"disagree on dispute", Problem{Kind: PlatformsDisagree, Axis: Dispute}, open, PolicyAsk},
		{"disagree on fulfillment", Problem{Kind: PlatformsDisagree, Axis: Fulfillment}, open, PolicyAsk},
		{"disagree on return", Problem{Kind: PlatformsDisagree, Axis: Return}, open, PolicyAsk},
		{"payment refused", Problem{Kind: MoveRefused, Axis: Payment}, open, PolicyHold},
		{"refund refused", Problem{Kind: MoveRefused, Axis: Refund}, open, PolicyHold},
		{"dispute refused", Problem{Kind: MoveRefused, Axis: Dispute}, open, PolicyHold},
		{"cancellation refused", Problem{Kind: MoveRefused, Axis: Cancellation}, open, PolicyHold},
		{"fulfillment refused", Problem{Kind: MoveRefused, Axis: Fulfillment}, open, PolicyAsk},
		{"return refused", Problem{Kind: MoveRefused, Axis: Return}, open, PolicyWait},
		{"unknown payment", Problem{Kind: UnknownStatus, Axis: Payment}, open, PolicyHold},
		{"unknown refund", Problem{Kind: UnknownStatus, Axis: Refund}, open, PolicyHold},
		{"unknown dispute", Problem{Kind: UnknownStatus, Axis: Dispute}, open, PolicyHold},
		{"unknown cancellation", Problem{Kind: UnknownStatus, Axis: Cancellation}, open, PolicyHold},
		{"unknown fulfillment", Problem{Kind: UnknownStatus, Axis: Fulfillment}, open, PolicyAsk},
		{"unknown return", Problem{Kind: UnknownStatus, Axis: Return}, open, PolicyAsk},
		{"field of money", Problem{Kind: SchemaChanged, Axis: Payment}, open, PolicyHold},
		{"field of a status", Problem{Kind: SchemaChanged, Axis: Return}, open, PolicyHold},
		{"other field", Problem{Kind: SchemaChanged}, open, PolicyAsk},
		{"same event, other content", Problem{Kind: PayloadConflict}, Order{}, PolicyHold},
		{"same event, other header", Problem{Kind: PayloadConflict, Case: "header"}, Order{}, PolicyHold},
		{"unmatched money", Problem{Kind: Unmatched, Case: "money_received"}, Order{}, PolicyAsk},
		{"unmatched without money", Problem{Kind: Unmatched, Case: "no_money"}, Order{}, PolicyWait},
		{"instruction failed", Problem{Kind: ActionFailedKind, Case: "fulfillment_instruction"}, open, PolicyAsk},
		{"activation failed", Problem{Kind: ActionFailedKind, Case: "service_activation"}, open, PolicyAsk},
		{"invoice failed", Problem{Kind: ActionFailedKind, Case: "invoice"}, open, PolicyAsk},
		{"credit note failed", Problem{Kind: ActionFailedKind, Case: "credit_note"}, open, PolicyAsk},
		{"message failed", Problem{Kind: ActionFailedKind, Case: "customer_message"}, open, PolicyWait},
		{"instruction unclear", Problem{Kind: ActionUnclearKind, Case: "fulfillment_instruction"}, open, PolicyHold},
		{"stock unclear", Problem{Kind: ActionUnclearKind, Case: "stock_deduction"}, open, PolicyHold},
		{"invoice unclear", Problem{Kind: ActionUnclearKind, Case: "invoice"}, open, PolicyAsk},
		{"credit note unclear", Problem{Kind: ActionUnclearKind, Case: "credit_note"}, open, PolicyAsk},
		{"message unclear", Problem{Kind: ActionUnclearKind, Case: "customer_message"}, open, PolicyAsk},
		{"subscription missing", Problem{Kind: SubscriptionMissing}, Order{}, PolicyAsk},
		{"wrong signatures among good ones", Problem{Kind: SignatureFailures, Case: "good_ones"}, Order{}, PolicyWait},
		{"wrong signatures alone", Problem{Kind: SignatureFailures}, Order{}, PolicyAsk},
		{"a test is gone", Problem{Kind: GoneOnPlatform}, Order{Test: true, Axes: paid(PaymentPaid)}, PolicyWait},
		{"never paid and gone", Problem{Kind: GoneOnPlatform}, Order{Axes: paid(PaymentPending)}, PolicyWait},
		{"failed and gone", Problem{Kind: GoneOnPlatform}, Order{Axes: paid(PaymentFailed)}, PolicyWait},
		{"paid and gone", Problem{Kind: GoneOnPlatform}, open, PolicyHold},
		{"authorized and gone", Problem{Kind: GoneOnPlatform}, Order{Axes: paid(PaymentAuthorized)}, PolicyHold},
		{"part of the money came, gone", Problem{Kind: GoneOnPlatform}, Order{Amounts: Amounts{Received: 1}, Axes: paid(PaymentFailed)}, PolicyHold},
		{"shipped unpaid and gone", Problem{Kind: GoneOnPlatform}, Order{Method: "Cash on Delivery (COD)", Axes: paid(PaymentPending)}, PolicyHold},
		{"announced and gone", Problem{Kind: GoneOnPlatform}, Order{Announced: true}, PolicyHold},
		{"unreadable", Problem{Kind: GoneOnPlatform, Case: "unreadable"}, open, PolicyHold},
		{"too old", Problem{Kind: OutsideWindowKind}, Order{}, PolicyAsk},
		{"shipped unpaid", Problem{Kind: Contradiction, Case: "shipped_unpaid"}, open, PolicyAsk},
		{"shipped after cancel", Problem{Kind: Contradiction, Case: "shipped_after_cancel"}, open, PolicyAsk},
		{"shipped after refund", Problem{Kind: Contradiction, Case: "shipped_after_refund"}, open, PolicyAsk},
		{"shipped while paused", Problem{Kind: Contradiction, Case: "shipped_while_paused", Axis: Fulfillment}, open, PolicyAsk},
		{"cancelled, not refunded", Problem{Kind: Contradiction, Case: "cancelled_not_refunded"}, open, PolicyAsk},
		{"refunded, not cancelled", Problem{Kind: Contradiction, Case: "refunded_not_cancelled"}, open, PolicyHold},
		{"changed after instruction", Problem{Kind: Contradiction, Case: "changed_after_instruction"}, open, PolicyAsk},
		{"a platform contradicts itself", Problem{Kind: Contradiction, Axis: Payment}, open, PolicyAsk},
		{"paid twice", Problem{Kind: PaidTwice}, open, PolicyAsk},
		{"shipped twice", Problem{Kind: ShippedTwice, Case: "fulfillment_instruction", Axis: Fulfillment}, open, PolicyHold},
		{"overdue", Problem{Kind: Overdue}, open, PolicyAsk},
		{"event failed", Problem{Kind: EventFailedKind}, Order{}, PolicyAsk},
		{"action differs", Problem{Kind: ActionDiffers, Case: "fulfillment_instruction"}, open, PolicyAsk},
		{"silence", Problem{Kind: Silence}, Order{}, PolicyAsk},
		{"drill failed", Problem{Kind: DrillFailed}, Order{}, PolicyAsk},
		{"access ends", Problem{Kind: AccessEnding}, Order{}, PolicyAsk},
	} {
		if got := c.problem.Of(c.order).Policy(); got != c.want {
			t.Errorf("%s: %s, want %s", c.row, got, c.want)
		}
	}
}

// Every kind of exception follows a row of the policies, and every row is some kind's.
func TestEveryKindHasItsRow(t *testing.T) {
	t.Parallel()
	used := map[ExceptionKind]bool{}
	seen := map[string]bool{}
	for _, r := range CaseRules {
		if used[r.Kind] = true; seen[r.Key] || r.Policy == "" || r.Urgency == "" || r.Desk == "" {
			t.Errorf("%s stands twice or says too little: %+v", r.Key, r)
		}
		seen[r.Key] = true
	}
	for _, k := range ExceptionKinds {
		for _, a := range append([]Axis{""}, Axes...) {
			for _, name := range []string{"", "anything", CaseMovedBack, CaseBehind} {
				if r := (Problem{Kind: k, Axis: a, Case: name}).Rule(); r.Kind != k {
					t.Errorf("%s %s %q follows row %q", k, a, name, r.Key)
				}
			}
		}
		if !used[k] {
			t.Errorf("%s has no row", k)
		}
	}
}
