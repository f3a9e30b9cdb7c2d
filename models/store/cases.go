package store

import (
	"context"
	"encoding/json"

	"counterfoil/models"
)

// A Case is a problem that becomes an open exception, or one more sight of it.
type Case struct {
	ConnectionID int64
	Subject      string // order:7, object:9, event:3, topic:…
	OrderID      int64
	Ref          string // the platform's reference
	// Object leads to the order where OrderID isn't known.
	Object  models.ObjectRef
	Problem models.Problem
}

// OpenCase opens an exception, or counts it once more if it is open already.
func (tx *Tx) OpenCase(ctx context.Context, c Case) error {
	var axis, order, conn any
	if c.Problem.Axis != "" {
		axis = string(c.Problem.Axis)
	}
	if c.OrderID != 0 {
		order = c.OrderID
	}
	if c.ConnectionID != 0 {
		conn = c.ConnectionID
	}
	ref := c.Ref
	if ref == "" {
		ref = c.Object.ID
	}
	return tx.exec(ctx, `
INSERT INTO exceptions (connection_id, subject, kind, case_name, axis, order_id, object_ref, platform_state, local_state, detail, policy, first_seen, last_seen)
VALUES (?, ?, ?, ?, ?, COALESCE(?, (SELECT p.order_id FROM platform_objects p WHERE p.connection_id = ? AND p.account = ? AND p.kind = ? AND p.ref = ?)), ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (connection_id, subject, kind, axis) WHERE state = 'open'
DO UPDATE SET count = exceptions.count + 1, last_seen = EXCLUDED.last_seen, case_name = EXCLUDED.case_name,
    platform_state = EXCLUDED.platform_state, local_state = EXCLUDED.local_state, detail = EXCLUDED.detail,
    policy = CASE WHEN EXCLUDED.policy = 'hold' THEN EXCLUDED.policy ELSE exceptions.policy END, order_id = COALESCE(exceptions.order_id, EXCLUDED.order_id)`,
		conn, c.Subject, c.Problem.Kind, c.Problem.Case, axis, order, conn, c.Object.Account, c.Object.Kind, c.Object.ID, ref, c.Problem.PlatformState, c.Problem.LocalState,
		c.Problem.Detail, c.Problem.Policy(), tx.Now, tx.Now)
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
