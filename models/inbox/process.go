package inbox

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"time"

	"counterfoil/models"
	"counterfoil/models/connect"
	"counterfoil/models/ledger"
	"counterfoil/models/platform"
	"counterfoil/models/store"
)

const (
	lease      = 30 * time.Second
	sharedTime = 12 * time.Second // of a call for many objects
	aloneTime  = 11 * time.Second // of a call for one of them, after that and still inside the lease
	checkTime  = 4 * time.Second  // to find out whether the platform answers at all
	ownClaim   = 50               // objects that need no call, claimed together
	secondLine = 10 * time.Minute // when what waits for a signal looks by itself
	runners    = 3                // of one connection in one process
)

// Process works on the due events of a connection until nothing is due. It may be
// called any number of times at once.
func (in *Inbox) Process(ctx context.Context, connection int64) (err error) {
	if !in.runs.enter(connection) {
		return nil
	}
	for again := true; again; {
		err = in.look(ctx, connection)
		again = in.runs.leave(connection, err != nil || ctx.Err() != nil)
	}
	return err
}

// look is processAll for one runner, which gives its place back even if it panics.
func (in *Inbox) look(ctx context.Context, connection int64) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("inbox: panic: %v\n%s", v, debug.Stack())
		}
	}()
	return in.processAll(ctx, connection)
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
			conn, err = in.latest(ctx, conn)
			if err != nil {
				in.release(ctx, claims)
				return err
			}
			next, err := in.turn(ctx, conn, claims, limit)
			if err != nil {
				in.release(ctx, claims)
				return err
			}
			claims = next
		}
	}
	return ctx.Err()
}

// turn serves the claimed objects and takes on those whose events came meanwhile. Room
// that is left goes to others, so that a few busy objects starve nobody.
func (in *Inbox) turn(ctx context.Context, conn *connect.Conn, claims []store.Claim, limit int) ([]store.Claim, error) {
	if err := in.serve(ctx, conn, claims); err != nil {
		return nil, err
	}
	next, err := in.again(ctx, conn, claims)
	if err != nil || len(next) == 0 || len(next) >= limit {
		return next, err
	}
	err = in.store.Tx(ctx, func(tx *store.Tx) error {
		more, err := tx.ClaimDue(ctx, conn.ID, limit-len(next), lease)
		if err == nil {
			claims = append(next[:len(next):len(next)], more...)
		}
		return err
	})
	return claims, err
}

// release gives objects back after a failure, as far as that goes: a lease ends by
// itself.
func (in *Inbox) release(ctx context.Context, claims []store.Claim) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	_ = in.store.Tx(ctx, func(tx *store.Tx) error { return tx.Release(ctx, claims) })
}

// current is the connection as it stands now.
func (in *Inbox) current(c *connect.Conn) *connect.Conn {
	if now := in.book.ID(c.ID); now != nil {
		return now
	}
	return c
}

// latest is the connection as the database has it. What another process changed decides
// how the claimed objects are read: they may be due because of it.
func (in *Inbox) latest(ctx context.Context, c *connect.Conn) (*connect.Conn, error) {
	version, err := in.store.ConnectionVersion(ctx, c.ID)
	if err != nil || in.current(c).Version >= version {
		return in.current(c), err
	}
	err = in.book.Look(ctx)
	return in.current(c), err
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
		c, err := in.dismiss(ctx, conn, c)
		if err == nil && len(c.Events) == 0 && c.Reread == nil {
			continue
		}
		done := false
		if err == nil {
			done, err = in.withoutAsking(ctx, conn, c)
		}
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
	if out, paused := conn.Paused(time.Now()); paused {
		return in.postpone(ctx, conn, ask, out, out.After)
	}
	shared, alone := in.suspects.apart(ask)
	until := time.Now().Add(sharedTime)
	if len(shared) > 0 {
		if out, err := in.read(ctx, conn, shared, sharedTime); err != nil || out != nil {
			return in.stop(ctx, conn, ask, out, err)
		}
	}
	for i := range alone {
		if time.Now().After(until) {
			break // the others are still due, and the next turn is theirs
		}
		if out, err := in.read(ctx, conn, alone[i:i+1], aloneTime); err != nil || out != nil {
			return in.stop(ctx, conn, alone[i:], out, err)
		}
	}
	return nil
}

// stop has claims wait for a platform that can't be asked.
func (in *Inbox) stop(ctx context.Context, conn *connect.Conn, claims []store.Claim, out *platform.Outage, err error) error {
	if err != nil {
		return err
	}
	next, _, err := in.book.Failed(ctx, conn, out)
	if err != nil {
		return err
	}
	return in.postpone(ctx, conn, claims, out, next)
}

