package shopify

import (
	"encoding/json"
	"slices"
	"time"

	"counterfoil/models"
)

// An answer's order, in the fields of 2026-10. Every field may be missing: an
// older version, a scope that we lack, a change of the schema.
type gqlOrder struct {
	ID          leaf             `json:"id"`
	Legacy      leaf             `json:"legacyResourceId"`
	Name        leaf             `json:"name"`
	Test        leaf             `json:"test"`
	Created     leaf             `json:"createdAt"`
	Updated     leaf             `json:"updatedAt"`
	Cancelled   leaf             `json:"cancelledAt"`
	Reason      leaf             `json:"cancelReason"`
	Financial   leaf             `json:"displayFinancialStatus"`
	Fulfillment leaf             `json:"displayFulfillmentStatus"`
	Return      leaf             `json:"returnStatus"`
	Pieces      leaf             `json:"subtotalLineItemsQuantity"`
	Kept        leaf             `json:"currentSubtotalLineItemsQuantity"` // without what was removed
	Gateways    list[leaf]       `json:"paymentGatewayNames"`
	Source      leaf             `json:"sourceName"`
	Total       bag              `json:"totalPriceSet"`
	Received    bag              `json:"totalReceivedSet"`
	Refunded    bag              `json:"totalRefundedSet"`
	Outstanding bag              `json:"totalOutstandingSet"`
	Moves       list[gqlMoved]   `json:"transactions"`
	Refunds     list[gqlRefund]  `json:"refunds"`
	Shipments   list[gqlShipped] `json:"fulfillments"`
	Requests    list[gqlRequest] `json:"fulfillmentOrders"`
	Returns     list[gqlReturn]  `json:"returns"`
	Disputes    list[gqlDispute] `json:"disputes"`
}

type bag struct {
	Shop struct {
		Amount   leaf `json:"amount"`
		Currency leaf `json:"currencyCode"`
	} `json:"shopMoney"`
}

type gqlMoved struct {
	ID        leaf `json:"id"`
	Kind      leaf `json:"kind"`
	Status    leaf `json:"status"`
	Created   leaf `json:"createdAt"`
	Processed leaf `json:"processedAt"`
	Amount    bag  `json:"amountSet"`
}

type gqlRefund struct {
	ID      leaf `json:"id"`
	Created leaf `json:"createdAt"`
	Total   bag  `json:"totalRefundedSet"`
}

type gqlShipped struct {
	ID       leaf `json:"id"`
	Status   leaf `json:"status"`
	Created  leaf `json:"createdAt"`
	Pieces   leaf `json:"totalQuantity"`
	Tracking list[struct {
		Company leaf `json:"company"`
		Number  leaf `json:"number"`
	}] `json:"trackingInfo"`
}

type gqlRequest struct {
	ID      leaf `json:"id"`
	Status  leaf `json:"status"`
	Request leaf `json:"requestStatus"`
}

type gqlReturn struct {
	ID      leaf `json:"id"`
	Name    leaf `json:"name"`
	Status  leaf `json:"status"`
	Created leaf `json:"createdAt"`
	Closed  leaf `json:"closedAt"`
	Pieces  leaf `json:"totalQuantity"`
	Lines   list[struct {
		Processed leaf `json:"processedQuantity"`
	}] `json:"returnLineItems"`
}

type gqlDispute struct {
	ID     leaf `json:"id"`
	Status leaf `json:"status"`
}

// A reading is an order as the API states it.
type reading struct {
	obs  models.Observation
	more bool // a list was longer than asked for, or there is a return: read it wide
}

// A decoder turns one answer's order into an observation.
type decoder struct {
	a     *Adapter
	o     models.Observation
	v     gqlOrder
	shape *shape
	back  back
	// refused are fields that we may not read: what only they say is not stated.
	refused map[string]bool
}

