package receiptroller

import (
	"encoding/json"
	"strings"
	"time"

	"counterfoil/models"
)

// A receipt is what a body says about one receipt, wherever in it the values stand:
// a reply of the API and the data of a notification are read alike.
type receipt struct {
	org, store, id  leaf
	number, transac leaf
	kind            leaf // transactionType
	total, refunded leaf
	deposit         leaf
	placed          leaf   // when it was sold; decides the month
	pieces          *int64 // nil where not stated, or sold by weight
}

// readReceipt collects a receipt from an object that holds it, or is it.
func readReceipt(outer place) receipt {
	inner := outer.child("receipt")
	top := []place{inner, outer}
	sums := []place{inner.child("paymentSummary"), outer.child("paymentSummary"), inner, outer}
	return receipt{
		org:      find([]place{inner, outer, outer.child("store")}, "organizationId"),
		store:    find([]place{inner.child("store"), inner, outer.child("store"), outer}, "storeId"),
		id:       find(top, "receiptId"),
		number:   find(top, "terminalTransactionId"),
		transac:  find(top, "transactionId"),
		kind:     find(top, fieldType),
		total:    find(sums, "grandTotal"),
		refunded: find(append([]place{inner.child("refund"), outer.child("refund")}, sums...), "refundedAmount", "refundAmount"),
		deposit:  find(sums, "depositMethod", "despoitMethod"),
		placed:   find(top, "terminalTransactionDateTime"),
		pieces:   countPieces(outer),
	}
}

// countPieces adds up the lines' quantities; nil where one isn't a whole number.
func countPieces(outer place) *int64 {
	raw, ok := outer.raw("itemDetailLines")
	if !ok {
		return nil
	}
	var lines []struct{ Quantity json.RawMessage }
	if json.Unmarshal(raw, &lines) != nil || len(lines) == 0 {
		return nil
	}
	var sum int64
	for _, line := range lines {
		n, ok := readLeaf(line.Quantity).whole()
		if !ok || n < 0 || n > 1e6 {
			return nil
		}
		sum += n
	}
	return &sum
}

// reference is the receipt's full reference. It exists only where organization,
// month, store and receipt are all known: no call finds a receipt by less. A store
// that is named but empty belongs to a terminal without a store.
func (a *Adapter) reference(r receipt) (models.ObjectRef, bool) {
	org := r.org.text
	if org == "" && !r.org.wrong {
		org = a.account
	}
	placed := r.placed.time(a.zone)
	if placed.IsZero() || !r.store.named || r.store.wrong || r.store.text != "" && !usable(r.store.text) || !usable(org) || !usable(r.id.text) {
		return models.ObjectRef{}, false
	}
	t := target{month: month{org: org, yyyymm: placed.In(a.zone).Format("200601")}, store: r.store.text, id: r.id.text}
	return t.ref(), true
}

// A month is the part of a reference that one list answers.
type month struct{ org, yyyymm string }

// A target is a reference taken apart.
type target struct {
	month
	store, id string
}

func (t target) ref() models.ObjectRef {
	return models.ObjectRef{Account: t.org, Kind: receiptKind, ID: strings.Join([]string{t.org, t.yyyymm, t.store, t.id}, "/")}
}

// parseRef takes a reference apart; ok is false where it can't name a receipt.
func parseRef(ref models.ObjectRef) (t target, ok bool) {
	parts := strings.Split(ref.ID, "/")
	if ref.Kind != receiptKind || len(parts) != 4 {
		return target{}, false
	}
	t = target{month: month{parts[0], parts[1]}, store: parts[2], id: parts[3]}
	_, err := time.Parse("200601", t.yyyymm)
	return t, err == nil && usable(t.org) && usable(t.id) && (t.store == "" || usable(t.store))
}

