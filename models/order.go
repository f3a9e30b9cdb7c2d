package models

import "time"

// A Check says whether an axis agrees with the platform that decides it.
type Check string

const (
	Verified   Check = "verified"
	Unverified Check = "unverified"
	ToReview   Check = "review"
)

// Checks lists the stored verification states; the schema has the same list.
var Checks = []Check{Verified, Unverified, ToReview}

// A Doubt is the reason why an axis is unverified or in review.
type Doubt string

const (
	NoDoubt        Doubt = ""
	APIDown        Doubt = "api_down"
	Throttled      Doubt = "throttled"
	EventWaits     Doubt = "event_waiting"
	ReadingOverdue Doubt = "reading_overdue"
	ReportedOnly   Doubt = "reported_only"
	Differs        Doubt = "difference_found"
	TooOld         Doubt = "outside_window"
	// Doubts of the state review.
	UnclearWord Doubt = "unclear_word"
	Missing     Doubt = "missing" // the official object can't be found or read while the API answers
	Disagrees   Doubt = "disagrees"
)

// Doubts lists all reasons, for the catalogue's test.
var Doubts = []Doubt{APIDown, Throttled, EventWaits, ReadingOverdue, ReportedOnly, Differs, TooOld, UnclearWord, Missing, Disagrees}

// An AxisRecord is our record of one axis and how far it can be trusted.
type AxisRecord struct {
	State State `json:"-"`
	// Since is when the state was last entered.
	Since time.Time `json:"since,omitzero"`
	// Word is the deciding platform's own spelling at the last reading.
	Word  string `json:"word,omitempty"`
	Check Check  `json:"check"`
	Doubt Doubt  `json:"doubt,omitempty"`
	// CheckedAt is the last official reading that stated this axis.
	CheckedAt time.Time `json:"checked_at,omitzero"`
	// Connection and Platform decide the axis; 0 and empty where nobody states it.
	Connection int64    `json:"connection,omitempty"`
	Platform   Platform `json:"platform,omitempty"`
}

// An Order is the merchant's own record of one order.
type Order struct {
	ID           int64
	ShopID       int64
	ConnectionID int64 // where it was first seen
	Platform     Platform
	Account      string
	Ref          string // platform reference, unique within the connection
	Number       string // as people say it
	Placed       time.Time
	Amounts
	Items Items
	Axes  map[Axis]AxisRecord
	// Announced: known from a signed notification only; no axis, no ledger, no action.
	Announced bool
	Said      *Observation // what was said, while announced
	Test      bool
	Store     bool
	Method    string
	Channel   string
	// DisagreeSince is since when linked platforms tell it differently; zero: they agree.
	DisagreeSince time.Time
	// DisagreeDue is when they are read once more for it; zero: not again by itself.
	DisagreeDue time.Time
	// MergedInto is the order that this empty shell became part of; 0: none.
	MergedInto int64
	Version    int64
	Created    time.Time
	Updated    time.Time
}

// State of one axis; empty while the order is announced.
func (o Order) State(a Axis) State { return o.Axes[a].State }

// A CauseKind says what justified a move.
type CauseKind string

const (
	CauseEvent      CauseKind = "event"
	CauseResync     CauseKind = "resync"
	CauseImport     CauseKind = "import"
	CauseCorrection CauseKind = "correction"
	CauseLink       CauseKind = "link"
)

// CauseKinds lists all causes; the schema has the same list.
var CauseKinds = []CauseKind{CauseEvent, CauseResync, CauseImport, CauseCorrection, CauseLink}

// A Cause is what justified a move, with what proves it by itself after events
// have been deleted: ids, topic, times and digests, never personal data.
type Cause struct {
	Kind    CauseKind `json:"kind"`
	ID      string    `json:"id"`
	EventID string    `json:"event_id,omitempty"`
	Topic   string    `json:"topic,omitempty"`
	At      time.Time `json:"at,omitzero"`
	Digest  string    `json:"digest,omitempty"`
	// Basis and Reading say on which observation of which object it rests.
	Basis   Basis     `json:"basis,omitempty"`
	Object  ObjectRef `json:"object,omitzero"`
	Read    time.Time `json:"read,omitzero"`
	Reading string    `json:"reading,omitempty"` // digest of the observation
}

// An Entry is one accepted move on one axis. Entries are never changed.
// From is empty where the order's first official reading set the axis outright;
// From equals To where only an amount changed.
type Entry struct {
	ID       int64
	OrderID  int64
	Axis     Axis
	From, To State
	Before   Amounts
	After    Amounts
	Cause    Cause
	Actor    string // console, or the e-mail address's owner by id: staff:7
	At       time.Time
}

// A Move is an entry that the rules have allowed and nobody has written yet.
type Move struct {
	Axis          Axis
	From, To      State
	Before, After Amounts
	Object        ObjectRef // whose statement decided
	Basis         Basis
	Eyes          bool
}
