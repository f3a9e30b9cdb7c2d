package models

import (
	"crypto/sha256"
	"encoding/json"
	"time"
)

// An ObjectRef names one thing at a platform. Kind is the platform's own word in
// snake case (order, return, payment_intent, charge, checkout_session, receipt);
// ID is the platform's reference (gid://shopify/Order/1, pi_1, or
// organization/yyyyMM/store/receipt). Account is the platform account that the
// object belongs to; with Stripe Connect it isn't the connection's own.
type ObjectRef struct {
	Account string `json:"account"`
	Kind    string `json:"kind"`
	ID      string `json:"id"`
}

// Zero tells whether nothing is named.
func (r ObjectRef) Zero() bool { return r.ID == "" }

// A Basis says how we know something.
type Basis string

const (
	Official Basis = "official" // fetched from the platform
	Reported Basis = "reported" // read from a signed payload only
)

// A Statement is what one platform object says about one axis.
type Statement struct {
	State State `json:"state,omitempty"`
	// Word is the platform's own spelling, shown beside ours.
	Word string `json:"word,omitempty"`
	// Unclear: the word is unknown or contradicts another. On payment and refund
	// State is then Review; on the other axes State is empty and ours stays.
	Unclear bool `json:"unclear,omitempty"`
	// At is when the platform says that it became so, Version its counter where it
	// has one; reported statements are judged by them, axis by axis.
	At      time.Time `json:"at,omitzero"`
	Version int64     `json:"version,omitempty"`
}

// A Part is one payment, refund, dispute, shipment or return behind an axis,
// keyed by the platform's id so that nothing is counted twice.
type Part struct {
	Axis     Axis      `json:"axis"`
	ID       string    `json:"id"`
	State    State     `json:"state,omitempty"` // on that axis; empty where the word is unknown
	Word     string    `json:"word"`
	Amount   int64     `json:"amount,omitempty"` // minor units of Currency
	Currency string    `json:"currency,omitempty"`
	At       time.Time `json:"at,omitzero"`
	// Counts tells whether Amount is part of the sum of its axis: a failed refund doesn't count.
	Counts bool   `json:"counts,omitempty"`
	Note   string `json:"note,omitempty"` // tracking number, failure reason, …: never personal data
	// Reason is why the platform says that it was done, in its own word.
	Reason string `json:"reason,omitempty"`
}

// An Amounts holds sums in minor units of one currency. Total is what the order
// asks, Received what came in, Refunded what went back.
type Amounts struct {
	Currency string `json:"currency,omitempty"`
	Total    int64  `json:"total"`
	Received int64  `json:"received"`
	Refunded int64  `json:"refunded"`
	// Outstanding is what the platform says is still to be paid; only stores say so.
	Outstanding int64 `json:"outstanding,omitempty"`
}

// A LinkHow says where a link to an order was found, the surest first.
type LinkHow string

const (
	LinkMetadata  LinkHow = "metadata"         // the metadata key set on the connection
	LinkReference LinkHow = "client_reference" // a buyer can type it: counts only if the amount fits
	LinkIntent    LinkHow = "intent"           // a payment intent that is already linked
)

// A Link is a hint to which order of the shop an object belongs.
type Link struct {
	How   LinkHow `json:"how"`
	Value string  `json:"value"`
}

// A Fault is something that an adapter could not understand in an answer.
type Fault struct {
	Kind ExceptionKind `json:"kind"` // unknown_status, schema_changed or contradiction
	Axis Axis          `json:"axis,omitempty"`
	Path string        `json:"path,omitempty"` // JSON path, never a value of a person
	Word string        `json:"word,omitempty"`
}

// An Absence says why a platform has no answer for a reference.
type Absence string

const (
	Present       Absence = ""
	Gone          Absence = "gone"           // the platform says that there is no such object
	OutsideWindow Absence = "outside_window" // created before the readable window
	Unreadable    Absence = "unreadable"     // this one object can't be read while others can
	AdminTest     Absence = "admin_test"     // a test sent from the platform's admin; no object exists
)

