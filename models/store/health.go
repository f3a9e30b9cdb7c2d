package store

import (
	"context"
	"time"

	"counterfoil/models"
)

// Failed counts a failure to ask a platform and says what the connection's state is
// now. The state becomes down after enough failures over enough time; throttled at
// once, because the platform said so itself.
func (tx *Tx) Failed(ctx context.Context, connection int64, throttled bool, detail string, next time.Duration, downAfter time.Duration, downFailures int) (models.APIState, error) {
	was, _, err := tx.lockHealth(ctx, connection)
	if err == nil && (was == "" || was == models.APINone) {
		err = models.Fail(models.NotFound, "error.connection_unknown")
	}
	if err != nil {
		return was, err
	}
	var now struct {
		State string // gorm fills no other kind of text
		Since time.Time
	}
	err = tx.one(ctx, "error.connection_unknown", &now, `
UPDATE connections c SET
    api_failures = c.api_failures + 1,
    api_failing = COALESCE(c.api_failing, ?),
    api_error = ?,
    api_next = now() + make_interval(secs => ?),
    api_state = CASE
        WHEN c.api_state = 'down' THEN 'down'
        WHEN ?::boolean THEN 'throttled'
        WHEN c.api_failures + 1 >= ? AND COALESCE(c.api_failing, ?) <= ? THEN 'down'
        WHEN c.api_state = 'throttled' THEN 'up'
        ELSE c.api_state END,
    api_since = CASE
        WHEN c.api_state = 'down' THEN c.api_since
        WHEN ?::boolean THEN CASE WHEN c.api_state = 'throttled' THEN c.api_since ELSE ? END
        WHEN c.api_failures + 1 >= ? AND COALESCE(c.api_failing, ?) <= ? THEN COALESCE(c.api_failing, ?)
        WHEN c.api_state = 'throttled' THEN ?
        ELSE c.api_since END
WHERE c.id = ? RETURNING c.api_state AS state, c.api_since AS since`,
		tx.Now, detail, next.Seconds(),
		throttled, downFailures, tx.Now, tx.Now.Add(-downAfter),
		throttled, tx.Now, downFailures, tx.Now, tx.Now.Add(-downAfter), tx.Now, tx.Now,
		connection)
	if err != nil || models.APIState(now.State) == was {
		return models.APIState(now.State), err
	}
	return models.APIState(now.State), tx.noteHealth(ctx, connection, models.APIState(now.State), now.Since, detail)
}

// lockHealth locks a connection and says how its platform could be asked until now.
// It is a statement of its own: one that locks a row and changes it would change the
// version that it saw before it waited, in the way of whoever waits beside it.
func (tx *Tx) lockHealth(ctx context.Context, connection int64) (state models.APIState, failing *time.Time, err error) {
	var row struct {
		State   string
		Failing *time.Time
	}
	err = tx.rows(ctx, &row, `SELECT api_state AS state, api_failing AS failing FROM connections WHERE id = ? FOR NO KEY UPDATE`, connection)
	return models.APIState(row.State), row.Failing, err
}

// noteHealth adds a state to the history of a connection and ends the one before.
func (tx *Tx) noteHealth(ctx context.Context, connection int64, state models.APIState, since time.Time, detail string) error {
	if state == models.APIUp || state == models.APINone {
		detail = ""
	}
	n, err := tx.changed(ctx, `
UPDATE api_health SET until = GREATEST(since, ?) WHERE connection_id = ? AND until IS NULL AND state <> ?`, since, connection, state)
	if err != nil {
		return err
	}
	if n == 0 {
		var same bool
		if err := tx.rows(ctx, &same, `SELECT EXISTS (SELECT 1 FROM api_health WHERE connection_id = ? AND until IS NULL)`, connection); err != nil || same {
			return err
		}
	}
	return tx.exec(ctx, `INSERT INTO api_health (connection_id, state, since, error) VALUES (?, ?, ?, ?)`, connection, state, since, detail)
}

// historyShown is how many states of a connection its page shows.
const historyShown = 20

// HealthHistory lists the states of a connection's platform, the present one first.
func (r reads) HealthHistory(ctx context.Context, connection int64) ([]models.HealthPeriod, error) {
	all, err := r.healthHistories(ctx, []int64{connection})
	return all[connection], err
}

