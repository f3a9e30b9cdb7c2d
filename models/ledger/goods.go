package ledger

import (
	"context"
	"slices"

	"counterfoil/models"
	"counterfoil/models/store"
)

// followGoods plans an instruction for goods that come on top of those that an
// instruction covered: an edit added them, or their parcel was called back. It waits for
// people, and grows and shrinks with the order for as long as nobody outside has heard
// of it. The order's unsent actions are locked. It answers those that are due.
func followGoods(ctx context.Context, tx *store.Tx, before, after models.Order, target models.Target, entries []Written) ([]int64, error) {
	if before.Items == after.Items {
		return nil, nil
	}
	if before.Items.Ordered != after.Items.Ordered || before.Items.Removed != after.Items.Removed {
		if err := tx.LapseReleases(ctx, after.ID); err != nil {
			return nil, err
		}
	}
	instructions, err := tx.Instructions(ctx, after.ID)
	if err != nil {
		return nil, err
	}
	list := make([]models.Action, len(instructions))
	var open []store.Instruction
	for i, x := range instructions {
		list[i] = x.Action
		if x.Open && x.Pieces > 0 {
			open = append(open, x)
		}
	}
	switch n := models.Uncovered(before, after, list); {
	case n > 0 && len(open) > 0:
		newest := open[len(open)-1]
		return []int64{newest.ID}, tx.SetPieces(ctx, newest.ID, newest.Pieces+n)
	case n > 0:
		x := store.Extra{Kind: models.FulfillmentInstruction, Stage: models.StageMore, Pieces: n, Official: target.Axes[models.Fulfillment].Basis == models.Official}
		if len(entries) > 0 {
			x.Entry = entries[0].ID
		}
		id, due, err := tx.AddAction(ctx, after, x)
		if err != nil || !due {
			return nil, err
		}
		return []int64{id}, nil
	case n < 0:
		var due []int64
		for _, x := range slices.Backward(open) {
			less := min(-n, x.Pieces)
			if n += less; less == 0 {
				break
			}
			if less == x.Pieces {
				err = tx.ForgoAction(ctx, x.ID, models.TakenOut)
			} else {
				due, err = append(due, x.ID), tx.SetPieces(ctx, x.ID, x.Pieces-less)
			}
			if err != nil {
				return nil, err
			}
		}
		return due, nil
	}
	return nil, nil
}
