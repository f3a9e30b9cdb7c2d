package receiptroller

import (
	"cmp"
	"crypto/sha256"
	"slices"
	"strings"
	"time"

	"counterfoil/models"
	"counterfoil/models/platform"
)

// eventIDHeader repeats the body's event_id, outside the signature.
const eventIDHeader = "X-RR-Event-Id"

// Parse reads an event's identity and what it reports. An event about a receipt that
// names too little to be asked for has no Object; if at least the receipt's id is
// known, the reported observation goes by that id alone. One that names nothing at
// all isn't Known, so that it is counted where people see it.
//
// Floor stays zero: a fetched receipt carries no time or version to compare with.
func (a *Adapter) Parse(r platform.Request, now time.Time) models.Notice {
	body := placeOf("", r.Body)
	root := []place{body}
	n := models.Notice{EventID: find(root, "event_id").text, Topic: find(root, a.types...).text, Content: sha256.Sum256(r.Body)}
	n.Anonymous = n.EventID == ""
	if sent := r.Header.Get(eventIDHeader); sent != "" && !n.Anonymous && sent != n.EventID {
		n.Conflict = eventIDHeader + " differs from event_id"
	}
	n.Occurred = find(root, "occurred_at").time(a.zone)
	data := body.child("data")
	if data.values == nil {
		data = place{values: body.values}
	}
	n.Version, _ = find([]place{body, data}, "version").whole()
	rc := readReceipt(data)
	if org := rc.org.text; org != a.account && usable(org) {
		n.Account = org
	}
	about := strings.HasPrefix(n.Topic, "receipt.")
	other := strings.HasPrefix(n.Topic, "product.") || !about && isInventory(n.Topic, data)
	if ref, whole := a.reference(rc); whole && !other {
		n.Object = ref
	}
	met := n.Topic == topicIssued || n.Topic == topicRefunded
	n.Known = other || met && usable(rc.id.text)
	if about && usable(rc.id.text) {
		by := n.Object
		if by.Zero() {
			by = models.ObjectRef{Account: cmp.Or(n.Account, a.account), Kind: receiptKind, ID: rc.id.text}
		}
		n.Said = a.said(n, by, rc, now)
	}
	return n
}

// isInventory knows the inventory event by its topic or, since that isn't
// published, by what it carries.
func isInventory(topic string, data place) bool {
	if strings.HasPrefix(topic, "inventory") {
		return true
	}
	places := []place{data}
	return topic != "" && find(places, "productId").text != "" && find(places, "quantity").text != ""
}

// said is the reported observation of a receipt's event, nil where it states
// nothing. Each statement carries occurred_at, by which it is judged.
func (a *Adapter) said(n models.Notice, ref models.ObjectRef, r receipt, now time.Time) *models.Observation {
	o := a.describe(ref, r, models.Reported, now)
	o.Changed, o.Version = n.Occurred, n.Version
	returned := slices.ContainsFunc(a.meanings[meaning{fieldType, r.kind.word()}], func(w platform.Word) bool { return w.Axis == models.Return })
	switch n.Topic {
	case topicIssued:
		a.saidIssued(&o, n, r, returned)
	case topicRefunded:
		if returned {
			a.judge(&o, r, n.Occurred)
		}
		a.saidRefunded(&o, n, r, returned)
	default:
		if !returned {
			return nil
		}
		a.judge(&o, r, n.Occurred)
	}
	if n.Occurred.IsZero() {
		o.Faults = append(o.Faults, models.Fault{Kind: models.SchemaChanged, Path: "occurred_at"})
	}
	return &o
}

// saidIssued: a receipt was issued, so it is paid and the goods were handed over,
// unless its type says otherwise.
func (a *Adapter) saidIssued(o *models.Observation, n models.Notice, r receipt, returned bool) {
	sale := true
	if r.kind.text != "" || r.kind.wrong {
		_, sale = a.judge(o, r, n.Occurred)
	}
	if !sale || returned {
		return
	}
	for _, row := range a.meanings[meaning{fieldEvent, topicIssued}] {
		o.Axes[row.Axis] = models.Statement{State: row.State, Word: topicIssued, At: n.Occurred}
	}
	total, known := r.total.amount(a.currency)
	switch {
	case known && total < 0:
		a.contradict(o, r.total.path, topicIssued)
	case known:
		o.Amounts = &models.Amounts{Currency: a.currency, Total: total, Received: total}
		o.Parts = append(o.Parts, a.payment(r, topicIssued, total))
	case r.total.text != "" || r.total.wrong:
		o.Faults = append(o.Faults, models.Fault{Kind: models.SchemaChanged, Axis: models.Payment, Path: r.total.path})
	}
	if r.pieces != nil {
		o.Items = &models.Items{Ordered: int(*r.pieces), Shipped: int(*r.pieces)}
	}
}

// saidRefunded states the refund axis alone. Without an amount the whole receipt
// counts as refunded: that stops what is still to be sent, and a person can correct
// it. An amount that can't be read, or isn't above nothing, goes to review.
func (a *Adapter) saidRefunded(o *models.Observation, n models.Notice, r receipt, returned bool) {
	total, totalKnown := r.total.amount(a.currency)
	totalKnown = totalKnown && total > 0
	back, stated := r.refunded.amount(a.currency)
	if !stated && (r.refunded.text != "" || r.refunded.wrong) || stated && back <= 0 {
		kind := models.SchemaChanged
		if stated {
			kind = models.Contradiction
		}
		o.Faults = append(o.Faults, models.Fault{Kind: kind, Axis: models.Refund, Path: r.refunded.path})
		o.Axes[models.Refund] = models.Statement{State: models.Review, Word: n.Topic, Unclear: true, At: n.Occurred}
		return
	}
	want := models.RefundFull
	if stated && totalKnown && back < total {
		want = models.RefundPartial
	}
	for _, row := range a.meanings[meaning{fieldEvent, topicRefunded}] {
		if row.State == want {
			o.Axes[row.Axis] = models.Statement{State: row.State, Word: row.Word, At: n.Occurred}
		}
	}
	if !stated {
		back = total
	}
	if totalKnown && !returned {
		o.Amounts = &models.Amounts{Currency: a.currency, Total: total, Received: total, Refunded: back}
	}
	if stated {
		o.Parts = append(o.Parts, models.Part{Axis: models.Refund, ID: n.EventID, State: want, Word: n.Topic, Amount: back, Currency: a.currency, At: n.Occurred, Counts: true})
	}
}
