package actions

import (
	"context"
	"errors"
	"slices"
	"strings"

	"counterfoil/models"
	"counterfoil/models/store"
)

// Outcomes that a receipt can report.
const (
	Happened = "done"
	Failed   = "failed"
)

// Outcomes lists them.
var Outcomes = []string{Happened, Failed}

// A Receipt is what somebody who knows says of an action.
type Receipt struct {
	Outcome string // empty: done
	Receipt string // number of a parcel, a slip, an invoice
}

// Settle ticks a manual action off, settles one whose outcome is unclear or failed, and
// confirms or disputes one that was sent. Who may:
//   - tick off, also what was on the list of work until it had to wait again, and confirm: everybody with models.ActionsReceipt, in their shops;
//   - settle what is unclear or failed: a shift lead, a manager, and a service whose token has
//     the scope receipt.
//
// An action of another shop is not_found; one that nobody outside has heard of is a conflict.
func (s *Actions) Settle(ctx context.Context, actor models.Actor, id int64, r Receipt) (models.Action, error) {
	var after models.Action
	if r.Outcome == "" {
		r.Outcome = Happened
	}
	r.Receipt = strings.TrimSpace(storable(r.Receipt, maxReceipt))
	if !slices.Contains(Outcomes, r.Outcome) {
		return after, invalid("outcome", "error.outcome")
	}
	err := s.Store.Tx(ctx, func(tx *store.Tx) error {
		load, err := tx.LockAction(ctx, id)
		if err != nil {
			return err
		}
		if !actor.Sees(load.ShopID) {
			return models.Fail(models.NotFound, "error.action_unknown")
		}
		if err := may(actor, load.State); err != nil {
			return err
		}
		changed, err := s.report(ctx, tx, load, r, actor.Name)
		if err != nil {
			return err
		}
		if after, err = tx.Action(ctx, id); err != nil || !changed {
			return err
		}
		return tx.Audit(ctx, actor.ID(), "action.receipt", "action:"+key(id), string(load.State), string(after.State)+" reported="+r.Outcome)
	})
	return after, err
}

func may(actor models.Actor, state models.ActionState) error {
	trusted := actor.Decides() || actor.Role == models.Service
	switch {
	case !actor.May(models.ActionsReceipt),
		actor.Role == models.Service && !slices.Contains(actor.Scopes, models.ScopeReceipt),
		(state == models.ActionUnclear || state == models.ActionFailed) && !trusted:
		return models.Fail(models.Forbidden, "error.may_not_settle")
	}
	return nil
}

// report applies a receipt to an action that is locked. It tells whether that changed
// anything.
func (s *Actions) report(ctx context.Context, tx *store.Tx, load store.Load, r Receipt, by string) (bool, error) {
	happened := r.Outcome == Happened
	switch load.State {
	case models.ActionWaiting:
		// Taken off the list meanwhile, by a pause for instance: it may be done all the same.
		if was, err := tx.WasListed(ctx, load.ID); err != nil || !was || !happened {
			return false, errors.Join(err, models.Fail(models.Conflict, "error.action_not_sent"))
		}
		if r.Receipt == "" {
			return false, invalid("receipt", "error.receipt_missing")
		}
	case models.ActionManual:
		if happened && r.Receipt == "" {
			return false, invalid("receipt", "error.receipt_missing")
		}
	case models.ActionSending, models.ActionUnclear:
	case models.ActionFailed:
		if !happened {
			return false, nil
		}
	case models.ActionDone:
		if !happened {
			return true, s.dispute(ctx, tx, load)
		}
		if load.Receipt != "" || r.Receipt == "" {
			if r.Receipt == "" || r.Receipt == load.Receipt {
				return false, nil
			}
			return false, models.Fail(models.Conflict, "error.receipt_differs")
		}
	default:
		return false, models.Fail(models.Conflict, "error.action_not_sent")
	}
	e := store.Ending{State: models.ActionDone, Receipt: r.Receipt, By: by}
	if !happened {
		e = store.Ending{State: models.ActionFailed, Error: models.ReportedFailed, By: by}
	}
	return true, s.end(ctx, tx, load, e, "receipt")
}

// dispute opens a case: our record says that it was done, and somebody says that it
// wasn't.
func (s *Actions) dispute(ctx context.Context, tx *store.Tx, load store.Load) error {
	order, err := tx.Order(ctx, load.OrderID)
	if err != nil {
		return err
	}
	return tx.OpenCase(ctx, store.Case{ConnectionID: order.ConnectionID, Subject: store.ActionSubject(load.ID), OrderID: order.ID, Ref: order.Ref,
		Problem: models.Problem{Kind: models.ActionDiffers, Case: string(load.Kind), LocalState: string(load.State), PlatformState: Failed}})
}

func invalid(field, why string) error {
	return &models.Error{Code: models.Invalid, Key: "error.invalid", Fields: map[string]string{field: why}}
}
