package store

import (
	"context"

	"counterfoil/models"
)

// Figures are counts for operations.
type Figures struct {
	Events []struct {
		Connection string
		State      string
		N          int64
	}
	Connections []struct {
		Connection string
		State      models.APIState
		Rejected   int64
		Oldest     float64 // seconds
	}
}

// Figures counts what is kept and what waits.
func (r reads) Figures(ctx context.Context) (Figures, error) {
	var f Figures
	if err := r.rows(ctx, &f.Events, `
SELECT c.slug AS connection, e.state, count(*) AS n FROM events e JOIN connections c ON c.id = e.connection_id
WHERE e.state IN ('received', 'waiting', 'unmatched', 'review', 'failed') GROUP BY 1, 2 ORDER BY 1, 2`); err != nil {
		return f, err
	}
	err := r.rows(ctx, &f.Connections, `
SELECT c.slug AS connection, c.api_state AS state, c.rejected,
       COALESCE((SELECT extract(epoch FROM now() - min(e.received_at)) FROM events e WHERE e.connection_id = c.id AND e.due_at IS NOT NULL), 0)::float8 AS oldest
FROM connections c ORDER BY 1`)
	return f, err
}

// ObjectsWaiting counts the objects, orders and payments, with an unprocessed event of
// a connection.
func (r reads) ObjectsWaiting(ctx context.Context, connection int64) (int64, error) {
	var n int64
	err := r.rows(ctx, &n, `
SELECT count(DISTINCT (e.account, e.object_kind, e.object_ref)) FROM events e WHERE e.connection_id = ? AND e.due_at IS NOT NULL AND e.object_ref <> ''`, connection)
	return n, err
}

// ForgetSessions deletes what long ended: sessions, and failures at the door.
func (tx *Tx) ForgetSessions(ctx context.Context) error {
	if err := tx.exec(ctx, `DELETE FROM sessions WHERE expires_at < now() - interval '30 days'`); err != nil {
		return err
	}
	return tx.exec(ctx, `DELETE FROM sign_in_failures WHERE at < now() - interval '1 day'`)
}

// PayloadWeeks makes the partitions of the weeks to come.
func (tx *Tx) PayloadWeeks(ctx context.Context) error { return tx.exec(ctx, `SELECT payload_weeks(4)`) }
