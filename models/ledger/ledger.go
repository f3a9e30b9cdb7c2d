// Package ledger applies what platforms say to orders: find or make the order, lock
// it, advance it by the rules, write the entries, say what is wrong.
package ledger

import (
	"context"
	"fmt"
	"slices"
	"time"

	"counterfoil/models"
	"counterfoil/models/connect"
	"counterfoil/models/queue"
	"counterfoil/models/store"
)

// Console is the actor of what no person did.
const Console = "console"

// A Ledger writes orders. Nothing else does.
type Ledger struct {
	Book  *connect.Book
	Queue *queue.Queue
}

// A Reading is one object as a platform described it, with the events it serves.
type Reading struct {
	Conn  *connect.Conn
	Asked models.ObjectRef
	No    int64 // 0 where the platform wasn't asked
	// Seen is the official observation; nil where the platform wasn't asked.
	Seen   *models.Observation
	Events []store.DueEvent
	// Hint: the platform couldn't be asked, so what was said only announces an order
	// or puts it in doubt; it moves nothing.
	Hint  bool
	Doubt models.Doubt
	// Cause of moves that no event explains.
	Cause models.Cause
	Actor string
	// How exceptions close that this reading settles; empty: by a reading.
	How string
}

// An Outcome says what a reading did.
type Outcome struct {
	OrderID   int64
	ObjectID  int64
	Entries   []Written
	Problems  []models.Problem
	Unmatched bool // no order yet
	// Foreign is the rule by which the object belongs to another system; it is
	// unmatched for good.
	Foreign   string
	Overtaken bool // a reading that began later has been applied: ask again
	// Answering: the platform couldn't be asked when this reading was tried, and
	// answers meanwhile; nobody else will ask again for it.
	Answering bool
	Moved     bool
	// LastEntry and LastEvent are what the order's ledger says already, where nothing moved.
	LastEntry, LastEvent int64
	// Missing is since when the platform answers and doesn't know the object.
	Missing time.Time
}

// Written is an entry together with the event that is its cause; 0: none.
type Written struct {
	ID    int64
	Axis  models.Axis
	Event int64
}

// Apply brings the order of an object to what the platforms say. It runs in the
// caller's transaction, which must be able to run again.
func (l *Ledger) Apply(ctx context.Context, tx *store.Tx, r Reading) (Outcome, error) {
	ref := r.Asked
	if r.Seen != nil && !r.Seen.Ref.Zero() {
		ref = r.Seen.Ref
	} else if said := lastSaid(r.Events); r.Seen == nil && said != nil && !said.Ref.Zero() {
		ref = said.Ref
	}
	if ref.Account == "" {
		ref.Account = r.Conn.Account
	}
	obj, err := tx.FindObject(ctx, r.Conn.ID, ref)
	if err != nil {
		return Outcome{}, err
	}
	desc := Describe(r)
	fresh := freshNames(r, ref, obj, desc)
	if err := tx.LockRefs(ctx, r.Conn.ShopID, append(fresh, wantedRefs(desc)...)); err != nil {
		return Outcome{}, err
	}
	out := Outcome{ObjectID: obj.ID, OrderID: obj.OrderID}
	if r.Hint {
		failing, err := tx.Failing(ctx, r.Conn.ID)
		if err != nil {
			return out, err
		}
		out.Answering = !failing
	}
	linkedBy := obj.LinkedBy
	switch {
	case obj.OrderID != 0:
	case desc != nil && desc.Foreign != "":
		out.Foreign = desc.Foreign
	default:
		if out.OrderID, linkedBy, err = l.find(ctx, tx, r, ref, desc); err != nil {
			return Outcome{}, err
		}
	}
	j, err := l.joining(ctx, tx, r, obj, out.OrderID, desc, fresh)
	if err != nil {
		return out, err
	}
	order, err := j.lock(ctx, tx, out.OrderID)
	if err != nil {
		return out, err
	}
	out.OrderID = order.ID
	if obj, err = j.lockObjects(ctx, tx, obj.ID); err != nil {
		return out, err
	}
	if obj.OrderID != 0 && order.ID != obj.OrderID && order.ID != 0 {
		return out, fmt.Errorf("ledger: object %d was linked to another order meanwhile: %w", obj.ID, errAgain)
	}
	if r.No != 0 && r.No < obj.AppliedNo {
		out.Overtaken = true
		return out, nil
	}
	before := obj
	obj.OrderID, obj.LinkedBy = out.OrderID, linkedBy
	if l.take(&obj, r) {
		desc = obj.Official // an older answer names nothing
	}
	if err := tx.SaveObject(ctx, obj, r.No); err != nil {
		return out, err
	}
	if err := l.linked(ctx, tx, order, before, obj, out.Foreign); err != nil {
		return out, err
	}
	if ref != r.Asked {
		asked, err := tx.FindObject(ctx, r.Conn.ID, r.Asked)
		if err != nil {
			return out, err
		}
		if err := tx.Lead(ctx, asked.ID, obj.ID); err != nil {
			return out, err
		}
	}
	switch {
	case r.Seen != nil && r.Seen.Absence != models.Present:
		out.Missing = obj.Missing
		return out, l.missing(ctx, tx, r, order, obj)
	case out.OrderID == 0:
		out.Unmatched = true
		return out, nil
	case r.Hint:
		return out, l.hint(ctx, tx, r, order, desc, fresh)
	case r.Seen != nil:
		if err := l.settle(ctx, tx, r, obj.ID); err != nil {
			return out, err
		}
	}
	if err := l.join(ctx, tx, r, j, order, obj, desc, fresh, &out); err != nil {
		return out, err
	}
	if r.Seen != nil && !slices.ContainsFunc(out.Problems, func(p models.Problem) bool { return p.Kind == models.MoveRefused }) {
		return out, tx.SettleReviews(ctx, out.OrderID)
	}
	return out, nil
}

