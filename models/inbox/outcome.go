package inbox

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"counterfoil/models"
	"counterfoil/models/connect"
	"counterfoil/models/ledger"
	"counterfoil/models/platform"
	"counterfoil/models/store"
)

// rereadAfter is when a platform is asked again whose answer was older than the event.
var rereadAfter = []time.Duration{2 * time.Second, 10 * time.Second, 40 * time.Second}

// copied keeps a transaction that runs twice from seeing what its first run changed.
func copied(o *models.Observation) *models.Observation {
	if o == nil {
		return nil
	}
	c := *o
	return &c
}

func ids(events []store.DueEvent) []int64 {
	out := make([]int64, len(events))
	for i, e := range events {
		out[i] = e.ID
	}
	return out
}

func has(problems []models.Problem, kind models.ExceptionKind) bool {
	return slices.ContainsFunc(problems, func(p models.Problem) bool { return p.Kind == kind })
}

// marks says what became of each event that a reading served.
func (in *Inbox) marks(c store.Claim, seen *models.Observation, out ledger.Outcome, now time.Time) []store.Mark {
	caused := map[int64]bool{}
	var cause, entry int64
	for _, e := range out.Entries {
		caused[e.Event] = true
		if cause == 0 {
			cause, entry = e.Event, e.ID
		}
	}
	review := int64(0)
	if has(out.Problems, models.MoveRefused) && !out.Moved {
		if e := ledger.Pick(c.Events, ""); e != nil {
			review = e.ID
		}
	}
	marks := make([]store.Mark, 0, len(c.Events))
	for _, e := range c.Events {
		m := store.Mark{ID: e.ID, Key: e.Key, OrderID: out.OrderID, State: models.EventSuperseded, CausedBy: cause, EntryID: entry}
		switch {
		case seen != nil && seen.Absence != models.Present:
			in.markAbsent(&m, c, e, *seen, out, now)
		case out.Foreign != "":
			m.State, m.Error = models.EventNotApplied, "note.other_system"
		case out.Unmatched && seen == nil && e.Said == nil:
			m.State, m.Error = models.EventNotApplied, "note.states_nothing"
		case out.Unmatched:
			m.State, m.After, m.Reread, m.Error = models.EventUnmatched, lookAgain(e, seen, now), true, "note.no_order"
		case caused[e.ID]:
			m.State, m.CausedBy = models.EventApplied, 0
		case e.ID == review:
			m.State, m.Error = models.EventReview, "note.refused"
		case !out.Moved:
			m.CausedBy, m.EntryID = out.LastEvent, out.LastEntry
			if has(out.Problems, models.UnknownStatus) {
				m.Error = "note.unknown_word"
			}
			if seen == nil && e.Said == nil {
				m.State, m.Error = models.EventNotApplied, "note.states_nothing"
			}
		}
		if late(e, seen) && !m.State.Open() {
			if e.Rereads < len(rereadAfter) {
				m.State, m.After, m.Reread, m.Error = models.EventWaiting, rereadAfter[e.Rereads], true, "note.older_than_event"
			} else {
				m.Error = "note.stayed_older"
			}
		}
		marks = append(marks, m)
	}
	return marks
}

// late tells whether a reading shows a state from before the event.
func late(e store.DueEvent, seen *models.Observation) bool {
	if seen == nil || seen.Absence != models.Present {
		return false
	}
	if e.Version != 0 && seen.Version != 0 {
		return seen.Version < e.Version
	}
	return e.Floor != nil && !seen.Changed.IsZero() && seen.Changed.Before(*e.Floor)
}

