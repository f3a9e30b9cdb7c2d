package store

import (
	"context"
	"time"

	"counterfoil/models"
)

// AskSweep has kinds of a connection's objects compared over a span of time; a zero
// since is the beginning. Somebody goes on with each at once.
func (tx *Tx) AskSweep(ctx context.Context, connection int64, kinds []string, reason models.SweepReason, by string, since, until time.Time) ([]int64, error) {
	ids := make([]int64, 0, len(kinds))
	for _, kind := range kinds {
		var id int64
		if err := tx.one(ctx, "error.connection_unknown", &id, `
INSERT INTO sweeps (connection_id, kind, reason, asked_by, since, until, due_at, started_at, updated_at)
VALUES (?, ?, ?, ?, ?, ?, now(), ?, ?) RETURNING id`, connection, kind, reason, by, nullTime(since), until, tx.Now, tx.Now); err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, nil
}
