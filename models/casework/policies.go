package casework

import (
	"context"
	"fmt"
	"slices"
	"time"

	"counterfoil/models"
	"counterfoil/models/store"
)

// Policies are what a shop decided about its follow-ups.
type Policies struct {
	Store *store.Store
}

// watchedFor is how far back it is counted what would have been sent.
const watchedFor = 7 * 24 * time.Hour

// watchedCount is how far that is counted.
const watchedCount = 999

// File reads the policies of a shop that the actor sees; of the first one where none
// is named.
func (s *Policies) File(ctx context.Context, actor models.Actor, slug string) (models.PolicyFile, error) {
	var f models.PolicyFile
	err := s.Store.Tx(ctx, func(tx *store.Tx) (err error) {
		f = models.PolicyFile{}
		if f.Shops, err = tx.ShopNames(ctx, actor.Shops); err != nil {
			return err
		}
		i := slices.IndexFunc(f.Shops, func(n models.ShopName) bool { return slug == "" || n.Slug == slug })
		if i < 0 && slug == "" {
			return nil // no shop yet
		}
		if i < 0 {
			return models.Fail(models.NotFound, "error.shop_unknown")
		}
		f.ShopName = f.Shops[i]
		return read(ctx, tx, &f)
	})
	return f, err
}

func read(ctx context.Context, tx *store.Tx, f *models.PolicyFile) (err error) {
	if f.Rules, err = tx.ActionRules(ctx, f.ID); err != nil {
		return err
	}
	if f.Changes, err = tx.RuleChanges(ctx, f.ID); err != nil {
		return err
	}
	if f.SavedBy, f.Saved, err = tx.RulesSaved(ctx, f.ID); err != nil {
		return err
	}
	if f.Cases, err = casePolicies(ctx, tx, f.ID); err != nil {
		return err
	}
	watched, err := tx.WatchedSince(ctx, f.ID, tx.Now.Add(-watchedFor), watchedCount)
	if err != nil {
		return err
	}
	open, err := tx.OpenLives(ctx, f.ID, tx.Now)
	if err != nil {
		return err
	}
	last, err := tx.LastLives(ctx, f.ID)
	if err != nil {
		return err
	}
	for _, kind := range models.ActionKinds {
		is := func(l models.Live) bool { return l.ActionKind == kind }
		d, err := tx.Destination(ctx, f.ID, kind)
		if err != nil {
			return err
		}
		k := models.KindFile{Destination: d.Destination, Signed: d.Secret != nil, Seen: d.Seen(), Watched: watched[kind]}
		if i := slices.IndexFunc(open, is); i >= 0 {
			open[i].Stale = open[i].Seen != k.Seen
			k.Open = &open[i]
		}
		// What was approved and changed since, by whoever has the key file or by stopping it,
		// says nothing of what is there now.
		if i := slices.IndexFunc(last, is); i >= 0 && (last[i].State != models.RequestApplied || !d.Updated.After(last[i].Decided)) {
			k.Last = &last[i]
		}
		f.Kinds = append(f.Kinds, k)
	}
	return nil
}

// SetRules saves all rules of a shop, for managers. version is that of the rules which
// the actor decided by; whoever saved meanwhile makes it a conflict. What is planned
// already stays as it is.
func (s *Policies) SetRules(ctx context.Context, actor models.Actor, slug, version string, rules models.ActionRules) error {
	if !actor.May(models.PoliciesEdit) {
		return models.Fail(models.Forbidden, "error.may_not_set_rules")
	}
	rules = models.RulesOf(rules)
	for _, r := range rules {
		if r.Wait < 0 || r.Wait > models.LongestWait || r.Wait%time.Second != 0 {
			return &models.Error{Code: models.Invalid, Key: "error.invalid", Fields: map[string]string{RuleField(r): "error.rule_wait"}}
		}
	}
	return s.Store.Tx(ctx, func(tx *store.Tx) error {
		shop, err := lockShop(ctx, tx, actor, slug)
		if err != nil {
			return err
		}
		before, err := tx.ActionRules(ctx, shop)
		if err != nil {
			return err
		}
		switch {
		case before.Version() != version:
			return models.Fail(models.Conflict, "error.rules_saved_meanwhile")
		case slices.Equal(before, rules):
			return nil
		}
		if err := tx.SetActionRules(ctx, shop, rules, actor.ID()); err != nil {
			return err
		}
		was, is := difference(before, rules)
		return tx.Audit(ctx, actor.ID(), "rules.set", fmt.Sprintf("shop:%d", shop), was.String(), is.String())
	})
}

// RuleField names a rule's waiting time in forms.
func RuleField(r models.ActionRule) string { return string(r.Occasion) + "/" + string(r.Kind) }

// difference are the rules that are no longer what they were.
func difference(before, after models.ActionRules) (was, is models.ActionRules) {
	for i, r := range before {
		if r != after[i] {
			was, is = append(was, r), append(is, after[i])
		}
	}
	return was, is
}

// lockShop locks a shop that the actor sees.
func lockShop(ctx context.Context, tx *store.Tx, actor models.Actor, slug string) (int64, error) {
	shop, err := tx.LockShop(ctx, slug)
	if err == nil && !actor.Sees(shop) {
		return 0, models.Fail(models.NotFound, "error.shop_unknown")
	}
	return shop, err
}
