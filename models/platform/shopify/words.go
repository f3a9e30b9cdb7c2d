package shopify

import (
	"slices"
	"strings"

	"counterfoil/models"
	"counterfoil/models/platform"
)

// Fields whose words become states. The REST spellings stand in notifications,
// the others in answers of the API.
const (
	fieldFinancial     = "displayFinancialStatus"
	fieldFinancialREST = "financial_status"
	fieldFulfillment   = "displayFulfillmentStatus"
	fieldFulfilREST    = "fulfillment_status"
	fieldTransaction   = "transactions.kind/status"
	fieldDispute       = "disputes.status"
	fieldCancelled     = "cancelledAt"
	fieldRequest       = "fulfillmentOrders.requestStatus"
	fieldReturn        = "returnStatus"
	fieldReturnPart    = "returns.status"
	fieldShipment      = "fulfillments.status"
)

// isSet is the word of a time that is there, whatever it says.
const isSet = "set"

const (
	allPaid   = "received ≥ total, or nothing is outstanding"
	otherwise = "otherwise"
)

// Words is the table from Shopify's words to states. Where a word has two rows the
// first holds under its condition, the second otherwise. RETURN_FAILED is left out
// on purpose: like every word that isn't here it holds its axis for review.
func Words() []platform.Word {
	var t []platform.Word
	add := func(field string, axis models.Axis, state models.State, note string, words ...string) {
		for _, w := range words {
			t = append(t, platform.Word{Field: field, Word: w, Axis: axis, State: state, Note: note})
		}
	}
	for _, f := range []string{fieldFinancial, fieldFinancialREST} {
		spell := func(words ...string) []string { return words }
		if f == fieldFinancialREST {
			spell = lower
		}
		add(f, models.Payment, models.Review, "money was received", "")
		add(f, models.Payment, models.PaymentPending, otherwise, "")
		add(f, models.Payment, models.PaymentPending, "", spell("PENDING")...)
		add(f, models.Payment, models.PaymentAuthorized, "", spell("AUTHORIZED")...)
		add(f, models.Payment, models.PaymentPartiallyPaid, "", spell("PARTIALLY_PAID")...)
		add(f, models.Payment, models.PaymentPaid, "", spell("PAID")...)
		for _, w := range spell("PARTIALLY_REFUNDED", "REFUNDED") {
			add(f, models.Payment, models.PaymentPaid, allPaid, w)
			add(f, models.Payment, models.PaymentPartiallyPaid, otherwise, w)
		}
		add(f, models.Payment, models.PaymentVoided, "", spell("VOIDED", "EXPIRED")...)
	}

	add(fieldTransaction, models.Payment, models.PaymentPaid, "", "SALE/SUCCESS", "CAPTURE/SUCCESS")
	add(fieldTransaction, models.Payment, models.PaymentAuthorized, "", "AUTHORIZATION/SUCCESS", "EMV_AUTHORIZATION/SUCCESS")
	add(fieldTransaction, models.Payment, models.PaymentVoided, "", "VOID/SUCCESS")
	for _, k := range []string{"SALE", "CAPTURE", "AUTHORIZATION", "EMV_AUTHORIZATION", "VOID"} {
		add(fieldTransaction, models.Payment, models.PaymentPending, "", k+"/PENDING", k+"/AWAITING_RESPONSE")
		add(fieldTransaction, models.Payment, models.PaymentFailed, "", k+"/FAILURE", k+"/ERROR")
	}
	add(fieldTransaction, models.Refund, models.RefundFull, "succeeded ≥ received", "REFUND/SUCCESS")
	add(fieldTransaction, models.Refund, models.RefundPartial, otherwise, "REFUND/SUCCESS")
	add(fieldTransaction, models.Refund, models.RefundPending, "while none has succeeded", "REFUND/PENDING", "REFUND/AWAITING_RESPONSE")
	add(fieldTransaction, models.Refund, models.RefundNone, "doesn't count", "REFUND/FAILURE", "REFUND/ERROR")

	add(fieldDispute, models.Dispute, models.DisputeOpen, "", "NEEDS_RESPONSE", "UNDER_REVIEW")
	add(fieldDispute, models.Dispute, models.DisputeWon, "", "WON")
	add(fieldDispute, models.Dispute, models.DisputeLost, "", "LOST", "ACCEPTED")
	add(fieldDispute, models.Dispute, models.DisputeNone, "", "PREVENTED", "CHARGE_REFUNDED")

	add(fieldFulfillment, models.Fulfillment, models.FulfillmentUnfulfilled, "", "UNFULFILLED", "OPEN", "RESTOCKED", "REQUEST_DECLINED")
	add(fieldFulfillment, models.Fulfillment, models.FulfillmentInProgress, "", "IN_PROGRESS", "PENDING_FULFILLMENT")
	add(fieldFulfillment, models.Fulfillment, models.FulfillmentPartial, "", "PARTIALLY_FULFILLED")
	add(fieldFulfillment, models.Fulfillment, models.FulfillmentFulfilled, "", "FULFILLED")
	add(fieldFulfillment, models.Fulfillment, models.FulfillmentHeld, "", "ON_HOLD", "SCHEDULED")
	add(fieldFulfilREST, models.Fulfillment, models.FulfillmentUnfulfilled, "", "", "restocked")
	add(fieldFulfilREST, models.Fulfillment, models.FulfillmentPartial, "", "partial")
	add(fieldFulfilREST, models.Fulfillment, models.FulfillmentFulfilled, "", "fulfilled")
	add(fieldShipment, models.Fulfillment, models.FulfillmentFulfilled, "", "SUCCESS")
	add(fieldShipment, models.Fulfillment, models.FulfillmentInProgress, "", "PENDING", "OPEN")
	add(fieldShipment, models.Fulfillment, models.FulfillmentUnfulfilled, "doesn't count", "CANCELLED", "ERROR", "FAILURE")

	add(fieldCancelled, models.Cancellation, models.CancellationCancelled, "", isSet)
	add(fieldCancelled, models.Cancellation, models.CancellationActive, "", "")
	add(fieldRequest, models.Cancellation, models.CancellationRequested, "while not cancelled", "CANCELLATION_REQUESTED")
	add(fieldRequest, models.Cancellation, models.CancellationActive, "while not cancelled", "UNSUBMITTED", "SUBMITTED",
		"ACCEPTED", "REJECTED", "CANCELLATION_ACCEPTED", "CANCELLATION_REJECTED", "CLOSED")

	add(fieldReturn, models.Return, models.ReturnRequested, "", "RETURN_REQUESTED")
	add(fieldReturn, models.Return, models.ReturnInProgress, "", "IN_PROGRESS", "INSPECTION_COMPLETE")
	add(fieldReturn, models.Return, models.ReturnReceived, "", "RETURNED")
	add(fieldReturn, models.Return, models.ReturnDeclined, "the newest return is DECLINED", "NO_RETURN")
	add(fieldReturn, models.Return, models.ReturnNone, otherwise, "NO_RETURN")
	add(fieldReturnPart, models.Return, models.ReturnRequested, "", "REQUESTED")
	add(fieldReturnPart, models.Return, models.ReturnInProgress, "", "OPEN")
	add(fieldReturnPart, models.Return, models.ReturnReceived, "", "CLOSED")
	add(fieldReturnPart, models.Return, models.ReturnDeclined, "", "DECLINED")
	add(fieldReturnPart, models.Return, models.ReturnNone, "", "CANCELED")
	return t
}

func lower(words ...string) []string {
	out := slices.Clone(words)
	for i := range out {
		out[i] = strings.ToLower(out[i])
	}
	return out
}

// A dictionary finds the rows of a word.
type dictionary map[[2]string][]platform.Word

func newDictionary() dictionary {
	d := dictionary{}
	for _, w := range Words() {
		key := [2]string{w.Field, w.Word}
		d[key] = append(d[key], w)
	}
	return d
}

// state translates a word; cond is the answer to the condition of its first row.
func (d dictionary) state(field, word string, cond bool) (s models.State, known bool) {
	rows := d[[2]string{field, word}]
	switch {
	case len(rows) == 0:
		return "", false
	case len(rows) > 1 && !cond:
		return rows[1].State, true
	}
	return rows[0].State, true
}
