package models

import (
	"encoding/hex"
	"slices"
	"time"
)

// A CaseQuery filters exceptions. Empty fields don't filter.
type CaseQuery struct {
	Shops      []int64 // those the person may see; empty: all
	State      string  // open or closed
	Needs      *bool   // a person's, or settling by itself
	Order      int64
	Kind       ExceptionKind
	Connection string // slug
	Shop       string // slug
	Urgency    Urgency
	Policy     Policy
	Tell       bool      // the customer has to be told and wasn't yet
	Owner      int64     // of one person
	Free       bool      // nobody's
	Group      int64     // its members
	Asked      time.Time // read again together at that time
	Text       string    // order's number, reference or id of the exception, as typed
	// Folded: a group is one row, its newest member, and the most urgent come first.
	Folded bool
	Cursor string
	Limit  int // default 50, at most 200
}

// CaseStates are how exceptions stand.
var CaseStates = []string{"open", "closed"}

// A CaseRow is one line of the list: an exception, or a group of them.
type CaseRow struct {
	Exception
	Members int // more than 1: a group, and the exception its newest
	Reading bool
}

// A CaseCount is how many lines are on the list, a group being one.
type CaseCount struct {
	Needs, Settling int
	NeedsCases      int // with the members of groups
	SettlingCases   int
	Oldest          time.Time // of those that need people
}

// A KindCount is how many exceptions of a kind and connection a query finds.
type KindCount struct {
	Kind       ExceptionKind
	Connection string
	N          int
}

// A Colleague is somebody whom a case can be given to.
type Colleague struct {
	ID   int64
	Name string
	Role Role
	Lead bool
}

// A CaseNote is what somebody wrote beside a case.
type CaseNote struct {
	By   string
	Name string
	At   time.Time
	Body string
}

// A Sighting is what a sweep saw of an object that our record doesn't say.
type Sighting struct {
	Object  int64
	Seen    *Observation
	Changed time.Time // the platform's own time of the change, zero where it has none
	First   time.Time
	Last    time.Time
	Count   int64
}

// An Acceptance is a difference that people accepted.
type Acceptance struct {
	At    time.Time
	Until time.Time
	Ended time.Time
}

// An ExceptionFile is an exception with everything its page shows.
type ExceptionFile struct {
	Exception
	File     *OrderFile // of its order; nil: none is known
	Object   *Object    // that it is about; nil: none
	API      APIState   // of its connection
	APISince time.Time
	Found    *Sighting
	Notes    []CaseNote // newest first
	Asked    []Request  // newest first
	Accepted *Acceptance
	Members  int // of its group, that are open
	Deep     string
}

// technical are the kinds that are about the connection rather than about an order:
// administrators work on them.
var technical = []ExceptionKind{UnknownStatus, SchemaChanged, PayloadConflict, EventFailedKind, SubscriptionMissing, SignatureFailures, Silence,
	OutsideWindowKind, AccessEnding, DrillFailed}

// Technical tells whether an exception is for administrators too.
func (x Exception) Technical() bool {
	return slices.Contains(technical, x.Kind) || x.Kind == Overdue && x.Case == CaseOverdueEvent
}

// Acceptable tells whether an exception is a difference that can stay: both sides are
// known, and nothing that people have to mend first.
func (x Exception) Acceptable() bool {
	switch x.Kind {
	case StateDiffers, AmountDiffers, PlatformsDisagree, MoveRefused, MissedNotification, Contradiction, PaidTwice, ShippedTwice, ActionDiffers, GoneOnPlatform, Unmatched, Overdue:
		return true
	}
	return false
}

// Mendable tells whether reading the platform again can settle it.
func (x Exception) Mendable() bool {
	switch x.Kind {
	case MissedNotification, StateDiffers, AmountDiffers, PlatformsDisagree, MoveRefused, GoneOnPlatform, Unmatched, Contradiction, PaidTwice, ShippedTwice, ActionDiffers:
		return x.OrderID != 0 || x.ObjectID != 0 || x.Ref != "" && x.Connection != ""
	case Overdue, UnknownStatus:
		return x.OrderID != 0
	}
	return false
}

// Untold tells whether the customer still has to be told of it.
func (x Exception) Untold() bool { return x.Tell && x.Told.IsZero() }

// MoneyHold tells whether it pauses its order because of the payment.
func (x Exception) MoneyHold() bool { return x.Policy == PolicyHold && x.Axis == Payment }

// works is why an actor may not work on an exception at all; empty: they may.
func (a Actor) works(x Exception) string {
	switch {
	case !a.May(ExceptionsWork):
		return "error.may_not_work_cases"
	case a.Role == Admin && !x.Technical():
		return "error.case_not_technical"
	}
	return ""
}

// MayTake tells whether the actor may take an exception, and if not why, as a
// catalogue key.
func (a Actor) MayTake(x Exception) (ok bool, why string) {
	if a.StaffID == 0 {
		return false, "error.case_people"
	}
	why = a.works(x)
	return why == "", why
}

