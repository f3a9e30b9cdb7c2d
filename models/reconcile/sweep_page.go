package reconcile

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"counterfoil/models"
	"counterfoil/models/connect"
	"counterfoil/models/ledger"
	"counterfoil/models/platform"
	"counterfoil/models/store"
)

// errTaken ends the work on a page that somebody else holds now, or that was stopped.
var errTaken = errors.New("reconcile: the run is somebody else's now")

// page asks for one page, compares it object by object and finishes it in one
// transaction. Only that one moves the run: whoever is killed before leaves the page to
// the next, who compares it once more and counts it once.
func (s *Sweeps) page(ctx context.Context, c *connect.Conn, run store.SweepRun) error {
	ctx = connect.Sweeping(ctx)
	began := s.Store.Now()
	batch, err := s.list(ctx, c, run)
	if err != nil {
		return err
	}
	if err := s.Book.Answered(ctx, c); err != nil {
		return err
	}
	p := store.SweepPage{Next: batch.Next, Quiet: run.Reason == models.SweepImport}
	seen := batch.Observations
	stated := map[models.ObjectRef]bool{}
	for i := range seen {
		stated[seen[i].Ref] = true
	}
	if err := s.compare(ctx, c, run, seen, began, &p); err != nil {
		return finished(err)
	}
	refs := slices.DeleteFunc(slices.Clone(batch.Refs), func(r models.ObjectRef) bool { return stated[r] })
	for part := range slices.Chunk(refs, max(1, c.Adapter.Together())) {
		began := s.Store.Now()
		got, err := s.fetch(ctx, c, part)
		if err != nil {
			return err
		}
		if err := s.compare(ctx, c, run, got, began, &p); err != nil {
			return finished(err)
		}
	}
	if err := s.checkpoint(ctx, c, run, &p); err != nil {
		return err
	}
	return s.Store.Tx(ctx, func(tx *store.Tx) error {
		ok, err := tx.FinishPage(ctx, run, p)
		if err != nil || !ok || s.Queue == nil {
			return err
		}
		if p.Next != "" {
			return s.Queue.WakeSweeps(ctx, tx, []int64{run.ID})
		}
		if run.Reason == models.SweepImport {
			_, err = tx.EndImport(ctx, c.ID, len(importKinds(c)))
		}
		return err
	})
}

func finished(err error) error {
	if errors.Is(err, errTaken) {
		return nil
	}
	return err
}

// list gives one page of what is to be compared.
func (s *Sweeps) list(ctx context.Context, c *connect.Conn, run store.SweepRun) (platform.Batch, error) {
	call, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	if run.Kind != unread {
		return c.Adapter.Changed(call, platform.Window{Since: run.Since, Until: run.Until, Cursor: run.Cursor, Kind: run.Kind})
	}
	after := int64(0)
	if run.Cursor != "" {
		var err error
		if after, err = strconv.ParseInt(run.Cursor, 10, 64); err != nil {
			return platform.Batch{}, fmt.Errorf("reconcile: cursor %q: %w", run.Cursor, err)
		}
	}
	old := func(name string) time.Time {
		if d := c.Duration(name); d > 0 {
			return run.Until.Add(-d)
		}
		return time.Time{}
	}
	refs, last, err := s.Store.Unread(ctx, c.ID, after, old("stale_after"), old("unsent_after"), run.Until.Add(-closedReturns), unreadPage)
	b := platform.Batch{Refs: refs}
	if len(refs) == unreadPage {
		b.Next = strconv.FormatInt(last, 10)
	}
	return b, err
}

// fetch reads objects. One that can't be read while the platform answers stops no other.
func (s *Sweeps) fetch(ctx context.Context, c *connect.Conn, refs []models.ObjectRef) ([]models.Observation, error) {
	call, cancel := context.WithTimeout(ctx, callTime)
	got, err := c.Adapter.Fetch(call, refs)
	cancel()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		out, ok := errors.AsType[*platform.Outage](err)
		if !ok {
			out = &platform.Outage{Detail: "the answer can't be read", Err: err}
		}
		if out.Throttled || !c.Answers(ctx, out) {
			return nil, out
		}
		if len(refs) == 1 {
			return []models.Observation{{Ref: refs[0], Absence: models.Unreadable, Detail: out.Detail}}, nil
		}
		var all []models.Observation
		for i := range refs {
			one, err := s.fetch(ctx, c, refs[i:i+1])
			if err != nil {
				return nil, err
			}
			all = append(all, one...)
		}
		return all, nil
	}
	var all []models.Observation
	for _, ref := range refs {
		o, ok := got[ref]
		if !ok {
			o = models.Observation{Ref: ref, Absence: models.Gone}
		}
		if o.Ref.Zero() {
			o.Ref = ref
		}
		all = append(all, o)
	}
	return all, nil
}

