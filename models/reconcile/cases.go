package reconcile

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"counterfoil/models"
	"counterfoil/models/connect"
	"counterfoil/models/platform"
	"counterfoil/models/store"
)

// Case reads what an exception is about again: all objects of its order, and the object
// that it names, whose order may not be known yet. It answers the order that this led
// to (0: none).
func (s *Resync) Case(ctx context.Context, actor models.Actor, id int64) (string, int64, error) {
	x, err := s.Store.Exception(ctx, id)
	if err != nil {
		return "", 0, err
	}
	if !actor.SeesCase(x) {
		return "", 0, models.Fail(models.NotFound, "error.exception_unknown")
	}
	if !actor.May(models.OrdersResync) {
		return "", 0, models.Fail(models.Forbidden, "error.may_not_resync")
	}
	result, order := "", x.OrderID
	if order != 0 {
		if result, err = s.Order(ctx, actor, order); err != nil {
			return "", 0, err
		}
	}
	object, err := s.objectOf(ctx, x)
	if err != nil || object == nil || object.OrderID != 0 && object.OrderID == order {
		if result == "" && err == nil {
			err = models.Fail(models.Invalid, "error.case_nothing_to_read")
		}
		return result, order, err
	}
	conn := s.Book.ID(object.ConnectionID)
	if conn == nil || conn.Adapter == nil || !conn.Adapter.HasAPI() {
		if result == "" {
			result = Unavailable
		}
		return result, order, nil
	}
	one, found, err := s.read(ctx, actor, conn, object.Ref)
	switch {
	case models.CodeOf(err) == models.NotFound: // the platform answered: no order comes of it
		one, err = Exception, nil
	case err != nil:
		return "", 0, err
	}
	if order == 0 {
		order = found
	}
	if rank[one] > rank[result] {
		result = one
	}
	return result, order, s.audit(ctx, actor, store.CaseSubject(id), one)
}

// objectOf is the object that an exception is about, where it names one.
func (s *Resync) objectOf(ctx context.Context, x models.Exception) (*store.ObjectRow, error) {
	id := x.ObjectID
	if id == 0 {
		if n, err := strconv.ParseInt(strings.TrimPrefix(x.Subject, "object:"), 10, 64); err == nil {
			id = n
		}
	}
	if id != 0 {
		o, err := s.Store.ObjectByID(ctx, id)
		return &o, err
	}
	if x.OrderID != 0 || x.Ref == "" || x.Connection == "" {
		return nil, nil
	}
	conn, err := s.Book.Slug(ctx, x.Connection)
	if err != nil || conn.Adapter == nil {
		return nil, err
	}
	ref, err := object(conn, x.Ref)
	if err != nil {
		return nil, nil // it names something that can't be asked for: a secret, a topic
	}
	return &store.ObjectRow{ConnectionID: conn.ID, Ref: ref}, nil
}

// A Bulk is what came of having many exceptions read again.
type Bulk struct {
	Cases   int
	Objects int
	At      time.Time // the exceptions have it as the time at which they were asked for
}

// Cases has what a query of exceptions finds read again in the background, the most
// urgent first, as many as the actor may at once. What can't be asked isn't.
func (s *Resync) Cases(ctx context.Context, actor models.Actor, q models.CaseQuery) (Bulk, error) {
	limit := actor.ResyncMany()
	if limit == 0 {
		return Bulk{}, models.Fail(models.Forbidden, "error.may_not_resync")
	}
	q.Shops, q.State = actor.Shops, "open"
	var ask []int64
	for _, c := range s.Book.All() {
		if c.Adapter != nil && c.Adapter.HasAPI() && actor.Sees(c.ShopID) {
			ask = append(ask, c.ID)
		}
	}
	var out Bulk
	err := s.Store.Tx(ctx, func(tx *store.Tx) error {
		cases, objects, wake, err := tx.RereadCases(ctx, q, ask, limit)
		if err != nil {
			return err
		}
		out = Bulk{Cases: len(cases), Objects: objects, At: tx.Now}
		if len(cases) == 0 {
			return models.Fail(models.Conflict, "error.cases_none")
		}
		if s.Ledger.Queue != nil {
			if err := s.Ledger.Queue.WakeEvents(ctx, tx, wake); err != nil {
				return err
			}
		}
		return tx.Audit(ctx, actor.ID(), "resync.many", "exceptions", "", fmt.Sprintf("cases %d objects %d", len(cases), objects))
	})
	return out, err
}

// Find reads what a connection's platform has under what a person typed: a reference,
// or a number as customers know it. It answers the order that this led to (0: none).
func (s *Resync) Find(ctx context.Context, actor models.Actor, slug, typed string) (string, int64, error) {
	conn, err := s.Book.Slug(ctx, slug)
	if err != nil {
		return "", 0, err
	}
	finder, ok := conn.Adapter.(platform.Finder)
	if !ok || !actor.Sees(conn.ShopID) || !actor.May(models.OrdersResync) || !conn.Adapter.HasAPI() {
		return s.Ref(ctx, actor, slug, typed)
	}
	typed = strings.TrimSpace(models.Half(typed))
	if typed == "" || len(typed) > 255 || strings.ContainsFunc(typed, func(r rune) bool { return r < ' ' }) {
		return s.Ref(ctx, actor, slug, typed)
	}
	call, cancel := context.WithTimeout(connect.Awaited(ctx), callTime)
	refs, err := finder.Find(call, typed)
	cancel()
	if err != nil {
		outage, ok := errors.AsType[*platform.Outage](err)
		if !ok && ctx.Err() != nil {
			return "", 0, err
		}
		if !ok {
			outage = &platform.Outage{Detail: "the answer can't be read", Err: err}
		}
		if _, _, err := s.Book.Failed(ctx, conn, outage); err != nil {
			return "", 0, err
		}
		return Unavailable, 0, nil
	}
	if len(refs) == 0 {
		result, id, err := s.Ref(ctx, actor, slug, typed)
		if models.CodeOf(err) == models.Invalid { // a number that no order of the platform has
			err = models.Fail(models.NotFound, "error.platform_unknown_ref")
		}
		return result, id, err
	}
	result, order := "", int64(0)
	for _, ref := range refs {
		one, id, err := s.read(ctx, actor, conn, ref)
		if err != nil {
			return "", 0, err
		}
		if order == 0 {
			order = id
		}
		if rank[one] > rank[result] {
			result = one
		}
	}
	return result, order, s.audit(ctx, actor, "connection:"+strconv.FormatInt(conn.ID, 10), result)
}

// Askable lists the connections of the actor's shops whose platforms can be asked for
// something that nobody knows yet.
func (s *Resync) Askable(actor models.Actor) []string {
	var out []string
	for _, slug := range s.Book.Slugs(actor.Shops) {
		for _, c := range s.Book.All() {
			if c.Slug == slug && c.Adapter != nil && c.Adapter.HasAPI() {
				out = append(out, slug)
			}
		}
	}
	return out
}
