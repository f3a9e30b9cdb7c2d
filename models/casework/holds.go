// Package casework has what people decide: holds, rules, where follow-ups go, requests
// that take two of them, and what they say of second payments and refunds.
package casework

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"counterfoil/models"
	"counterfoil/models/ledger"
	"counterfoil/models/store"
)

// Holds pauses and resumes what this console sends.
type Holds struct {
	Store *store.Store
	Log   *slog.Logger
}

// A Pause is a hold that somebody asks for.
type Pause struct {
	Scope   models.HoldScope
	Subject int64 // id of the order, connection or shop
	Reason  string
	Until   time.Time // when it asks; zero: until somebody resumes
	Resumes bool      // it ends by itself then, instead of asking
}

// A Held is what came of a Pause.
type Held struct {
	ID int64
	// Sending are the actions that were on their way already and can't be called back.
	Sending []models.Action
	// Manual are those that were on a list of work and are taken off it: somebody may
	// be doing them.
	Manual []models.Action
}

// maxReason is the longest reason, in characters.
const maxReason = 500

// Hold pauses an order, a connection or a shop that the actor sees. Support, managers
// and admins may pause an order; leads and admins a connection or a shop for four
// hours, managers for any time. What is held already is a conflict that names who did it.
func (s *Holds) Hold(ctx context.Context, actor models.Actor, p Pause) (Held, error) {
	t, err := s.target(ctx, actor, p.Scope, p.Subject)
	if err != nil {
		return Held{}, err
	}
	if !actor.MayHold(p.Scope) {
		return Held{}, models.Fail(models.Forbidden, "error.may_not_hold")
	}
	p.Reason = strings.TrimSpace(p.Reason)
	if err := p.check(actor, s.Store.Now()); err != nil {
		return Held{}, err
	}
	var held Held
	err = s.Store.Tx(ctx, func(tx *store.Tx) error {
		held = Held{}
		t, err := tx.LockHoldTarget(ctx, p.Scope, t.ID)
		if err != nil {
			return err
		}
		open, err := tx.OpenHolds(ctx, t)
		if err != nil {
			return err
		}
		if len(open) > 0 {
			return models.Fail(models.Conflict, "error.held_by", open[0].ByName, open[0].Since)
		}
		if held.ID, err = tx.SetHold(ctx, models.Hold{Scope: t.Scope, Subject: t.ID, Reason: p.Reason, By: actor.ID(), ByName: actor.Name,
			Until: p.Until, Resumes: p.Resumes}); err != nil {
			return err
		}
		if held.Sending, err = tx.BeingSent(ctx, t); err != nil {
			return err
		}
		if held.Manual, err = tx.TakeBack(ctx, t); err != nil {
			return err
		}
		return tx.Audit(ctx, actor.ID(), string(t.Scope)+".hold", subject(t), "", p.record(held.ID))
	})
	return held, err
}

// Release ends the holds of an order, a connection or a shop itself; those of others
// that reach it stay. Managers may, leads for an order, and other support for what
// they paused themselves within the hour. A service never may.
func (s *Holds) Release(ctx context.Context, actor models.Actor, scope models.HoldScope, id int64) error {
	t, err := s.target(ctx, actor, scope, id)
	if err != nil {
		return err
	}
	return s.Store.Tx(ctx, func(tx *store.Tx) error {
		t, err := tx.LockHoldTarget(ctx, scope, t.ID)
		if err != nil {
			return err
		}
		open, err := tx.OpenHolds(ctx, t)
		if err != nil {
			return err
		}
		if len(open) == 0 {
			return models.Fail(models.Conflict, "error.not_held")
		}
		for _, h := range open {
			if !actor.MayRelease(h, tx.Now) {
				return models.Fail(models.Forbidden, "error.may_not_release."+string(scope))
			}
		}
		return release(ctx, tx, t, open, actor.ID())
	})
}

func release(ctx context.Context, tx *store.Tx, t store.HoldTarget, holds []models.Hold, by string) error {
	for _, h := range holds {
		if err := tx.ReleaseHold(ctx, h.ID, by); err != nil {
			return err
		}
		if err := tx.Audit(ctx, by, string(t.Scope)+".release", subject(t), record(h), ""); err != nil {
			return err
		}
	}
	return tx.Resume(ctx, t)
}

