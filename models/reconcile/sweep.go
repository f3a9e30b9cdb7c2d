package reconcile

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"time"

	"counterfoil/models"
	"counterfoil/models/connect"
	"counterfoil/models/ledger"
	"counterfoil/models/platform"
	"counterfoil/models/queue"
	"counterfoil/models/store"
)

// Sweeps compare what platforms have with what we record.
type Sweeps struct {
	Store  *store.Store
	Book   *connect.Book
	Ledger *ledger.Ledger
	Queue  *queue.Queue
	Log    *slog.Logger
}

// unread is the kind of what isn't at rest and was confirmed by nothing for long. No
// list of a platform tells of it.
const unread = "unread"

const (
	sweepLease = 40 * time.Second
	sweepTries = 8 // failures of our own until a run is given up
	unreadPage = 100
	// slowest is how long the slowest payment method and the latest failure of a refund take.
	slowest = 30 * 24 * time.Hour
	rarely  = 24 * time.Hour // between looks over all of that, or over a month that is over
	// closedReturns are read again for as long: closing one doesn't move its order's time.
	closedReturns = 3 * 24 * time.Hour
)

func kindsOf(c *connect.Conn) []string {
	kinds := slices.Clone(c.Adapter.Kinds())
	if c.Platform != models.ReceiptRoller {
		kinds = append(kinds, unread)
	}
	return kinds
}

// importKinds are the kinds by which everything that was there before is found.
func importKinds(c *connect.Conn) []string {
	return slices.DeleteFunc(kindsOf(c), func(k string) bool {
		return k == unread || c.Platform == models.Stripe && k == "event" || c.Platform == models.Shopify && k != "order"
	})
}

// byBirth tells whether a kind's list goes by when objects were made.
func byBirth(c *connect.Conn, kind string) bool {
	return c.Platform == models.Stripe && kind != "event" && kind != unread
}

// ascending tells whether a list begins with what changed first, so that the checkpoint
// can follow each page.
func ascending(c *connect.Conn, kind string) bool {
	return c.Platform == models.Shopify && kind == "order"
}

func every(c *connect.Conn, kind string) time.Duration {
	if d := c.Duration("sweep_every"); !byBirth(c, kind) || d > rarely {
		return d
	}
	return rarely
}

// since is where a run's window begins; zero: at the beginning.
func (s *Sweeps) since(ctx context.Context, c *connect.Conn, kind string, reason models.SweepReason, at, now time.Time) (time.Time, error) {
	switch {
	case kind == unread || c.Platform == models.Shopify && kind == "return":
		return time.Time{}, nil
	case c.Platform == models.ReceiptRoller:
		if reason != models.SweepPeriodic {
			return time.Time{}, nil // this month and the last
		}
		whole, err := s.Store.LastWhole(ctx, c.ID, kind)
		if err != nil || now.Sub(whole) >= rarely {
			return time.Time{}, err
		}
		return now, nil
	case reason == models.SweepImport:
		return now.Add(-c.Duration("import_since")), nil
	case byBirth(c, kind):
		return now.Add(-slowest), nil
	case at.IsZero():
		return now.Add(-rarely), nil
	}
	return at.Add(-c.Duration("sweep_overlap")), nil
}

