package reconcile

import (
	"context"
	"slices"
	"strconv"

	"counterfoil/models"
	"counterfoil/models/store"
)

// sweepsShown is how many runs a connection's page shows.
const sweepsShown = 50

// File tells how a connection is compared. One of another shop is not_found.
func (s *Sweeps) File(ctx context.Context, actor models.Actor, slug string) (models.SweepFile, error) {
	c, err := s.conn(ctx, actor, slug)
	if err != nil {
		return models.SweepFile{}, err
	}
	f := models.SweepFile{Slug: c.Slug, Platform: c.Platform, HasAPI: c.Adapter != nil && c.Adapter.HasAPI(), Every: c.Duration("sweep_every")}
	if f.Sweeps, err = s.Store.SweepsOf(ctx, c.ID, sweepsShown); err != nil {
		return f, err
	}
	points, err := s.Store.Checkpoints(ctx, c.ID)
	if err != nil {
		return f, err
	}
	for _, p := range points {
		f.Points = append(f.Points, models.SweepPoint{Kind: p.Kind, At: p.At.UTC(), Swept: p.SweptAt.UTC(), Next: p.NextAt.UTC()})
	}
	if f.Off, err = s.Store.OffTimes(ctx); err != nil {
		return f, err
	}
	imported, err := s.Store.Imports(ctx)
	f.Imported = imported[c.ID]
	return f, err
}

// Stop stops a run at its next page. Shift leads, managers and admins may.
func (s *Sweeps) Stop(ctx context.Context, actor models.Actor, slug string, id int64) error {
	c, err := s.conn(ctx, actor, slug)
	if err != nil {
		return err
	}
	if !actor.May(models.SweepsRun) {
		return models.Fail(models.Forbidden, "error.may_not_sweep")
	}
	runs, err := s.Store.SweepsByID(ctx, []int64{id})
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(runs, func(r models.Sweep) bool { return r.Connection == c.ID }) {
		return models.Fail(models.NotFound, "error.sweep_unknown")
	}
	return s.Store.Tx(ctx, func(tx *store.Tx) error {
		stopped, err := tx.StopSweep(ctx, id)
		if err != nil {
			return err
		}
		if !stopped {
			return models.Fail(models.Conflict, "error.sweep_over")
		}
		return tx.Audit(ctx, actor.ID(), "sweep.stop", "sweep:"+strconv.FormatInt(id, 10), string(models.SweepRunning), string(models.SweepStopped))
	})
}
