package store

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"counterfoil/models"
)

// asked are the kinds whose clocks stand still while their platform can't be asked or
// an event of what they are about waits.
var asked = append(slices.Clone(judged), models.MissedNotification, models.PlatformsDisagree, models.ActionDiffers)

// standing is when a clock that stands still is looked at again.
const standing = time.Minute

// A DueCase is an open exception whose time has come: it becomes a person's, or the
// console reads again by policy.
type DueCase struct {
	ID           int64
	ConnectionID int64
	Subject      string
	Kind         models.ExceptionKind
	Axis         models.Axis
	OrderID      int64
	ObjectID     int64
	Policy       models.Policy
	Rule         string
	Needs        bool // its grace is over
	Heals        bool // it is to be read again
	Still        bool // its clock stands still
}

// DueCases moves on the exceptions whose time has come, and answers those that have to
// be read again; each of those is the caller's for as long as the lease runs.
func (tx *Tx) DueCases(ctx context.Context, limit int, lease time.Duration) (heal []DueCase, moved int, err error) {
	kinds, err := json.Marshal(asked)
	if err != nil {
		return nil, 0, err
	}
	var due []DueCase
	if err := tx.rows(ctx, &due, `
WITH due AS MATERIALIZED (
    SELECT x.id FROM exceptions x WHERE x.state = 'open' AND (x.needs_at IS NOT NULL OR x.heal_at IS NOT NULL) AND least(x.needs_at, x.heal_at) <= ?
    ORDER BY least(x.needs_at, x.heal_at) LIMIT ? FOR UPDATE SKIP LOCKED)
SELECT x.id, COALESCE(x.connection_id, 0) AS connection_id, x.subject, x.kind, COALESCE(x.axis, '') AS axis, COALESCE(x.order_id, 0) AS order_id,
       COALESCE(x.object_id, 0) AS object_id, x.policy, x.rule, COALESCE(x.needs_at <= ?, false) AS needs, COALESCE(x.heal_at <= ?, false) AS heals,
       (x.heal_at IS NOT NULL OR ?::jsonb @> to_jsonb(x.kind)) AND (
           EXISTS (SELECT 1 FROM connections c WHERE c.id = x.connection_id AND (c.api_state IN ('throttled', 'down') OR c.api_failing IS NOT NULL))
           OR EXISTS (SELECT 1 FROM platform_objects p JOIN connections c ON c.id = p.connection_id WHERE (p.id = x.object_id OR p.order_id = x.order_id)
               AND (c.api_state IN ('throttled', 'down') OR c.api_failing IS NOT NULL))
           OR EXISTS (SELECT 1 FROM platform_objects p CROSS JOIN LATERAL (
               SELECT 1 FROM events e WHERE e.connection_id = p.connection_id AND e.account = p.account AND e.object_kind = p.kind AND e.object_ref = p.ref
                 AND e.due_at IS NOT NULL AND e.state IN ('received', 'waiting') LIMIT 1) w
             WHERE p.id = x.object_id OR p.order_id = x.order_id)) AS still
FROM exceptions x WHERE x.id = ANY (ARRAY(SELECT id FROM due)) ORDER BY x.id`, tx.Now, limit, tx.Now, tx.Now, string(kinds)); err != nil {
		return nil, 0, err
	}
	for _, d := range due {
		rule, _ := models.CaseRuleOf(d.Rule)
		switch {
		case d.Still:
			err = tx.PostponeCase(ctx, d.ID, standing)
		case d.Heals:
			heal = append(heal, d)
			err = tx.exec(ctx, `UPDATE exceptions SET heal_at = ?, healed_at = ? WHERE id = ?`, tx.Now.Add(lease), tx.Now, d.ID)
		case rule.Ends > 0 && d.Policy == models.PolicyWait:
			err = tx.exec(ctx, `UPDATE exceptions SET state = 'closed', closed_at = ?, closed_how = 'ended' WHERE id = ?`, tx.Now, d.ID)
		default:
			err = tx.NeedPeople(ctx, d.ID)
		}
		if err != nil {
			return nil, 0, err
		}
	}
	return heal, len(due), nil
}

// PostponeCase lets what is due of an open exception be due a little later.
func (tx *Tx) PostponeCase(ctx context.Context, id int64, after time.Duration) error {
	return tx.exec(ctx, `
UPDATE exceptions SET needs_at = CASE WHEN needs_at IS NOT NULL THEN greatest(needs_at, ?::timestamptz) END, heal_at = CASE WHEN heal_at IS NOT NULL THEN ?::timestamptz END
WHERE id = ? AND state = 'open'`, tx.Now.Add(after), tx.Now.Add(after), id)
}