// Prepare makes the rows of the objects that a reading names, before the transaction
// that locks their order: there, rows are only found.
func (l *Ledger) Prepare(ctx context.Context, s *store.Store, conn *connect.Conn, asked models.ObjectRef, seen *models.Observation) error {
	if seen == nil || seen.Ref.Zero() || seen.Ref == asked {
		return nil
	}
	ref := seen.Ref
	if ref.Account == "" {
		ref.Account = conn.Account
	}
	if ref == asked {
		return nil
	}
	return s.Tx(ctx, func(tx *store.Tx) error { return tx.EnsureObject(ctx, conn.ID, ref) })
}

// errAgain makes the caller's event be tried again a moment later.
var errAgain = models.Fail(models.Conflict, "error.moved_meanwhile")

// take puts what was read and said into the object. It answers true where the
// platform's own time says that this reading is older than the last one.
func (l *Ledger) take(obj *store.ObjectRow, r Reading) bool {
	stale := false
	if r.Seen != nil {
		switch old := obj.Official; {
		case r.Seen.Absence != models.Present:
			if obj.Missing.IsZero() {
				obj.Missing = r.Seen.Read
			}
		case old != nil && older(*r.Seen, *old):
			stale = true
			obj.Missing = time.Time{}
		default:
			obj.Official, obj.Fetched, obj.Missing = r.Seen, r.Seen.Read, time.Time{}
		}
	}
	for _, e := range r.Events {
		if e.Said == nil {
			continue
		}
		said := *e.Said
		if said.Read.IsZero() {
			said.Read = e.Received
		}
		if r.Conn.Adapter == nil || !r.Conn.Adapter.HasAPI() {
			said.Axes = dated(said)
		}
		merged := models.KeepSaid(obj.Said, said, reads(r.Conn))
		obj.Said = &merged
		if e.Received.After(obj.Reported) {
			obj.Reported = e.Received
		}
	}
	return stale
}

// dated holds for review what a payload states without a time or a version, where
// nobody can be asked: it can't be told old from new.
func dated(said models.Observation) map[models.Axis]models.Statement {
	axes := make(map[models.Axis]models.Statement, len(said.Axes))
	for a, s := range said.Axes {
		if s.At.IsZero() && said.Changed.IsZero() && said.Version == 0 && s.Version == 0 {
			s.Unclear = true
			s.State = ""
			if a == models.Payment || a == models.Refund {
				s.State = models.Review
			}
		}
		axes[a] = s
	}
	return axes
}

func reads(c *connect.Conn) map[models.Axis]bool {
	if c.Adapter == nil {
		return nil
	}
	return c.Adapter.Reads()
}

// older tells whether a reading shows a state that the platform had before the one
// already known: an answer from a replica that lags.
func older(seen, known models.Observation) bool {
	if known.Absence != models.Present || seen.Absence != models.Present {
		return false
	}
	if seen.Version != 0 && known.Version != 0 {
		return seen.Version < known.Version
	}
	return !seen.Changed.IsZero() && !known.Changed.IsZero() && seen.Changed.Before(known.Changed)
}

