package casework

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"counterfoil/models"
	"counterfoil/models/actions"
	"counterfoil/models/seal"
	"counterfoil/models/store"
)

// Lives makes kinds of actions live: a manager and an administrator together.
type Lives struct {
	Store *store.Store
	Keys  seal.Keys
	Log   *slog.Logger
}

// A LiveProposal is what somebody asks for.
type LiveProposal struct {
	actions.Setup
	Reason string
	Seen   string // of the destination when the form was opened
}

// Propose asks the other side to make a kind live, or to send it elsewhere. Managers
// and administrators may. It answers the request's id.
func (s *Lives) Propose(ctx context.Context, actor models.Actor, p LiveProposal) (int64, error) {
	if err := mayLive(actor); err != nil {
		return 0, err
	}
	p.Reason = strings.TrimSpace(p.Reason)
	if bad := p.faults(); len(bad) > 0 {
		return 0, &models.Error{Code: models.Invalid, Key: "error.invalid", Fields: bad}
	}
	var id int64
	err := s.Store.Tx(ctx, func(tx *store.Tx) error {
		shop, err := lockShop(ctx, tx, actor, p.Shop)
		if err != nil {
			return err
		}
		now, err := tx.Destination(ctx, shop, p.Kind)
		if err != nil {
			return err
		}
		if now.Seen() != p.Seen {
			return models.Fail(models.Conflict, "error.live_changed")
		}
		if p.Mode == models.ByHTTP && p.Secret == "" && now.Secret == nil {
			return &models.Error{Code: models.Invalid, Key: "error.invalid", Fields: map[string]string{"secret": "error.live_secret_missing"}}
		}
		open, err := tx.OpenRequest(ctx, store.LiveSubject(shop, p.Kind))
		if err != nil {
			return err
		}
		if open.ID != 0 {
			if tx.Now.Before(open.Expires) {
				return models.Fail(models.Conflict, "error.live_open", open.ByName, open.At)
			}
			if err := expire(ctx, tx, open); err != nil {
				return err
			}
		}
		n := store.NewLive{Shop: shop, Kind: p.Kind, Reason: p.Reason, Seen: p.Seen, Actor: actor,
			Terms: models.LiveTerms{Mode: p.Mode, URL: p.URL, Idempotent: p.Idempotent, Hosts: p.Hosts, NewSecret: p.Secret != ""}}
		if p.Secret != "" {
			n.Secret = actions.SealSecret(s.Keys, shop, p.Kind, p.Secret)
		}
		if id, err = tx.InsertLive(ctx, n); err != nil {
			return err
		}
		return tx.Audit(ctx, actor.ID(), "request.propose", requestSubject(id), "", fmt.Sprintf("live %s mode=%s url=%s idempotent=%t hosts=%s new_secret=%t",
			store.LiveSubject(shop, p.Kind), p.Mode, p.URL, p.Idempotent, strings.Join(p.Hosts, ","), p.Secret != ""))
	})
	return id, err
}

// faults say what is wrong with which field.
func (p *LiveProposal) faults() map[string]string {
	bad := map[string]string{}
	if p.Mode == models.ByHand {
		p.URL, p.Secret, p.Idempotent, p.Hosts = "", "", false, nil
	}
	if p.Mode != models.ByHand && p.Mode != models.ByHTTP {
		bad["mode"] = "error.live_mode"
		return bad
	}
	for _, field := range p.Faults() {
		bad[field] = "error.live_" + field
	}
	if p.Inner() {
		bad["hosts"] = "error.live_inner"
	}
	if len(p.URL) > maxAddress {
		bad["url"] = "error.live_url"
	}
	if !sentence(p.Reason) {
		bad["reason"] = "error.reason_text"
	}
	return bad
}

const maxAddress = 2000

func mayLive(actor models.Actor) error {
	if !actor.May(models.ActionsLive) {
		return models.Fail(models.Forbidden, "error.may_not_live")
	}
	return nil
}

// Approve says yes for the other side, and makes the kind live there and then. What
// isn't any more what the proposer saw is a conflict, and the request is over.
func (s *Lives) Approve(ctx context.Context, actor models.Actor, id int64) (models.Live, error) {
	return s.decide(ctx, actor, id, func(tx *store.Tx, l models.Live, secret []byte) error {
		before, err := tx.Destination(ctx, l.ShopID, l.ActionKind)
		if err != nil {
			return err
		}
		if before.Seen() != l.Seen {
			return errStale
		}
		next := store.DestinationRow{Destination: models.Destination{Kind: l.ActionKind, Mode: l.Mode, URL: l.URL, Idempotent: l.Idempotent, Hosts: l.Hosts}, Secret: before.Secret}
		if secret != nil {
			next.Secret = secret
		}
		if err := tx.Approve(ctx, l.Request, models.Approval{By: actor.ID(), Name: actor.Name, Role: actor.Role}); err != nil {
			return err
		}
		if err := end(ctx, tx, actor.ID(), l.Request, store.Decision{State: models.RequestApplied, By: actor.ID(), Name: actor.Name}, "request.approve"); err != nil {
			return err
		}
		return actions.Apply(ctx, tx, actor.ID(), l.ShopID, before, next)
	})
}

