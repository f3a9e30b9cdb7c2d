package store

import (
	"context"
	"time"

	"counterfoil/models"
)

// Alive says that a process of the console lives. Where none did for longer than
// OffAfter, that time off is remembered, and every connection is due to be compared: its
// checkpoint stood still.
func (tx *Tx) Alive(ctx context.Context, process string) error {
	// One at a time: of several that start together one remembers the time off.
	if err := tx.exec(ctx, `SELECT pg_advisory_xact_lock(7263546)`); err != nil {
		return err
	}
	var last struct {
		At    *time.Time
		Now   time.Time
		Quiet bool
	}
	if err := tx.one(ctx, "", &last, `SELECT max(seen_at) AS at, now() AS now, COALESCE(now() - max(seen_at) > make_interval(secs => ?), false) AS quiet FROM console_life`,
		models.OffAfter.Seconds()); err != nil {
		return err
	}
	if last.Quiet {
		if err := tx.exec(ctx, `INSERT INTO off_times (since, until) VALUES (?, ?)`, *last.At, last.Now); err != nil {
			return err
		}
		if err := tx.exec(ctx, `UPDATE checkpoints SET next_at = LEAST(next_at, ?)`, tx.Now); err != nil {
			return err
		}
		if err := tx.exec(ctx, `DELETE FROM console_life WHERE seen_at < now() - interval '1 day'`); err != nil {
			return err
		}
	}
	return tx.exec(ctx, `INSERT INTO console_life (process, seen_at) VALUES (?, now()) ON CONFLICT (process) DO UPDATE SET seen_at = EXCLUDED.seen_at`, process)
}

// OffTimes lists when the console was off in the last 30 days, the last one first.
func (r reads) OffTimes(ctx context.Context) ([]models.OffTime, error) {
	var out []models.OffTime
	err := r.rows(ctx, &out, `SELECT since, until FROM off_times WHERE until > now() - interval '30 days' ORDER BY id DESC LIMIT 10`)
	for i := range out {
		out[i].Since, out[i].Until = out[i].Since.UTC(), out[i].Until.UTC()
	}
	return out, err
}
