package store

import (
	"context"
	"encoding/json"
	"time"

	"counterfoil/models"
)

// A Case is a problem that becomes an open exception, or one more sight of it.
type Case struct {
	ConnectionID int64
	Subject      string // order:7, object:9, event:3, topic:…
	OrderID      int64
	Ref          string // the platform's reference
	// Object leads to the order where OrderID isn't known.
	Object   models.ObjectRef
	ObjectID int64  // of the object that it is about, where one is
	Topic    string // the notification that should have come
	Problem  models.Problem
}

// OpenCase opens an exception, or counts it once more if it is open already. The
// policies of the connection's shop decide what happens while it is open.
func (tx *Tx) OpenCase(ctx context.Context, c Case) error {
	rule, heal, err := tx.casePolicy(ctx, c)
	if err != nil {
		return err
	}
	var axis, order, conn, object any
	if c.Problem.Axis != "" {
		axis = string(c.Problem.Axis)
	}
	if c.OrderID != 0 {
		order = c.OrderID
	}
	if c.ConnectionID != 0 {
		conn = c.ConnectionID
	}
	if c.ObjectID != 0 {
		object = c.ObjectID
	}
	ref := c.Ref
	if ref == "" {
		ref = c.Object.ID
	}
	needs := rule.Grace == 0 && rule.Policy != models.PolicyWait
	var needsAt, healAt *time.Time
	if rule.Grace > 0 && !rule.Heals {
		needsAt = new(tx.Now.Add(rule.Grace))
	}
	if rule.Heals {
		healAt = new(tx.Now.Add(heal))
	}
	platform, local := c.Problem.Digests()
	return tx.exec(ctx, `
INSERT INTO exceptions (connection_id, subject, kind, case_name, axis, order_id, object_id, object_ref, platform_state, local_state, detail, policy, first_seen, last_seen,
    rule, urgency, first_to, needs, needs_at, heal_at, tell, topic, platform_digest, local_digest)
VALUES (?, ?, ?, ?, ?, COALESCE(?, (SELECT p.order_id FROM platform_objects p WHERE p.connection_id = ? AND p.account = ? AND p.kind = ? AND p.ref = ?)), ?, ?, ?, ?, ?, ?, ?, ?,
    ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (connection_id, subject, kind, axis) WHERE state = 'open'
DO UPDATE SET count = exceptions.count + 1, last_seen = EXCLUDED.last_seen, case_name = EXCLUDED.case_name,
    platform_state = EXCLUDED.platform_state, local_state = EXCLUDED.local_state, detail = EXCLUDED.detail,
    platform_digest = EXCLUDED.platform_digest, local_digest = EXCLUDED.local_digest,
    policy = CASE WHEN EXCLUDED.policy = 'hold' THEN EXCLUDED.policy ELSE exceptions.policy END,
    needs = exceptions.needs OR EXCLUDED.policy = 'hold' AND EXCLUDED.needs,
    order_id = COALESCE(exceptions.order_id, EXCLUDED.order_id), object_id = COALESCE(exceptions.object_id, EXCLUDED.object_id)`,
		conn, c.Subject, c.Problem.Kind, c.Problem.Case, axis, order, conn, c.Object.Account, c.Object.Kind, c.Object.ID, object, ref, c.Problem.PlatformState, c.Problem.LocalState,
		c.Problem.Detail, rule.Policy, tx.Now, tx.Now,
		rule.Key, rule.Urgency, rule.Desk, needs, needsAt, healAt, rule.Tell, c.Topic, platform, local)
}

// casePolicy is the row of the policies that a case follows in its shop, and how long
// until it is read again by policy.
func (tx *Tx) casePolicy(ctx context.Context, c Case) (models.CaseRule, time.Duration, error) {
	rule := c.Problem.Rule()
	if c.ConnectionID == 0 {
		return rule, rule.Grace, nil
	}
	var row struct {
		Policy *string
		Tell   *bool
		Heal   *string
	}
	err := tx.one(ctx, "error.connection_unknown", &row, `
SELECT p.policy, p.tell, c.settings ->> 'heal_after' AS heal
FROM connections c LEFT JOIN case_policies p ON p.shop_id = c.shop_id AND p.rule = ? WHERE c.id = ?`, rule.Key, c.ConnectionID)
	if err != nil {
		return rule, 0, err
	}
	if row.Policy != nil {
		rule = rule.Decided(models.Policy(*row.Policy), *row.Tell)
	}
	heal := models.HealAfter
	if row.Heal != nil {
		if d, err := time.ParseDuration(*row.Heal); err == nil && d >= 0 {
			heal = d
		}
	}
	switch {
	case rule.Policy == models.PolicyHold:
		heal = 0
	case rule.Grace > 0:
		heal = rule.Grace
	}
	return rule, heal, nil
}

// CloseCases closes the open exceptions of a subject, whichever connection opened
// them, that are of one of the kinds and that the still named ones ("kind/axis")
// don't include. What a person has to look at, though later readings are right again,
// stays open.
func (tx *Tx) CloseCases(ctx context.Context, subject string, kinds []models.ExceptionKind, still []string, how string) error {
	ks, err := json.Marshal(kinds)
	if err != nil {
		return err
	}
	if still == nil {
		still = []string{}
	}
	st, err := json.Marshal(still)
	if err != nil {
		return err
	}
	return tx.exec(ctx, `
UPDATE exceptions SET state = 'closed', closed_at = ?, closed_how = ?
WHERE subject = ? AND state = 'open' AND ?::jsonb @> to_jsonb(kind)
  AND NOT (?::jsonb @> to_jsonb(kind || '/' || COALESCE(axis, ''))) AND case_name NOT IN ('moved_back', 'shipped_while_paused')`, tx.Now, how, subject, string(ks), string(st))
}