// MayAssign tells whether the actor may give an exception to somebody else.
func (a Actor) MayAssign(x Exception) (ok bool, why string) {
	switch why = a.works(x); {
	case why != "":
	case !a.Decides():
		why = "error.case_assign"
	}
	return why == "", why
}

// MayGiveBack tells whether the actor may make an exception nobody's again.
func (a Actor) MayGiveBack(x Exception) (ok bool, why string) {
	if a.StaffID != 0 && a.StaffID == x.Owner && a.May(ExceptionsWork) {
		return true, ""
	}
	return a.MayAssign(x)
}

// MayTell tells whether the actor may tick off that the customer was told.
func (a Actor) MayTell() (ok bool, why string) {
	if !a.May(ExceptionsWork) || a.Role == Admin {
		return false, "error.case_tell"
	}
	return true, ""
}

// MaySolve tells whether the actor may close an exception as solved.
func (a Actor) MaySolve(x Exception) (ok bool, why string) {
	switch why = a.works(x); {
	case why != "":
	case a.Role == Support && !a.Lead && x.Policy == PolicyHold:
		why = "error.case_hold_lead"
	}
	return why == "", why
}

// MayDismiss tells whether the actor may dismiss an exception.
func (a Actor) MayDismiss(x Exception) (ok bool, why string) {
	switch why = a.works(x); {
	case why != "" || a.Role != Support:
	case x.Policy == PolicyHold:
		why = "error.case_dismiss_hold"
	case !a.Lead && x.Policy != PolicyWait:
		why = "error.case_dismiss_wait"
	}
	return why == "", why
}

// MayAccept tells whether the actor may ask for a difference to be accepted. Of
// administrators only services that they made may, and these act for nobody.
func (a Actor) MayAccept() (ok bool, why string) {
	if !a.May(ExceptionsAccept) || a.Role == Admin || a.Role == Service && a.StaffID != 0 {
		return false, "error.may_not_accept"
	}
	return true, ""
}

// Together tells whether dismissing an exception takes a second manager.
func (a Actor) Together(x Exception) bool { return a.Role == Manager && x.MoneyHold() }

// ResyncMany is how many exceptions the actor may have read again at once.
func (a Actor) ResyncMany() int {
	switch {
	case !a.May(OrdersResync) || a.Role == Service:
		return 0
	case a.Role == Support && a.Lead:
		return 500
	case a.Role == Support:
		return 50
	}
	return 5000 // what the budget of calls allows is read first, the rest later
}

// AcceptedFor is how long an accepted difference stays away while neither side moves.
const AcceptedFor = 30 * 24 * time.Hour

// How a request about an exception wants it closed.
const (
	HowAccepted  = "accepted"
	HowDismissed = "dismissed"
	HowSolved    = "solved"
)

// AcceptTerms are what a request about an exception asks for, as they are kept.
type AcceptTerms struct {
	How string `json:"how"` // accepted, or dismissed
}

// PolicyTerms are what a request about a policy asks for, as they are kept.
type PolicyTerms struct {
	Rule   string `json:"rule"`
	Policy Policy `json:"policy"`
	Tell   bool   `json:"tell"`
}

// Sides is a digest of what both sides said when an exception was seen last: whoever
// accepted it accepted that.
func (x Exception) Sides() string {
	platform, local := x.PlatformDigest, x.LocalDigest
	if platform == nil || local == nil {
		platform, local = Problem{PlatformState: x.PlatformState, LocalState: x.LocalState, Detail: x.Detail}.Digests()
	}
	return hex.EncodeToString(platform) + " " + hex.EncodeToString(local)
}

// A CasePolicy is a row of the policies as it holds in a shop.
type CasePolicy struct {
	CaseRule         // as the product ships it
	Now       Policy // in force
	NowTell   bool
	ChangedBy string // name of whoever decided otherwise, empty: nobody did
	Changed   time.Time
	Asked     *Request // to loosen it; what waits for another manager
	Wanted    PolicyTerms
}

// Seen is a short name of the policy in force, for forms that are sent later.
func (p CasePolicy) Seen() string {
	if p.NowTell {
		return string(p.Now) + "+tell"
	}
	return string(p.Now)
}

// Loosens tells whether a change takes away that a kind of case pauses shipping.
func (p CasePolicy) Loosens(to Policy) bool { return p.Now == PolicyHold && to != PolicyHold }

// Policies lists what can happen while an exception is open; the schema has the same
// list.
var Policies = []Policy{PolicyHold, PolicyWait, PolicyAsk}

// Differs tells whether the shop decided otherwise than the product.
func (p CasePolicy) Differs() bool { return p.Now != p.Policy || p.NowTell != p.Tell }

// SeesCase tells whether the actor may see an exception. One that belongs to no shop is
// for whoever sees every shop.
func (a Actor) SeesCase(x Exception) bool {
	return len(a.Shops) == 0 || x.ShopID != 0 && a.Sees(x.ShopID)
}
