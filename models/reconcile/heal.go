package reconcile

import (
	"context"
	"log/slog"
	"strconv"
	"time"

	"counterfoil/models"
	"counterfoil/models/ledger"
	"counterfoil/models/store"
)

// Cases moves exceptions on with time: their graces end, what may settle by itself is
// read again by policy, many of a kind become one, and what didn't happen is told.
type Cases struct {
	Store  *store.Store
	Resync *Resync
	Zone   *time.Location // of working days
	Log    *slog.Logger
}

const (
	caseEvery    = 2 * time.Second
	lateEvery    = 20 * time.Second
	caseBatch    = 50
	lateBatch    = 100
	healLease    = 2 * time.Minute
	healLater    = time.Minute // after a platform couldn't be asked
	healsAtATime = 10          // in one round, so that the rest of the calls are for others
)

// Lookout works until the context ends. Several processes may do so at once.
func (s *Cases) Lookout(ctx context.Context) {
	tick := time.NewTicker(caseEvery)
	defer tick.Stop()
	var late time.Time
	for {
		s.try(ctx, "exceptions", s.Due)
		s.try(ctx, "groups of exceptions", s.Group)
		if time.Since(late) >= lateEvery {
			late = time.Now()
			s.try(ctx, "overdue", s.Overdue)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (s *Cases) try(ctx context.Context, what string, do func(context.Context) error) {
	if err := do(ctx); err != nil && ctx.Err() == nil && !store.Down(err) {
		s.Log.Error(what, "error", err)
	}
}

// Due moves on what is due, and reads again what is to be read.
func (s *Cases) Due(ctx context.Context) error {
	for ctx.Err() == nil {
		var heal []store.DueCase
		moved := 0
		err := s.Store.Tx(ctx, func(tx *store.Tx) error {
			var err error
			heal, moved, err = tx.DueCases(ctx, healsAtATime, healLease)
			return err
		})
		if err != nil {
			return err
		}
		for _, d := range heal {
			s.try(ctx, "reading again by policy", func(ctx context.Context) error { return s.heal(ctx, d) })
		}
		if moved < healsAtATime {
			return nil
		}
	}
	return ctx.Err()
}

// Group folds what came in numbers.
func (s *Cases) Group(ctx context.Context) error {
	return s.Store.Tx(ctx, func(tx *store.Tx) error { return tx.GroupCases(ctx) })
}

// heal reads what an exception is about again, under the same rules as a notification.
// What that doesn't settle is a person's.
func (s *Cases) heal(ctx context.Context, d store.DueCase) error {
	objects, err := s.Store.HealObjects(ctx, d)
	if err != nil {
		return err
	}
	read, settled := 0, true
	for _, o := range objects {
		conn := s.Resync.Book.ID(o.ConnectionID)
		if conn == nil || conn.Adapter == nil || !conn.Adapter.HasAPI() {
			continue
		}
		if _, paused := conn.Paused(time.Now()); paused || conn.CallsRunOut() {
			return s.later(ctx, d)
		}
		result, out, err := s.Resync.outcome(ctx, models.Actor{}, conn, o.Ref)
		switch {
		case models.CodeOf(err) == models.NotFound:
			settled = false
			read++
			continue
		case err != nil:
			return err
		case result == Unavailable:
			return s.later(ctx, d)
		}
		read++
		if d.OrderID == 0 {
			d.OrderID = out.OrderID
		}
		if result == Exception && (out.Missing != time.Time{} || about(out, d.Axis)) {
			settled = false
		}
	}
	return s.Store.Tx(ctx, func(tx *store.Tx) error {
		var due []int64
		if d.OrderID != 0 {
			order, err := tx.LockOrder(ctx, d.OrderID)
			if err != nil {
				return err
			}
			if d.Policy == models.PolicyHold && order.MergedInto == 0 {
				if due, err = tx.WakeActions(ctx, d.OrderID, false); err != nil {
					return err
				}
			}
		}
		closed, err := tx.Healed(ctx, d.ID, read > 0 && settled)
		if err != nil {
			return err
		}
		result := "needs"
		if closed {
			result = "closed"
		}
		if err := tx.Audit(ctx, ledger.Console, "resync.policy", "exception:"+strconv.FormatInt(d.ID, 10), string(d.Policy), result); err != nil {
			return err
		}
		if len(due) == 0 || s.Resync.Ledger.Queue == nil {
			return nil
		}
		return s.Resync.Ledger.Queue.WakeActions(ctx, tx, due)
	})
}

// about tells whether something was wrong on an axis, or nobody knows on which.
func about(out ledger.Outcome, axis models.Axis) bool {
	for _, p := range out.Problems {
		if p.Axis == axis || axis == "" {
			return true
		}
	}
	return false
}

func (s *Cases) later(ctx context.Context, d store.DueCase) error {
	return s.Store.Tx(ctx, func(tx *store.Tx) error { return tx.PostponeCase(ctx, d.ID, healLater) })
}

// Overdue tells what should have happened by now and hasn't.
func (s *Cases) Overdue(ctx context.Context) error {
	if err := s.Store.Tx(ctx, func(tx *store.Tx) error { return tx.OpenStuckEvents(ctx, caseBatch) }); err != nil {
		return err
	}
	for ctx.Err() == nil {
		n := 0
		err := s.Store.Tx(ctx, func(tx *store.Tx) error {
			orders, err := tx.OverdueOrders(ctx, lateBatch)
			n = len(orders)
			for _, o := range orders {
				if err == nil {
					err = s.overdue(ctx, tx, o)
				}
			}
			return err
		})
		if err != nil || n < lateBatch {
			return err
		}
	}
	return ctx.Err()
}

// overdue opens what is overdue of one order, and says when to look again.
func (s *Cases) overdue(ctx context.Context, tx *store.Tx, o models.Order) error {
	subject := "order:" + strconv.FormatInt(o.ID, 10)
	var next time.Time
	look := func(at time.Time) {
		if next.IsZero() || at.Before(next) {
			next = at
		}
	}
	open := func(p models.Problem) error {
		if there, err := tx.CaseOnAxis(ctx, subject, p.Kind, p.Axis); err != nil || there {
			return err
		}
		return tx.OpenCase(ctx, store.Case{ConnectionID: o.ConnectionID, Subject: subject, OrderID: o.ID, Ref: o.Ref, Problem: p.Of(o)})
	}
	told, live, err := s.instructed(ctx, tx, o)
	if err != nil {
		return err
	}
	for _, d := range o.Duties(told.NotBefore, s.Zone) {
		p := models.Problem{Kind: models.Overdue, Case: d.Case, Axis: d.Axis, PlatformState: o.Axes[d.Axis].Word, LocalState: string(o.State(d.Axis)),
			Detail: d.Due.UTC().Format(time.RFC3339)}
		if d.Case == models.CaseOverdueUnshipped {
			if !live {
				continue // nobody was told to ship it by us: it is no promise of ours
			}
			if told.State != models.ActionDone && d.Due.Before(tx.Now) {
				look(tx.Now.Add(12 * time.Hour)) // it may be done yet, and the goods stay
			}
			if stays := told.Done.Add(models.ActWithin); told.State == models.ActionDone && tx.Now.Before(stays) {
				look(stays)
			} else if told.State == models.ActionDone && tx.Now.Before(d.Due) {
				differs := models.Problem{Kind: models.ActionDiffers, Case: models.CaseNotShipped, Axis: d.Axis, PlatformState: p.PlatformState, LocalState: string(told.State), Detail: told.Stage}
				if err := open(differs); err != nil {
					return err
				}
			}
		}
		if tx.Now.Before(d.Due) {
			look(d.Due)
			continue
		}
		if err := open(p); err != nil {
			return err
		}
		if d.Case == models.CaseOverdueUnshipped {
			// One late order is one case: this one says it louder.
			if err := tx.CloseCase(ctx, subject, models.ActionDiffers, models.CaseNotShipped, "ended"); err != nil {
				return err
			}
		}
	}
	return tx.LookOverdue(ctx, o.ID, next)
}

// instructed is the order's instruction to ship it, and whether it goes anywhere.
func (s *Cases) instructed(ctx context.Context, tx *store.Tx, o models.Order) (models.Action, bool, error) {
	list, err := tx.Instructions(ctx, o.ID)
	if err != nil {
		return models.Action{}, false, err
	}
	for _, x := range list {
		if x.Stage != models.WholeOrder {
			continue
		}
		switch x.State {
		case models.ActionWatched, models.ActionNotNeeded, models.ActionWithdrawn:
			return x.Action, false, nil
		}
		return x.Action, true, nil
	}
	return models.Action{}, false, nil
}
