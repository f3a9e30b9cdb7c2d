// Package reconcile compares both sides: it reads official objects again on demand,
// and applies them under the same rules as any notification.
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
	"counterfoil/models/ledger"
	"counterfoil/models/platform"
	"counterfoil/models/store"
)

// A Resync reads the official objects of one order again.
type Resync struct {
	Store  *store.Store
	Book   *connect.Book
	Ledger *ledger.Ledger
}

// Results of a resync, as the JSON contract spells them.
const (
	Same        = "same"
	Moved       = "moved"
	Exception   = "exception"
	Unavailable = "unavailable"
)

// rank orders results: one resync reads several objects, and the weightiest is told.
var rank = map[string]int{"": 0, Same: 1, Moved: 2, Exception: 3, Unavailable: 4}

const callTime = 20 * time.Second

// Order reads all objects of an order again. Support, managers and admins may, for
// orders of their shops; an order of another shop is not_found.
func (s *Resync) Order(ctx context.Context, actor models.Actor, id int64) (string, error) {
	order, err := s.Store.Order(ctx, id)
	if err != nil {
		return "", err
	}
	if !actor.Sees(order.ShopID) {
		return "", models.Fail(models.NotFound, "error.order_unknown")
	}
	if !actor.May(models.OrdersResync) {
		return "", models.Fail(models.Forbidden, "error.may_not_resync")
	}
	if order.MergedInto != 0 {
		return s.Order(ctx, actor, order.MergedInto)
	}
	objects, err := s.Store.ObjectsOf(ctx, id)
	if err != nil {
		return "", err
	}
	result := ""
	for _, o := range objects {
		conn := s.Book.ID(o.ConnectionID)
		if conn == nil || conn.Adapter == nil || !conn.Adapter.HasAPI() {
			continue
		}
		one, _, err := s.read(ctx, actor, conn, o.Ref)
		if err != nil {
			return "", err
		}
		if rank[one] > rank[result] {
			result = one
		}
	}
	if result == "" {
		return Unavailable, nil // no platform of the order can be asked at all
	}
	return result, s.audit(ctx, actor, "order:"+strconv.FormatInt(id, 10), result)
}

// Ref reads an object that may not be known yet, by what a person types for it, and
// answers the order that it belongs to (0: none).
func (s *Resync) Ref(ctx context.Context, actor models.Actor, slug, typed string) (string, int64, error) {
	conn, err := s.Book.Slug(ctx, slug)
	if err != nil {
		return "", 0, err
	}
	if !actor.Sees(conn.ShopID) {
		return "", 0, models.Fail(models.NotFound, "error.connection_unknown")
	}
	if !actor.May(models.OrdersResync) {
		return "", 0, models.Fail(models.Forbidden, "error.may_not_resync")
	}
	if conn.Adapter == nil || !conn.Adapter.HasAPI() {
		return Unavailable, 0, nil
	}
	ref, err := object(conn, typed)
	if err != nil {
		return "", 0, err
	}
	result, id, err := s.read(ctx, actor, conn, ref)
	if err != nil {
		return "", 0, err
	}
	return result, id, s.audit(ctx, actor, "connection:"+strconv.FormatInt(conn.ID, 10), result)
}

func (s *Resync) audit(ctx context.Context, actor models.Actor, subject, result string) error {
	return s.Store.Tx(ctx, func(tx *store.Tx) error {
		return tx.Audit(ctx, actor.ID(), "resync", subject, "", result)
	})
}

// object turns what people type into a reference that the platform can be asked for.
func object(conn *connect.Conn, typed string) (models.ObjectRef, error) {
	ref := models.ObjectRef{Account: conn.Account}
	bad := &models.Error{Code: models.Invalid, Key: "error.ref_unreadable", Fields: map[string]string{"ref": "error.ref_unreadable"}}
	typed = strings.TrimSpace(models.Half(typed))
	if typed == "" || len(typed) > 255 || strings.ContainsFunc(typed, func(r rune) bool { return r < ' ' }) {
		return ref, bad
	}
	for _, s := range conn.Adapter.Spell(typed) {
		switch conn.Platform {
		case models.Shopify:
			if kind, ok := strings.CutPrefix(s, "gid://shopify/"); ok {
				name, _, _ := strings.Cut(kind, "/")
				ref.Kind, ref.ID = map[string]string{"Order": "order", "Return": "return", "FulfillmentOrder": "fulfillment_order"}[name], s
			}
		case models.Stripe:
			prefix, _, _ := strings.Cut(s, "_")
			ref.Kind, ref.ID = map[string]string{"pi": "payment_intent", "ch": "charge", "py": "charge", "cs": "checkout_session", "in": "invoice",
				"re": "refund", "pyr": "refund", "du": "dispute", "dp": "dispute"}[prefix], s
		case models.ReceiptRoller:
			if strings.Count(s, "/") == 3 {
				ref.Kind, ref.ID = "receipt", s
			}
		}
		if ref.Kind != "" {
			return ref, nil
		}
	}
	return ref, bad
}

