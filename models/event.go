package models

import "time"

// An EventState says how far an event has come and who moves it on.
type EventState string

const (
	EventReceived   EventState = "received"    // the console, within seconds
	EventWaiting    EventState = "waiting"     // the console, when the platform answers; uses up no tries
	EventUnmatched  EventState = "unmatched"   // the console, when the order appears; else a person
	EventApplied    EventState = "applied"     // done: it is the cause of what moved
	EventSuperseded EventState = "superseded"  // done: the record says the same already, or something newer
	EventNotApplied EventState = "not_applied" // done: kept, but not about orders
	EventReview     EventState = "review"      // a person: the rules refuse
	EventFailed     EventState = "failed"      // a person, after the fault is mended: our tries are used up
)

// EventStates lists all states; the schema has the same list.
var EventStates = []EventState{EventReceived, EventWaiting, EventUnmatched, EventApplied, EventSuperseded, EventNotApplied, EventReview, EventFailed}

// Open tells whether the console still works on events in this state.
func (s EventState) Open() bool {
	return s == EventReceived || s == EventWaiting || s == EventUnmatched
}

// MaxTries is how often our own failures are tried again before an event fails.
const MaxTries = 8

// A Delivery is one arrival of an event.
type Delivery struct {
	At        time.Time
	Same      bool // the same bytes as the first
	RequestID string
}

// A Try is one attempt to process an event.
type Try struct {
	At      time.Time
	Outcome string // applied, superseded, waiting, unmatched, failed, …
	Error   string // the platform's or our own error, without personal data
}

// An Event is one verified notification, kept once with a count of its deliveries.
type Event struct {
	ID         int64
	Connection string // slug
	Platform   Platform
	Account    string
	EventID    string
	Topic      string
	Object     ObjectRef
	OrderID    int64 // 0: none known
	OrderName  string
	State      EventState
	Deliveries int64
	Received   time.Time
	Last       time.Time // last delivery
	Occurred   time.Time
	Done       time.Time
	Due        time.Time // next try, zero when none
	Tries      int
	Error      string
	Test       bool
}

// An EventFile is an event with everything its page shows.
type EventFile struct {
	Event
	ConnectionID int64
	ShopID       int64
	Act          string
	Digest       string // hex SHA-256 of the exact bytes
	Size         int
	RequestID    string
	// Secret that matched: its fingerprint and when it was added; SkewKnown tells
	// whether the platform signs a time, Skew how far it was off (positive: ahead of us).
	Secret    string
	SkewKnown bool
	Skew      time.Duration
	Conflicts int // second payloads with other content
	Said      *Observation
	// CausedBy is the event that moved the order instead of this one; 0: none.
	Superseder int64
	Moves      []Entry    // ledger entries that name this event as cause
	Arrivals   []Delivery // the first, then the last 20, in their order
	Attempts   []Try
	Relatives  []Event // same object or same act
}
