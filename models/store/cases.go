package store

import (
	"context"
	"encoding/json"
	"slices"
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
	// Loud: what depends on it can't wait, whatever its row of the policies says.
	Loud    bool
	Problem models.Problem
}

// secondSight is how long the grace of a difference that readings judge waits for the
// second reading that shows it, at most.
const secondSight = 15 * time.Minute

// judged are the kinds that readings judge: their grace runs from the second reading.
var judged = []models.ExceptionKind{models.StateDiffers, models.AmountDiffers, models.MoveRefused, models.SchemaChanged, models.Contradiction, models.PaidTwice}

// OpenCase opens an exception, or counts it once more if it is open already. The
// policies of the connection's shop decide what happens while it is open. What people
// accepted isn't opened while both sides say what they said then.
func (tx *Tx) OpenCase(ctx context.Context, c Case) error {
	rule, heal, err := tx.casePolicy(ctx, c)
	if err != nil {
		return err
	}
	if c.Loud {
		rule.Urgency, rule.Desk, rule.Grace = models.Now, models.DeskLead, 0
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
	platform, local := c.Problem.Digests()
	if accepted, err := tx.accepted(ctx, conn, c, axis, platform, local); err != nil || accepted {
		return err
	}
	needs := rule.Grace == 0 && rule.Policy != models.PolicyWait && !rule.Heals
	again := slices.Contains(judged, c.Problem.Kind)
	var needsAt, healAt, secondAt *time.Time
	switch {
	case rule.Heals:
		healAt = new(tx.Now.Add(heal))
	case rule.Ends > 0 && rule.Policy == models.PolicyWait:
		needsAt = new(tx.Now.Add(rule.Ends))
	case rule.Grace > 0 && again:
		secondAt = new(tx.Now.Add(rule.Grace))
		needsAt = new(secondAt.Add(secondSight))
	case rule.Grace > 0:
		needsAt = new(tx.Now.Add(rule.Grace))
	}
	standing, err := json.Marshal(models.StandingCases)
	if err != nil {
		return err
	}
	return tx.exec(ctx, `
INSERT INTO exceptions (connection_id, subject, kind, case_name, axis, order_id, object_id, object_ref, platform_state, local_state, detail, policy, first_seen, last_seen,
    rule, urgency, first_to, needs, needs_at, heal_at, tell, topic, platform_digest, local_digest)
VALUES (?, ?, ?, ?, ?, COALESCE(?, (SELECT p.order_id FROM platform_objects p WHERE p.connection_id = ? AND p.account = ? AND p.kind = ? AND p.ref = ?)), ?, ?, ?, ?, ?, ?, ?, ?,
    ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (connection_id, subject, kind, axis) WHERE state = 'open'
DO UPDATE SET count = exceptions.count + 1, last_seen = EXCLUDED.last_seen,
    case_name = CASE WHEN ?::jsonb @> to_jsonb(exceptions.case_name) THEN exceptions.case_name ELSE EXCLUDED.case_name END,
    platform_state = EXCLUDED.platform_state, local_state = EXCLUDED.local_state, detail = EXCLUDED.detail,
    platform_digest = EXCLUDED.platform_digest, local_digest = EXCLUDED.local_digest,
    policy = CASE WHEN EXCLUDED.policy = 'hold' THEN EXCLUDED.policy ELSE exceptions.policy END,
    rule = CASE WHEN EXCLUDED.policy = 'hold' AND exceptions.policy <> 'hold' THEN EXCLUDED.rule ELSE exceptions.rule END,
    urgency = CASE WHEN EXCLUDED.urgency = 'now' OR EXCLUDED.urgency = 'today' AND exceptions.urgency = 'later' THEN EXCLUDED.urgency ELSE exceptions.urgency END,
    tell = exceptions.tell OR EXCLUDED.tell,
    needs = exceptions.needs OR EXCLUDED.needs AND (EXCLUDED.policy = 'hold' OR EXCLUDED.urgency = 'now'),
    needs_at = CASE WHEN exceptions.needs THEN exceptions.needs_at ELSE CASE WHEN exceptions.count = 1 THEN least(exceptions.needs_at, ?::timestamptz) ELSE exceptions.needs_at END END,
    order_id = COALESCE(exceptions.order_id, EXCLUDED.order_id), object_id = COALESCE(exceptions.object_id, EXCLUDED.object_id)`,
		conn, c.Subject, c.Problem.Kind, c.Problem.Case, axis, order, conn, c.Object.Account, c.Object.Kind, c.Object.ID, object, ref, c.Problem.PlatformState, c.Problem.LocalState,
		c.Problem.Detail, rule.Policy, tx.Now, tx.Now,
		rule.Key, rule.Urgency, rule.Desk, needs, needsAt, healAt, rule.Tell, c.Topic, platform, local, string(standing), secondAt)
}

// accepted tells whether people accepted the difference as it is. One of which a side
// moved since, or whose time is over, isn't any more.
func (tx *Tx) accepted(ctx context.Context, connection any, c Case, axis any, platform, local []byte) (bool, error) {
	var row struct {
		ID   int64
		Same bool
	}
	n, err := tx.scan(ctx, &row, `
SELECT id, platform_digest = ? AND local_digest = ? AND until > ? AS same FROM acceptances
WHERE ended_at IS NULL AND subject = ? AND kind = ? AND connection_id IS NOT DISTINCT FROM ?::bigint AND axis IS NOT DISTINCT FROM ?::text`,
		platform, local, tx.Now, c.Subject, c.Problem.Kind, connection, axis)
	if err != nil || n == 0 || row.Same {
		return n > 0 && row.Same, err
	}
	return false, tx.exec(ctx, `UPDATE acceptances SET ended_at = ? WHERE id = ?`, tx.Now, row.ID)
}

// SeeAgain has an object read once more soon where a difference of a subject was seen
// by one reading only, whose grace runs from the second. The object is locked.
func (tx *Tx) SeeAgain(ctx context.Context, subject string, object int64, after time.Duration) error {
	kinds, err := json.Marshal(judged)
	if err != nil {
		return err
	}
	return tx.exec(ctx, `
UPDATE platform_objects SET reread_at = CASE WHEN reread_at > now() THEN least(reread_at, now() + make_interval(secs => ?)) ELSE now() + make_interval(secs => ?) END
WHERE id = ? AND EXISTS (SELECT 1 FROM exceptions x WHERE x.subject = ? AND x.state = 'open' AND x.count = 1 AND NOT x.needs AND x.needs_at IS NOT NULL AND ?::jsonb @> to_jsonb(x.kind))`,
		after.Seconds(), after.Seconds(), object, subject, string(kinds))
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
	standing, err := json.Marshal(models.StandingCases)
	if err != nil {
		return err
	}
	return tx.exec(ctx, `
UPDATE exceptions SET state = 'closed', closed_at = ?, closed_how = ?
WHERE subject = ? AND state = 'open' AND ?::jsonb @> to_jsonb(kind)
  AND NOT (?::jsonb @> to_jsonb(kind || '/' || COALESCE(axis, ''))) AND NOT (?::jsonb @> to_jsonb(case_name))`, tx.Now, how, subject, string(ks), string(st), string(standing))
}

// CloseCase closes one open case of a subject, which later readings leave as it is.
func (tx *Tx) CloseCase(ctx context.Context, subject string, kind models.ExceptionKind, name, how string) error {
	return tx.exec(ctx, `UPDATE exceptions SET state = 'closed', closed_at = ?, closed_how = ? WHERE subject = ? AND state = 'open' AND kind = ? AND case_name = ?`,
		tx.Now, how, subject, kind, name)
}