// advance judges the whole order by all of its objects, and writes what the rules allow.
func (l *Ledger) advance(ctx context.Context, tx *store.Tx, r Reading, order models.Order, desc *models.Observation, fresh []string, out *Outcome) error {
	objects, missing, err := l.views(ctx, tx, order.ID)
	if err != nil {
		return err
	}
	target := models.Compose(objects)
	if len(target.Axes) == 0 && order.Announced {
		return l.addRefs(ctx, tx, r, order, fresh)
	}
	step := models.Advance(order, target, tx.Now)
	next := step.Order
	if desc != nil && desc.Absence == models.Present && (desc.Store || !next.Store) {
		l.name(&next, r, desc)
	}
	for _, m := range step.Moves {
		cause, event := causeOf(m, r)
		id, err := tx.WriteEntry(ctx, next.ID, m, cause, r.Actor)
		if err != nil {
			return err
		}
		out.Entries = append(out.Entries, Written{ID: id, Axis: m.Axis, Event: event})
	}
	out.Moved = out.Moved || len(step.Moves) > 0
	if !out.Moved {
		if out.LastEntry, out.LastEvent, err = tx.LastEntry(ctx, next.ID); err != nil {
			return err
		}
	}
	out.Problems = append(step.Problems, faults(objects)...)
	paused, err := shippedWhilePaused(ctx, tx, order, next, objects)
	if err != nil {
		return err
	}
	out.Problems = append(out.Problems, paused...)
	sight, odd, err := l.contradict(ctx, tx, r, order, next, objects)
	if err != nil {
		return err
	}
	out.Problems = append(out.Problems, odd...)
	problems, held, err := l.grace(ctx, tx, r, &next, objects, out.Problems)
	if err != nil {
		return err
	}
	out.Problems = problems
	if err := tx.SaveOrder(ctx, next); err != nil {
		return err
	}
	if err := l.follow(ctx, tx, r, order, next, target, step.Moves, out); err != nil {
		return err
	}
	if err := l.cases(ctx, tx, r, sight, out.Problems, held, missing, out.ObjectID); err != nil {
		return err
	}
	if order.Announced {
		// What was wrong with the object before it had an order is right now.
		for _, o := range objects {
			if err := tx.CloseCases(ctx, objectSubject(o.ID), readingKinds, nil, "reading"); err != nil {
				return err
			}
		}
	}
	if len(fresh) == 0 {
		return nil
	}
	return l.addRefs(ctx, tx, r, next, fresh)
}

// addRefs makes an order findable by its names, and wakes what waited for them.
func (l *Ledger) addRefs(ctx context.Context, tx *store.Tx, r Reading, o models.Order, fresh []string) error {
	woken, err := tx.AddRefs(ctx, o.ShopID, o.ID, fresh, eventIDs(r.Events)...)
	if err != nil || len(woken) == 0 || l.Queue == nil {
		return err
	}
	return l.Queue.WakeEvents(ctx, tx, woken)
}

// name takes what a description says of the order itself.
func (l *Ledger) name(o *models.Order, r Reading, desc *models.Observation) {
	if desc.Number != "" {
		o.Number = desc.Number
	}
	if !desc.Placed.IsZero() {
		o.Placed = desc.Placed
	}
	o.Store = o.Store || desc.Store
	o.Test = desc.Test
	if desc.Method != "" {
		o.Method = desc.Method
	}
	if desc.Channel != "" {
		o.Channel = desc.Channel
	}
}

// views are an order's objects together with what their connections can do, and
// whether one of them is missing at its platform.
func (l *Ledger) views(ctx context.Context, tx *store.Tx, order int64) (views []models.ObjectView, missing bool, err error) {
	rows, err := tx.ObjectsOf(ctx, order)
	if err != nil {
		return nil, false, err
	}
	for _, row := range rows {
		views = append(views, View(row, l.Book))
		missing = missing || !row.Missing.IsZero()
	}
	return views, missing, nil
}

// View is a kept object together with what its connection can do.
func View(row store.ObjectRow, book *connect.Book) models.ObjectView {
	v := models.ObjectView{ID: row.ID, Connection: row.ConnectionID, Ref: row.Ref, LinkedBy: row.LinkedBy, Official: row.Official, Said: row.Said}
	if c := book.ID(row.ConnectionID); c != nil {
		v.Slug, v.Platform = c.Slug, c.Platform
		if c.Adapter != nil && !(row.Official == nil && c.CallsRunOut()) {
			v.Reads = c.Adapter.Reads()
		}
	}
	return v
}
