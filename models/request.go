package models

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"time"
)

// A RequestKind is something that one person asks for and another one decides.
type RequestKind string

const (
	RequestRelease     RequestKind = "release"     // of an action that waits for people
	RequestReplacement RequestKind = "replacement" // a wanted second shipment
	RequestAgain       RequestKind = "again"       // a message once more
	RequestLive        RequestKind = "live"        // a kind of action gets a destination
	RequestAccept      RequestKind = "accept"      // a difference stays, as accepted
	RequestPolicy      RequestKind = "policy"      // a policy that pauses becomes a looser one
)

// RequestKinds lists all kinds; the schema has the same list.
var RequestKinds = []RequestKind{RequestRelease, RequestReplacement, RequestAgain, RequestLive, RequestAccept, RequestPolicy}

// A RequestState says how a request stands.
type RequestState string

const (
	RequestProposed  RequestState = "proposed"
	RequestApplied   RequestState = "applied"
	RequestRejected  RequestState = "rejected"
	RequestWithdrawn RequestState = "withdrawn"
	RequestExpired   RequestState = "expired"
	RequestStale     RequestState = "stale" // what it was about moved
)

// RequestStates lists all states; the schema has the same list.
var RequestStates = []RequestState{RequestProposed, RequestApplied, RequestRejected, RequestWithdrawn, RequestExpired, RequestStale}

// A Request is what one person asks for, and what others decided.
type Request struct {
	ID         int64
	Kind       RequestKind
	State      RequestState
	Subject    string
	ShopID     int64
	Shop       string // slug
	OrderID    int64  // 0: it is about no order
	OrderName  string
	ActionID   int64 // what is released, or sent again; 0: none
	ActionKind ActionKind
	Exception  int64      // that is accepted or dismissed; 0: none
	Code       ReasonCode // reason code
	Reason     string
	Terms      string // JSON: what else was asked for
	Seen       string // digest of the facts that the proposer saw
	Needs      int    // approvals
	By         string // actor who proposed it
	ByName     string
	ByRole     Role
	At         time.Time
	Expires    time.Time
	DecidedBy  string
	Decider    string
	Decided    time.Time
	Note       string
	Made       int64 // the action that came of it, 0: none
	Approvals  []Approval
}

// An Approval is one person's yes.
type Approval struct {
	By   string
	Name string
	Role Role
	At   time.Time
}

// An Ask is a request as somebody makes it.
type Ask struct {
	Kind   RequestKind
	Order  int64 // of a replacement
	Action int64 // what is to be released, or sent again
	Code   ReasonCode
	Reason string
}

// A RequestQuery filters the list of requests. Empty fields don't filter.
type RequestQuery struct {
	Shops  []int64 // those the person may see; empty: all
	State  RequestState
	Kind   RequestKind
	Order  int64
	Action int64 // what it is about, or what came of it
	Case   int64 // the exception that it is about
	Cursor string
	Limit  int
}

const (
	riskyUndecided = 4 * time.Hour
	otherUndecided = 24 * time.Hour
)

// Undecided is how long a request may stay without a decision.
func (r Request) Undecided() time.Duration {
	if r.ActionKind.HighRisk() {
		return riskyUndecided
	}
	return otherUndecided
}

// Seen is a digest of what somebody who asks for something about an order could see:
// its axes and amounts, its newest ledger entry, the action in question and the open
// exceptions. How well it is verified isn't inside: that is judged when it is carried.
func Seen(o Order, lastEntry int64, about *Action, cases []Exception) string {
	facts := struct {
		Order, Entry int64
		Axes         map[Axis]State
		Amounts      Amounts
		Items        Items
		Action       int64
		State        ActionState
		Released     time.Time
		Pieces       int
		Cases        []int64
	}{Order: o.ID, Entry: lastEntry, Axes: map[Axis]State{}, Amounts: o.Amounts, Items: o.Items}
	for axis, rec := range o.Axes {
		facts.Axes[axis] = rec.State
	}
	if about != nil {
		facts.Action, facts.State, facts.Released, facts.Pieces = about.ID, about.State, about.Released, about.Pieces
		if about.here() {
			facts.State = ActionWaiting // between these it goes by itself
		}
	}
	for _, x := range cases {
		facts.Cases = append(facts.Cases, x.ID)
	}
	slices.Sort(facts.Cases)
	sum := sha256.Sum256([]byte(text(facts)))
	return hex.EncodeToString(sum[:])
}
