package reconcile

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"counterfoil/models"
	"counterfoil/models/connect"
	"counterfoil/models/platform"
	"counterfoil/models/store"
)

// Silences finds connections that are silent although their platform shows changes.
type Silences struct {
	Store *store.Store
	Book  *connect.Book
	Log   *slog.Logger

	asked map[int64]time.Time // when each platform was asked last; of one looker
}

const (
	quietAfter = time.Hour
	// changesSettle is how old a change must be before silence about it says something.
	changesSettle = 15 * time.Minute
	quietAsk      = 30 * time.Minute // a platform is asked at most so often
)

// Lookout counts what comes in, hour by hour, and looks for unusual silence once a
// minute. It never stops on errors.
func (s *Silences) Lookout(ctx context.Context) {
	tick := time.NewTicker(time.Minute)
	defer tick.Stop()
	for {
		if err := s.Look(ctx); err != nil && ctx.Err() == nil {
			s.Log.Warn("silence not looked for", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// Look counts and judges once. One caller at a time.
func (s *Silences) Look(ctx context.Context) error {
	if s.asked == nil {
		s.asked = map[int64]time.Time{}
	}
	for more := true; more; {
		if err := s.Store.Tx(ctx, func(tx *store.Tx) (err error) {
			more, err = tx.CountHours(ctx)
			return err
		}); err != nil {
			return err
		}
	}
	var all error
	for _, c := range s.Book.All() {
		all = errors.Join(all, s.listen(ctx, c))
	}
	return all
}

// listen judges one connection.
func (s *Silences) listen(ctx context.Context, c *connect.Conn) error {
	now := s.Store.Now()
	subject := connectionSubject(c.ID)
	q, err := s.Store.Quiet(ctx, c.ID, now.Add(-quietAfter).Truncate(time.Hour), subject)
	if err != nil {
		return err
	}
	if q.Open {
		if !q.Last.After(q.Since) {
			return nil
		}
		return s.Store.Tx(ctx, func(tx *store.Tx) error { return tx.CloseSilence(ctx, subject) })
	}
	if q.Last.IsZero() || now.Sub(q.Last) < quietAfter || !models.UsuallyBusy(q.Weeks) {
		return nil
	}
	if !q.Found {
		changed, err := s.changed(ctx, c, q.Last, now)
		if err != nil || !changed {
			return err
		}
	}
	return s.Store.Tx(ctx, func(tx *store.Tx) error {
		return tx.OpenCase(ctx, store.Case{ConnectionID: c.ID, Subject: subject, Ref: c.Account, Problem: models.Problem{Kind: models.Silence}})
	})
}

// changed asks whether the platform shows changes since the last notification. Where
// calls are counted only what sweeps found counts.
func (s *Silences) changed(ctx context.Context, c *connect.Conn, last, now time.Time) (bool, error) {
	if c.Adapter == nil || !c.Adapter.HasAPI() || c.CallBudget() > 0 || c.APIFailing != nil || now.Sub(s.asked[c.ID]) < quietAsk {
		return false, nil
	}
	s.asked[c.ID] = now
	// What the last notification was about changed a little before it came.
	w := platform.Window{Since: last.Add(time.Minute), Until: now.Add(-changesSettle), Kind: c.Adapter.Kinds()[0], Lean: true, Most: 1}
	if !w.Since.Before(w.Until) {
		return false, nil
	}
	b, err := c.Adapter.Changed(connect.Sweeping(ctx), w)
	if out, ok := errors.AsType[*platform.Outage](err); ok {
		_, _, err := s.Book.Failed(ctx, c, out)
		return false, err
	}
	return len(b.Refs)+len(b.Observations) > 0, err
}
