package reconcile

import (
	"context"
	"errors"
	"strconv"

	"counterfoil/models"
	"counterfoil/models/connect"
	"counterfoil/models/platform"
	"counterfoil/models/store"
)

// AddCanary makes an object a known test object of a connection, by its reference or
// its number as people type it. The platform has to know it.
func (s *Checks) AddCanary(ctx context.Context, actor models.Actor, slug, typed string) error {
	c, err := s.mine(ctx, actor, slug)
	if err != nil {
		return err
	}
	ref, err := s.reference(ctx, c, typed)
	if err != nil {
		return err
	}
	if c.Adapter.HasAPI() {
		got, err := c.Adapter.Fetch(connect.Awaited(ctx), []models.ObjectRef{ref})
		if out, ok := errors.AsType[*platform.Outage](err); ok {
			return models.Fail(models.Unavailable, "error.platform_unavailable", out.Detail).Because(err)
		}
		if err != nil {
			return err
		}
		if got[ref].Absence != models.Present {
			return canaryFault("error.canary_absent")
		}
	}
	return s.Store.Tx(ctx, func(tx *store.Tx) error {
		added, err := tx.AddCanary(ctx, c.ID, ref, actor.ID())
		if err != nil {
			return err
		}
		if !added {
			return canaryFault("error.canary_known")
		}
		return tx.Audit(ctx, actor.ID(), "canary.add", connectionSubject(c.ID), "", ref.Kind+" "+ref.ID)
	})
}

func canaryFault(key string) error {
	return &models.Error{Code: models.Invalid, Key: key, Fields: map[string]string{"ref": key}}
}

// reference finds what people mean: an object that our record has, else a reference in
// the platform's own spelling.
func (s *Checks) reference(ctx context.Context, c *connect.Conn, typed string) (models.ObjectRef, error) {
	spelled := c.Adapter.Spell(typed)
	if len(spelled) == 0 || len(typed) > 500 {
		return models.ObjectRef{}, canaryFault("error.canary_ref")
	}
	known, err := s.Store.KnownObject(ctx, c.ID, spelled)
	if err != nil || !known.Zero() {
		return known, err
	}
	ref := models.ObjectRef{Account: c.Account, Kind: c.Adapter.Kinds()[0], ID: spelled[0]}
	if c.Platform == models.Stripe {
		ref.Account, ref.Kind = "", kindOf(spelled[0])
	}
	if ref.Kind == "" {
		return ref, canaryFault("error.canary_ref")
	}
	return ref, nil
}

// kindOf tells a payment's kind by the prefix of its id.
func kindOf(id string) string {
	for prefix, kind := range map[string]string{"pi_": "payment_intent", "ch_": "charge", "cs_": "checkout_session"} {
		if len(id) > len(prefix) && id[:len(prefix)] == prefix {
			return kind
		}
	}
	return ""
}

// ChangeCanary removes a test object, begins to wait for its notification, or has its
// shape kept anew by the next check.
func (s *Checks) ChangeCanary(ctx context.Context, actor models.Actor, slug string, id int64, do string) error {
	c, err := s.mine(ctx, actor, slug)
	if err != nil {
		return err
	}
	return s.Store.Tx(ctx, func(tx *store.Tx) error {
		var err error
		switch do {
		case "remove":
			err = tx.RemoveCanary(ctx, c.ID, id)
		case "await":
			err = tx.AwaitCanary(ctx, c.ID, id)
		case "keep":
			err = tx.ShapeCanary(ctx, c.ID, id, nil)
		default:
			err = models.Fail(models.NotFound, "error.not_found")
		}
		if err != nil {
			return err
		}
		return tx.Audit(ctx, actor.ID(), "canary."+do, connectionSubject(c.ID), "", "canary="+strconv.FormatInt(id, 10))
	})
}
