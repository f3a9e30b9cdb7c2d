package store

import (
	"context"
	"encoding/json"
	"time"

	"counterfoil/models"
)

// AskSweep has kinds of a connection's objects compared over a span of time; a zero
// since is the beginning. Somebody goes on with each at once. One that was asked for the
// same reason and still waits for its first page is that one, with the wider span.
func (tx *Tx) AskSweep(ctx context.Context, connection int64, kinds []string, reason models.SweepReason, by string, since, until time.Time) ([]int64, error) {
	ids := make([]int64, 0, len(kinds))
	for _, kind := range kinds {
		var id int64
		if err := tx.rows(ctx, &id, `
UPDATE sweeps SET since = CASE WHEN since IS NULL OR ?::timestamptz IS NULL THEN NULL ELSE LEAST(since, ?) END, until = GREATEST(until, ?), due_at = now(), updated_at = ?
WHERE id = (SELECT id FROM sweeps WHERE connection_id = ? AND kind = ? AND reason = ? AND state = 'running' AND pages = 0
    AND (claimed_until IS NULL OR claimed_until < now()) ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING id`,
			nullTime(since), nullTime(since), until, tx.Now, connection, kind, reason); err != nil {
			return nil, err
		}
		if id != 0 {
			ids = append(ids, id)
			continue
		}
		if err := tx.one(ctx, "error.connection_unknown", &id, `
INSERT INTO sweeps (connection_id, kind, reason, asked_by, since, until, due_at, started_at, updated_at)
VALUES (?, ?, ?, ?, ?, ?, now(), ?, ?) RETURNING id`, connection, kind, reason, by, nullTime(since), until, tx.Now, tx.Now); err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// A SweepRun is a sweep that somebody goes on with.
type SweepRun struct {
	models.Sweep
	Cursor string
	No     int64 // of its claim, and of the readings made under it
	Tries  int
}

type sweepRow struct {
	ID           int64
	ConnectionID int64
	Kind         string
	Reason       models.SweepReason
	AskedBy      string
	Since        *time.Time
	Until        time.Time
	Cursor       string
	Pages        int
	Seen         int64
	Missed       int64
	Different    int64
	Failed       int64
	Expected     *int64
	Reached      *time.Time
	State        models.SweepState
	Error        string
	Tries        int
	ClaimedNo    int64
	StartedAt    time.Time
	UpdatedAt    time.Time
	EndedAt      *time.Time
}

const sweepColumns = `s.id, s.connection_id, s.kind, s.reason, s.asked_by, s.since, s.until, s.cursor, s.pages, s.seen, s.missed, s.different, s.failed,
    s.expected, s.reached, s.state, s.error, s.tries, s.claimed_no, s.started_at, s.updated_at, s.ended_at`

func (r sweepRow) run() SweepRun {
	s := SweepRun{Sweep: models.Sweep{ID: r.ID, Connection: r.ConnectionID, Kind: r.Kind, Reason: r.Reason, By: r.AskedBy, Since: utc(r.Since), Until: r.Until.UTC(),
		Pages: r.Pages, Seen: r.Seen, Missed: r.Missed, Different: r.Different, Failed: r.Failed, Reached: utc(r.Reached), State: r.State, Error: r.Error,
		Started: r.StartedAt.UTC(), Updated: r.UpdatedAt.UTC(), Ended: utc(r.EndedAt)}, Cursor: r.Cursor, No: r.ClaimedNo, Tries: r.Tries}
	if r.Expected != nil {
		s.Expected = *r.Expected
	}
	return s
}

// BeginSweep begins a periodic run or the import of a kind, unless one runs already.
func (tx *Tx) BeginSweep(ctx context.Context, connection int64, kind string, reason models.SweepReason, since, until time.Time) (int64, error) {
	var id int64
	err := tx.rows(ctx, &id, `
INSERT INTO sweeps (connection_id, kind, reason, since, until, due_at, started_at, updated_at)
VALUES (?, ?, ?, ?, ?, now(), ?, ?) ON CONFLICT (connection_id, kind) WHERE state = 'running' AND reason IN ('periodic', 'import') DO NOTHING
RETURNING id`, connection, kind, reason, nullTime(since), until, tx.Now, tx.Now)
	return id, err
}

// ClaimSweep takes a running sweep that is due and that nobody holds; id 0: any.
func (tx *Tx) ClaimSweep(ctx context.Context, id int64, lease time.Duration) (*SweepRun, error) {
	var rows []sweepRow
	err := tx.rows(ctx, &rows, `
UPDATE sweeps s SET claimed_until = now() + make_interval(secs => ?), claimed_no = nextval('reading_no')
WHERE s.id = (SELECT d.id FROM sweeps d WHERE d.state = 'running' AND d.due_at <= now() AND (d.claimed_until IS NULL OR d.claimed_until < now())
    AND (?::bigint = 0 OR d.id = ?) ORDER BY d.due_at, d.id LIMIT 1 FOR UPDATE SKIP LOCKED)
RETURNING `+sweepColumns, lease.Seconds(), id, id)
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	run := rows[0].run()
	return &run, nil
}

// KeepSweep prolongs a claim; false: somebody else holds the run now, or it was stopped.
func (tx *Tx) KeepSweep(ctx context.Context, r SweepRun, lease time.Duration) (bool, error) {
	n, err := tx.changed(ctx, `UPDATE sweeps SET claimed_until = now() + make_interval(secs => ?) WHERE id = ? AND claimed_no = ? AND state = 'running'`, lease.Seconds(), r.ID, r.No)
	return n > 0, err
}

// A SweepPage is what one finished page adds to its run.
type SweepPage struct {
	Next    string // empty: it was the last
	Seen    int
	Failed  int
	Reached time.Time
	Found   []int64 // objects that differ
	Quiet   bool    // nothing counts as missed
	// Checkpoint is up to when the kind is compared without a gap now; zero: it stays.
	Checkpoint time.Time
	Every      time.Duration // until the next periodic run
}

// FinishPage moves a run on: cursor, counters and checkpoint together. False: somebody
// else holds the run now, or it was stopped; nothing is written then.
func (tx *Tx) FinishPage(ctx context.Context, r SweepRun, p SweepPage) (bool, error) {
	var n struct{ Missed, Different int64 }
	held := int64(0)
	if err := tx.rows(ctx, &held, `SELECT id FROM sweeps WHERE id = ? AND claimed_no = ? AND state = 'running' FOR UPDATE`, r.ID, r.No); err != nil || held == 0 {
		return false, err
	}
	if len(p.Found) > 0 {
		// In a statement of its own: who waited for another kind's page sees what it counted.
		if err := tx.exec(ctx, `SELECT object_id FROM findings WHERE object_id = ANY (?::bigint[]) ORDER BY object_id FOR UPDATE`, idList(p.Found)); err != nil {
			return false, err
		}
		if err := tx.one(ctx, "", &n, `
WITH f AS (
    UPDATE findings f SET sweep_id = ? WHERE f.object_id = ANY (?::bigint[]) AND NOT EXISTS (
        -- Another kind of the same comparison counted it already.
        SELECT 1 FROM sweeps o JOIN sweeps s ON s.id = ? WHERE o.id = f.sweep_id AND o.connection_id = s.connection_id AND o.started_at = s.started_at)
    RETURNING f.opens_at IS NULL AS open, f.problems @> '[{"Kind": "missed_notification"}]' AS missed)
SELECT count(*) FILTER (WHERE open AND missed) AS missed, count(*) FILTER (WHERE open AND NOT missed) AS different FROM f`,
			r.ID, idList(p.Found), r.ID); err != nil {
			return false, err
		}
		if p.Quiet {
			n.Missed, n.Different = 0, 0
		}
	}
	done := p.Next == ""
	if err := tx.exec(ctx, `
UPDATE sweeps SET cursor = ?, pages = pages + 1, seen = seen + ?, failed = failed + ?, missed = missed + ?, different = different + ?,
    reached = GREATEST(reached, ?), state = CASE WHEN ? THEN 'done' ELSE 'running' END, ended_at = CASE WHEN ? THEN ?::timestamptz END,
    error = '', tries = 0, due_at = CASE WHEN ? THEN NULL ELSE now() END, claimed_until = NULL, updated_at = ? WHERE id = ?`,
		p.Next, p.Seen, p.Failed, n.Missed, n.Different, nullTime(p.Reached), done, done, tx.Now, done, tx.Now, r.ID); err != nil {
		return false, err
	}
	switch {
	case done && !p.Checkpoint.IsZero():
		return true, tx.exec(ctx, `
INSERT INTO checkpoints (connection_id, kind, at, swept_at, next_at) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (connection_id, kind) DO UPDATE SET at = GREATEST(checkpoints.at, EXCLUDED.at), swept_at = EXCLUDED.swept_at, next_at = EXCLUDED.next_at`,
			r.Connection, r.Kind, p.Checkpoint, tx.Now, tx.Now.Add(p.Every))
	case !p.Checkpoint.IsZero():
		return true, tx.exec(ctx, `UPDATE checkpoints SET at = GREATEST(at, ?) WHERE connection_id = ? AND kind = ?`, p.Checkpoint, r.Connection, r.Kind)
	}
	return true, nil
}

// SweepWaits puts a run off, with why; it goes on at the same page.
func (tx *Tx) SweepWaits(ctx context.Context, r SweepRun, why string, after time.Duration, ours bool, most int) error {
	return tx.exec(ctx, `
UPDATE sweeps SET error = ?, tries = CASE WHEN ? THEN tries + 1 ELSE tries END, claimed_until = NULL, updated_at = ?,
    state = CASE WHEN ? AND tries + 1 >= ? THEN 'failed' ELSE state END, ended_at = CASE WHEN ? AND tries + 1 >= ? THEN ?::timestamptz END,
    due_at = CASE WHEN ? AND tries + 1 >= ? THEN NULL ELSE now() + make_interval(secs => ?) END
WHERE id = ? AND claimed_no = ? AND state = 'running'`, why, ours, tx.Now, ours, most, ours, most, tx.Now, ours, most, after.Seconds(), r.ID, r.No)
}

// StopSweep ends a running sweep at its next page.
func (tx *Tx) StopSweep(ctx context.Context, id int64) (bool, error) {
	n, err := tx.changed(ctx, `UPDATE sweeps SET state = 'stopped', ended_at = ?, updated_at = ?, due_at = NULL WHERE id = ? AND state = 'running'`, tx.Now, tx.Now, id)
	return n > 0, err
}

// SweepsOf lists a connection's newest sweeps.
func (r reads) SweepsOf(ctx context.Context, connection int64, limit int) ([]models.Sweep, error) {
	return r.sweepsWhere(ctx, `s.connection_id = ? ORDER BY s.id DESC LIMIT ?`, connection, limit)
}

// SweepsByID reads sweeps by their numbers.
func (r reads) SweepsByID(ctx context.Context, ids []int64) ([]models.Sweep, error) {
	return r.sweepsWhere(ctx, `s.id = ANY (?::bigint[]) ORDER BY s.id`, idList(ids))
}

// RunningImports are the runs of a connection's import that aren't done.
func (r reads) RunningImports(ctx context.Context, connection int64) ([]models.Sweep, error) {
	return r.sweepsWhere(ctx, `s.connection_id = ? AND s.reason = 'import' AND s.state = 'running' ORDER BY s.id`, connection)
}

func (r reads) sweepsWhere(ctx context.Context, cond string, args ...any) ([]models.Sweep, error) {
	var rows []sweepRow
	err := r.rows(ctx, &rows, `SELECT `+sweepColumns+` FROM sweeps s WHERE `+cond, args...)
	out := make([]models.Sweep, len(rows))
	for i, x := range rows {
		out[i] = x.run().Sweep
	}
	return out, err
}

// A Checkpoint is up to when a kind of object of a connection is compared without a gap.
type Checkpoint struct {
	ConnectionID int64
	Kind         string
	At           time.Time
	SweptAt      time.Time
	NextAt       time.Time
}

// Checkpoints lists those of all connections, or of one.
func (r reads) Checkpoints(ctx context.Context, connection int64) ([]Checkpoint, error) {
	var rows []Checkpoint
	err := r.rows(ctx, &rows, `SELECT connection_id, kind, at, swept_at, next_at FROM checkpoints WHERE ?::bigint = 0 OR connection_id = ? ORDER BY connection_id, kind`, connection, connection)
	return rows, err
}

// Imports tells since when each connection's import is over.
func (r reads) Imports(ctx context.Context) (map[int64]bool, error) {
	var ids []int64
	err := r.rows(ctx, &ids, `SELECT id FROM connections WHERE imported_at IS NOT NULL`)
	out := map[int64]bool{}
	for _, id := range ids {
		out[id] = true
	}
	return out, err
}

// EndImport says that a connection's import is over, once each of its kinds was read.
func (tx *Tx) EndImport(ctx context.Context, connection int64, kinds int) (bool, error) {
	n, err := tx.changed(ctx, `
UPDATE connections SET imported_at = ? WHERE id = ? AND imported_at IS NULL
  AND NOT EXISTS (SELECT 1 FROM sweeps WHERE connection_id = connections.id AND reason = 'import' AND state = 'running')
  AND (SELECT count(DISTINCT kind) FROM sweeps WHERE connection_id = connections.id AND reason = 'import' AND state = 'done') >= ?`, tx.Now, connection, kinds)
	return n > 0, err
}

// LastWhole is when a run over everything of a kind was done last.
func (r reads) LastWhole(ctx context.Context, connection int64, kind string) (time.Time, error) {
	var at *time.Time
	err := r.rows(ctx, &at, `SELECT max(ended_at) FROM sweeps WHERE connection_id = ? AND kind = ? AND state = 'done' AND since IS NULL`, connection, kind)
	return utc(at), err
}

// Same confirms the objects of which the record says what was read just now: it keeps
// when they were read, and nothing else. It answers which of them those are.
func (s *Store) Same(ctx context.Context, connection, no int64, seen []Reread, read time.Time) (map[models.ObjectRef]bool, error) {
	list, err := json.Marshal(seen)
	if err != nil {
		return nil, err
	}
	type row struct {
		ID      int64
		OrderID int64
		Account string
		Kind    string
		Ref     string
	}
	var out map[models.ObjectRef]bool
	err = s.Tx(ctx, func(tx *Tx) error {
		var rows []row
		if err := tx.rows(ctx, &rows, `
SELECT p.id, p.order_id, p.account, p.kind, p.ref FROM jsonb_to_recordset(?::jsonb) AS x (account text, kind text, id text, digest text)
JOIN platform_objects p ON p.connection_id = ? AND p.account = x.account AND p.kind = x.kind AND p.ref = x.id
JOIN orders o ON o.id = p.order_id
WHERE p.digest = decode(x.digest, 'hex') AND p.missing_since IS NULL AND p.applied_no < ? AND o.verification = 'verified'
  AND NOT EXISTS (SELECT 1 FROM findings f WHERE f.object_id = p.id)`, string(list), connection, no); err != nil {
			return err
		}
		out = make(map[models.ObjectRef]bool, len(rows))
		orders, objects := make([]int64, 0, len(rows)), make([]int64, 0, len(rows))
		for _, x := range rows {
			out[models.ObjectRef{Account: x.Account, Kind: x.Kind, ID: x.Ref}] = true
			orders, objects = append(orders, x.OrderID), append(objects, x.ID)
		}
		if len(rows) == 0 {
			return nil
		}
		if err := tx.exec(ctx, `SELECT id FROM orders WHERE id = ANY (?::bigint[]) ORDER BY id FOR NO KEY UPDATE`, idList(orders)); err != nil {
			return err
		}
		if err := tx.exec(ctx, `
UPDATE platform_objects p SET fetched_at = GREATEST(p.fetched_at, ?) FROM (
    SELECT id FROM platform_objects WHERE id = ANY (?::bigint[]) AND applied_no < ? ORDER BY id FOR UPDATE) x WHERE p.id = x.id`, read, idList(objects), no); err != nil {
			return err
		}
		return tx.exec(ctx, `
UPDATE orders o SET axes = n.axes, checked_at = n.checked FROM (
    SELECT q.id, jsonb_object_agg(a.key, a.said) AS axes, min((a.said ->> 'checked_at')::timestamptz) AS checked
    FROM orders q CROSS JOIN LATERAL (
        SELECT e.key, CASE WHEN (e.value ->> 'connection')::bigint = ? AND jsonb_exists(e.value, 'checked_at')
            THEN jsonb_set(e.value, '{checked_at}', to_jsonb(?::text)) ELSE e.value END AS said
        FROM jsonb_each(q.axes) e) a
    WHERE q.id = ANY (?::bigint[]) AND q.verification = 'verified' GROUP BY q.id) n WHERE o.id = n.id`, connection, read.UTC().Format(time.RFC3339Nano), idList(orders))
	})
	return out, err
}

// A Reread is an object together with the digest of what was read of it.
type Reread struct {
	models.ObjectRef
	Digest string `json:"digest"` // hexadecimal
}

// Unread lists, by id, objects of a connection that nothing confirmed for long: those of
// orders that aren't at rest, and returns of any age that are or were under way lately.
func (r reads) Unread(ctx context.Context, connection, after int64, stale, unsent, returns time.Time, limit int) ([]models.ObjectRef, int64, error) {
	var rows []struct {
		ID      int64
		Account string
		Kind    string
		Ref     string
	}
	err := r.rows(ctx, &rows, `
SELECT p.id, p.account, p.kind, p.ref FROM platform_objects p JOIN orders o ON o.id = p.order_id
WHERE p.connection_id = ? AND p.id > ? AND p.leads_to IS NULL AND p.official IS NOT NULL AND o.merged_into IS NULL AND (
    NOT o.settled AND p.fetched_at < CASE WHEN o.payment = 'paid' AND o.fulfillment = 'unfulfilled' AND o.store THEN ?::timestamptz ELSE ?::timestamptz END
    OR o.return IN ('requested', 'in_progress') OR o.return IN ('received', 'declined') AND o.updated_at > ?
    OR o.refund = 'pending' OR o.dispute = 'open' OR NOT o.store AND o.payment IN ('pending', 'authorized'))
ORDER BY p.id LIMIT ?`, connection, after, unsent, stale, returns, limit)
	out := make([]models.ObjectRef, len(rows))
	for i, x := range rows {
		out[i], after = models.ObjectRef{Account: x.Account, Kind: x.Kind, ID: x.Ref}, x.ID
	}
	return out, after, err
}

// ImportedKinds are the kinds of a connection that its import has read.
func (r reads) ImportedKinds(ctx context.Context, connection int64) ([]string, error) {
	var kinds []string
	err := r.rows(ctx, &kinds, `SELECT DISTINCT kind FROM sweeps WHERE connection_id = ? AND reason = 'import' AND state = 'done'`, connection)
	return kinds, err
}