func (a *Adapter) official(raw json.RawMessage, s *shape, refused map[string]bool, began time.Time) (reading, bool) {
	d := decoder{a: a, shape: s, refused: refused}
	_ = json.Unmarshal(raw, &d.v) // only types can surprise here, and those are kept apart
	typ, id := splitGID(d.v.ID.raw)
	if typ != "Order" {
		return reading{}, false
	}
	d.o = models.Observation{
		Ref: a.order(id), Basis: models.Official, Read: began.UTC(), Changed: d.v.Updated.stamp(), Placed: d.v.Created.stamp(),
		Test: d.v.Test.yes(), Store: true, Axes: map[models.Axis]models.Statement{},
		Method: method(d.v.Gateways.items), Channel: printable(d.v.Source.decimal(), 60),
	}
	d.o.Number, d.o.Refs = names(d.v.Name, id)
	if d.o.Changed.IsZero() {
		d.changed("", "updatedAt")
	}
	d.lists()
	d.moves()
	d.amounts()
	d.payment()
	d.refund()
	d.shipments()
	d.cancellation()
	d.returns()
	d.disputes()
	return reading{obs: d.o, more: d.more()}, true
}

// changed records that a field which we rely on is gone or of another type.
func (d *decoder) changed(axis models.Axis, path string) {
	d.o.Faults = append(d.o.Faults, models.Fault{Kind: models.SchemaChanged, Axis: axis, Path: path})
}

// unknown records a word that the table doesn't have.
func (d *decoder) unknown(axis models.Axis, path, word string) {
	d.o.Faults = append(d.o.Faults, models.Fault{Kind: models.UnknownStatus, Axis: axis, Path: path, Word: word})
}

// lists checks that every list is there, unless our access doesn't cover it: a list
// that is gone must never look like an empty one.
func (d *decoder) lists() {
	for _, l := range []struct {
		given bool
		axis  models.Axis
		name  string
	}{
		{d.v.Moves.given(), models.Refund, "transactions"}, {d.v.Refunds.given(), models.Refund, "refunds"},
		{d.v.Shipments.given(), models.Fulfillment, "fulfillments"}, {d.v.Requests.given(), models.Cancellation, "fulfillmentOrders"},
		{d.v.Returns.given(), models.Return, "returns"}, {d.v.Disputes.given(), models.Dispute, "disputes"},
	} {
		if !l.given && !d.refused[l.name] {
			d.changed(l.axis, l.name)
		}
	}
}

func (d *decoder) state(axis models.Axis, s models.Statement) {
	if s.At.IsZero() && !s.Unclear {
		s.At = d.o.Changed
	}
	d.o.Axes[axis] = s
}

// sum reads an amount in the shop's money.
func (d *decoder) sum(b bag, axis models.Axis, path string) (int64, string, bool) {
	cur := b.Shop.Currency.word()
	v, err := b.Shop.Amount.minor(cur)
	if err != nil {
		if path != "" {
			d.changed(axis, path+".shopMoney.amount")
		}
		return 0, "", false
	}
	return v, cur, true
}

// A back is what the transactions say about money that went back.
type back struct {
	sum      int64 // succeeded
	waiting  int64 // under way; the order's own sum may hold it already
	pending  bool
	complete bool // all transactions are here
	words    []string
	unknown  string // a word that the table doesn't have
}

// moves reads transactions and refund records as parts.
func (d *decoder) moves() {
	d.back.complete = d.v.Moves.given() && len(d.v.Moves.items) < d.shape.sizes["transactions"]
	for _, t := range d.v.Moves.items {
		_, cur, _ := d.sum(t.Amount, models.Payment, "transactions.amountSet")
		p, moves := d.a.moved(t.Kind.word(), t.Status.word(), partID("OrderTransaction", leaf{}, t.ID), t.Amount.Shop.Amount, cur)
		if !moves {
			continue
		}
		p.At = firstTime(t.Processed, t.Created)
		if p.ID != "" {
			d.o.Parts = append(d.o.Parts, p)
		}
		if p.Axis != models.Refund {
			continue
		}
		d.back.words = append(d.back.words, t.Status.word())
		switch {
		case p.State == "":
			d.back.unknown = t.Status.word()
		case p.State == models.RefundPending:
			d.back.pending = true
			d.back.waiting += p.Amount
		case p.Counts:
			d.back.sum += p.Amount
		}
	}
	for _, rec := range d.v.Refunds.items {
		amount, cur, _ := d.sum(rec.Total, models.Refund, "")
		if id := partID("Refund", leaf{}, rec.ID); id != "" {
			d.o.Parts = append(d.o.Parts, refundRecord(id, rec.Created.stamp(), amount, cur))
		}
	}
}

