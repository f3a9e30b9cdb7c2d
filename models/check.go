package models

import "time"

// A StepState says how one step of a check went.
type StepState string

const (
	StepFine    StepState = "fine"
	StepWrong   StepState = "wrong"
	StepUnknown StepState = "unknown" // it couldn't be tried, or proves nothing
)

// A CheckStep is one step of a check of a connection, in words.
type CheckStep struct {
	State StepState `json:"state"`
	Key   string    `json:"key"` // catalogue key of its sentence
	Args  []string  `json:"args,omitempty"`
	Do    string    `json:"do,omitempty"` // catalogue key of what to do
}

// A ConnectionCheck is one check of a connection.
type ConnectionCheck struct {
	ID      int64
	By      string // who asked; console: it began by itself
	Version string // another API version that was tried
	Started time.Time
	Ended   time.Time // zero: it runs
	Wrong   int
	Steps   []CheckStep
}

// A Canary is a known test object of a connection.
type Canary struct {
	ID         int64
	Connection int64
	Ref        ObjectRef
	Shape      Shape
	Shaped     time.Time // when the shape was kept; zero: not yet
	Added      time.Time
	By         string
	Awaiting   time.Time // since when its notification should come; zero: nobody waits
	After      int64     // the newest event then
	Came       time.Time // when it came
	CameEvent  int64
	CameTopic  string
}

// A CheckFile is everything that the page of a connection's check shows.
type CheckFile struct {
	Checks   []ConnectionCheck // the newest first
	Canaries []Canary
	// Versions: another API version can be tried.
	Versions bool
}

// UsuallyBusy tells whether an hour of the week usually isn't silent, by how many
// notifications came in it in each of the past weeks. Two weeks have to be known, and
// in three of four something came.
func UsuallyBusy(weeks []int64) bool {
	busy := 0
	for _, n := range weeks {
		if n > 0 {
			busy++
		}
	}
	return len(weeks) >= 2 && busy*4 >= len(weeks)*3
}
