package ledger

import (
	"context"

	"counterfoil/models"
	"counterfoil/models/store"
)

// follow plans what the moves of a step ask for, calls back what they make wrong, and
// wakes what waits on the order, all in the transaction of the moves.
func (l *Ledger) follow(ctx context.Context, tx *store.Tx, r Reading, before, after models.Order, target models.Target, moves []models.Move, out *Outcome) error {
	entries := out.Entries[len(out.Entries)-len(moves):] // those of these moves
	plans, err := planned(ctx, tx, r, before, after, moves, entries)
	if err != nil {
		return err
	}
	var due []int64
	if len(plans) > 0 {
		if due, err = tx.PlanActions(ctx, after, plans); err != nil {
			return err
		}
	}
	unsent, unsure, err := tx.LockActions(ctx, after.ID)
	if err != nil {
		return err
	}
	goods, err := followGoods(ctx, tx, before, after, target, entries)
	if err != nil {
		return err
	}
	due, unsent = append(due, goods...), unsent || len(goods) > 0
	if unsent {
		if axis, ended := after.Withdraws(); ended {
			if err := tx.WithdrawActions(ctx, after.ID, axis); err != nil {
				return err
			}
		}
		if after.Shipped() {
			if err := tx.ShippedActions(ctx, after.ID); err != nil {
				return err
			}
		}
	}
	if unsure {
		for _, axis := range models.Axes {
			if w := target.Axes[axis]; w.Basis == models.Official && !w.Unclear && w.State == after.State(axis) {
				if err := tx.ConfirmActions(ctx, after, axis); err != nil {
					return err
				}
			}
		}
	}
	// The console's own reading that changed nothing wakes nobody: it was made for one
	// who waits, and would make the next one ask again.
	if unsent && (out.Moved || len(r.Events) > 0 || r.Actor != Console || otherwise(before, after)) {
		woken, err := tx.WakeActions(ctx, after.ID, out.Moved)
		if err != nil {
			return err
		}
		due = append(due, woken...)
	}
	return l.Queue.WakeActions(ctx, tx, due)
}

// planned are the actions that the shop's rules plan for the moves of a step.
func planned(ctx context.Context, tx *store.Tx, r Reading, before, after models.Order, moves []models.Move, entries []Written) ([]store.Planned, error) {
	if !models.Plans(before, after, moves) {
		return nil, nil
	}
	rules, err := tx.ActionRules(ctx, after.ShopID)
	if err != nil {
		return nil, err
	}
	var plans []store.Planned
	for _, p := range rules.Plan(before, after, moves, r.Cause.Kind == models.CauseImport, tx.Now) {
		for i, m := range moves {
			if m.Axis == p.Axis {
				plans = append(plans, store.Planned{Plan: p, Entry: entries[i].ID, Official: m.Basis == models.Official})
			}
		}
	}
	return plans, nil
}

// otherwise tells whether an order can be trusted in another way than before.
func otherwise(before, after models.Order) bool {
	if before.DisagreeSince.IsZero() != after.DisagreeSince.IsZero() {
		return true
	}
	for _, a := range models.Axes {
		was, is := before.Axes[a], after.Axes[a]
		if was.Check != is.Check || was.Doubt != is.Doubt || was.Connection != is.Connection {
			return true
		}
	}
	return false
}
