package ledger

import (
	"context"
	"time"

	"counterfoil/models"
	"counterfoil/models/store"
)

// shippedWhilePaused finds shipments that a hold should have stopped.
func shippedWhilePaused(ctx context.Context, tx *store.Tx, before, after models.Order, objects []models.ObjectView) ([]models.Problem, error) {
	if len(before.Axes) == 0 || !before.ShippedMore(after) {
		return nil, nil
	}
	holds, err := tx.HoldsReaching(ctx, after.ID, after.ShopID, after.Connections())
	if err != nil {
		return nil, err
	}
	last := lastShipment(objects)
	for _, h := range holds {
		// What left before the pause was only told after it.
		if last.IsZero() || !last.Before(h.Since) {
			return []models.Problem{{Kind: models.Contradiction, Case: models.CaseShippedWhilePaused, Axis: models.Fulfillment,
				PlatformState: after.Axes[models.Fulfillment].Word, LocalState: string(before.State(models.Fulfillment))}}, nil
		}
	}
	return nil, nil
}

// lastShipment is when the newest shipment left, by the platforms' own times; zero:
// they don't say.
func lastShipment(objects []models.ObjectView) time.Time {
	var last time.Time
	for _, o := range objects {
		if o.Official == nil {
			continue
		}
		for _, p := range o.Official.Parts {
			if p.Axis == models.Fulfillment && p.At.After(last) {
				last = p.At
			}
		}
	}
	return last
}
