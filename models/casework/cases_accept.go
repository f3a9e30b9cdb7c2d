package casework

import (
	"context"
	"encoding/json"
	"strings"

	"counterfoil/models"
	"counterfoil/models/store"
)

// ProposeCase asks another person to accept a difference, or to dismiss what pauses an
// order because of its payment. What both sides say now is what is accepted.
func (s *Requests) ProposeCase(ctx context.Context, actor models.Actor, id, version int64, how, reason string) (models.Request, error) {
	cases := &Cases{Store: s.Store, Queue: s.Queue}
	reason = strings.TrimSpace(reason)
	var out models.Request
	err := cases.locked(ctx, actor, id, version, func(tx *store.Tx, x models.Exception) error {
		if err := mayPropose(actor, x, how); err != nil {
			return err
		}
		if !sentence(reason) {
			return invalid("reason", "error.reason_text")
		}
		if x.Untold() {
			return models.Fail(models.Conflict, "error.case_tell_first")
		}
		if x.ShopID == 0 {
			return models.Fail(models.Invalid, "error.case_no_shop")
		}
		open, err := tx.OpenRequest(ctx, store.CaseSubject(id))
		if err != nil {
			return err
		}
		if open.ID != 0 {
			if tx.Now.Before(open.Expires) {
				return models.Fail(models.Conflict, "error.request_open", open.ByName, open.At)
			}
			if err := expire(ctx, tx, open); err != nil {
				return err
			}
		}
		terms, err := json.Marshal(models.AcceptTerms{How: how})
		if err != nil {
			return err
		}
		q := models.Request{Kind: models.RequestAccept, Subject: store.CaseSubject(id), ShopID: x.ShopID, OrderID: x.OrderID, Exception: id, Code: models.OtherReason, Reason: reason,
			Terms: string(terms), Seen: x.Sides(), Needs: 1, By: actor.ID(), ByName: actor.Name, ByRole: actor.Role}
		q.Expires = tx.Now.Add(q.Undecided())
		if x.Policy == models.PolicyHold { // as what else is at high risk
			q.Expires = tx.Now.Add(models.Request{ActionKind: models.FulfillmentInstruction}.Undecided())
		}
		n, err := tx.AddRequest(ctx, q)
		if err != nil {
			return err
		}
		if out, err = tx.Request(ctx, n); err != nil {
			return err
		}
		return tx.Audit(ctx, actor.ID(), "request.propose", requestSubject(n), "", described(out)+" how="+how)
	})
	return out, err
}

func mayPropose(actor models.Actor, x models.Exception, how string) error {
	ok, why := actor.MayAccept()
	switch {
	case how == models.HowAccepted && !ok:
		return models.Fail(models.Forbidden, why)
	case how == models.HowAccepted && !x.Acceptable():
		return models.Fail(models.Conflict, "error.case_not_acceptable")
	case how == models.HowDismissed && !actor.Together(x):
		return models.Fail(models.Forbidden, "error.case_dismiss_hold")
	}
	return nil
}

// decideCase approves or rejects a request about an exception. Managers may, and nobody
// what they proposed. If either side moved since, or the exception is over, the request
// is stale, and the answer a conflict that says so.
func (s *Requests) decideCase(ctx context.Context, actor models.Actor, found models.Request, yes bool, note string) (models.Request, error) {
	var out models.Request
	var late error
	x, err := s.Store.Exception(ctx, found.Exception)
	if err != nil {
		return found, err
	}
	err = s.Store.Tx(ctx, func(tx *store.Tx) error {
		out, late = models.Request{}, nil
		if err := lockOrderOf(ctx, tx, x); err != nil {
			return err
		}
		now, err := tx.LockException(ctx, x.ID)
		if err != nil {
			return err
		}
		if now.OrderID != x.OrderID {
			return errAgain
		}
		q, err := tx.LockRequest(ctx, found.ID)
		if err != nil {
			return err
		}
		here, err := stillHere(ctx, tx, q)
		if err != nil {
			return err
		}
		switch ok, why := actor.MayReject(q); {
		case !ok:
			return refusal(why)
		case !tx.Now.Before(q.Expires):
			late = models.Fail(models.Conflict, "error.request_expired")
			err = expire(ctx, tx, q)
		case !yes:
			err = end(ctx, tx, actor.ID(), q, store.Decision{State: models.RequestRejected, By: actor.ID(), Name: actor.Name, Note: note}, "request.reject")
		case now.State != "open" || now.Sides() != q.Seen:
			late = models.Fail(models.Conflict, "error.request_stale")
			err = stale(ctx, tx, q)
		case !here:
			late = models.Fail(models.Conflict, "error.proposer_gone")
			err = stale(ctx, tx, q)
		case now.Untold():
			return models.Fail(models.Conflict, "error.case_tell_first")
		default:
			err = s.acceptCase(ctx, tx, actor, q, now, note)
		}
		if err != nil {
			return err
		}
		out, err = tx.Request(ctx, q.ID)
		return err
	})
	if err == nil {
		err = late // what it says was committed
	}
	return out, err
}

// acceptCase ends an exception as another person proposed.
func (s *Requests) acceptCase(ctx context.Context, tx *store.Tx, actor models.Actor, q models.Request, x models.Exception, note string) error {
	var terms models.AcceptTerms
	if err := json.Unmarshal([]byte(q.Terms), &terms); err != nil {
		return err
	}
	if err := tx.Approve(ctx, q, models.Approval{By: actor.ID(), Name: actor.Name, Role: actor.Role}); err != nil {
		return err
	}
	if terms.How == models.HowAccepted {
		if err := tx.Accept(ctx, x, q.Reason, actor.ID(), tx.Now.Add(models.AcceptedFor)); err != nil {
			return err
		}
	}
	if err := tx.EndCase(ctx, x.ID, terms.How, actor.Name, q.Reason); err != nil {
		return err
	}
	if err := tx.Audit(ctx, actor.ID(), "case."+terms.How, store.CaseSubject(x.ID), recordCase(x), terms.How+" "+requestSubject(q.ID)); err != nil {
		return err
	}
	if err := end(ctx, tx, actor.ID(), q, store.Decision{State: models.RequestApplied, By: actor.ID(), Name: actor.Name, Note: note}, "request.approve"); err != nil {
		return err
	}
	return wake(ctx, tx, s.Queue, x)
}
