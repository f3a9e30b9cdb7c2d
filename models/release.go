package models

import (
	"slices"
	"strings"
	"time"
)

// Stages of what comes on top of what an order needs once; a number follows.
const (
	StageMore        = "more:"        // goods that no instruction covers
	StageReplacement = "replacement:" // a wanted second shipment
	StageAgain       = "again:"       // a message once more
)

// restsAfter is how long an action waits before it isn't carried by itself any more.
const restsAfter = 14 * 24 * time.Hour

// Expires is when the action stops being carried by itself and waits for a release;
// zero where that can't happen to it.
func (a Action) Expires() time.Time {
	if a.Planned.IsZero() || !a.State.Open() && a.State != ActionManual {
		return time.Time{}
	}
	from := a.Planned
	for _, t := range []time.Time{a.NotBefore, a.Released} {
		if t.After(from) {
			from = t
		}
	}
	// One person may have a message tried again; what can't be taken back needs two.
	if !a.Kind.HighRisk() && a.Retried.After(from) {
		from = a.Retried
	}
	return from.Add(restsAfter)
}

// ByPeople are the conditions that wait for people's decision: a release meets them.
// The others are facts, which nobody can release.
var ByPeople = []string{"no_exception", "not_refunded_partly", "released", "not_expired", "not_before"}

// decided tells whether a release still holds: people knew everything that the ledger
// and the exceptions of the order say now. That the action's own tries failed, or
// another's, says nothing of the order.
func (g Gate) decided(a Action) bool {
	if a.Released.IsZero() || g.LastEntry > a.ReleasedEntry {
		return false
	}
	return !slices.ContainsFunc(g.Cases, func(x Exception) bool {
		return x.Kind != ActionFailedKind && (x.ID > a.ReleasedCase || x.First.After(a.Released))
	})
}

// ReportedFailed is the error of an action of which somebody who knows said that it
// didn't happen.
const ReportedFailed = "note.reported_failed"

// Unreleasable says why an action can't be released, as a catalogue key; empty where it
// can. Where only facts are missing it names their conditions.
func (g Gate) Unreleasable(a Action) (why string, facts []string) {
	axis, ended := g.Order.Withdraws()
	switch {
	case a.State == ActionWithdrawn && a.Told:
		return "error.action_was_sent", nil
	case a.State == ActionWithdrawn && ended, a.State == ActionFailed && a.Kind.HighRisk() && ended:
		return "error.still_ended." + string(axis), nil
	case a.State == ActionWithdrawn, a.State == ActionFailed && a.Kind.HighRisk() && a.Error == ReportedFailed:
		return "", nil
	case a.State == ActionFailed:
		return "error.retry_instead", nil
	case !a.here():
		return "error.action_not_waiting", nil
	}
	for _, c := range g.Conditions(a) {
		switch {
		case c.Met:
		case slices.Contains(ByPeople, c.Key):
			return "", nil
		default:
			facts = append(facts, c.Key)
		}
	}
	if len(facts) > 0 {
		return "error.only_facts", facts
	}
	return "error.nothing_to_release", nil
}

// here tells whether the action waits in this console: unsent, or between two tries
// with something in its way.
func (a Action) here() bool {
	switch a.State {
	case ActionPlanned, ActionWaiting, ActionManual:
		return true
	case ActionSending:
		return a.Why != ""
	}
	return false
}

// Left tells whether an instruction has left this console, or rests so that others
// acted on it: it doesn't cover goods that come later.
func (a Action) Left() bool {
	switch a.State {
	case ActionSending, ActionDone, ActionUnclear, ActionWatched:
		return true
	case ActionPlanned, ActionWaiting, ActionFailed:
		return a.Told
	case ActionNotNeeded:
		return a.Why == string(ShippedAlready) || a.Why == string(ImportedQuietly)
	}
	return false
}

// stillGoes tells whether an instruction goes out yet, by itself or when people have it
// tried again, and then is about everything that its bytes say.
func (a Action) stillGoes() bool {
	return a.State == ActionPlanned || a.State == ActionWaiting || a.State == ActionFailed && !a.Doubt
}

// Uncovered counts the goods that come on top of what the order's instructions cover,
// by one step of the order: what an edit added, or a parcel that was called back. It is
// negative where an edit took goods out again.
func Uncovered(before, after Order, instructions []Action) int {
	whole := slices.IndexFunc(instructions, func(a Action) bool { return a.Stage == WholeOrder })
	first := before.Announced || len(before.Axes) == 0 || before.Items.Ordered == 0
	if first || whole < 0 || !instructions[whole].Left() || after.Test || after.Platform == ReceiptRoller || strings.EqualFold(after.Channel, "pos") ||
		after.State(Cancellation) == CancellationCancelled {
		return 0
	}
	was, is := before.Items, after.Items
	more := max(0, is.Ordered-was.Ordered)
	if !instructions[whole].stillGoes() {
		more += max(0, was.Shipped-is.Shipped) // their parcel was called back
	}
	if more > 0 {
		return more
	}
	// What came back is taken out of the order too, and nobody says which goods those are.
	// Only where none can have come back they are goods that nobody got yet; else whoever
	// releases sees both.
	if after.Refunded > before.Refunded || is.Shipped > 0 || was.Shipped > 0 || is.CameBack > 0 || is.Returning > 0 {
		return 0
	}
	return -(max(0, was.Ordered-is.Ordered) + max(0, is.Removed-was.Removed))
}

// MayRetry tells whether the actor may have an action tried again whose tries are used
// up: a shift lead or a manager.
func (a Actor) MayRetry() bool {
	return a.May(ActionsRetry)
}