// NeedPeople makes an open exception a person's. It never goes back.
func (tx *Tx) NeedPeople(ctx context.Context, id int64) error {
	return tx.exec(ctx, `UPDATE exceptions SET needs = true, needs_at = NULL, heal_at = NULL WHERE id = ? AND state = 'open'`, id)
}

// Healed closes an exception that reading again by policy settled; one that it left is
// a person's. It answers whether the exception is closed, now or since before.
func (tx *Tx) Healed(ctx context.Context, id int64, settled bool) (bool, error) {
	if !settled {
		if err := tx.NeedPeople(ctx, id); err != nil {
			return false, err
		}
	} else if err := tx.exec(ctx, `UPDATE exceptions SET state = 'closed', closed_at = ?, closed_how = 'resync' WHERE id = ? AND state = 'open'`, tx.Now, id); err != nil {
		return false, err
	}
	var closed bool
	err := tx.one(ctx, "error.exception_unknown", &closed, `SELECT state = 'closed' FROM exceptions WHERE id = ?`, id)
	return closed, err
}

// HealObjects are the platform objects that are read to settle an exception: its own,
// else all of its order.
func (r reads) HealObjects(ctx context.Context, d DueCase) ([]ObjectRow, error) {
	if d.ObjectID != 0 {
		return r.objectsWhere(ctx, "p.id = ?", d.ObjectID)
	}
	return r.objectsWhere(ctx, "p.order_id = ?", d.OrderID)
}

// More than over of one kind and connection within a time are one line. Some come one by
// one, day after day, and are decided alike: few of them are one line too, as long as
// nothing is paused for them.
var groupings = []struct {
	daily  bool
	over   int
	within time.Duration
}{{true, 2, 24 * time.Hour}, {false, 20, 30 * time.Minute}}

// daily are those kinds: payments of strangers, refunds that the other platform doesn't know.
const daily = `(kind IN ('unmatched', 'platforms_disagree') AND policy = 'ask')`

// GroupCases makes groups of what came in numbers, takes later ones into the groups
// that are open, and ends groups of which nothing is open any more.
func (tx *Tx) GroupCases(ctx context.Context) error {
	for _, g := range groupings {
		if err := tx.exec(ctx, `
INSERT INTO case_groups (connection_id, kind, first_seen, last_seen)
SELECT connection_id, kind, min(first_seen), max(last_seen) FROM exceptions WHERE state = 'open' AND group_id IS NULL AND needs AND first_seen > ?
  AND (`+daily+` OR NOT ?::boolean)
GROUP BY connection_id, kind HAVING count(*) > ?
ON CONFLICT (connection_id, kind) WHERE closed_at IS NULL DO NOTHING`, tx.Now.Add(-g.within), g.daily, g.over); err != nil {
			return err
		}
	}
	var groups []struct{ ID int64 }
	if err := tx.rows(ctx, &groups, `SELECT id FROM case_groups WHERE closed_at IS NULL ORDER BY id FOR UPDATE SKIP LOCKED`); err != nil {
		return err
	}
	for _, g := range groups {
		if err := tx.exec(ctx, `
UPDATE exceptions x SET group_id = g.id FROM case_groups g
WHERE g.id = ? AND x.id IN (SELECT y.id FROM exceptions y WHERE y.state = 'open' AND y.group_id IS NULL AND y.kind = g.kind AND y.connection_id IS NOT DISTINCT FROM g.connection_id
    AND y.first_seen >= g.first_seen AND (g.kind NOT IN ('unmatched', 'platforms_disagree') OR y.policy = 'ask') ORDER BY y.id LIMIT 500 FOR UPDATE SKIP LOCKED)`, g.ID); err != nil {
			return err
		}
		if err := tx.exec(ctx, `
UPDATE case_groups g SET last_seen = m.seen, closed_at = CASE WHEN NOT m.open THEN ?::timestamptz END
FROM (SELECT max(x.last_seen) AS seen, bool_or(x.state = 'open') AS open FROM exceptions x WHERE x.group_id = ?) m
WHERE g.id = ? AND m.seen IS NOT NULL AND (m.seen > g.last_seen OR NOT m.open)
  AND (m.open OR NOT EXISTS (SELECT 1 FROM exceptions x WHERE x.connection_id IS NOT DISTINCT FROM g.connection_id AND x.kind = g.kind AND x.state = 'open'
      AND x.group_id IS NULL AND x.first_seen >= g.first_seen))`, tx.Now, g.ID, g.ID); err != nil {
			return err
		}
	}
	return nil
}

