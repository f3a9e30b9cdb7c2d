package store

import (
	"context"
	"encoding/json"
	"time"

	"counterfoil/models"
)

// LockException locks an exception, after its order.
func (tx *Tx) LockException(ctx context.Context, id int64) (models.Exception, error) {
	if err := tx.exec(ctx, `SELECT 1 FROM exceptions WHERE id = ? FOR UPDATE`, id); err != nil {
		return models.Exception{}, err
	}
	return tx.Exception(ctx, id)
}

// OwnCase makes an exception somebody's; nobody's where owner is 0.
func (tx *Tx) OwnCase(ctx context.Context, id, owner int64) error {
	if owner == 0 {
		return tx.exec(ctx, `UPDATE exceptions SET owner_id = NULL, owned_at = NULL, version = version + 1 WHERE id = ?`, id)
	}
	return tx.exec(ctx, `UPDATE exceptions SET owner_id = ?, owned_at = ?, version = version + 1 WHERE id = ?`, owner, tx.Now, id)
}

// TellCase ticks off that the customer was told.
func (tx *Tx) TellCase(ctx context.Context, id int64, name string) error {
	return tx.exec(ctx, `UPDATE exceptions SET told_at = ?, told_by = ?, version = version + 1 WHERE id = ?`, tx.Now, name, id)
}

// EndCase closes an exception that this transaction has locked, as somebody decided.
func (tx *Tx) EndCase(ctx context.Context, id int64, how, name, note string) error {
	n, err := tx.changed(ctx, `
UPDATE exceptions SET state = 'closed', closed_at = ?, closed_how = ?, closed_by = ?, closed_note = ?, version = version + 1 WHERE id = ? AND state = 'open'`,
		tx.Now, how, name, note, id)
	if err == nil && n == 0 {
		return models.Fail(models.Conflict, "error.case_closed")
	}
	return err
}

// AddNote keeps what somebody wrote beside something.
func (tx *Tx) AddNote(ctx context.Context, subject string, n models.CaseNote) error {
	return tx.exec(ctx, `INSERT INTO notes (subject, by, name, at, body) VALUES (?, ?, ?, ?, ?)`, subject, n.By, n.Name, tx.Now, n.Body)
}

// Accept keeps that both sides of an exception may stay what they were. One that held
// before for the same difference ends.
func (tx *Tx) Accept(ctx context.Context, x models.Exception, reason, by string, until time.Time) error {
	platform, local := x.PlatformDigest, x.LocalDigest
	if platform == nil || local == nil {
		platform, local = models.Problem{PlatformState: x.PlatformState, LocalState: x.LocalState, Detail: x.Detail}.Digests()
	}
	if err := tx.exec(ctx, `
UPDATE acceptances a SET ended_at = ? FROM exceptions x WHERE x.id = ? AND a.ended_at IS NULL
  AND a.connection_id IS NOT DISTINCT FROM x.connection_id AND a.subject = x.subject AND a.kind = x.kind AND a.axis IS NOT DISTINCT FROM x.axis`, tx.Now, x.ID); err != nil {
		return err
	}
	return tx.exec(ctx, `
INSERT INTO acceptances (exception_id, connection_id, subject, kind, axis, case_name, platform_digest, local_digest, reason, accepted_by, accepted_at, until)
SELECT x.id, x.connection_id, x.subject, x.kind, x.axis, x.case_name, ?, ?, ?, ?, ?, ? FROM exceptions x WHERE x.id = ?`,
		platform, local, reason, by, tx.Now, until, x.ID)
}