// Lookout begins the runs that are due, goes on with those that nobody holds and opens
// what was found and isn't announced in time, until the context ends. A long run keeps
// nothing else from being begun or opened.
func (s *Sweeps) Lookout(ctx context.Context) {
	tick := time.NewTicker(2 * time.Second)
	defer tick.Stop()
	var working sync.WaitGroup
	defer working.Wait()
	paging := make(chan struct{}, 1)
	for {
		s.told(ctx, s.begin(ctx))
		s.told(ctx, s.open(ctx))
		select {
		case paging <- struct{}{}:
			working.Go(func() {
				defer func() { <-paging }()
				s.told(ctx, s.pages(ctx))
			})
		default: // still at it
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (s *Sweeps) told(ctx context.Context, err error) {
	if err != nil && ctx.Err() == nil && !store.Down(err) {
		s.Log.Error("sweeps", "error", err)
	}
}

// pages does pages until none is due. Runs take turns: the one that did a page last comes
// last.
func (s *Sweeps) pages(ctx context.Context) error {
	for ctx.Err() == nil {
		if more, err := s.Page(ctx, 0); err != nil || !more {
			return err
		}
	}
	return nil
}

// begin begins the periodic runs and imports that are due.
func (s *Sweeps) begin(ctx context.Context) error {
	points, err := s.Store.Checkpoints(ctx, 0)
	if err != nil {
		return err
	}
	imported, err := s.Store.Imports(ctx)
	if err != nil {
		return err
	}
	now := s.Store.Now()
	for _, c := range s.Book.All() {
		if c.Adapter == nil || !c.Adapter.HasAPI() {
			continue
		}
		if !imported[c.ID] {
			if c.Duration("sweep_every") > 0 {
				if err := s.importing(ctx, c); err != nil {
					return err
				}
			}
			continue
		}
		if c.Duration("sweep_every") <= 0 {
			continue
		}
		for _, kind := range kindsOf(c) {
			var at time.Time
			if i := slices.IndexFunc(points, func(p store.Checkpoint) bool { return p.ConnectionID == c.ID && p.Kind == kind }); i >= 0 {
				if points[i].NextAt.After(now) {
					continue
				}
				at = points[i].At
			}
			since, err := s.since(ctx, c, kind, models.SweepPeriodic, at, now)
			if err != nil {
				return err
			}
			if err := s.Store.Tx(ctx, func(tx *store.Tx) error {
				_, err := tx.BeginSweep(ctx, c.ID, kind, models.SweepPeriodic, since, now)
				return err
			}); err != nil {
				return err
			}
		}
	}
	return nil
}

// importing begins the quiet import, or ends it where all of it is read.
func (s *Sweeps) importing(ctx context.Context, c *connect.Conn) error {
	kinds, now := importKinds(c), s.Store.Now()
	return s.Store.Tx(ctx, func(tx *store.Tx) error {
		if over, err := tx.EndImport(ctx, c.ID, len(kinds)); err != nil || over {
			return err
		}
		done, err := tx.ImportedKinds(ctx, c.ID)
		if err != nil {
			return err
		}
		for _, kind := range kinds {
			if slices.Contains(done, kind) {
				continue
			}
			since, err := s.since(ctx, c, kind, models.SweepImport, time.Time{}, now)
			if err != nil {
				return err
			}
			if _, err := tx.BeginSweep(ctx, c.ID, kind, models.SweepImport, since, now); err != nil {
				return err
			}
		}
		return nil
	})
}

// open opens the exceptions of what no notification told of in time.
func (s *Sweeps) open(ctx context.Context) error {
	due, err := s.Store.DueFindings(ctx, s.Store.Now(), 200)
	for _, id := range due {
		if failed := s.Store.Tx(ctx, func(tx *store.Tx) error { return s.Ledger.OpenFound(ctx, tx, id) }); failed != nil {
			err = errors.Join(err, fmt.Errorf("reconcile: open what was found of object %d: %w", id, failed))
		}
	}
	return err
}

// Ask has a connection compared now: all kinds, since their checkpoints. Shift leads,
// managers and admins may. A connection that was never read is imported first.
func (s *Sweeps) Ask(ctx context.Context, actor models.Actor, slug string) ([]int64, error) {
	c, err := s.conn(ctx, actor, slug)
	if err != nil {
		return nil, err
	}
	if !actor.May(models.SweepsRun) {
		return nil, models.Fail(models.Forbidden, "error.may_not_sweep")
	}
	if c.Adapter == nil || !c.Adapter.HasAPI() {
		return nil, models.Fail(models.Unavailable, "error.sweep_no_api")
	}
	imported, err := s.Store.Imports(ctx)
	if err != nil {
		return nil, err
	}
	var ids []int64
	if !imported[c.ID] {
		if err := s.importing(ctx, c); err != nil {
			return nil, err
		}
		running, err := s.Store.RunningImports(ctx, c.ID)
		for _, r := range running {
			ids = append(ids, r.ID)
		}
		if err != nil || len(ids) > 0 {
			return ids, err
		}
	}
	points, err := s.Store.Checkpoints(ctx, c.ID)
	if err != nil {
		return nil, err
	}
	now := s.Store.Now()
	windows := map[string]time.Time{}
	for _, kind := range kindsOf(c) {
		var at time.Time
		if i := slices.IndexFunc(points, func(p store.Checkpoint) bool { return p.Kind == kind }); i >= 0 {
			at = points[i].At
		}
		if windows[kind], err = s.since(ctx, c, kind, models.SweepAsked, at, now); err != nil {
			return nil, err
		}
	}
	err = s.Store.Tx(ctx, func(tx *store.Tx) error {
		ids = nil
		for _, kind := range kindsOf(c) {
			one, err := tx.AskSweep(ctx, c.ID, []string{kind}, models.SweepAsked, actor.ID(), windows[kind], now)
			if err != nil {
				return err
			}
			ids = append(ids, one...)
		}
		if err := tx.Audit(ctx, actor.ID(), "sweep.ask", "connection:"+strconv.FormatInt(c.ID, 10), "", strconv.Itoa(len(ids))); err != nil {
			return err
		}
		return s.Queue.WakeSweeps(ctx, tx, ids)
	})
	return ids, err
}

func (s *Sweeps) conn(ctx context.Context, actor models.Actor, slug string) (*connect.Conn, error) {
	c, err := s.Book.Slug(ctx, slug)
	if err == nil && !actor.Sees(c.ShopID) {
		return nil, models.Fail(models.NotFound, "error.connection_unknown")
	}
	return c, err
}

// Run goes on with some runs until all have ended, beside whoever else does. It ends at
// once where the platform can't be asked: then the runs wait, and go on by themselves.
func (s *Sweeps) Run(ctx context.Context, ids []int64) ([]models.Sweep, error) {
	for {
		for _, id := range ids {
			for {
				more, err := s.Page(ctx, id)
				if err != nil {
					return nil, err
				}
				if !more {
					break
				}
			}
		}
		runs, err := s.Store.SweepsByID(ctx, ids)
		if err != nil {
			return nil, err
		}
		going := false
		for _, r := range runs {
			if r.State == models.SweepRunning && r.Error != "" {
				return runs, models.Fail(models.Unavailable, "error.sweep_waits", r.Error)
			}
			going = going || r.State == models.SweepRunning
		}
		if !going {
			return runs, nil
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return runs, ctx.Err()
		}
	}
}

// Page does one page of a run that is due and that nobody holds (id 0: of any). It
// answers whether there was one to do.
func (s *Sweeps) Page(ctx context.Context, id int64) (bool, error) {
	var run *store.SweepRun
	if err := s.Store.Tx(ctx, func(tx *store.Tx) error {
		var err error
		run, err = tx.ClaimSweep(ctx, id, sweepLease)
		return err
	}); err != nil || run == nil {
		return false, err
	}
	c := s.Book.ID(run.Connection)
	if c == nil {
		if err := s.Book.LookSoon(ctx); err != nil {
			return false, err
		}
		c = s.Book.ID(run.Connection)
	}
	if c == nil || c.Adapter == nil || !c.Adapter.HasAPI() {
		return true, s.wait(ctx, *run, "no access", time.Minute, true)
	}
	// Whoever asks now wants to know whether the platform is back.
	if out, paused := c.Paused(time.Now()); paused && (run.Reason != models.SweepAsked || out.Throttled) {
		return true, s.wait(ctx, *run, out.Detail, out.After, false)
	}
	err := s.page(ctx, c, *run)
	if err == nil || ctx.Err() != nil || store.Down(err) {
		return true, err
	}
	if out, ok := errors.AsType[*platform.Outage](err); ok {
		next, _, err := s.Book.Failed(ctx, c, out)
		if err != nil {
			return true, err
		}
		return true, s.wait(ctx, *run, out.Detail, next, false)
	}
	s.Log.Error("sweep", "connection", c.Slug, "kind", run.Kind, "error", err)
	return true, s.wait(ctx, *run, "the page can't be compared", time.Second<<run.Tries, true)
}

func (s *Sweeps) wait(ctx context.Context, r store.SweepRun, why string, after time.Duration, ours bool) error {
	return s.Store.Tx(ctx, func(tx *store.Tx) error { return tx.SweepWaits(ctx, r, why, after, ours, sweepTries) })
}