// Reject says no for the other side, and why.
func (s *Lives) Reject(ctx context.Context, actor models.Actor, id int64, note string) (models.Live, error) {
	note = strings.TrimSpace(note)
	if !sentence(note) {
		return models.Live{}, &models.Error{Code: models.Invalid, Key: "error.invalid", Fields: map[string]string{"note": "error.reason_text"}}
	}
	return s.decide(ctx, actor, id, func(tx *store.Tx, l models.Live, _ []byte) error {
		return end(ctx, tx, actor.ID(), l.Request, store.Decision{State: models.RequestRejected, By: actor.ID(), Name: actor.Name, Note: note}, "request.reject")
	})
}

// errStale ends a request whose destination was changed meanwhile.
var errStale = models.Fail(models.Conflict, "error.live_stale")

// decide locks a request and lets the other side decide on it.
func (s *Lives) decide(ctx context.Context, actor models.Actor, id int64, do func(tx *store.Tx, l models.Live, secret []byte) error) (models.Live, error) {
	return s.locked(ctx, actor, id, func(tx *store.Tx, l models.Live, secret []byte) (refused, err error) {
		switch {
		case l.By == actor.ID():
			return nil, models.Fail(models.Forbidden, "error.live_own")
		case !l.Agrees(actor):
			return nil, models.Fail(models.Forbidden, "error.live_side."+string(l.OtherSide()))
		}
		here, err := stillHere(ctx, tx, l.Request)
		if err != nil {
			return nil, err
		}
		if here {
			if err := do(tx, l, secret); err != errStale {
				return nil, err
			}
			return errStale, stale(ctx, tx, l.Request)
		}
		return models.Fail(models.Conflict, "error.proposer_gone"), stale(ctx, tx, l.Request)
	})
}

// locked does something with a request that is still open, its shop and itself locked.
// refused is what the actor is told although the transaction stays.
func (s *Lives) locked(ctx context.Context, actor models.Actor, id int64, do func(tx *store.Tx, l models.Live, secret []byte) (refused, err error)) (models.Live, error) {
	if err := mayLive(actor); err != nil {
		return models.Live{}, err
	}
	seen, err := s.Store.Live(ctx, id)
	if err != nil {
		return seen, err
	}
	var l models.Live
	var refused error
	err = s.Store.Tx(ctx, func(tx *store.Tx) error {
		refused = nil
		if _, err := lockShop(ctx, tx, actor, seen.Shop); err != nil {
			return models.Fail(models.NotFound, "error.request_unknown").Because(err)
		}
		var secret []byte
		var err error
		if l, secret, err = tx.LockLive(ctx, id); err != nil {
			return err
		}
		if l.State != models.RequestProposed {
			return models.Fail(models.Conflict, "error.live_decided")
		}
		if !l.Expires.After(tx.Now) {
			refused = models.Fail(models.Conflict, "error.live_expired")
			return expire(ctx, tx, l.Request)
		}
		refused, err = do(tx, l, secret)
		return err
	})
	if err == nil {
		err = refused
	}
	return l, err
}

// Withdraw takes back what the actor asked for.
func (s *Lives) Withdraw(ctx context.Context, actor models.Actor, id int64) (models.Live, error) {
	return s.locked(ctx, actor, id, func(tx *store.Tx, l models.Live, _ []byte) (refused, err error) {
		if l.By != actor.ID() {
			return nil, models.Fail(models.Forbidden, "error.live_not_own")
		}
		return nil, end(ctx, tx, actor.ID(), l.Request, store.Decision{State: models.RequestWithdrawn, By: actor.ID(), Name: actor.Name}, "request.withdraw")
	})
}

// Stop has a kind only watched from now on: one of either side is enough. What waits
// will not be sent; what is on a list of work stays there.
func (s *Lives) Stop(ctx context.Context, actor models.Actor, slug string, kind models.ActionKind) error {
	if err := mayLive(actor); err != nil {
		return err
	}
	if !slices.Contains(models.ActionKinds, kind) {
		return models.Fail(models.NotFound, "error.not_found")
	}
	return s.Store.Tx(ctx, func(tx *store.Tx) error {
		shop, err := lockShop(ctx, tx, actor, slug)
		if err != nil {
			return err
		}
		before, err := tx.Destination(ctx, shop, kind)
		if err != nil {
			return err
		}
		if before.Mode == models.Watch {
			return models.Fail(models.Conflict, "error.live_not_live")
		}
		return actions.Apply(ctx, tx, actor.ID(), shop, before, store.DestinationRow{Destination: models.Destination{Kind: kind, Mode: models.Watch}, Secret: before.Secret})
	})
}