func (r reads) healthHistories(ctx context.Context, connections []int64) (map[int64][]models.HealthPeriod, error) {
	var rows []struct {
		ConnectionID int64
		State        models.APIState
		Since        time.Time
		Until        *time.Time
		Error        string
	}
	err := r.rows(ctx, &rows, `
SELECT h.connection_id, h.state, h.since, h.until, h.error
FROM unnest(?::bigint[]) c CROSS JOIN LATERAL (SELECT * FROM api_health WHERE connection_id = c ORDER BY id DESC LIMIT ?) h
ORDER BY h.connection_id, h.id DESC`, idList(connections), historyShown)
	out := map[int64][]models.HealthPeriod{}
	for _, x := range rows {
		out[x.ConnectionID] = append(out[x.ConnectionID], models.HealthPeriod{State: x.State, Since: x.Since.UTC(), Until: utc(x.Until), Error: x.Error})
	}
	return out, err
}

// Answered records that a platform answers again: what waited for it is due now, and
// the orders that it left in doubt are read again. It says whether that was news.
func (tx *Tx) Answered(ctx context.Context, connection int64) (bool, error) {
	was, failing, err := tx.lockHealth(ctx, connection)
	if err != nil || failing == nil {
		return false, err
	}
	if err := tx.exec(ctx, `
UPDATE connections SET api_state = 'up', api_since = CASE WHEN api_state = 'up' THEN api_since ELSE ? END,
       api_failures = 0, api_failing = NULL, api_next = NULL, api_error = '' WHERE id = ?`, tx.Now, connection); err != nil {
		return false, err
	}
	if was != models.APIUp {
		if err := tx.noteHealth(ctx, connection, models.APIUp, tx.Now, ""); err != nil {
			return true, err
		}
		if err := tx.sweepGap(ctx, connection); err != nil {
			return true, err
		}
	}
	// The time in which one of two platforms can't be asked is no part of how long
	// they disagree.
	if err := tx.exec(ctx, `
UPDATE orders o SET disagree_since = o.disagree_since + (?::timestamptz - GREATEST(o.disagree_since, ?::timestamptz)), disagree_due = ? FROM (
    SELECT id FROM orders d WHERE d.disagree_since IS NOT NULL AND d.disagree_since < ?
      AND EXISTS (SELECT 1 FROM platform_objects p WHERE p.order_id = d.id AND p.connection_id = ?)
    ORDER BY id FOR UPDATE) x
WHERE o.id = x.id`, tx.Now, *failing, tx.Now, tx.Now, connection); err != nil {
		return true, err
	}
	if err := tx.exec(ctx, `
UPDATE platform_objects p SET reread_at = now() FROM (
    SELECT p.id FROM orders o JOIN platform_objects p ON p.order_id = o.id AND p.connection_id = ?
    WHERE o.verification <> 'verified' AND (o.money_by = ? OR o.goods_by = ?) AND o.axes::text ~ '"doubt": "(api_down|throttled)"'
    ORDER BY p.id FOR UPDATE OF p) x
WHERE p.id = x.id`, connection, connection, connection); err != nil {
		return true, err
	}
	return true, tx.exec(ctx, `
UPDATE events e SET due_at = now() FROM (
    SELECT id FROM events WHERE connection_id = ? AND state = 'waiting' AND due_at > now() ORDER BY connection_id, key FOR UPDATE) w
WHERE e.id = w.id`, connection)
}

// sweepGap has a connection compared at once from its checkpoints, which stood still
// while its platform couldn't be asked.
func (tx *Tx) sweepGap(ctx context.Context, connection int64) error {
	if err := tx.exec(ctx, `UPDATE checkpoints SET next_at = LEAST(next_at, ?) WHERE connection_id = ?`, tx.Now, connection); err != nil {
		return err
	}
	return tx.exec(ctx, `
UPDATE sweeps s SET due_at = now() FROM (
    SELECT id FROM sweeps WHERE connection_id = ? AND state = 'running' AND due_at > now() ORDER BY id FOR UPDATE SKIP LOCKED) w WHERE s.id = w.id`, connection)
}

// Failing tells whether a connection's platform can't be asked, and keeps it so until
// the end of the transaction: whoever lets events wait for it comes before whoever
// makes the waiting ones due.
func (tx *Tx) Failing(ctx context.Context, connection int64) (bool, error) {
	var failing bool
	err := tx.one(ctx, "error.connection_unknown", &failing, `SELECT api_failing IS NOT NULL FROM connections WHERE id = ? FOR SHARE`, connection)
	return failing, err
}