// describe fills in what official and reported observations say alike.
func (a *Adapter) describe(ref models.ObjectRef, r receipt, basis models.Basis, read time.Time) models.Observation {
	o := models.Observation{Ref: ref, Basis: basis, Read: read, Store: true, Channel: "pos", Axes: map[models.Axis]models.Statement{}}
	o.Number = r.number.text
	if o.Number == "" {
		o.Number = r.id.text
	}
	for _, l := range []leaf{r.id, r.transac} {
		if l.text != "" {
			o.Refs = append(o.Refs, l.text)
		}
	}
	o.Placed = r.placed.time(a.zone)
	return o
}

// official is what a fetched receipt says. It carries no time of its last change.
func (a *Adapter) official(ref models.ObjectRef, r receipt, read time.Time) models.Observation {
	o := a.describe(ref, r, models.Official, read)
	word, sale := a.judge(&o, r, time.Time{})
	total, known := r.total.amount(a.currency)
	switch {
	case !known:
		o.Faults = append(o.Faults, models.Fault{Kind: models.SchemaChanged, Axis: models.Payment, Path: r.total.path})
	case total < 0 && sale:
		a.contradict(&o, r.total.path, word)
	case sale:
		o.Amounts = &models.Amounts{Currency: a.currency, Total: total, Received: total}
		o.Parts = append(o.Parts, a.payment(r, word, total))
		if r.pieces != nil {
			o.Items = &models.Items{Ordered: int(*r.pieces), Shipped: int(*r.pieces)}
		}
	case o.Axes[models.Return].State != "":
		o.Parts = append(o.Parts, models.Part{Axis: models.Return, ID: r.id.text, State: o.Axes[models.Return].State, Word: word, Amount: total, Currency: a.currency, At: o.Placed})
	}
	return o
}

// payment is the money behind a sale. How it was paid is shown as the platform says
// it: its numbers for that have meant different things over the years.
func (a *Adapter) payment(r receipt, word string, total int64) models.Part {
	p := models.Part{Axis: models.Payment, ID: r.id.text, State: models.PaymentPaid, Word: word, Amount: total, Currency: a.currency, At: r.placed.time(a.zone), Counts: true}
	if method := r.deposit.word(); method != "" {
		p.Note = "depositMethod " + method
	}
	return p
}

// judge states what transactionType says, and tells its word and whether it is a
// sale. Missing, unreadable and unknown ones leave payment in review.
func (a *Adapter) judge(o *models.Observation, r receipt, at time.Time) (word string, sale bool) {
	word = r.kind.word()
	rows := a.meanings[meaning{fieldType, word}]
	switch {
	case word == "":
		o.Faults = append(o.Faults, models.Fault{Kind: models.SchemaChanged, Axis: models.Payment, Path: r.kind.path})
	case len(rows) == 0:
		o.Faults = append(o.Faults, models.Fault{Kind: models.UnknownStatus, Axis: models.Payment, Path: r.kind.path, Word: word})
	}
	if len(rows) == 0 {
		o.Axes[models.Payment] = models.Statement{State: models.Review, Word: word, Unclear: true, At: at}
		o.Axes[models.Fulfillment] = models.Statement{Word: word, Unclear: true, At: at}
		return word, false
	}
	for _, row := range rows {
		o.Axes[row.Axis] = models.Statement{State: row.State, Word: word, At: at}
		if row.Axis == models.Return {
			o.Faults = append(o.Faults, models.Fault{Kind: models.Contradiction, Axis: models.Return, Path: r.kind.path, Word: word})
		}
	}
	return word, o.Axes[models.Payment].State == models.PaymentPaid
}

// contradict puts a sale whose total is below nothing in review.
func (a *Adapter) contradict(o *models.Observation, path, word string) {
	at := o.Axes[models.Payment].At
	o.Axes[models.Payment] = models.Statement{State: models.Review, Word: word, Unclear: true, At: at}
	o.Faults = append(o.Faults, models.Fault{Kind: models.Contradiction, Axis: models.Payment, Path: path, Word: word})
}
