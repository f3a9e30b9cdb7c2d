package receiptroller

import (
	"counterfoil/models"
	"counterfoil/models/platform"
)

const (
	fieldType  = "transactionType" // of a receipt
	fieldEvent = "event"           // the kind of a notification

	topicIssued   = "receipt.issued"
	topicRefunded = "receipt.refunded"
)

// Words is the one table from ReceiptRoller's words to states. cancelType isn't in
// it: its only known value, 0, stands on receipts that nobody cancelled too.
func Words() []platform.Word {
	return []platform.Word{
		{Field: fieldType, Word: "0", Axis: models.Payment, State: models.PaymentPaid},
		{Field: fieldType, Word: "0", Axis: models.Fulfillment, State: models.FulfillmentFulfilled, Note: "handed over"},
		{Field: fieldType, Word: "1", Axis: models.Payment, State: models.PaymentPaid},
		{Field: fieldType, Word: "1", Axis: models.Fulfillment, State: models.FulfillmentFulfilled, Note: "handed over"},
		{Field: fieldType, Word: "2", Axis: models.Payment, State: models.Review, Note: "a return, whose sale isn't named"},
		{Field: fieldType, Word: "2", Axis: models.Return, State: models.ReturnReceived},
		{Field: fieldEvent, Word: topicIssued, Axis: models.Payment, State: models.PaymentPaid, Note: "reported; transactionType speaks first"},
		{Field: fieldEvent, Word: topicIssued, Axis: models.Fulfillment, State: models.FulfillmentFulfilled, Note: "reported; transactionType speaks first"},
		{Field: fieldEvent, Word: topicRefunded, Axis: models.Refund, State: models.RefundFull, Note: "reported; no amount, or no smaller one than the total"},
		{Field: fieldEvent, Word: topicRefunded, Axis: models.Refund, State: models.RefundPartial, Note: "reported; an amount smaller than the total"},
	}
}

// A meaning is what the table is looked up by.
type meaning struct{ field, word string }

// meanings indexes the table.
func meanings() map[meaning][]platform.Word {
	m := map[meaning][]platform.Word{}
	for _, w := range Words() {
		k := meaning{w.Field, w.Word}
		m[k] = append(m[k], w)
	}
	return m
}