// An Observation is one reading of a platform object, normalised. Axes that it
// doesn't state are absent from Axes: not stated is never none.
type Observation struct {
	// Ref is the object that the statements are about. It can differ from what was
	// asked: a refund, a return or a charge leads to its order or payment.
	Ref   ObjectRef `json:"ref"`
	Basis Basis     `json:"basis"`
	// Absence other than Present leaves everything below empty.
	Absence Absence `json:"absence,omitempty"`
	Detail  string  `json:"detail,omitempty"` // why unreadable, in the platform's words without personal data

	// Read is when the reading began (official) or the event was received (reported).
	Read time.Time `json:"read,omitzero"`
	// Changed is the platform's own time of the last change; zero where it has none.
	Changed time.Time `json:"changed,omitzero"`
	// Version is the platform's own counter, where larger is newer; zero where it has none.
	Version int64 `json:"version,omitempty"`

	Number string    `json:"number,omitempty"` // as people say it: #1001
	Placed time.Time `json:"placed,omitzero"`
	// Refs are further references of the same object: legacy id, number, session id.
	Refs  []string `json:"refs,omitempty"`
	Links []Link   `json:"links,omitempty"`
	// Foreign is the rule of the connection by which the object belongs to another
	// system on the same account; empty where it may be ours.
	Foreign string `json:"foreign,omitempty"`
	// Test marks an object of the other mode, or a test order.
	Test bool `json:"test,omitempty"`
	// Live is the mode that the object itself states, where it does.
	Live *bool `json:"live,omitempty"`
	// Kept: a store's order, with goods. A bare payment is not.
	Store bool `json:"store,omitempty"`

	Amounts *Amounts           `json:"amounts,omitempty"` // nil: not stated
	Axes    map[Axis]Statement `json:"axes,omitempty"`
	Parts   []Part             `json:"parts,omitempty"`
	// Items that were ordered, shipped and came back; nil where not stated.
	Items  *Items  `json:"items,omitempty"`
	Faults []Fault `json:"faults,omitempty"`
	// Method is how the platform says it was paid, e.g. card, manual, cash_on_delivery.
	Method string `json:"method,omitempty"`
	// Channel is where the platform says it was sold, e.g. web, pos.
	Channel string `json:"channel,omitempty"`
	// Stamps say when each fact beside the axes was said, where payloads were merged.
	Stamps map[string]Stamp `json:"stamps,omitempty"`
	// Lean marks a reading of words, times and sums alone. It is for comparing only:
	// nothing of it is kept or applied.
	Lean bool `json:"-"`
}

// A Stamp is the platform's own time and counter of something that it said.
type Stamp struct {
	At      time.Time `json:"at,omitzero"`
	Version int64     `json:"version,omitempty"`
}

// Items counts pieces, not lines. Removed are those of the ordered ones that an edit
// or a refund took out of the order again.
type Items struct {
	Ordered    int `json:"ordered"`
	Removed    int `json:"removed,omitempty"`
	Shipped    int `json:"shipped"`
	Returning  int `json:"returning,omitempty"` // in returns that aren't declined
	CameBack   int `json:"came_back,omitempty"`
	InReturned int `json:"in_returned,omitempty"`
}

// Digest is a hash over what the observation says, without when it was read: two
// readings with one digest say the same.
func (o Observation) Digest() [32]byte {
	o.Read = time.Time{}
	o.Detail = ""
	b, err := json.Marshal(o)
	if err != nil {
		panic("models: an observation always marshals: " + err.Error())
	}
	return sha256.Sum256(b)
}

// AgreesLean tells whether a lean reading says nothing that this whole one doesn't say
// too: the same time of the last change, the same words, the same sums. The platform's
// own sum of refunds may hold those that are under way already.
func (o Observation) AgreesLean(lean Observation) bool {
	if o.Absence != Present || lean.Absence != Present || o.Ref != lean.Ref || len(lean.Faults) > 0 ||
		o.Changed.IsZero() || !o.Changed.Equal(lean.Changed) || o.Test != lean.Test || o.Amounts == nil || lean.Amounts == nil {
		return false
	}
	for axis, says := range lean.Axes {
		whole, stated := o.Axes[axis]
		if !stated || whole.Word != says.Word || whole.Unclear != says.Unclear {
			return false
		}
	}
	waiting := int64(0)
	for _, p := range o.Parts {
		if p.Axis == Refund && p.State == RefundPending {
			waiting += p.Amount
		}
	}
	w, l := o.Amounts, lean.Amounts
	return w.Currency == l.Currency && w.Total == l.Total && w.Received == l.Received && (w.Refunded == l.Refunded || w.Refunded+waiting == l.Refunded)
}

// A Notice is what a signed notification says of itself: enough to keep it once
// and to know what to ask. Everything else waits for the official object.
type Notice struct {
	// EventID as the platform sent it; empty where it sent none.
	EventID string
	// Anonymous: the id identifies nothing (missing, or the platform's all-zero
	// sample id), so the event is told apart by account, topic and content.
	Anonymous bool
	// Account that the event is about; empty means the connection's own.
	Account string
	Topic   string
	// Object to ask for; zero where the event names nothing that can be fetched.
	Object ObjectRef
	// Occurred is the event's own time for people; zero where it has none.
	Occurred time.Time
	// Floor: a reading whose Changed lies before it is older than the event.
	// Zero where the two can't be compared. Covered by the signature.
	Floor time.Time
	// Version of the object as the event states it, zero where it has none.
	Version int64
	// Act is the platform's id of the merchant's act, shared by its events; for
	// showing relatives, never for dropping.
	Act string
	// Test marks test traffic: the other mode, or sent from the platform's admin.
	Test bool
	// Known tells whether the topic is one that this program has met.
	Known bool
	// Content is a digest over the body without what may differ between deliveries
	// of one event; another digest under a known id is a conflict.
	Content [32]byte
	// Said is the reported observation, nil where the payload states nothing.
	Said *Observation
	// Conflict names a contradiction inside the request itself, e.g. the header's
	// id isn't the body's; empty where there is none.
	Conflict string
}
