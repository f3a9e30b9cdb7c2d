package models

import "time"

// A SweepReason says why a sweep runs.
type SweepReason string

const (
	SweepPeriodic SweepReason = "periodic"
	SweepAsked    SweepReason = "asked"    // by a person, a command, a program
	SweepImport   SweepReason = "import"   // the first one: quiet, plans nothing, misses nothing
	SweepOutage   SweepReason = "outage"   // the platform couldn't be asked
	SweepOff      SweepReason = "off"      // the console itself was off
	SweepRefusals SweepReason = "refusals" // genuine notifications may have been refused
	SweepGap      SweepReason = "gap"      // an hour of the calendar that wasn't compared
)

// SweepReasons lists all reasons; the schema has the same list.
var SweepReasons = []SweepReason{SweepPeriodic, SweepAsked, SweepImport, SweepOutage, SweepOff, SweepRefusals, SweepGap}

// A SweepState says how a sweep goes.
type SweepState string

const (
	SweepRunning SweepState = "running"
	SweepDone    SweepState = "done"    // finished, with or without differences
	SweepStopped SweepState = "stopped" // by a person
	SweepFailed  SweepState = "failed"  // our own tries are used up
)

// SweepStates lists all states; the schema has the same list.
var SweepStates = []SweepState{SweepRunning, SweepDone, SweepStopped, SweepFailed}

// A Sweep is one comparison of a connection over what changed in a span of time, for
// one kind of object.
type Sweep struct {
	ID         int64
	Connection int64
	Kind       string
	Reason     SweepReason
	By         string    // who asked; console: nobody did
	Since      time.Time // zero: from the beginning
	Until      time.Time
	Pages      int
	Seen       int64
	Missed     int64
	Different  int64
	Failed     int64     // objects that couldn't be read or compared
	Expected   int64     // objects in all, 0 where the platform doesn't say
	Reached    time.Time // the platform's time of the last object compared
	State      SweepState
	Error      string // why it waits or failed
	Started    time.Time
	Updated    time.Time
	Ended      time.Time
}

// SweepKinds are the kinds of objects, over all platforms, that runs are about. unread is
// what no list tells of: it isn't at rest, and nothing confirmed it for long.
var SweepKinds = []string{"order", "return", "unread", "event", "payment_intent", "charge", "refund", "dispute", "checkout_session", "receipt"}

// A SweepPoint is up to when one kind of a connection's objects is compared without a gap.
type SweepPoint struct {
	Kind  string
	At    time.Time
	Swept time.Time // when the run ended that brought it here
	Next  time.Time // when the next one begins by itself
}

// A SweepFile is how a connection is compared, with everything its page shows.
type SweepFile struct {
	Slug     string
	Platform Platform
	HasAPI   bool
	Every    time.Duration // 0: never by itself
	Imported bool          // the quiet import is over
	Points   []SweepPoint
	Sweeps   []Sweep // the newest first
	Off      []OffTime
}

// Compared tells whether everything of the connection has been compared up to a time.
func (f SweepFile) Compared(until time.Time) bool {
	for _, p := range f.Points {
		if p.At.Before(until) {
			return false
		}
	}
	return len(f.Points) > 0
}
