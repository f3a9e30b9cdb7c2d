package connect

import (
	"context"
	"errors"
	"slices"
	"time"

	"counterfoil/models"
	"counterfoil/models/platform"
	"counterfoil/models/store"
)

const (
	downFailures  = 5
	longestProbe  = 15 * time.Second
	longestWait   = time.Hour
	callsRunOut   = "the calls of 30 days are used up"
	notEnoughTime = 10 * time.Minute
)

// budget counts the calls of a connection in the database, so that all processes
// share them; nil where any number may be made.
func (b *Book) budget(c *Conn) platform.Budget {
	if c.CallBudget() == 0 {
		return nil
	}
	return &calls{store: b.store, id: c.ID, budget: c.CallBudget()}
}

type calls struct {
	store  *store.Store
	id     int64
	budget int64
}

type awaited struct{}

// Awaited marks the calls that a person waits for. They may use up the whole budget;
// all others leave a tenth of it, so that people can still ask when it gets scarce.
func Awaited(ctx context.Context) context.Context {
	return context.WithValue(ctx, awaited{}, true)
}

type sweeping struct{}

// Sweeping marks the calls of a comparison that nobody waits for: they come after
// those for people and for notifications.
func Sweeping(ctx context.Context) context.Context {
	return context.WithValue(ctx, sweeping{}, true)
}

func (k *calls) Spend(ctx context.Context, n int) error {
	within := k.budget
	if ctx.Value(awaited{}) == nil {
		within -= k.budget / 10
	}
	allowed := false
	err := k.store.Tx(ctx, func(tx *store.Tx) error {
		var err error
		allowed, err = tx.SpendCalls(ctx, k.id, int64(n), within)
		return err
	})
	if err != nil {
		return err
	}
	if !allowed {
		return &platform.Outage{Throttled: true, After: notEnoughTime, Detail: callsRunOut}
	}
	return nil
}

// Paused tells whether the platform said, or we decided, that there is no use in
// asking yet, and why.
func (c *Conn) Paused(now time.Time) (*platform.Outage, bool) {
	if c.APIFailing == nil || c.APINext == nil || !now.Before(*c.APINext) {
		return nil, false
	}
	return &platform.Outage{Throttled: c.APIState == models.APIThrottled, After: c.APINext.Sub(now), Detail: c.APIError}, true
}

// CallsRunOut tells whether the connection's budget is used up. What payloads report
// is then applied meanwhile; the next call verifies it.
func (c *Conn) CallsRunOut() bool {
	return c.APIState == models.APIThrottled && c.APIError == callsRunOut
}

// Failed records that a connection's platform couldn't be asked. It says when to
// try again and what the connection's state is now.
func (b *Book) Failed(ctx context.Context, c *Conn, out *platform.Outage) (time.Duration, models.APIState, error) {
	longest := longestProbe
	if c.CallBudget() > 0 {
		longest = longestWait // probes spend calls that readings need
	}
	next := min(time.Second<<min(c.APIFailures, 12), longest)
	if out.After > 0 {
		next = min(max(out.After, time.Second), longestWait)
	}
	need := downFailures
	if c.Duration("down_after") == 0 {
		need = 1
	}
	var state models.APIState
	err := b.store.Tx(ctx, func(tx *store.Tx) error {
		var err error
		state, err = tx.Failed(ctx, c.ID, out.Throttled, out.Detail, next, c.Duration("down_after"), need)
		return err
	})
	if err != nil {
		return next, state, err
	}
	return next, state, b.Look(ctx)
}

// Answered records that a connection's platform answers. It costs nothing while all
// is well.
func (b *Book) Answered(ctx context.Context, c *Conn) error {
	if now := b.ID(c.ID); now != nil && now.APIFailing == nil {
		return nil
	}
	news := false
	err := b.store.Tx(ctx, func(tx *store.Tx) error {
		var err error
		news, err = tx.Answered(ctx, c.ID)
		return err
	})
	if err != nil || !news {
		return err
	}
	return b.Look(ctx)
}

// Check asks each connection's platform what our access covers, and keeps its words.
func (b *Book) Check(ctx context.Context, c *Conn) error {
	if c.Adapter == nil || !c.Adapter.HasAPI() {
		return nil
	}
	notes, err := c.Adapter.Check(ctx)
	if out, ok := errors.AsType[*platform.Outage](err); ok {
		if _, _, err := b.Failed(ctx, c, out); err != nil || len(notes) == 0 {
			return err
		}
	} else if err != nil {
		notes = append(notes, models.Note{Key: "note.check_failed", Args: []string{err.Error()}, Warn: true, At: b.now()})
	} else if err := b.Answered(ctx, c); err != nil {
		return err
	}
	return b.store.Tx(ctx, func(tx *store.Tx) error { return tx.SetNotes(ctx, c.ID, notes) })
}

// Answers tells whether a connection's platform answers although a call failed. What
// was denied counts as the object's own trouble only if our access lacks nothing.
func (c *Conn) Answers(ctx context.Context, failed *platform.Outage) bool {
	notes, err := c.Adapter.Check(ctx)
	return err == nil && !(failed.Denied && slices.ContainsFunc(notes, func(n models.Note) bool { return n.Warn }))
}
