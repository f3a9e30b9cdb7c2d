package inbox

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"counterfoil/models"
	"counterfoil/models/connect"
	"counterfoil/models/ledger"
	"counterfoil/models/platform"
	"counterfoil/models/store"
)

const (
	lease      = 30 * time.Second
	fetchTime  = 18 * time.Second // inside the lease, with room to apply
	ownClaim   = 50               // objects that need no call, claimed together
	secondLine = 10 * time.Minute // when what waits for a signal looks by itself
	runners    = 3                // of one connection in one process
)

// rereadAfter is when a platform is asked again whose answer was older than the event.
var rereadAfter = []time.Duration{2 * time.Second, 10 * time.Second, 40 * time.Second}

// runs bounds how many workers of this process look at one connection. Whoever comes
// when all are busy leaves a mark, and the last one looks again.
type runs struct {
	mu   *sync.Mutex
	busy map[int64]int
	more map[int64]bool
}

func newRuns() runs {
	return runs{mu: &sync.Mutex{}, busy: map[int64]int{}, more: map[int64]bool{}}
}

func (r runs) enter(id int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.busy[id] >= runners {
		r.more[id] = true
		return false
	}
	r.busy[id]++
	return true
}

// leave tells whether somebody came meanwhile, so that one more look is due.
func (r runs) leave(id int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.more[id] {
		delete(r.more, id)
		return false
	}
	r.busy[id]--
	return true
}

// Process works on the due events of a connection until nothing is due. It may be
// called any number of times at once.
func (in *Inbox) Process(ctx context.Context, connection int64) error {
	if !in.runs.enter(connection) {
		return nil
	}
	for {
		err := in.processAll(ctx, connection)
		if in.runs.leave(connection) {
			return err
		}
		if err != nil || ctx.Err() != nil {
			in.runs.leave(connection)
			return err
		}
	}
}

func (in *Inbox) processAll(ctx context.Context, connection int64) error {
	conn := in.book.ID(connection)
	if conn == nil {
		if err := in.book.LookSoon(ctx); err != nil {
			return err
		}
		if conn = in.book.ID(connection); conn == nil {
			return models.Fail(models.NotFound, "error.connection_unknown")
		}
	}
	for ctx.Err() == nil {
		limit := ownClaim
		if conn.Adapter != nil && conn.Adapter.HasAPI() {
			limit = conn.Adapter.Together()
		}
		var claims []store.Claim
		err := in.store.Tx(ctx, func(tx *store.Tx) error {
			var err error
			claims, err = tx.ClaimDue(ctx, connection, limit, lease)
			return err
		})
		if err != nil {
			return err
		}
		if len(claims) == 0 {
			return nil
		}
		for len(claims) > 0 {
			conn = in.current(conn)
			if err := in.serve(ctx, conn, claims); err != nil {
				return err
			}
			if claims, err = in.again(ctx, conn, claims); err != nil {
				return err
			}
		}
	}
	return ctx.Err()
}

// current is the connection as it stands now.
func (in *Inbox) current(c *connect.Conn) *connect.Conn {
	if now := in.book.ID(c.ID); now != nil {
		return now
	}
	return c
}

// again gives objects back, or takes those on whose events came meanwhile.
func (in *Inbox) again(ctx context.Context, conn *connect.Conn, claims []store.Claim) ([]store.Claim, error) {
	var next []store.Claim
	for _, c := range claims {
		var more store.Claim
		var held bool
		err := in.store.Tx(ctx, func(tx *store.Tx) error {
			var err error
			more, held, err = tx.Again(ctx, conn.ID, c, lease)
			return err
		})
		if err != nil {
			return nil, err
		}
		if held {
			next = append(next, more)
		}
	}
	return next, nil
}

// serve asks the platform about the claimed objects, outside any transaction, and
// applies what it says, one transaction for each object.
func (in *Inbox) serve(ctx context.Context, conn *connect.Conn, claims []store.Claim) error {
	var ask []store.Claim
	for _, c := range claims {
		done, err := in.withoutAsking(ctx, conn, c)
		if err != nil {
			if err := in.own(ctx, conn, c, err); err != nil {
				return err
			}
			continue
		}
		if !done {
			ask = append(ask, c)
		}
	}
	if len(ask) == 0 {
		return nil
	}
	if conn.Adapter == nil {
		return in.postpone(ctx, conn, ask, &platform.Outage{Detail: "the connection can't be used"}, secondLine)
	}
	if out, paused := conn.Paused(in.store.Now()); paused {
		return in.postpone(ctx, conn, ask, out, out.After)
	}
	refs := make([]models.ObjectRef, len(ask))
	for i, c := range ask {
		refs[i] = c.Ref
	}
	began := in.store.Now()
	fetch, cancel := context.WithTimeout(ctx, fetchTime)
	seen, err := conn.Adapter.Fetch(fetch, refs)
	cancel()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if out, ok := errors.AsType[*platform.Outage](err); ok {
		next, _, err := in.book.Failed(ctx, conn, out)
		if err != nil {
			return err
		}
		return in.postpone(ctx, conn, ask, out, next)
	}
	if err != nil {
		for _, c := range ask {
			if err := in.own(ctx, conn, c, err); err != nil {
				return err
			}
		}
		return nil
	}
	if err := in.book.Answered(ctx, conn); err != nil {
		return err
	}
	for _, c := range ask {
		o, ok := seen[c.Ref]
		if !ok {
			o = models.Observation{Ref: c.Ref, Absence: models.Gone}
		}
		o.Basis, o.Read = models.Official, began
		if err := in.apply(ctx, conn, c, &o); err != nil {
			if err := in.own(ctx, conn, c, err); err != nil {
				return err
			}
		}
	}
	return nil
}