// amounts are sums in the shop's money. What went back is the sum of succeeded
// refund transactions, or the order's own sum where not all of them are here.
func (d *decoder) amounts() {
	total, cur, ok := d.sum(d.v.Total, models.Payment, "totalPriceSet")
	received, cur2, ok2 := d.sum(d.v.Received, models.Payment, "totalReceivedSet")
	refunded, _, ok3 := d.sum(d.v.Refunded, models.Refund, "totalRefundedSet")
	owed := "totalOutstandingSet"
	if d.shape == d.a.lean {
		owed = "" // it isn't asked for
	}
	outstanding, _, _ := d.sum(d.v.Outstanding, models.Payment, owed)
	if d.back.complete {
		if ok3 && refunded != d.back.sum && refunded != d.back.sum+d.back.waiting {
			d.o.Faults = append(d.o.Faults, models.Fault{Kind: models.Contradiction, Axis: models.Refund, Path: "totalRefundedSet"})
		}
		refunded, ok3 = d.back.sum, true
	}
	if ok && ok2 && ok3 && cur == cur2 {
		d.o.Amounts = &models.Amounts{Currency: cur, Total: total, Received: received, Refunded: refunded, Outstanding: outstanding}
	}
}

func (d *decoder) payment() {
	word, m := d.v.Financial.word(), d.o.Amounts
	if d.v.Financial.kind == absent || d.v.Financial.odd() {
		d.changed(models.Payment, fieldFinancial)
		d.state(models.Payment, unclear(models.Payment, ""))
		return
	}
	_, _, owed := d.sum(d.v.Outstanding, models.Payment, "")
	cond := m != nil && (m.Received >= m.Total || owed && m.Outstanding <= 0)
	if word == "" {
		cond = m == nil || m.Received > 0
	}
	state, known := d.a.words.state(fieldFinancial, word, cond)
	switch {
	case !known:
		d.unknown(models.Payment, fieldFinancial, word)
		d.state(models.Payment, unclear(models.Payment, word))
	case state == models.Review:
		d.o.Faults = append(d.o.Faults, models.Fault{Kind: models.Contradiction, Axis: models.Payment, Path: fieldFinancial})
		d.state(models.Payment, unclear(models.Payment, word))
	case state == models.PaymentPartiallyPaid && m == nil && word != "PARTIALLY_PAID":
		d.state(models.Payment, unclear(models.Payment, word)) // the sums that decide are missing
	default:
		d.state(models.Payment, models.Statement{State: state, Word: word})
	}
}

func (d *decoder) refund() {
	word, m := refundWord(d.back.words), d.o.Amounts
	switch {
	case d.back.unknown != "":
		d.unknown(models.Refund, "transactions.status", d.back.unknown)
		d.state(models.Refund, unclear(models.Refund, word))
	case m == nil:
		d.state(models.Refund, unclear(models.Refund, word))
	default:
		d.state(models.Refund, models.Statement{State: models.RefundState(m.Received, m.Refunded, d.back.pending), Word: word})
	}
}

func (d *decoder) shipments() {
	word := d.v.Fulfillment.word()
	state, known := d.a.words.state(fieldFulfillment, word, false)
	switch {
	case word == "":
		d.changed(models.Fulfillment, fieldFulfillment)
		d.state(models.Fulfillment, unclear(models.Fulfillment, ""))
	case !known:
		d.unknown(models.Fulfillment, fieldFulfillment, word)
		d.state(models.Fulfillment, unclear(models.Fulfillment, word))
	default:
		d.state(models.Fulfillment, models.Statement{State: state, Word: word})
	}
	shipped := 0
	for _, f := range d.v.Shipments.items {
		var company, tracking string
		if len(f.Tracking.items) > 0 {
			company, tracking = f.Tracking.items[0].Company.word(), f.Tracking.items[0].Number.word()
		}
		p := d.a.shipped(f.Status.word(), partID("Fulfillment", leaf{}, f.ID), tracking, company, f.Created.stamp())
		if p.ID != "" {
			d.o.Parts = append(d.o.Parts, p)
		}
		if p.Counts {
			shipped += f.Pieces.count()
		}
	}
	if d.v.Pieces.kind == number && d.v.Shipments.given() {
		d.o.Items = &models.Items{Ordered: d.v.Pieces.count(), Shipped: shipped}
		if d.v.Kept.kind == number {
			d.o.Items.Removed = max(0, d.o.Items.Ordered-d.v.Kept.count())
		}
	}
}