// A Reach says what a pause of something would stop.
type Reach struct {
	Waits   int // follow-ups that would stay here
	Sending int // on their way already
}

// Reach counts what a pause would stop, for whoever may set one.
func (s *Holds) Reach(ctx context.Context, actor models.Actor, scope models.HoldScope, id int64) (Reach, error) {
	t, err := s.target(ctx, actor, scope, id)
	if err != nil {
		return Reach{}, err
	}
	waits, err := s.Store.Unsent(ctx, t)
	if err != nil {
		return Reach{}, err
	}
	sending, err := s.Store.BeingSent(ctx, t)
	return Reach{Waits: waits, Sending: len(sending)}, err
}

// target finds what is to be held, if the actor sees it.
func (s *Holds) target(ctx context.Context, actor models.Actor, scope models.HoldScope, id int64) (store.HoldTarget, error) {
	t, err := s.Store.HoldTarget(ctx, scope, id)
	if err == nil && !actor.Sees(t.ShopID) {
		return t, models.Fail(models.NotFound, "error."+string(scope)+"_unknown")
	}
	return t, err
}

// check refuses what can't be asked for, or not by this actor.
func (p Pause) check(actor models.Actor, now time.Time) error {
	bad := map[string]string{}
	if !sentence(p.Reason) {
		bad["reason"] = "error.reason_text"
	}
	longest := actor.LongestHold(p.Scope)
	switch {
	case !p.Until.IsZero() && !p.Until.After(now):
		bad["until"] = "error.hold_past"
	case longest > 0 && (p.Until.IsZero() || p.Until.Sub(now) > longest):
		bad["until"] = "error.hold_longest"
	}
	// Nobody lets end by itself what they couldn't resume at that time.
	future := models.Hold{Scope: p.Scope, By: actor.ID(), Since: now}
	switch {
	case p.Resumes && p.Until.IsZero():
		bad["until"] = "error.hold_when"
	case p.Resumes && bad["until"] == "" && !actor.MayRelease(future, p.Until):
		bad["resumes"] = "error.hold_resumes"
	}
	if len(bad) == 0 {
		return nil
	}
	return &models.Error{Code: models.Invalid, Key: "error.invalid", Fields: bad}
}

// record is a pause for the audit trail. Its reason may name a person and stays out.
func (p Pause) record(id int64) string {
	return record(models.Hold{ID: id, Until: p.Until, Resumes: p.Resumes})
}

func record(h models.Hold) string {
	if h.Until.IsZero() {
		return fmt.Sprintf("hold %d", h.ID)
	}
	return fmt.Sprintf("hold %d until %s resumes %t", h.ID, h.Until.UTC().Format(time.RFC3339), h.Resumes)
}

func subject(t store.HoldTarget) string { return string(t.Scope) + ":" + strconv.FormatInt(t.ID, 10) }

// lookEvery is how late a hold may end that ends by itself.
const lookEvery = 2 * time.Second

// Ends releases the holds that were set to end by themselves, when their time has
// come, until the context ends.
func (s *Holds) Ends(ctx context.Context) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		if err := s.End(ctx); err != nil && ctx.Err() == nil && !store.Down(err) {
			s.Log.Error("holds not ended", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// End releases the holds whose time to end by themselves has come. Several processes
// may call it at once.
func (s *Holds) End(ctx context.Context) error {
	due, err := s.Store.DueHolds(ctx)
	if err != nil {
		return err
	}
	for _, h := range due {
		err := s.Store.Tx(ctx, func(tx *store.Tx) error {
			t, err := tx.LockHoldTarget(ctx, h.Scope, h.Subject)
			if err != nil {
				return err
			}
			return release(ctx, tx, t, []models.Hold{h}, ledger.Console)
		})
		// Somebody else may have been first.
		if err != nil && models.CodeOf(err) != models.Conflict {
			return fmt.Errorf("casework: end hold %d: %w", h.ID, err)
		}
	}
	return nil
}