// withoutAsking settles what needs no call: notifications that name nothing, copies
// under another id, connections without API access, events that only wait for an order.
func (in *Inbox) withoutAsking(ctx context.Context, conn *connect.Conn, c store.Claim) (bool, error) {
	api := conn.Adapter != nil && conn.Adapter.HasAPI()
	switch {
	case c.Ref.Zero():
		return true, in.nameless(ctx, conn, c, api)
	case !api:
		return true, in.apply(ctx, conn, c, nil)
	case c.Reread:
		return false, nil
	}
	if waits, err := in.onlyOrder(ctx, conn, c); err != nil || waits != nil {
		if err != nil {
			return false, err
		}
		return true, in.apply(ctx, conn, c, waits)
	}
	return in.copies(ctx, conn, c)
}

// onlyOrder is the kept reading of an object all of whose due events wait for nothing
// but an order; nil otherwise.
func (in *Inbox) onlyOrder(ctx context.Context, conn *connect.Conn, c store.Claim) (*models.Observation, error) {
	for _, e := range c.Events {
		if e.State != models.EventUnmatched {
			return nil, nil
		}
	}
	if len(c.Events) == 0 {
		return nil, nil
	}
	var kept *models.Observation
	err := in.store.Tx(ctx, func(tx *store.Tx) error {
		o, err := tx.FindObject(ctx, conn.ID, c.Ref)
		kept = o.Official
		return err
	})
	return kept, err
}

// copies settles the events that say word for word what an event said which a later
// reading has served. The call is saved, never the event.
func (in *Inbox) copies(ctx context.Context, conn *connect.Conn, c store.Claim) (bool, error) {
	var marks []store.Mark
	for _, e := range c.Events {
		if e.State != models.EventReceived {
			return false, nil
		}
		twin, err := in.store.SameContent(ctx, conn.ID, e)
		if err != nil || twin == 0 {
			return false, err
		}
		marks = append(marks, store.Mark{ID: e.ID, Key: e.Key, State: models.EventSuperseded, CausedBy: twin, OrderID: c.OrderID, Error: "note.same_content"})
	}
	if len(marks) == 0 {
		return false, nil
	}
	return true, in.store.Tx(ctx, func(tx *store.Tx) error { return tx.MarkEvents(ctx, marks) })
}