// cancellation is the order's own time, else a request to the warehouse to stop.
func (d *decoder) cancellation() {
	switch d.v.Cancelled.kind {
	case text:
		state, _ := d.a.words.state(fieldCancelled, isSet, false)
		d.state(models.Cancellation, models.Statement{State: state, Word: d.v.Reason.word(), At: d.v.Cancelled.stamp()})
		return
	case null:
	default:
		d.changed(models.Cancellation, fieldCancelled)
		d.state(models.Cancellation, unclear(models.Cancellation, ""))
		return
	}
	state, _ := d.a.words.state(fieldCancelled, "", false)
	s := models.Statement{State: state}
	for _, f := range d.v.Requests.items {
		word := f.Request.word()
		if word == "" {
			continue
		}
		state, known := d.a.words.state(fieldRequest, word, false)
		if !known {
			d.unknown(models.Cancellation, fieldRequest, word)
			s = unclear(models.Cancellation, word)
			break
		}
		if state == models.CancellationRequested {
			s = models.Statement{State: state, Word: word}
		}
	}
	d.state(models.Cancellation, s)
}

func (d *decoder) returns() {
	newest := gqlReturn{}
	for _, r := range d.v.Returns.items {
		p := d.a.returned(r.Status.word(), partID("Return", leaf{}, r.ID), firstTime(r.Closed, r.Created), r.Name.word())
		if p.ID != "" {
			d.o.Parts = append(d.o.Parts, p)
		}
		if p.State == "" {
			d.unknown(models.Return, fieldReturnPart, p.Word)
		}
		if !r.Created.stamp().Before(newest.Created.stamp()) {
			newest = r
		}
		d.items(r, p.State)
	}
	word := d.v.Return.word()
	declined, _ := d.a.words.state(fieldReturnPart, newest.Status.word(), false)
	state, known := d.a.words.state(fieldReturn, word, declined == models.ReturnDeclined)
	switch {
	case d.v.Return.kind == absent && d.refused[fieldReturn]:
	case word == "":
		d.changed(models.Return, fieldReturn)
		d.state(models.Return, unclear(models.Return, ""))
	case !known:
		d.unknown(models.Return, fieldReturn, word)
		d.state(models.Return, unclear(models.Return, word))
	default:
		d.state(models.Return, models.Statement{State: state, Word: word})
	}
}

// items counts the pieces of a return that isn't declined or called off.
func (d *decoder) items(r gqlReturn, s models.State) {
	if d.o.Items == nil || s == models.ReturnDeclined || s == models.ReturnNone {
		return
	}
	d.o.Items.Returning += r.Pieces.count()
	if s == models.ReturnReceived {
		d.o.Items.InReturned += r.Pieces.count()
	}
	for _, l := range r.Lines.items {
		d.o.Items.CameBack += l.Processed.count()
	}
}

// disputes: open, else lost, else won, else none. They need a scope of their own;
// without it the axis isn't stated.
func (d *decoder) disputes() {
	if !d.v.Disputes.given() {
		return
	}
	rank := []models.State{models.DisputeNone, models.DisputeWon, models.DisputeLost, models.DisputeOpen}
	s := models.Statement{State: models.DisputeNone}
	for _, x := range d.v.Disputes.items {
		word := x.Status.word()
		state, known := d.a.words.state(fieldDispute, word, false)
		if id := x.ID.raw; id != "" {
			d.o.Parts = append(d.o.Parts, models.Part{Axis: models.Dispute, ID: printable(id, 120), State: state, Word: word, Counts: state == models.DisputeLost})
		}
		if !known {
			d.unknown(models.Dispute, fieldDispute, word)
			s = unclear(models.Dispute, word)
			break
		}
		if slices.Index(rank, state) >= slices.Index(rank, s.State) {
			s = models.Statement{State: state, Word: word}
		}
	}
	d.state(models.Dispute, s)
}

// more tells whether the wide shape would show more of the order than this one.
func (d *decoder) more() bool {
	if d.shape.detail {
		return false
	}
	for name, n := range map[string]int{
		"transactions": len(d.v.Moves.items), "refunds": len(d.v.Refunds.items), "fulfillments": len(d.v.Shipments.items),
		"fulfillmentOrders": len(d.v.Requests.items), "returns": len(d.v.Returns.items),
	} {
		if n >= d.shape.sizes[name] {
			return true
		}
	}
	return len(d.v.Returns.items) > 0
}