// compare judges what was seen: in one statement what is as it was, the rest one by one.
func (s *Sweeps) compare(ctx context.Context, c *connect.Conn, run store.SweepRun, seen []models.Observation, began time.Time, p *store.SweepPage) error {
	if len(seen) == 0 {
		return nil
	}
	all := make([]store.Reread, len(seen))
	for i := range seen {
		o := &seen[i]
		o.Basis, o.Read = models.Official, began
		digest := o.Digest()
		ref := ledger.Sighting{Conn: c, Asked: o.Ref, Seen: *o}.Ref()
		all[i] = store.Reread{ObjectRef: ref, Digest: hex.EncodeToString(digest[:])}
	}
	same, err := s.Store.Same(ctx, c.ID, run.No, all, began)
	if err != nil {
		return err
	}
	for i, o := range seen {
		p.Seen++
		if o.Changed.After(p.Reached) {
			p.Reached = o.Changed
		}
		if same[all[i].ObjectRef] {
			continue
		}
		verdict, id, err := s.one(ctx, c, run, o)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case store.Down(err):
			return err
		case err != nil:
			s.Log.Error("object not compared", "connection", c.Slug, "kind", o.Ref.Kind, "error", err)
			p.Failed++
		case verdict == ledger.Broken:
			p.Failed++
		case verdict == ledger.Differs:
			p.Found = append(p.Found, id)
		}
	}
	var mine bool
	if err := s.Store.Tx(ctx, func(tx *store.Tx) error {
		mine, err = tx.KeepSweep(ctx, run, sweepLease)
		return err
	}); err != nil {
		return err
	}
	if !mine {
		return errTaken
	}
	return nil
}

// one compares one object. The import takes over quietly what was there before it
// began; what changed since is a notification's to tell.
func (s *Sweeps) one(ctx context.Context, c *connect.Conn, run store.SweepRun, o models.Observation) (verdict ledger.Verdict, id int64, err error) {
	g := ledger.Sighting{Conn: c, Asked: o.Ref, Seen: o, No: run.No}
	if err := s.Store.Tx(ctx, func(tx *store.Tx) error { return tx.EnsureObject(ctx, c.ID, g.Ref()) }); err != nil {
		return "", 0, err
	}
	err = s.Store.Tx(ctx, func(tx *store.Tx) error {
		quiet := false
		if run.Reason == models.SweepImport && o.Absence == models.Present && latest(o).Before(run.Started) {
			obj, err := tx.FindObject(ctx, c.ID, g.Ref())
			if err != nil {
				return err
			}
			waits, err := tx.ObjectWaits(ctx, obj.ID)
			if err != nil {
				return err
			}
			quiet = obj.OrderID == 0 && !waits
		}
		if !quiet {
			verdict, id, err = s.Ledger.Compare(ctx, tx, g)
			return err
		}
		seen := o
		verdict = ledger.Imported
		_, err := s.Ledger.Apply(ctx, tx, ledger.Reading{Conn: c, Asked: g.Ref(), No: run.No, Seen: &seen, Actor: ledger.Console,
			Cause: models.Cause{Kind: models.CauseImport, ID: strconv.FormatInt(run.ID, 10), At: o.Read}})
		return err
	})
	return verdict, id, err
}

func latest(o models.Observation) time.Time {
	if at := o.ChangedAt(); !at.IsZero() {
		return at
	}
	return o.Placed
}

// checkpoint says up to when the kind is compared without a gap after a page. Two
// objects of one second may lie on both sides of a page's end, so a second stays.
func (s *Sweeps) checkpoint(ctx context.Context, c *connect.Conn, run store.SweepRun, p *store.SweepPage) error {
	p.Every = every(c, run.Kind)
	points, err := s.Store.Checkpoints(ctx, c.ID)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(points, func(x store.Checkpoint) bool { return x.Kind == run.Kind })
	gapless := i < 0 || !run.Since.After(points[i].At) || byBirth(c, run.Kind) || c.Platform == models.ReceiptRoller
	switch {
	case !gapless:
	case p.Next == "":
		p.Checkpoint = run.Until
	case ascending(c, run.Kind) && !p.Reached.IsZero() && p.Reached.Before(run.Until):
		p.Checkpoint = p.Reached.Add(-time.Second)
	}
	return nil
}
