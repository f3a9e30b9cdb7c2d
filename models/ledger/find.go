package ledger

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"counterfoil/models"
	"counterfoil/models/store"
)

// freshNames are the names of an object that its last description didn't have: only
// they can meet somebody who looks for them. The first official reading meets whoever
// was refused by what a payload alone couldn't say.
func freshNames(r Reading, ref models.ObjectRef, obj store.ObjectRow, desc *models.Observation) []string {
	if desc == nil {
		return nil
	}
	all := names(ref, desc)
	known := obj.Official
	if known == nil {
		known = obj.Said
	}
	if obj.OrderID == 0 || known == nil || r.Seen != nil && obj.Official == nil {
		return all
	}
	had := names(ref, known)
	return slices.DeleteFunc(all, func(n string) bool { return slices.Contains(had, n) })
}

// Describe is the observation that names and describes the order: the official one,
// else the newest that was said.
func Describe(r Reading) *models.Observation {
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
		id, _, err := Named(link.Value, func(form string) ([]int64, error) { return tx.OrdersNamed(ctx, r.Conn.ShopID, form) })
		if err != nil {
			return 0, "", err
		}
		if id != 0 {
			return l.linkTo(ctx, tx, id, link, desc)
		}
	}
	if ids, err := tx.OrdersNamed(ctx, r.Conn.ShopID, ref.ID); err != nil {
		return 0, "", err
	} else if len(ids) == 1 && !desc.Store {
		return ids[0], models.LinkIntent, nil
	}
	if !r.Conn.CreatesOrders() || desc.Absence != models.Present || r.Seen == nil && allTests(r.Events) {
		return 0, "", nil
	}
	id, err := tx.AnnounceOrder(ctx, models.Order{ShopID: r.Conn.ShopID, ConnectionID: r.Conn.ID, Platform: r.Conn.Platform, Account: ref.Account,
		Ref: ref.ID, Number: number(ref, desc), Placed: desc.Placed, Store: desc.Store, Test: desc.Test, Said: announcement(r)})
	return id, "", err
}

// Named is the order that a reference names: the first of its spellings that names a
// single one decides; 0: none does. several tells whether one names more than one.
func Named(ref string, orders func(form string) ([]int64, error)) (id int64, several bool, err error) {
	for _, form := range models.RefForms(ref) {
		ids, err := orders(form)
		if err != nil {
			return 0, false, err
		}
		if len(ids) == 1 {
			return ids[0], false, nil
		}
		several = several || len(ids) > 1
	}
	return 0, several, nil
}

// linkTo accepts a link. One that a buyer can type counts only if the amount and the
// currency fit what is outstanding, and test money belongs to no real order.
func (l *Ledger) linkTo(ctx context.Context, tx *store.Tx, id int64, link models.Link, desc *models.Observation) (int64, models.LinkHow, error) {
	if link.How != models.LinkReference && !desc.Test {
		return id, link.How, nil
	}
	order, err := tx.Order(ctx, id)
	if err != nil || !Accepts(order, link.How, desc) {
		return 0, "", err
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

// names lists everything by which the order of an object can be found.
func names(ref models.ObjectRef, desc *models.Observation) []string {
	var out []string
	for _, name := range append([]string{ref.ID, desc.Number}, desc.Refs...) {
		out = append(out, models.RefForms(name)...)
	}
	return out
}

// Wants lists the references under which an order would claim what was seen, or else
// what payloads said.
func Wants(r Reading) []string {
	return append(wantedRefs(Describe(r)), models.RefForms(r.Asked.ID)...)
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
