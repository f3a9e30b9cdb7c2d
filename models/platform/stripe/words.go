package stripe

import (
	"slices"

	"counterfoil/models"
	"counterfoil/models/platform"
)

// Fields of the table of words.
const (
	fieldIntent  = "payment_intent.status"
	fieldCharge  = "charge.status"
	fieldSession = "checkout_session.status"
	fieldRefund  = "refund.status"
	fieldDispute = "dispute.status"
)

// Conditions of the table of words; empty: none.
const (
	whenChargeHolds   = "its charge not failed"
	whenChargeFailed  = "its charge failed afterwards"
	whenAttemptFailed = "an attempt failed"
	whenNoAttempt     = "no attempt failed"
	whenCaptured      = "captured"
	whenUncaptured    = "not captured"
	whenReleased      = "not captured, refunded"
	whenComplete      = "session complete, no payment intent"
	whenOpen          = "session open, no payment intent"
	whenAlone         = "no payment intent"
	whenAll           = "counts; sum reaches what was received"
	whenSome          = "counts; sum is less than what was received"
	whenNothing       = "under way; nothing has succeeded"
	whenUncounted     = "doesn't count"
)

// words is read only.
var words = []platform.Word{
	{Field: fieldIntent, Word: "succeeded", Axis: models.Payment, State: models.PaymentPaid, Note: whenChargeHolds},
	{Field: fieldIntent, Word: "succeeded", Axis: models.Payment, State: models.Review, Note: whenChargeFailed},
	{Field: fieldIntent, Word: "requires_capture", Axis: models.Payment, State: models.PaymentAuthorized},
	{Field: fieldIntent, Word: "processing", Axis: models.Payment, State: models.PaymentPending},
	{Field: fieldIntent, Word: "requires_action", Axis: models.Payment, State: models.PaymentPending},
	{Field: fieldIntent, Word: "requires_confirmation", Axis: models.Payment, State: models.PaymentPending},
	{Field: fieldIntent, Word: "requires_payment_method", Axis: models.Payment, State: models.PaymentFailed, Note: whenAttemptFailed},
	{Field: fieldIntent, Word: "requires_payment_method", Axis: models.Payment, State: models.PaymentPending, Note: whenNoAttempt},
	{Field: fieldIntent, Word: "canceled", Axis: models.Payment, State: models.PaymentVoided},

	{Field: fieldCharge, Word: "succeeded", Axis: models.Payment, State: models.PaymentPaid, Note: whenCaptured},
	{Field: fieldCharge, Word: "succeeded", Axis: models.Payment, State: models.PaymentAuthorized, Note: whenUncaptured},
	{Field: fieldCharge, Word: "succeeded", Axis: models.Payment, State: models.PaymentVoided, Note: whenReleased},
	{Field: fieldCharge, Word: "pending", Axis: models.Payment, State: models.PaymentPending},
	{Field: fieldCharge, Word: "failed", Axis: models.Payment, State: models.PaymentFailed},

	{Field: fieldSession, Word: "no_payment_required", Axis: models.Payment, State: models.PaymentPaid, Note: whenComplete},
	{Field: fieldSession, Word: "no_payment_required", Axis: models.Payment, State: models.PaymentPending, Note: whenOpen},
	{Field: fieldSession, Word: "unpaid", Axis: models.Payment, State: models.PaymentPending, Note: whenOpen},
	{Field: fieldSession, Word: "expired", Axis: models.Payment, State: models.PaymentVoided, Note: whenAlone},

	{Field: fieldRefund, Word: "succeeded", Axis: models.Refund, State: models.RefundFull, Note: whenAll},
	{Field: fieldRefund, Word: "succeeded", Axis: models.Refund, State: models.RefundPartial, Note: whenSome},
	{Field: fieldRefund, Word: "pending", Axis: models.Refund, State: models.RefundPending, Note: whenNothing},
	{Field: fieldRefund, Word: "requires_action", Axis: models.Refund, State: models.RefundPending, Note: whenNothing},
	{Field: fieldRefund, Word: "failed", Axis: models.Refund, State: models.RefundNone, Note: whenUncounted},
	{Field: fieldRefund, Word: "canceled", Axis: models.Refund, State: models.RefundNone, Note: whenUncounted},

	{Field: fieldDispute, Word: "warning_needs_response", Axis: models.Dispute, State: models.DisputeOpen},
	{Field: fieldDispute, Word: "warning_under_review", Axis: models.Dispute, State: models.DisputeOpen},
	{Field: fieldDispute, Word: "needs_response", Axis: models.Dispute, State: models.DisputeOpen},
	{Field: fieldDispute, Word: "under_review", Axis: models.Dispute, State: models.DisputeOpen},
	{Field: fieldDispute, Word: "won", Axis: models.Dispute, State: models.DisputeWon},
	{Field: fieldDispute, Word: "lost", Axis: models.Dispute, State: models.DisputeLost},
	{Field: fieldDispute, Word: "warning_closed", Axis: models.Dispute, State: models.DisputeNone},
	{Field: fieldDispute, Word: "prevented", Axis: models.Dispute, State: models.DisputeNone},
	{Field: fieldDispute, Word: "charge_refunded", Axis: models.Dispute, State: models.DisputeNone},
}

// Words is the table from Stripe's words to states; nothing else translates.
func Words() []platform.Word { return slices.Clone(words) }

// state looks a word up. Where the word has conditions, one of the given ones must hold.
func state(field, word string, when ...string) (models.State, bool) {
	for _, w := range words {
		if w.Field == field && w.Word == word && (w.Note == "" || slices.Contains(when, w.Note)) {
			return w.State, true
		}
	}
	return "", false
}