// RereadCases asks for the objects of what a query finds to be read again at once, of
// the given connections: the object of each exception, and all objects of its order. At
// most so many exceptions. It answers those exceptions, how many objects are to be
// read, and on which connections.
func (tx *Tx) RereadCases(ctx context.Context, q models.CaseQuery, connections []int64, limit int) (cases []int64, objects int, wake []int64, err error) {
	w := casesWhere(q)
	if err := tx.rows(ctx, &cases, `SELECT x.id FROM `+exceptionTables+` WHERE `+w.String()+` ORDER BY `+caseRank+`, x.id LIMIT ?`, append(w.args, limit)...); err != nil || len(cases) == 0 {
		return nil, 0, nil, err
	}
	var read []struct{ ConnectionID, N int64 }
	if err := tx.rows(ctx, &read, `
WITH due AS (
    SELECT p.id FROM platform_objects p WHERE p.connection_id = ANY (?::bigint[]) AND p.id IN (
        SELECT x.object_id FROM exceptions x WHERE x.id = ANY (?::bigint[]) AND x.object_id IS NOT NULL
        UNION SELECT y.id FROM platform_objects y JOIN exceptions x ON x.order_id = y.order_id WHERE x.id = ANY (?::bigint[]))
    ORDER BY p.id FOR UPDATE
), asked AS (
    UPDATE platform_objects p SET reread_at = now() FROM due WHERE p.id = due.id RETURNING p.connection_id
)
SELECT connection_id, count(*) AS n FROM asked GROUP BY 1 ORDER BY 1`, idList(connections), idList(cases), idList(cases)); err != nil {
		return nil, 0, nil, err
	}
	for _, c := range read {
		wake, objects = append(wake, c.ConnectionID), objects+int(c.N)
	}
	return cases, objects, wake, tx.exec(ctx, `
UPDATE exceptions SET asked_at = ? WHERE id IN (SELECT id FROM exceptions WHERE id = ANY (?::bigint[]) ORDER BY id FOR UPDATE)`, tx.Now, idList(cases))
}

// CasePolicies are the rows of a shop's policies that its managers decided otherwise
// than the product, by rule.
func (r reads) CasePolicies(ctx context.Context, shop int64) (map[string]models.CasePolicy, error) {
	var rows []struct {
		Rule      string
		Policy    models.Policy
		Tell      bool
		UpdatedAt time.Time
		Name      string
	}
	err := r.rows(ctx, &rows, `
SELECT p.rule, p.policy, p.tell, p.updated_at, COALESCE(s.name, p.updated_by) AS name
FROM case_policies p LEFT JOIN staff s ON p.updated_by = 'staff:' || s.id WHERE p.shop_id = ?`, shop)
	out := map[string]models.CasePolicy{}
	for _, row := range rows {
		out[row.Rule] = models.CasePolicy{Now: row.Policy, NowTell: row.Tell, Changed: row.UpdatedAt.UTC(), ChangedBy: row.Name}
	}
	return out, err
}

// PolicyRequests are the open requests to loosen a shop's policies, by rule.
func (r reads) PolicyRequests(ctx context.Context, shop int64, now time.Time) (map[string]models.CasePolicy, error) {
	list, err := r.requestsWhere(ctx, "q.shop_id = ? AND q.kind = 'policy' AND q.state = 'proposed' AND q.expires_at > ?", shop, now)
	if err != nil {
		return nil, err
	}
	out := map[string]models.CasePolicy{}
	for _, q := range list {
		var terms models.PolicyTerms
		if err := json.Unmarshal([]byte(q.Terms), &terms); err != nil {
			return nil, err
		}
		out[terms.Rule] = models.CasePolicy{Asked: &q, Wanted: terms}
	}
	return out, nil
}

// SetCasePolicy says what happens in a shop while an exception of a rule is open. The
// shop is locked. Exceptions that are open keep what they have.
func (tx *Tx) SetCasePolicy(ctx context.Context, shop int64, t models.PolicyTerms, by string) error {
	return tx.exec(ctx, `
INSERT INTO case_policies (shop_id, rule, policy, tell, updated_at, updated_by) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (shop_id, rule) DO UPDATE SET policy = EXCLUDED.policy, tell = EXCLUDED.tell, updated_at = EXCLUDED.updated_at, updated_by = EXCLUDED.updated_by`,
		shop, t.Rule, t.Policy, t.Tell, tx.Now, by)
}