// read asks for objects in one call and applies the answer. An outage comes back if
// the platform can't be asked. Where it does answer, one of the objects is the trouble:
// each is asked for by itself from then on, and the one that can't be read stops
// nobody else.
func (in *Inbox) read(ctx context.Context, conn *connect.Conn, claims []store.Claim, within time.Duration) (*platform.Outage, error) {
	refs := make([]models.ObjectRef, len(claims))
	for i, c := range claims {
		refs[i] = c.Ref
	}
	began := in.store.Now()
	call, cancel := context.WithTimeout(ctx, within)
	seen, err := conn.Adapter.Fetch(call, refs)
	cancel()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		out := in.outage(err)
		if out.Throttled || !in.answers(ctx, conn, claims, out) {
			return out, nil
		}
		if len(claims) > 1 {
			in.suspects.add(claims)
			return nil, nil
		}
		seen = map[models.ObjectRef]models.Observation{refs[0]: {Ref: refs[0], Absence: models.Unreadable, Detail: out.Detail}}
	} else {
		in.suspects.clear(claims)
	}
	if err := in.book.Answered(ctx, conn); err != nil {
		return nil, err
	}
	for _, c := range claims {
		o, ok := seen[c.Ref]
		if !ok {
			o = models.Observation{Ref: c.Ref, Absence: models.Gone}
		}
		o.Basis, o.Read = models.Official, began
		if err := in.apply(ctx, conn, c, &o); err != nil {
			if err := in.own(ctx, conn, c, err); err != nil {
				return nil, err
			}
		}
	}
	return nil, nil
}

// answers tells whether a platform answers although a call about these objects failed.
// Asking costs a call: where calls are few, one object without a history isn't worth it.
func (in *Inbox) answers(ctx context.Context, conn *connect.Conn, claims []store.Claim, out *platform.Outage) bool {
	if conn.CallBudget() > 0 && len(claims) == 1 && !in.suspects.has(claims[0]) {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	return conn.Answers(ctx, out)
}

// outage is a failed call as something to wait for: an answer that can't be read is
// the platform's trouble too, and uses up no tries of ours.
func (in *Inbox) outage(err error) *platform.Outage {
	if out, ok := errors.AsType[*platform.Outage](err); ok {
		return out
	}
	in.log.Error("a platform's answer can't be read", "error", err)
	return &platform.Outage{Detail: "the answer can't be read", Err: err}
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
	case c.Reread != nil:
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
	return true, in.store.Tx(ctx, func(tx *store.Tx) error {
		_, err := tx.MarkEvents(ctx, marks)
		return err
	})
}

// nameless settles notifications that name no object that can be fetched.
func (in *Inbox) nameless(ctx context.Context, conn *connect.Conn, c store.Claim, api bool) error {
	var marks []store.Mark
	rest := map[int64]store.DueEvent{}
	for _, e := range c.Events {
		about := e.Said != nil && !e.Said.Ref.Zero()
		mark := store.Mark{ID: e.ID, Key: e.Key, State: models.EventNotApplied}
		switch {
		case about && !api:
			one := c
			one.Ref, one.Events = e.Said.Ref, []store.DueEvent{e}
			if err := in.apply(ctx, conn, one, nil); err != nil {
				return err
			}
			continue
		case about:
			// It is about an order but lacks the keys by which the platform could be asked.
			mark.State, mark.Error = models.EventReview, "note.no_reference"
		default:
			rest[e.ID] = e
		}
		marks = append(marks, mark)
	}
	return in.store.Tx(ctx, func(tx *store.Tx) error {
		marked, err := tx.MarkEvents(ctx, marks)
		if err != nil {
			return err
		}
		counts, known := map[string]int64{}, map[string]bool{}
		for id := range marked {
			if e, ok := rest[id]; ok {
				counts[e.Topic]++
				known[e.Topic] = e.Known
			}
		}
		for _, topic := range slices.Sorted(maps.Keys(counts)) {
			if err := tx.CountTopic(ctx, conn.ID, topic, known[topic], counts[topic]); err != nil {
				return err
			}
		}
		return nil
	})
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
		waits := waitsForOrder(c, seen, out)
		if err := in.unmatched(ctx, tx, conn, c, seen, out, waits); err != nil {
			return err
		}
		if _, err := tx.MarkEvents(ctx, in.marks(c, seen, out, tx.Now)); err != nil {
			return err
		}
		for _, e := range c.Events {
			if e.Tries > 0 {
				if err := tx.CloseCases(ctx, eventSubject(e.ID), []models.ExceptionKind{models.EventFailedKind}, nil, "reading"); err != nil {
					return err
				}
			}
		}
		if err := tx.Read(ctx, c); err != nil {
			return err
		}
		if waits {
			return tx.Want(ctx, conn.ShopID, ledger.Wants(reading), ids(c.Events))
		}
		if len(c.Events) > 0 {
			if err := tx.Unwant(ctx, ids(c.Events)); err != nil {
				return err
			}
		}
		return nil
	})
}