// markAbsent judges an event whose object the platform doesn't show although it answers.
func (in *Inbox) markAbsent(m *store.Mark, c store.Claim, e store.DueEvent, seen models.Observation, out ledger.Outcome, now time.Time) {
	m.CausedBy, m.EntryID = 0, 0
	switch {
	case seen.Absence == models.AdminTest, e.Test && out.OrderID == 0:
		m.State, m.Error = models.EventNotApplied, "note.test"
	case seen.Absence == models.OutsideWindow:
		m.State, m.Error = models.EventReview, "note.outside_window"
	case seen.Absence == models.Unreadable:
		m.State, m.Reread, m.After, m.Error = models.EventWaiting, true, backoff(e.Rereads, time.Minute), "note.unreadable"
	case ledger.Deleted(c.Events):
		m.State, m.Error = models.EventSuperseded, "note.gone"
	case !out.Missing.IsZero() && now.Sub(out.Missing) >= ledger.GoneAfter:
		m.State, m.Error = models.EventReview, "note.gone"
	default:
		m.State, m.Reread, m.After, m.Error = models.EventWaiting, true, backoff(e.Rereads, time.Minute), "note.not_found_yet"
	}
}

// backoff doubles from a second, with a little noise so that not all come at once.
func backoff(tries int, longest time.Duration) time.Duration {
	d := min(time.Second<<min(tries, 10), longest)
	return d + time.Duration(rand.Int64N(int64(d/4)+1))
}

// postpone lets events wait for a platform that can't be asked: no tries are used up,
// known orders are in doubt, unknown ones are announced, nothing is guessed.
func (in *Inbox) postpone(ctx context.Context, conn *connect.Conn, claims []store.Claim, out *platform.Outage, next time.Duration) error {
	conn = in.current(conn)
	doubt := models.APIDown
	if out.Throttled {
		doubt = models.Throttled
	}
	for _, c := range claims {
		err := in.store.Tx(ctx, func(tx *store.Tx) error {
			r := ledger.Reading{Conn: conn, Asked: c.Ref, Events: c.Events, Hint: !conn.CallsRunOut(), Doubt: doubt, Actor: ledger.Console,
				Cause: models.Cause{Kind: models.CauseResync, ID: ledger.Console}}
			res, err := in.ledger.Apply(ctx, tx, r)
			if err != nil {
				return err
			}
			after := max(next, secondLine)
			if res.Answering && conn.Adapter != nil {
				after = time.Second // nobody will call these events again
			}
			marks := make([]store.Mark, len(c.Events))
			for i, e := range c.Events {
				marks[i] = store.Mark{ID: e.ID, Key: e.Key, State: models.EventWaiting, OrderID: res.OrderID, Error: out.Detail, After: after}
			}
			if c.Reread != nil {
				if err := tx.RereadLater(ctx, c.ObjectID, after); err != nil {
					return err
				}
			}
			_, err = tx.MarkEvents(ctx, marks)
			return err
		})
		if err != nil {
			if err := in.own(ctx, conn, c, err); err != nil {
				return err
			}
		}
	}
	return nil
}

// own records a failure of ours: tried again a few times, then a person's.
func (in *Inbox) own(ctx context.Context, conn *connect.Conn, c store.Claim, cause error) error {
	if store.Down(cause) || ctx.Err() != nil {
		return cause
	}
	if models.CodeOf(cause) != models.Conflict {
		in.log.Error("event not processed", "object", c.Ref.Kind, "events", len(c.Events), "error", cause)
	}
	return in.store.Tx(ctx, func(tx *store.Tx) error {
		var marks []store.Mark
		for _, e := range c.Events {
			m := store.Mark{ID: e.ID, Key: e.Key, State: models.EventReceived, Try: true, After: backoff(e.Tries, time.Minute), Error: "note.failed"}
			if e.Tries+1 >= models.MaxTries {
				m.State = models.EventFailed
			}
			// What nobody can know of an order with money or goods is people's at once.
			loud := false
			if c.OrderID != 0 && models.CodeOf(cause) != models.Conflict {
				var err error
				if loud, err = tx.HighImpact(ctx, c.OrderID); err != nil {
					return err
				}
			}
			if m.State == models.EventFailed || loud {
				p := models.Problem{Kind: models.EventFailedKind, Detail: e.Topic}
				if err := tx.OpenCase(ctx, store.Case{ConnectionID: conn.ID, Subject: eventSubject(e.ID), Problem: p, OrderID: c.OrderID, Ref: c.Ref.ID, Loud: loud}); err != nil {
					return err
				}
			}
			marks = append(marks, m)
		}
		_, err := tx.MarkEvents(ctx, marks)
		return err
	})
}
