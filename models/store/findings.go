package store

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"counterfoil/models"
)

// A Finding is what a sweep saw of an object that our record doesn't say.
type Finding struct {
	ObjectID     int64
	ConnectionID int64
	OrderID      int64 // 0: our record has no such order
	Seen         models.Observation
	Digest       []byte
	Problems     []models.Problem
	Changed      time.Time // the platform's own time of the change
	First        time.Time
	Opens        time.Time // zero: its exceptions are open
	Sweep        int64
}

type findingRow struct {
	ObjectID     int64
	ConnectionID int64
	OrderID      *int64
	Seen         string
	Digest       []byte
	Problems     string
	ChangedAt    *time.Time
	FirstSeen    time.Time
	OpensAt      *time.Time
	SweepID      *int64
}

// FindingOf is what a sweep found of an object; nil: nothing.
func (r reads) FindingOf(ctx context.Context, object int64) (*Finding, error) {
	var rows []findingRow
	if err := r.rows(ctx, &rows, `
SELECT object_id, connection_id, order_id, seen::text AS seen, digest, problems::text AS problems, changed_at, first_seen, opens_at, sweep_id
FROM findings WHERE object_id = ?`, object); err != nil || len(rows) == 0 {
		return nil, err
	}
	x := rows[0]
	f := &Finding{ObjectID: x.ObjectID, ConnectionID: x.ConnectionID, Digest: x.Digest, Changed: utc(x.ChangedAt), First: x.FirstSeen.UTC(), Opens: utc(x.OpensAt)}
	if x.OrderID != nil {
		f.OrderID = *x.OrderID
	}
	if x.SweepID != nil {
		f.Sweep = *x.SweepID
	}
	if err := json.Unmarshal([]byte(x.Seen), &f.Seen); err != nil {
		return nil, fmt.Errorf("store: finding of object %d: %w", object, err)
	}
	if err := json.Unmarshal([]byte(x.Problems), &f.Problems); err != nil {
		return nil, fmt.Errorf("store: finding of object %d: %w", object, err)
	}
	return f, nil
}

// KeepFinding keeps what a sweep found of an object, or that it found it again.
func (tx *Tx) KeepFinding(ctx context.Context, f Finding) error {
	seen, err := json.Marshal(f.Seen)
	if err != nil {
		return err
	}
	problems, err := json.Marshal(f.Problems)
	if err != nil {
		return err
	}
	var order any
	if f.OrderID != 0 {
		order = f.OrderID
	}
	return tx.exec(ctx, `
INSERT INTO findings (object_id, connection_id, order_id, seen, digest, problems, changed_at, first_seen, last_seen, opens_at)
VALUES (?, ?, ?, ?::jsonb, ?, ?::jsonb, ?, ?, ?, ?)
ON CONFLICT (object_id) DO UPDATE SET order_id = EXCLUDED.order_id, seen = EXCLUDED.seen, digest = EXCLUDED.digest, problems = EXCLUDED.problems,
    changed_at = EXCLUDED.changed_at, last_seen = EXCLUDED.last_seen, count = findings.count + 1, opens_at = EXCLUDED.opens_at,
    sweep_id = CASE WHEN findings.digest = EXCLUDED.digest THEN findings.sweep_id END`,
		f.ObjectID, f.ConnectionID, order, string(seen), f.Digest, string(problems), nullTime(f.Changed), f.First, tx.Now, nullTime(f.Opens))
}

// FindingOpened says that a finding's exceptions are open now; its sweep counts it.
func (tx *Tx) FindingOpened(ctx context.Context, object int64, missed, different bool) error {
	return tx.exec(ctx, `
WITH f AS (UPDATE findings SET opens_at = NULL WHERE object_id = ? RETURNING sweep_id)
UPDATE sweeps s SET missed = s.missed + ?, different = s.different + ? FROM f WHERE s.id = f.sweep_id`, object, count(missed), count(different))
}

func count(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// FindingLater has a finding wait a little longer before it is called missed.
func (tx *Tx) FindingLater(ctx context.Context, object int64, until time.Time) error {
	return tx.exec(ctx, `UPDATE findings SET opens_at = ? WHERE object_id = ?`, until, object)
}

// DueFindings are objects whose findings have waited long enough for a notification.
func (r reads) DueFindings(ctx context.Context, now time.Time, limit int) ([]int64, error) {
	var ids []int64
	err := r.rows(ctx, &ids, `SELECT object_id FROM findings WHERE opens_at <= ? ORDER BY opens_at, object_id LIMIT ?`, now, limit)
	return ids, err
}

// DropFinding forgets a finding, and closes the exceptions that it opened.
func (tx *Tx) DropFinding(ctx context.Context, object int64, how, note string) (bool, error) {
	n, err := tx.changed(ctx, `DELETE FROM findings WHERE object_id = ?`, object)
	if err != nil || n == 0 {
		return false, err
	}
	return true, tx.exec(ctx, `
UPDATE exceptions SET state = 'closed', closed_at = ?, closed_how = ?, closed_note = ?, version = version + 1
WHERE object_id = ? AND state = 'open' AND kind IN ('missed_notification', 'state_differs', 'amount_differs') AND case_name <> 'moved_back'`, tx.Now, how, note, object)
}

// Accepted tells whether people accepted a difference, and neither side moved since.
func (r reads) Accepted(ctx context.Context, c Case, now time.Time) (bool, error) {
	platform, local := c.Problem.Digests()
	var axis any
	if c.Problem.Axis != "" {
		axis = string(c.Problem.Axis)
	}
	var yes bool
	err := r.rows(ctx, &yes, `
SELECT EXISTS (SELECT 1 FROM acceptances WHERE connection_id = ? AND subject = ? AND kind = ? AND axis IS NOT DISTINCT FROM ?
    AND platform_digest = ? AND local_digest = ? AND ended_at IS NULL AND until > ?)`, c.ConnectionID, c.Subject, c.Problem.Kind, axis, platform, local, now)
	return yes, err
}

// named are the events of an object, or of one that leads to it.
const named = `events e JOIN platform_objects p ON e.connection_id = p.connection_id AND e.account = p.account AND e.object_kind = p.kind AND e.object_ref = p.ref
WHERE (p.id = ? OR p.leads_to = ?)`

// ObjectWaits tells whether an event of an object isn't done.
func (r reads) ObjectWaits(ctx context.Context, object int64) (bool, error) {
	var yes bool
	err := r.rows(ctx, &yes, `SELECT EXISTS (SELECT 1 FROM `+named+` AND e.state IN ('received', 'waiting', 'unmatched'))`, object, object)
	return yes, err
}

// ToldSince tells whether a notification of an object was received since a time.
func (r reads) ToldSince(ctx context.Context, object int64, since time.Time) (bool, error) {
	var yes bool
	err := r.rows(ctx, &yes, `SELECT EXISTS (SELECT 1 FROM `+named+` AND e.last_at >= ?)`, object, object, since)
	return yes, err
}
