package models

// A Platform is one of the systems that tell us about orders.
type Platform string

const (
	Shopify       Platform = "shopify"
	Stripe        Platform = "stripe"
	ReceiptRoller Platform = "receiptroller"
)

// Platforms in the order in which pages list them.
var Platforms = []Platform{Shopify, Stripe, ReceiptRoller}

// An Axis is one independent dimension of an order's state.
type Axis string

const (
	Payment      Axis = "payment"
	Refund       Axis = "refund"
	Dispute      Axis = "dispute"
	Fulfillment  Axis = "fulfillment"
	Cancellation Axis = "cancellation"
	Return       Axis = "return"
)

// Axes in the order in which every page and document lists them.
var Axes = []Axis{Payment, Refund, Dispute, Fulfillment, Cancellation, Return}

// MoneyAxes are decided by the platform that moves the money, the others by the
// platform that keeps the goods.
var MoneyAxes = []Axis{Payment, Refund, Dispute}

// Money tells whether the axis is decided by the platform that moves the money.
func (a Axis) Money() bool { return a == Payment || a == Refund || a == Dispute }

// A State is a position on one axis. The same word on two axes means two
// different things; States lists what is possible where.
type State string

const (
	PaymentPending       State = "pending"        // moved on by the payer
	PaymentAuthorized    State = "authorized"     // moved on by the merchant's capture, or by time
	PaymentPartiallyPaid State = "partially_paid" // moved on by a further payment
	PaymentPaid          State = "paid"           // rests; refunds are another axis
	PaymentFailed        State = "failed"         // moved on by a new attempt
	PaymentVoided        State = "voided"         // rests; a new attempt may follow

	RefundNone    State = "none"
	RefundPending State = "pending" // moved on by the bank
	RefundPartial State = "partial"
	RefundFull    State = "full" // rests, unless a refund fails afterwards

	DisputeNone State = "none"
	DisputeOpen State = "open" // moved on by the bank
	DisputeWon  State = "won"
	DisputeLost State = "lost"

	FulfillmentUnfulfilled State = "unfulfilled"
	FulfillmentInProgress  State = "in_progress" // the warehouse has the request
	FulfillmentPartial     State = "partial"
	FulfillmentFulfilled   State = "fulfilled" // says nothing of delivery
	FulfillmentHeld        State = "held"      // the platform's own stop, never ours

	CancellationActive    State = "active"
	CancellationRequested State = "requested" // moved on by the merchant
	CancellationCancelled State = "cancelled" // says nothing of refund or goods

	ReturnNone       State = "none"
	ReturnRequested  State = "requested"   // moved on by the merchant
	ReturnInProgress State = "in_progress" // goods on their way
	ReturnReceived   State = "received"    // the platform closed the return
	ReturnDeclined   State = "declined"

	// Review exists on payment and refund only: facts are missing or contradict
	// each other. A clear official reading moves it on where a reading led there,
	// a correction where a correction did.
	Review State = "review"
)

// States lists every state of every axis, in the order of its story.
var States = map[Axis][]State{
	Payment:      {PaymentPending, PaymentAuthorized, PaymentPartiallyPaid, PaymentPaid, PaymentFailed, PaymentVoided, Review},
	Refund:       {RefundNone, RefundPending, RefundPartial, RefundFull, Review},
	Dispute:      {DisputeNone, DisputeOpen, DisputeWon, DisputeLost},
	Fulfillment:  {FulfillmentUnfulfilled, FulfillmentInProgress, FulfillmentPartial, FulfillmentFulfilled, FulfillmentHeld},
	Cancellation: {CancellationActive, CancellationRequested, CancellationCancelled},
	Return:       {ReturnNone, ReturnRequested, ReturnInProgress, ReturnReceived, ReturnDeclined},
}

// Resting is the state of an axis about which no platform of the order says
// anything: a receipt has no dispute, a bare payment no shipment.
var Resting = map[Axis]State{
	Payment: PaymentPending, Refund: RefundNone, Dispute: DisputeNone,
	Fulfillment: FulfillmentUnfulfilled, Cancellation: CancellationActive, Return: ReturnNone,
}

// Has tells whether s is a state of a.
func (a Axis) Has(s State) bool {
	for _, known := range States[a] {
		if s == known {
			return true
		}
	}
	return false
}