// nameless settles notifications that name no object that can be fetched.
func (in *Inbox) nameless(ctx context.Context, conn *connect.Conn, c store.Claim, api bool) error {
	for _, e := range c.Events {
		if e.Said != nil && !e.Said.Ref.Zero() && !api {
			one := c
			one.Ref, one.Events = e.Said.Ref, []store.DueEvent{e}
			if err := in.apply(ctx, conn, one, nil); err != nil {
				return err
			}
			continue
		}
		mark := store.Mark{ID: e.ID, Key: e.Key, State: models.EventNotApplied}
		if e.Said != nil && !e.Said.Ref.Zero() {
			// It is about an order but lacks the keys by which the platform could be asked.
			mark.State, mark.Error = models.EventReview, "note.no_reference"
		}
		err := in.store.Tx(ctx, func(tx *store.Tx) error {
			if mark.State == models.EventNotApplied {
				if err := tx.CountTopic(ctx, conn.ID, e.Topic, e.Known, 1); err != nil {
					return err
				}
			}
			return tx.MarkEvents(ctx, []store.Mark{mark})
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// apply brings the order of a claimed object to what was seen (nil: only what
// payloads say), and marks the events that this served.
func (in *Inbox) apply(ctx context.Context, conn *connect.Conn, c store.Claim, seen *models.Observation) error {
	if err := in.ledger.Prepare(ctx, in.store, conn, c.Ref, seen); err != nil {
		return err
	}
	return in.store.Tx(ctx, func(tx *store.Tx) error {
		no := c.No
		if seen == nil {
			no = 0
		}
		reading := ledger.Reading{Conn: conn, Asked: c.Ref, No: no, Seen: copied(seen), Events: c.Events, Actor: ledger.Console,
			Cause: models.Cause{Kind: models.CauseResync, ID: ledger.Console}}
		out, err := in.ledger.Apply(ctx, tx, reading)
		if err != nil || out.Overtaken {
			return err
		}
		if err := tx.MarkEvents(ctx, in.marks(c, seen, out, tx.Now)); err != nil {
			return err
		}
		if !out.Unmatched && len(c.Events) > 0 {
			if err := tx.Unwant(ctx, ids(c.Events)); err != nil {
				return err
			}
		}
		if out.Unmatched && seen != nil {
			return tx.Want(ctx, conn.ShopID, ledger.Wants(seen, c.Ref), ids(c.Events))
		}
		if out.OrderID != 0 && seen != nil && !refused(out.Problems) {
			return tx.SettleReviews(ctx, conn.ID, out.OrderID)
		}
		return nil
	})
}

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

func refused(problems []models.Problem) bool {
	return has(problems, models.MoveRefused) || has(problems, models.UnknownStatus)
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
	if refused(out.Problems) && !out.Moved {
		if e := ledger.Pick(c.Events, ""); e != nil {
			review = e.ID
		}
	}
	marks := make([]store.Mark, 0, len(c.Events))
	for _, e := range c.Events {
		m := store.Mark{ID: e.ID, Key: e.Key, OrderID: out.OrderID, State: models.EventSuperseded, CausedBy: cause, EntryID: entry}
		switch {
		case seen != nil && seen.Absence != models.Present:
			in.markAbsent(&m, e, *seen, out, now)
		case out.Unmatched && seen == nil:
			m.State, m.Error = models.EventNotApplied, "note.states_nothing"
		case out.Unmatched:
			m.State, m.After, m.Reread, m.Error = models.EventUnmatched, backoff(e.Rereads, secondLine), true, "note.no_order"
		case caused[e.ID]:
			m.State, m.CausedBy = models.EventApplied, 0
		case e.ID == review:
			m.State, m.Error = models.EventReview, "note.refused"
			if !has(out.Problems, models.MoveRefused) {
				m.Error = "note.unknown_word"
			}
		case !out.Moved:
			m.CausedBy, m.EntryID = out.LastEvent, out.LastEntry
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
func (in *Inbox) markAbsent(m *store.Mark, e store.DueEvent, seen models.Observation, out ledger.Outcome, now time.Time) {
	m.CausedBy, m.EntryID = 0, 0
	switch {
	case seen.Absence == models.AdminTest, e.Test && out.OrderID == 0:
		m.State, m.Error = models.EventNotApplied, "note.test"
	case seen.Absence == models.OutsideWindow:
		m.State, m.Error = models.EventReview, "note.outside_window"
	case seen.Absence == models.Unreadable:
		m.State, m.Try, m.After, m.Error = models.EventWaiting, true, backoff(e.Tries, time.Minute), seen.Detail
		if e.Tries+1 >= models.MaxTries {
			m.State = models.EventReview
		}
	case ledger.Deleted([]store.DueEvent{e}):
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
			marks := make([]store.Mark, len(c.Events))
			for i, e := range c.Events {
				marks[i] = store.Mark{ID: e.ID, Key: e.Key, State: models.EventWaiting, OrderID: res.OrderID, Error: out.Detail, After: max(next, secondLine)}
			}
			if c.Reread {
				if err := tx.RereadLater(ctx, c.ObjectID, max(next, secondLine)); err != nil {
					return err
				}
			}
			return tx.MarkEvents(ctx, marks)
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
			m := store.Mark{ID: e.ID, Key: e.Key, State: models.EventReceived, Try: true, After: backoff(e.Tries, time.Minute), Error: storable(cause.Error(), 500)}
			if e.Tries+1 >= models.MaxTries {
				m.State = models.EventFailed
				p := models.Problem{Kind: models.EventFailedKind, Detail: storable(cause.Error(), 200)}
				if err := tx.OpenCase(ctx, store.Case{ConnectionID: conn.ID, Subject: eventSubject(e.ID), Problem: p, OrderID: c.OrderID, Ref: c.Ref.ID}); err != nil {
					return err
				}
			}
			marks = append(marks, m)
		}
		return tx.MarkEvents(ctx, marks)
	})
}

// lookEvery is how long a lost alarm can delay an event.
const lookEvery = 2 * time.Second

// Lookout finds due rows whatever happened to their jobs, until the context ends.
func (in *Inbox) Lookout(ctx context.Context) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	var working sync.WaitGroup
	defer working.Wait()
	for {
		if due, err := in.store.DueConnections(ctx); err == nil {
			for _, id := range due {
				working.Go(func() {
					in.probe(ctx, id)
					if err := in.Process(ctx, id); err != nil && ctx.Err() == nil && !store.Down(err) {
						in.log.Error("due events not processed", "connection", id, "error", err)
					}
				})
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// probe lets one waiting event find out whether a platform is back.
func (in *Inbox) probe(ctx context.Context, id int64) {
	due := false
	err := in.store.Tx(ctx, func(tx *store.Tx) error {
		var err error
		due, err = tx.DueProbe(ctx, id)
		return err
	})
	conn := in.book.ID(id)
	if err == nil && !due && conn != nil && conn.APIFailing != nil {
		if _, paused := conn.Paused(in.store.Now()); !paused {
			err = in.book.Check(ctx, conn) // nothing waits, but orders are in doubt
		}
	}
	if err != nil && ctx.Err() == nil && !store.Down(err) {
		in.log.Error("probe", "connection", id, "error", err)
	}
}