// overtaken is how often a reading is tried again that a later one overtook.
const overtaken = 3

// read asks for one object and applies it under the same rules as a notification.
func (s *Resync) read(ctx context.Context, actor models.Actor, conn *connect.Conn, ref models.ObjectRef) (result string, order int64, err error) {
	result, out, err := s.outcome(ctx, actor, conn, ref)
	return result, out.OrderID, err
}

// outcome is read with all that the reading did.
func (s *Resync) outcome(ctx context.Context, actor models.Actor, conn *connect.Conn, ref models.ObjectRef) (result string, out ledger.Outcome, err error) {
	for range overtaken {
		if result, out, err = s.once(ctx, actor, conn, ref); err != nil || !out.Overtaken {
			return result, out, err
		}
	}
	return Unavailable, ledger.Outcome{}, nil
}

func (s *Resync) once(ctx context.Context, actor models.Actor, conn *connect.Conn, ref models.ObjectRef) (string, ledger.Outcome, error) {
	var no int64
	if err := s.Store.Tx(ctx, func(tx *store.Tx) error {
		var err error
		no, err = tx.NextReading(ctx)
		return err
	}); err != nil {
		return "", ledger.Outcome{}, err
	}
	began := s.Store.Now()
	call, cancel := context.WithTimeout(connect.Awaited(ctx), callTime)
	seen, err := conn.Adapter.Fetch(call, []models.ObjectRef{ref})
	cancel()
	reading := ledger.Reading{Conn: conn, Asked: ref, No: no, Actor: actor.ID(), How: "resync", Cause: models.Cause{Kind: models.CauseResync, ID: actor.ID(), At: began}}
	if outage, ok := errors.AsType[*platform.Outage](err); ok {
		return s.unavailable(ctx, reading, outage)
	}
	if err != nil && ctx.Err() == nil {
		return s.unavailable(ctx, reading, &platform.Outage{Detail: "the answer can't be read", Err: err})
	}
	if err != nil {
		return "", ledger.Outcome{}, fmt.Errorf("reconcile: read %s: %w", ref.Kind, err)
	}
	if err := s.Book.Answered(ctx, conn); err != nil {
		return "", ledger.Outcome{}, err
	}
	o, ok := seen[ref]
	if !ok {
		o = models.Observation{Ref: ref, Absence: models.Gone}
	}
	o.Basis, o.Read = models.Official, began
	reading.Seen = &o
	if err := s.Ledger.Prepare(ctx, s.Store, conn, ref, &o); err != nil {
		return "", ledger.Outcome{}, err
	}
	out, err := s.apply(ctx, reading)
	switch {
	case err != nil:
		return "", out, err
	case out.Unmatched:
		return "", out, models.Fail(models.NotFound, "error.no_order_for_it")
	case o.Absence != models.Present && out.OrderID == 0:
		return "", out, models.Fail(models.NotFound, "error.platform_unknown_ref")
	case len(out.Problems) > 0 || o.Absence != models.Present:
		return Exception, out, nil
	case out.Moved:
		return Moved, out, nil
	}
	return Same, out, nil
}

// unavailable puts the order in doubt. Where the platform answers others meanwhile,
// the object is read again by itself.
func (s *Resync) unavailable(ctx context.Context, r ledger.Reading, outage *platform.Outage) (string, ledger.Outcome, error) {
	if _, _, err := s.Book.Failed(ctx, r.Conn, outage); err != nil {
		return "", ledger.Outcome{}, err
	}
	r.No, r.Hint, r.Doubt = 0, true, models.APIDown
	if outage.Throttled {
		r.Doubt = models.Throttled
	}
	out, err := s.apply(ctx, r)
	if err == nil && out.Answering {
		err = s.Store.Tx(ctx, func(tx *store.Tx) error { return tx.RereadNow(ctx, r.Conn.ID, r.Asked) })
	}
	return Unavailable, out, err
}

func (s *Resync) apply(ctx context.Context, r ledger.Reading) (out ledger.Outcome, err error) {
	err = s.Store.Tx(ctx, func(tx *store.Tx) error {
		again := r
		if r.Seen != nil {
			c := *r.Seen
			again.Seen = &c
		}
		var err error
		out, err = s.Ledger.Apply(ctx, tx, again)
		return err
	})
	return out, err
}
