package stripe

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"counterfoil/models"
	"counterfoil/models/platform"
)

// Parse reads a snapshot or a thin event. What can't be read is kept as an
// anonymous notice without an object.
func (a *Adapter) Parse(r platform.Request, now time.Time) models.Notice {
	if !json.Valid(r.Body) {
		return models.Notice{Anonymous: true, Content: sha256.Sum256(r.Body)}
	}
	e := split(r.Body)
	if e == nil {
		return models.Notice{Anonymous: true, Content: sha256.Sum256(r.Body)}
	}
	return a.notice(e, now)
}

func (a *Adapter) notice(e envelope, now time.Time) models.Notice {
	sent := e.text("id")
	n := models.Notice{
		EventID:  clean(sent),
		Account:  a.accountOf(e),
		Topic:    clean(e.text("type")),
		Occurred: occurred(e["created"]),
		Act:      clean(act(e)),
		Content:  content(e),
	}
	sample := zeroPattern.MatchString(sent)
	// An id that had to be changed for keeping doesn't tell events apart any more.
	n.Anonymous = sample || n.EventID != sent
	var live *bool
	e.read("livemode", &live)
	n.Test = a.otherMode(live) || sample && sent != ""

	topic := strings.TrimPrefix(n.Topic, "v1.")
	n.Known = aboutMoney(topic) || aboutOther(topic)
	if aboutOther(topic) {
		return n
	}
	if e.text("object") == "v2.core.event" {
		n.Object = thinObject(e["related_object"], n.Account)
		return n
	}
	object := split(e["data"])["object"]
	fields := split(object)
	n.Object = snapshotObject(fields, n.Account)
	if !n.Object.Zero() {
		n.Said = a.said(fields.text("object"), object, n, live, now)
	}
	return n
}

// accountOf is the account to ask for the event's object, empty for our own. An
// event without one may carry a context: opaque text that Stripe takes back as is.
func (a *Adapter) accountOf(e envelope) string {
	account := clean(either(e.text("account"), e.text("context")))
	if a.own(account) {
		return ""
	}
	return account
}

// occurred reads Unix seconds or RFC 3339.
func occurred(raw json.RawMessage) time.Time {
	var seconds int64
	if json.Unmarshal(raw, &seconds) == nil {
		return at(seconds)
	}
	var t time.Time
	if json.Unmarshal(raw, &t) != nil || at(t.Unix()).IsZero() {
		return time.Time{}
	}
	return t.UTC()
}

// act is the id of the API request that caused the event. Before 2017-05-25 it
// stood there alone, in thin events it stands under reason.
func act(e envelope) string {
	raw := e["request"]
	if inner, ok := split(e["reason"])["request"]; ok {
		raw = inner
	}
	var bare string
	if json.Unmarshal(raw, &bare) == nil {
		return bare
	}
	var request struct {
		ID string `json:"id"`
	}
	_ = json.Unmarshal(raw, &request)
	return request.ID
}

// content is a digest over the event without the count of its open deliveries,
// which falls from one delivery to the next.
func content(e envelope) [32]byte {
	h := sha256.New()
	var size [8]byte
	for _, field := range slices.Sorted(maps.Keys(e)) {
		if field == "pending_webhooks" {
			continue
		}
		for _, part := range [][]byte{[]byte(field), e[field]} {
			binary.BigEndian.PutUint64(size[:], uint64(len(part)))
			h.Write(size[:])
			h.Write(part)
		}
	}
	return [32]byte(h.Sum(nil))
}

// thinKinds are the objects of thin events that can be asked for. Read only.
var thinKinds = map[string]string{
	"payment_intent": kindIntent, "charge": kindCharge, "refund": kindRefund, "dispute": kindDispute,
	"checkout.session": kindSession, "invoice": kindInvoice, "invoice_payment": kindInvoicePayment,
}

func thinObject(raw json.RawMessage, account string) models.ObjectRef {
	var related struct {
		ID   string `json:"id"`
		Type string `json:"type"`
	}
	if json.Unmarshal(raw, &related) != nil || thinKinds[related.Type] == "" {
		return models.ObjectRef{}
	}
	return refTo(account, thinKinds[related.Type], id(related.ID))
}

// snapshotObject names what to ask for: the payment intent wherever the body knows
// it, so that all events of one payment cost one reading.
func snapshotObject(o envelope, account string) models.ObjectRef {
	var own, intent, charge, payment id
	o.read("id", &own)
	o.read("payment_intent", &intent)
	o.read("charge", &charge)
	split(o["payment"]).read("payment_intent", &payment)

	object := o.text("object")
	switch {
	case object == "payment_intent":
		return refTo(account, kindIntent, own)
	case intent != "":
		return refTo(account, kindIntent, intent)
	case object == "charge":
		return refTo(account, kindCharge, own)
	case object == "invoice_payment" && payment != "":
		return refTo(account, kindIntent, payment)
	case object == "invoice_payment":
		return refTo(account, kindInvoicePayment, own)
	case object == "checkout.session" && o.text("mode") == "setup":
		// It saves a card; no money and no order.
		return models.ObjectRef{}
	case object == "checkout.session":
		return refTo(account, kindSession, own)
	case object == "refund", object == "dispute", object == "review", object == "radar.early_fraud_warning", object == "invoice":
		if charge != "" {
			return refTo(account, kindCharge, charge)
		}
		if kind, ok := thinKinds[object]; ok {
			return refTo(account, kind, own)
		}
	}
	return models.ObjectRef{}
}

// refTo is a reference whose parts can be kept and shown; zero without an id.
func refTo(account, kind string, of id) models.ObjectRef {
	if of == "" {
		return models.ObjectRef{}
	}
	return models.ObjectRef{Account: account, Kind: kind, ID: clean(string(of))}
}
