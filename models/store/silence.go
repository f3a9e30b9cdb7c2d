package store

import (
	"context"
	"time"

	"counterfoil/models"
)

// eventsAtOnce is how many notifications one transaction counts at most.
const eventsAtOnce = 20000

// CountHours adds the notifications that came since the last count to those of their
// hours. One process counts at a time; it answers whether there may be more.
func (tx *Tx) CountHours(ctx context.Context) (bool, error) {
	var at []int64
	if err := tx.rows(ctx, &at, `SELECT upto FROM event_hours_upto FOR UPDATE SKIP LOCKED`); err != nil || len(at) == 0 {
		return false, err
	}
	upto := at[0]
	var span struct{ Last, Newest int64 }
	err := tx.rows(ctx, &span, `
WITH fresh AS MATERIALIZED (SELECT id, connection_id, date_trunc('hour', received_at) AS hour FROM events WHERE id > ? AND id <= ?),
counted AS (
    INSERT INTO event_hours AS h (connection_id, hour, events) SELECT connection_id, hour, count(*) FROM fresh GROUP BY 1, 2
    ON CONFLICT (connection_id, hour) DO UPDATE SET events = h.events + EXCLUDED.events)
SELECT COALESCE((SELECT max(id) FROM fresh), 0) AS last, COALESCE((SELECT max(id) FROM events), 0) AS newest`, upto, upto+eventsAtOnce)
	if err != nil {
		return false, err
	}
	// Ids that are given out and not yet committed may lie below: that an hour wasn't
	// silent doesn't depend on them.
	next := max(upto, span.Last)
	if span.Newest > upto+eventsAtOnce {
		next = upto + eventsAtOnce
	}
	if err := tx.exec(ctx, `UPDATE event_hours_upto SET upto = ?`, next); err != nil {
		return false, err
	}
	return span.Newest > next, tx.exec(ctx, `DELETE FROM event_hours WHERE hour < ?`, tx.Now.Add(-35*24*time.Hour))
}

// A Quiet is what tells whether a connection's silence is unusual.
type Quiet struct {
	LastID int64
	Last   time.Time // of the newest notification; zero: there was none
	Weeks  []int64   // notifications in the same hour of past weeks, the newest first
	Found  bool      // a sweep saw a change since
	Open   bool      // silence is an open exception already
	Since  time.Time // of that exception
}

// Quiet reads a connection's silence around an hour of the week. Weeks from before its
// first notification don't count.
func (r reads) Quiet(ctx context.Context, connection int64, hour time.Time, subject string) (Quiet, error) {
	var q Quiet
	var row struct {
		ID     int64
		At     *time.Time
		First  *time.Time
		Found  bool
		Opened *time.Time
	}
	err := r.rows(ctx, &row, `
SELECT COALESCE(e.id, 0) AS id, e.received_at AS at, (SELECT min(hour) FROM event_hours h WHERE h.connection_id = c.id) AS first,
       EXISTS (SELECT 1 FROM findings f WHERE f.connection_id = c.id AND f.first_seen > e.received_at) AS found,
       (SELECT x.first_seen FROM exceptions x WHERE x.connection_id = c.id AND x.subject = ? AND x.kind = 'silence' AND x.state = 'open') AS opened
FROM connections c LEFT JOIN LATERAL (SELECT id, received_at FROM events WHERE connection_id = c.id ORDER BY id DESC LIMIT 1) e ON true
WHERE c.id = ?`, subject, connection)
	if err != nil {
		return q, err
	}
	q.LastID, q.Last, q.Found, q.Open, q.Since = row.ID, utc(row.At), row.Found, row.Opened != nil, utc(row.Opened)
	if row.First == nil {
		return q, nil
	}
	for week := 1; week <= 4; week++ {
		at := hour.Add(-time.Duration(week) * 7 * 24 * time.Hour)
		if at.Before(row.First.UTC()) {
			break
		}
		var n int64
		if err := r.rows(ctx, &n, `SELECT COALESCE((SELECT events FROM event_hours WHERE connection_id = ? AND hour = ?), 0)`, connection, at); err != nil {
			return q, err
		}
		q.Weeks = append(q.Weeks, n)
	}
	return q, nil
}

// CloseSilence ends the alarm with the first notification after it began.
func (tx *Tx) CloseSilence(ctx context.Context, subject string) error {
	return tx.CloseCases(ctx, subject, []models.ExceptionKind{models.Silence}, nil, "late")
}
