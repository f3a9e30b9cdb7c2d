package inbox

import (
	"context"
	"errors"
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
		c, err := in.dismiss(ctx, conn, c)
		if err == nil && len(c.Events) == 0 && !c.Reread {
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
		waits := waitsForOrder(c, seen, out)
		if err := in.unmatched(ctx, tx, conn, c, seen, out, waits); err != nil {
			return err
		}
		if err := tx.MarkEvents(ctx, in.marks(c, seen, out, tx.Now)); err != nil {
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
		if out.OrderID != 0 && seen != nil && !has(out.Problems, models.MoveRefused) {
			return tx.SettleReviews(ctx, out.OrderID)
		}
		return nil
	})
}
