// Package ledger applies what platforms say to orders: find or make the order, lock
// it, advance it by the rules, write the entries, say what is wrong.
package ledger

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"counterfoil/models"
	"counterfoil/models/connect"
	"counterfoil/models/store"
)

// Console is the actor of what no person did.
const Console = "console"

// A Ledger writes orders. Nothing else does.
type Ledger struct {
	Book *connect.Book
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
}

// An Outcome says what a reading did.
type Outcome struct {
	OrderID   int64
	Entries   []Written
	Problems  []models.Problem
	Unmatched bool // no order yet
	Overtaken bool // a reading that began later has been applied: ask again
	Stale     bool // the platform's own time is older than what is known: nothing was changed
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
	desc := describe(r)
	fresh := freshNames(ref, obj, desc)
	if err := tx.LockRefs(ctx, r.Conn.ShopID, append(fresh, wantedRefs(desc)...)); err != nil {
		return Outcome{}, err
	}
	orderID, linkedBy := obj.OrderID, obj.LinkedBy
	if orderID == 0 {
		orderID, linkedBy, err = l.find(ctx, tx, r, ref, desc)
		if err != nil {
			return Outcome{}, err
		}
	}
	out := Outcome{OrderID: orderID}
	var order models.Order
	if orderID != 0 {
		if order, err = lockMerged(ctx, tx, orderID); err != nil {
			return out, err
		}
		out.OrderID = order.ID
	}
	if obj, err = tx.LockObject(ctx, obj.ID); err != nil {
		return out, err
	}
	if obj.OrderID != 0 && order.ID != obj.OrderID && order.ID != 0 {
		return out, fmt.Errorf("ledger: object %d was linked to another order meanwhile: %w", obj.ID, errAgain)
	}
	if r.No != 0 && r.No < obj.AppliedNo {
		out.Overtaken = true
		return out, nil
	}
	obj.OrderID, obj.LinkedBy = out.OrderID, linkedBy
	out.Stale = l.take(&obj, r)
	if err := tx.SaveObject(ctx, obj, r.No); err != nil {
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
	}
	return out, l.advance(ctx, tx, r, order, desc, fresh, &out)
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

// freshNames are the names of an object that its last description didn't have: only
// they can meet somebody who looks for them.
func freshNames(ref models.ObjectRef, obj store.ObjectRow, desc *models.Observation) []string {
	if desc == nil {
		return nil
	}
	all := names(ref, desc)
	known := obj.Official
	if known == nil {
		known = obj.Said
	}
	if obj.OrderID == 0 || known == nil {
		return all
	}
	had := names(ref, known)
	return slices.DeleteFunc(all, func(n string) bool { return slices.Contains(had, n) })
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
		merged := models.KeepSaid(obj.Said, said, reads(r.Conn))
		obj.Said = &merged
		if e.Received.After(obj.Reported) {
			obj.Reported = e.Received
		}
	}
	return stale
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

// describe is the observation that names and describes the order: the official one,
// else the newest that was said.
func describe(r Reading) *models.Observation {
	if r.Seen != nil {
		return r.Seen
	}
	return lastSaid(r.Events)
}

func lastSaid(events []store.DueEvent) *models.Observation {
	var best *models.Observation
	for _, e := range events {
		if e.Said != nil && (best == nil || e.Said.Changed.After(best.Changed)) {
			best = e.Said
		}
	}
	return best
}

// find looks for the order of an object that isn't linked yet, and makes it where
// this connection's objects are orders. The references are locked already, so that of
// an event that finds no order and an order that finds no event one always sees the other.
func (l *Ledger) find(ctx context.Context, tx *store.Tx, r Reading, ref models.ObjectRef, desc *models.Observation) (int64, models.LinkHow, error) {
	if desc == nil {
		return 0, "", nil
	}
	if id, err := tx.OrderByRef(ctx, r.Conn.ID, ref.ID); err != nil || id != 0 {
		return id, "", err
	}
	for _, link := range desc.Links {
		for _, form := range models.RefForms(link.Value) {
			ids, err := tx.OrdersNamed(ctx, r.Conn.ShopID, form)
			if err != nil {
				return 0, "", err
			}
			if len(ids) == 1 {
				return l.linkTo(ctx, tx, ids[0], link, desc)
			}
		}
	}
	if ids, err := tx.OrdersNamed(ctx, r.Conn.ShopID, ref.ID); err != nil {
		return 0, "", err
	} else if len(ids) == 1 && !desc.Store {
		return ids[0], models.LinkIntent, nil
	}
	if !r.Conn.CreatesOrders() || desc.Absence != models.Present {
		return 0, "", nil
	}
	id, err := tx.AnnounceOrder(ctx, models.Order{ShopID: r.Conn.ShopID, ConnectionID: r.Conn.ID, Platform: r.Conn.Platform, Account: ref.Account,
		Ref: ref.ID, Number: number(ref, desc), Placed: desc.Placed, Store: desc.Store, Test: desc.Test, Said: announcement(r)})
	return id, "", err
}

// linkTo accepts a link. One that a buyer can type counts only if the amount and the
// currency fit what is outstanding.
func (l *Ledger) linkTo(ctx context.Context, tx *store.Tx, id int64, link models.Link, desc *models.Observation) (int64, models.LinkHow, error) {
	if link.How != models.LinkReference {
		return id, link.How, nil
	}
	order, err := tx.Order(ctx, id)
	if err != nil {
		return 0, "", err
	}
	a := desc.Amounts
	open := order.Total - order.Received
	if a == nil || a.Currency != order.Currency || a.Total != order.Total && a.Total != open {
		return 0, "", nil
	}
	return id, link.How, nil
}

// announcement is what was said, kept while the platform can't be asked.
func announcement(r Reading) *models.Observation {
	if r.Seen != nil {
		return nil
	}
	return lastSaid(r.Events)
}

// hint announces an order by name, or puts a known one in doubt.
func (l *Ledger) hint(ctx context.Context, tx *store.Tx, r Reading, order models.Order, desc *models.Observation, fresh []string) error {
	if order.Announced {
		if desc != nil && (order.Said == nil || desc.Changed.After(order.Said.Changed)) {
			order.Said = desc
			order.Number = number(models.ObjectRef{ID: order.Ref}, desc)
			if err := tx.SaveOrder(ctx, order); err != nil {
				return err
			}
		}
		if desc == nil {
			return nil
		}
		return tx.AddRefs(ctx, order.ShopID, order.ID, fresh)
	}
	if order.Doubted(r.Conn.ID, models.Unverified, r.Doubt) {
		return tx.SaveOrder(ctx, order)
	}
	return nil
}

// GoneAfter is how long a platform may answer without knowing an object before we
// say that it is gone: some platforms tell before they can be asked.
const GoneAfter = 10 * time.Minute

// missing judges an object that the platform doesn't show although it answers.
func (l *Ledger) missing(ctx context.Context, tx *store.Tx, r Reading, order models.Order, obj store.ObjectRow) error {
	p := models.Problem{Kind: models.GoneOnPlatform, Detail: obj.Ref.ID}
	check, doubt := models.ToReview, models.Missing
	subject := "object:" + strconv.FormatInt(obj.ID, 10)
	if order.ID != 0 {
		subject = "order:" + strconv.FormatInt(order.ID, 10)
	}
	switch r.Seen.Absence {
	case models.AdminTest:
		return nil
	case models.OutsideWindow:
		p = models.Problem{Kind: models.OutsideWindowKind}
		check, doubt = models.Unverified, models.TooOld
		subject = "window"
	case models.Unreadable:
		p.Case, p.Detail = "unreadable", r.Seen.Detail
	default:
		if order.ID == 0 && allTests(r.Events) || tx.Now.Sub(obj.Missing) < GoneAfter && !Deleted(r.Events) {
			return nil
		}
	}
	if order.ID != 0 && !order.Announced && order.Doubted(r.Conn.ID, check, doubt) {
		if err := tx.SaveOrder(ctx, order); err != nil {
			return err
		}
	}
	return tx.OpenCase(ctx, store.Case{ConnectionID: r.Conn.ID, Subject: subject, OrderID: order.ID, Ref: obj.Ref.ID, Problem: p})
}

// Deleted tells whether the platform itself said that the object was deleted.
func Deleted(events []store.DueEvent) bool {
	for _, e := range events {
		if e.Topic == "orders/delete" {
			return true
		}
	}
	return false
}

func allTests(events []store.DueEvent) bool {
	for _, e := range events {
		if !e.Test {
			return false
		}
	}
	return len(events) > 0
}

// names lists everything by which the order of an object can be found.
func names(ref models.ObjectRef, desc *models.Observation) []string {
	var out []string
	for _, name := range append([]string{ref.ID, desc.Number}, desc.Refs...) {
		out = append(out, models.RefForms(name)...)
	}
	return out
}

// Wants lists the references under which an order would claim what was seen.
func Wants(seen *models.Observation, asked models.ObjectRef) []string {
	return append(wantedRefs(seen), models.RefForms(asked.ID)...)
}

// wantedRefs lists the references under which an order would claim an object.
func wantedRefs(desc *models.Observation) []string {
	var out []string
	if desc == nil {
		return nil
	}
	for _, link := range desc.Links {
		out = append(out, models.RefForms(link.Value)...)
	}
	return out
}

func number(ref models.ObjectRef, desc *models.Observation) string {
	if desc.Number != "" {
		return desc.Number
	}
	for _, link := range desc.Links {
		return link.Value
	}
	if i := strings.LastIndexByte(ref.ID, '/'); i >= 0 {
		return ref.ID[i+1:]
	}
	return ref.ID
}

// lockMerged locks an order, following a shell to the order it became part of.
func lockMerged(ctx context.Context, tx *store.Tx, id int64) (models.Order, error) {
	for range 8 {
		o, err := tx.LockOrder(ctx, id)
		if err != nil || o.MergedInto == 0 {
			return o, err
		}
		id = o.MergedInto
	}
	return models.Order{}, fmt.Errorf("ledger: order %d is merged in a circle", id)
}

// advance judges the whole order by all of its objects, and writes what the rules allow.
func (l *Ledger) advance(ctx context.Context, tx *store.Tx, r Reading, order models.Order, desc *models.Observation, fresh []string, out *Outcome) error {
	objects, err := l.views(ctx, tx, order.ID)
	if err != nil {
		return err
	}
	target := models.Compose(objects)
	if len(target.Axes) == 0 && order.Announced {
		return tx.AddRefs(ctx, order.ShopID, order.ID, fresh)
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
	out.Moved = len(step.Moves) > 0
	if !out.Moved {
		if out.LastEntry, out.LastEvent, err = tx.LastEntry(ctx, next.ID); err != nil {
			return err
		}
	}
	out.Problems = append(step.Problems, faults(r.Seen)...)
	if err := tx.SaveOrder(ctx, next); err != nil {
		return err
	}
	if err := l.cases(ctx, tx, next, out.Problems); err != nil || len(fresh) == 0 {
		return err
	}
	return tx.AddRefs(ctx, next.ShopID, next.ID, fresh)
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

// faults are what the adapter couldn't understand, as problems of the order.
func faults(seen *models.Observation) []models.Problem {
	if seen == nil {
		return nil
	}
	var out []models.Problem
	for _, f := range seen.Faults {
		if f.Kind == models.UnknownStatus {
			continue // Advance tells it with both states
		}
		out = append(out, models.Problem{Kind: f.Kind, Axis: f.Axis, Detail: strings.TrimSpace(f.Path + " " + f.Word)})
	}
	return out
}

// readingKinds are the exceptions that the next good reading settles by itself.
var readingKinds = []models.ExceptionKind{models.MoveRefused, models.UnknownStatus, models.PlatformsDisagree, models.AmountDiffers,
	models.SchemaChanged, models.GoneOnPlatform, models.Contradiction}

// cases opens what is wrong and closes what this reading shows to be right again.
func (l *Ledger) cases(ctx context.Context, tx *store.Tx, o models.Order, problems []models.Problem) error {
	subject := "order:" + strconv.FormatInt(o.ID, 10)
	var still []string
	for _, p := range problems {
		still = append(still, string(p.Kind)+"/"+string(p.Axis))
	}
	if err := tx.CloseCases(ctx, o.ConnectionID, subject, readingKinds, still, "reading"); err != nil {
		return err
	}
	for _, p := range problems {
		if err := tx.OpenCase(ctx, store.Case{ConnectionID: o.ConnectionID, Subject: subject, OrderID: o.ID, Ref: o.Ref, Problem: p}); err != nil {
			return err
		}
	}
	return nil
}

// views are an order's objects together with what their connections can do.
func (l *Ledger) views(ctx context.Context, tx *store.Tx, order int64) ([]models.ObjectView, error) {
	rows, err := tx.ObjectsOf(ctx, order)
	if err != nil {
		return nil, err
	}
	views := make([]models.ObjectView, 0, len(rows))
	for _, row := range rows {
		views = append(views, View(row, l.Book))
	}
	return views, nil
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
