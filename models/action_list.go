package models

import "slices"

// An ActionTab is a part of the list of actions, by what somebody can do about them.
type ActionTab string

const (
	TabNeeds     ActionTab = "needs"   // a person moves it on
	TabWaiting   ActionTab = "waiting" // its conditions aren't met, whoever moves it on
	TabMoving    ActionTab = "moving"  // the console has it in its hands
	TabWatched   ActionTab = "watched"
	TabDone      ActionTab = "done"
	TabWithdrawn ActionTab = "withdrawn"
	TabNotNeeded ActionTab = "not_needed"
	TabAll       ActionTab = "all"
)

// ActionTabs lists all parts. All but the first and the last show every action of
// their states, so that what waits for a person stands in two of them.
var ActionTabs = []ActionTab{TabNeeds, TabWaiting, TabMoving, TabWatched, TabDone, TabWithdrawn, TabNotNeeded, TabAll}

// An ActionListQuery filters the page of actions. Empty fields don't filter.
type ActionListQuery struct {
	Shops  []int64 // those the person may see; empty: all
	Tab    ActionTab
	State  ActionState // instead of a tab
	Kind   ActionKind
	Shop   string // slug
	Order  int64
	Cursor string
	Limit  int
}

// An ActionRow is one line of the page of actions.
type ActionRow struct {
	Action
	ShopName string
	Currency string // of its order
}

// ForPerson tells whether the action waits for a person's release, whatever else it
// waits for.
func (a Action) ForPerson() bool {
	return a.State == ActionWaiting && (a.Why != "not_before" && slices.Contains(ByPeople, a.Why) || a.Person && a.Released.IsZero())
}

// An ActionFile is an action with everything its page shows beside its order.
type ActionFile struct {
	ActionRow
	Destination Destination
	// URL and Idempotent are of the destination that it was sent to.
	URL        string
	Idempotent bool
	// PlannedBy and WithdrawnBy are the ledger entries that did so.
	PlannedBy, WithdrawnBy *Entry
	InsteadBy              *Action // took its place when two orders became one
	RepeatOf               *Action // what it does once more
	RepeatedBy             []Action
}

// An ActionCount is how many actions a tab has; More: at least that many.
type ActionCount struct {
	N    int
	More bool
}
