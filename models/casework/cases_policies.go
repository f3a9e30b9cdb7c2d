package casework

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"counterfoil/models"
	"counterfoil/models/store"
)

// casePolicies are all rows of the policies of exceptions as they hold in a shop.
func casePolicies(ctx context.Context, tx *store.Tx, shop int64) ([]models.CasePolicy, error) {
	decided, err := tx.CasePolicies(ctx, shop)
	if err != nil {
		return nil, err
	}
	asked, err := tx.PolicyRequests(ctx, shop, tx.Now)
	if err != nil {
		return nil, err
	}
	out := make([]models.CasePolicy, len(models.CaseRules))
	for i, r := range models.CaseRules {
		p := models.CasePolicy{CaseRule: r, Now: r.Policy, NowTell: r.Tell}
		if d, ok := decided[r.Key]; ok {
			p.Now, p.NowTell, p.Changed, p.ChangedBy = d.Now, d.NowTell, d.Changed, d.ChangedBy
		}
		p.Asked, p.Wanted = asked[r.Key].Asked, asked[r.Key].Wanted
		out[i] = p
	}
	return out, nil
}

// A PolicyChange is how a manager wants a kind of exception to be treated in a shop.
type PolicyChange struct {
	models.PolicyTerms
	Seen   string // of the policy when the form was opened; empty: as it is
	Reason string // where it needs a second manager
}

// SetCasePolicy says what happens while an exception of a rule is open. Managers may.
// What would no longer pause shipping needs a second manager: then it answers the
// request, and nothing has changed yet. Exceptions that are open keep what they have.
func (s *Policies) SetCasePolicy(ctx context.Context, actor models.Actor, slug string, c PolicyChange) (asked int64, err error) {
	if !actor.May(models.PoliciesEdit) {
		return 0, models.Fail(models.Forbidden, "error.may_not_set_rules")
	}
	c.Reason = strings.TrimSpace(c.Reason)
	if !slices.Contains(models.Policies, c.Policy) {
		return 0, invalid("policy", "error.word")
	}
	err = s.Store.Tx(ctx, func(tx *store.Tx) error {
		asked = 0
		shop, err := lockShop(ctx, tx, actor, slug)
		if err != nil {
			return err
		}
		now, err := casePolicy(ctx, tx, shop, c.Rule)
		switch {
		case err != nil:
			return err
		case c.Seen != "" && now.Seen() != c.Seen:
			return models.Fail(models.Conflict, "error.rules_saved_meanwhile")
		case now.Now == c.Policy && now.NowTell == c.Tell:
			return nil
		case !now.Loosens(c.Policy):
			return setCasePolicy(ctx, tx, actor.ID(), shop, now, c.PolicyTerms)
		}
		if !sentence(c.Reason) {
			return invalid("reason", "error.reason_text")
		}
		asked, err = askPolicy(ctx, tx, actor, shop, now, c)
		return err
	})
	return asked, err
}

func casePolicy(ctx context.Context, tx *store.Tx, shop int64, rule string) (models.CasePolicy, error) {
	list, err := casePolicies(ctx, tx, shop)
	if err != nil {
		return models.CasePolicy{}, err
	}
	i := slices.IndexFunc(list, func(p models.CasePolicy) bool { return p.Key == rule })
	if i < 0 {
		return models.CasePolicy{}, models.Fail(models.NotFound, "error.policy_unknown")
	}
	return list[i], nil
}

func policySubject(shop int64, rule string) string { return fmt.Sprintf("policy:%d:%s", shop, rule) }

func setCasePolicy(ctx context.Context, tx *store.Tx, by string, shop int64, now models.CasePolicy, to models.PolicyTerms) error {
	if err := tx.SetCasePolicy(ctx, shop, to, by); err != nil {
		return err
	}
	return tx.Audit(ctx, by, "policy.set", policySubject(shop, now.Key), fmt.Sprintf("policy=%s tell=%t", now.Now, now.NowTell), fmt.Sprintf("policy=%s tell=%t", to.Policy, to.Tell))
}

func askPolicy(ctx context.Context, tx *store.Tx, actor models.Actor, shop int64, now models.CasePolicy, c PolicyChange) (int64, error) {
	open, err := tx.OpenRequest(ctx, policySubject(shop, c.Rule))
	if err != nil {
		return 0, err
	}
	if open.ID != 0 {
		if tx.Now.Before(open.Expires) {
			return 0, models.Fail(models.Conflict, "error.request_open", open.ByName, open.At)
		}
		if err := expire(ctx, tx, open); err != nil {
			return 0, err
		}
	}
	terms, err := json.Marshal(c.PolicyTerms)
	if err != nil {
		return 0, err
	}
	q := models.Request{Kind: models.RequestPolicy, Subject: policySubject(shop, c.Rule), ShopID: shop, Code: models.OtherReason, Reason: c.Reason, Terms: string(terms), Seen: now.Seen(),
		Needs: 1, By: actor.ID(), ByName: actor.Name, ByRole: actor.Role}
	q.Expires = tx.Now.Add(q.Undecided())
	id, err := tx.AddRequest(ctx, q)
	if err != nil {
		return 0, err
	}
	return id, tx.Audit(ctx, actor.ID(), "request.propose", requestSubject(id), "", described(q)+fmt.Sprintf(" policy=%s tell=%t", c.Policy, c.Tell))
}

// decidePolicy approves or rejects that a policy is loosened. Another manager may. What
// isn't any more what the proposer saw is stale.
func (s *Requests) decidePolicy(ctx context.Context, actor models.Actor, found models.Request, yes bool, note string) (models.Request, error) {
	var out models.Request
	var late error
	err := s.Store.Tx(ctx, func(tx *store.Tx) error {
		out, late = models.Request{}, nil
		if _, err := lockShop(ctx, tx, actor, found.Shop); err != nil {
			return err
		}
		q, err := tx.LockRequest(ctx, found.ID)
		if err != nil {
			return err
		}
		var terms models.PolicyTerms
		if err := json.Unmarshal([]byte(q.Terms), &terms); err != nil {
			return err
		}
		now, err := casePolicy(ctx, tx, q.ShopID, terms.Rule)
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
		case now.Seen() != q.Seen:
			late = models.Fail(models.Conflict, "error.request_stale")
			err = stale(ctx, tx, q)
		case !here:
			late = models.Fail(models.Conflict, "error.proposer_gone")
			err = stale(ctx, tx, q)
		default:
			if err = tx.Approve(ctx, q, models.Approval{By: actor.ID(), Name: actor.Name, Role: actor.Role}); err != nil {
				return err
			}
			if err = setCasePolicy(ctx, tx, actor.ID(), q.ShopID, now, terms); err != nil {
				return err
			}
			err = end(ctx, tx, actor.ID(), q, store.Decision{State: models.RequestApplied, By: actor.ID(), Name: actor.Name, Note: note}, "request.approve")
		}
		if err != nil {
			return err
		}
		out, err = tx.Request(ctx, q.ID)
		return err
	})
	if err == nil {
		err = late
	}
	return out, err
}