// OverdueOrders are orders of which something may be overdue. They are locked, in small
// numbers, and those that somebody works on are left for later.
func (tx *Tx) OverdueOrders(ctx context.Context, limit int) ([]models.Order, error) {
	var rows []orderRow
	if err := tx.rows(ctx, &rows, `
SELECT `+orderColumns+` FROM orders o WHERE o.overdue_at <= ? ORDER BY o.overdue_at LIMIT ? FOR NO KEY UPDATE SKIP LOCKED`, tx.Now, limit); err != nil {
		return nil, err
	}
	out := make([]models.Order, len(rows))
	for i, row := range rows {
		var err error
		if out[i], err = row.order(); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// LookOverdue says when it is looked at again whether something of a locked order is
// overdue; zero: not before it changes.
func (tx *Tx) LookOverdue(ctx context.Context, order int64, at time.Time) error {
	return tx.exec(ctx, `UPDATE orders SET overdue_at = ? WHERE id = ?`, nullTime(at), order)
}

// CaseOnAxis tells whether a subject has an open exception of a kind on an axis.
func (r reads) CaseOnAxis(ctx context.Context, subject string, kind models.ExceptionKind, axis models.Axis) (bool, error) {
	var open bool
	err := r.rows(ctx, &open, `
SELECT EXISTS (SELECT 1 FROM exceptions WHERE subject = ? AND kind = ? AND axis = ? AND state = 'open')`, subject, kind, string(axis))
	return open, err
}

// OpenStuckEvents opens a case for events that wait although their platform answers,
// and closes those of events that don't any more. A queue that is merely busy is none:
// such an event was tried and
// waits to be tried again, or nothing of its connection was done for a while.
func (tx *Tx) OpenStuckEvents(ctx context.Context, limit int) error {
	before := tx.Now.Add(-models.EventWithin)
	var stuck []struct {
		ID           int64
		ConnectionID int64
		OrderID      int64
		Topic        string
		ObjectRef    string
	}
	if err := tx.rows(ctx, &stuck, `
SELECT e.id, e.connection_id, COALESCE(e.order_id, 0) AS order_id, e.topic, e.object_ref FROM connections c CROSS JOIN LATERAL (
    SELECT * FROM events x WHERE x.connection_id = c.id AND x.due_at IS NOT NULL AND x.state IN ('received', 'waiting') AND x.received_at < ?
      AND NOT x.test ORDER BY x.received_at LIMIT ?) e
WHERE c.api_state = 'up' AND c.api_failing IS NULL AND c.api_since < ?
  AND (e.attempts > 0 AND e.due_at > now() OR NOT EXISTS (SELECT 1 FROM events d WHERE d.connection_id = c.id AND d.id > e.id - 5000 AND d.done_at > ?))
  AND NOT EXISTS (SELECT 1 FROM exceptions y WHERE y.subject = 'event:' || e.id AND y.kind = 'overdue' AND y.state = 'open')
ORDER BY e.id`, before, limit, before, tx.Now.Add(-models.EventWithin/2)); err != nil {
		return err
	}
	for _, e := range stuck {
		p := models.Problem{Kind: models.Overdue, Case: models.CaseOverdueEvent, Detail: e.Topic}
		if err := tx.OpenCase(ctx, Case{ConnectionID: e.ConnectionID, Subject: fmt.Sprintf("event:%d", e.ID), OrderID: e.OrderID, Ref: e.ObjectRef, Problem: p}); err != nil {
			return err
		}
	}
	return tx.exec(ctx, `
UPDATE exceptions SET state = 'closed', closed_at = ?, closed_how = 'reading' WHERE id IN (
    SELECT x.id FROM exceptions x JOIN events e ON e.id = CASE WHEN x.subject ~ '^event:[0-9]+$' THEN substr(x.subject, 7)::bigint END
    WHERE x.state = 'open' AND x.kind = 'overdue' AND x.case_name = 'event' AND e.state NOT IN ('received', 'waiting') ORDER BY x.id LIMIT ? FOR UPDATE OF x SKIP LOCKED)`, tx.Now, limit)
}

// HighImpact tells whether money came in for an order, or goods wait to be shipped.
func (r reads) HighImpact(ctx context.Context, order int64) (bool, error) {
	var high bool
	err := r.rows(ctx, &high, `
SELECT NOT o.test AND (o.paid > 0 OR EXISTS (SELECT 1 FROM actions a WHERE a.order_id = o.id AND a.state IN `+unsent+` AND ?::jsonb @> to_jsonb(a.kind)))
FROM orders o WHERE o.id = ?`, risky(), order)
	return high, err
}
