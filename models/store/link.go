package store

import (
	"context"
	"encoding/json"
	"fmt"

	"counterfoil/models"
)

// refList writes references as a JSON array, which can be a parameter.
func refList(refs []string) (string, error) {
	b, err := json.Marshal(append([]string{}, refs...))
	return string(b), err
}

// StoreOrdersNamed finds the stores' orders of a shop that a reference names, at most
// two: two mean that the reference decides nothing.
func (r reads) StoreOrdersNamed(ctx context.Context, shop int64, ref string) ([]int64, error) {
	var ids []int64
	err := r.rows(ctx, &ids, `
SELECT o.id FROM order_refs f JOIN orders o ON o.id = f.order_id
WHERE f.shop_id = ? AND f.ref = ? AND o.store LIMIT 2`, shop, ref)
	return ids, err
}

// KeepLinks remembers what an object names as its order, in the place of what it
// named before, while its order isn't a store's.
func (tx *Tx) KeepLinks(ctx context.Context, shop, object int64, refs []string) error {
	list, err := refList(refs)
	if err != nil {
		return err
	}
	if err := tx.exec(ctx, `DELETE FROM object_links WHERE object_id = ? AND NOT (?::jsonb @> to_jsonb(ref))`, object, list); err != nil {
		return err
	}
	return tx.exec(ctx, `
INSERT INTO object_links (shop_id, ref, object_id) SELECT ?::bigint, r, ?::bigint FROM jsonb_array_elements_text(?::jsonb) r ORDER BY r
ON CONFLICT DO NOTHING`, shop, object, list)
}

// ShellsNaming finds the orders that payments made for themselves although they name
// an order by one of the references: a store's order of that name may take them in.
func (r reads) ShellsNaming(ctx context.Context, shop int64, refs []string) ([]int64, error) {
	list, err := refList(refs)
	if err != nil {
		return nil, err
	}
	var ids []int64
	err = r.rows(ctx, &ids, `
SELECT DISTINCT o.id FROM object_links l
JOIN platform_objects p ON p.id = l.object_id JOIN orders o ON o.id = p.order_id
WHERE l.ref = ANY (ARRAY(SELECT jsonb_array_elements_text(?::jsonb))) AND l.shop_id = ? AND NOT o.store AND o.merged_into IS NULL ORDER BY o.id`, list, shop)
	return ids, err
}

// LockObjects locks an object together with all objects of some orders, after the
// orders and by id, like everybody.
func (tx *Tx) LockObjects(ctx context.Context, id int64, orders []int64) ([]ObjectRow, error) {
	var rows []objectRow
	if err := tx.rows(ctx, &rows, `SELECT `+objectColumns+` FROM platform_objects p
WHERE p.id IN (SELECT ?::bigint UNION SELECT x.id FROM platform_objects x WHERE x.order_id = ANY (?::bigint[])) ORDER BY p.id FOR UPDATE`, id, idList(orders)); err != nil {
		return nil, err
	}
	out := make([]ObjectRow, len(rows))
	for i, row := range rows {
		var err error
		if out[i], err = row.object(); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// LinkObject makes an object part of an order.
func (tx *Tx) LinkObject(ctx context.Context, object, order int64, how models.LinkHow) error {
	if err := tx.exec(ctx, `DELETE FROM object_links WHERE object_id = ?`, object); err != nil {
		return err
	}
	return tx.exec(ctx, `UPDATE platform_objects SET order_id = ?, linked_by = ? WHERE id = ?`, order, how, object)
}

// LockEvents locks events before they are changed in several steps, in the order in
// which everybody locks them: the given ones, those of some orders, and those that
// wait for one of the references.
func (tx *Tx) LockEvents(ctx context.Context, shop int64, refs []string, events, orders []int64) error {
	list, err := refList(refs)
	if err != nil {
		return err
	}
	return tx.exec(ctx, `
SELECT 1 FROM events e WHERE e.id = ANY (ARRAY(
    SELECT unnest(?::bigint[])
    UNION SELECT x.id FROM events x WHERE x.order_id = ANY (?::bigint[])
    UNION SELECT w.event_id FROM wanted w WHERE w.ref = ANY (ARRAY(SELECT jsonb_array_elements_text(?::jsonb))) AND w.shop_id = ?))
ORDER BY e.connection_id, e.key FOR UPDATE`, idList(events), idList(orders), list, shop)
}

// CloseShell ends an order that became part of another one: its events, exceptions
// and actions go over, its ledger stays, and it leads to the order from now on. Both
// are locked, and the shell's events.
func (tx *Tx) CloseShell(ctx context.Context, shell, into models.Order) error {
	if err := tx.MergeActions(ctx, shell.ID, into.ID); err != nil {
		return err
	}
	if err := tx.sentTwice(ctx, shell, into); err != nil {
		return err
	}
	from, to := fmt.Sprintf("order:%d", shell.ID), fmt.Sprintf("order:%d", into.ID)
	standing, err := json.Marshal(models.StandingCases)
	if err != nil {
		return err
	}
	// What the next reading judges again ends here; what waits for a person goes over.
	if err := tx.exec(ctx, `
UPDATE exceptions x SET subject = ?, connection_id = ?, order_id = ?
WHERE x.subject = ? AND x.state = 'open' AND (?::jsonb @> to_jsonb(x.case_name) OR NOT (?::jsonb @> to_jsonb(x.kind)))
  AND NOT EXISTS (SELECT 1 FROM exceptions y WHERE y.connection_id = ? AND y.subject = ? AND y.kind = x.kind AND y.axis IS NOT DISTINCT FROM x.axis AND y.state = 'open')`,
		to, into.ConnectionID, into.ID, from, string(standing), judgedAgain, into.ConnectionID, to); err != nil {
		return err
	}
	if err := tx.exec(ctx, `
UPDATE exceptions SET state = 'closed', closed_at = ?, closed_how = 'link' WHERE subject = ? AND state = 'open'`, tx.Now, from); err != nil {
		return err
	}
	// Whoever works on the exception of a single event holds no order: don't wait for him.
	if err := tx.exec(ctx, `
UPDATE exceptions SET order_id = ? WHERE id IN (
    SELECT id FROM exceptions WHERE order_id = ? AND state = 'open' ORDER BY id FOR UPDATE SKIP LOCKED)`, into.ID, shell.ID); err != nil {
		return err
	}
	if err := tx.exec(ctx, `UPDATE events SET order_id = ? WHERE order_id = ?`, into.ID, shell.ID); err != nil {
		return err
	}
	n, err := tx.changed(ctx, `
UPDATE orders SET merged_into = ?, disagree_since = NULL, disagree_due = NULL, overdue_at = NULL, version = version + 1, updated_at = ? WHERE id = ? AND merged_into IS NULL`, into.ID, tx.Now, shell.ID)
	if err == nil && n != 1 {
		return fmt.Errorf("store: order %d is part of another one already", shell.ID)
	}
	return err
}

// judgedAgain are the kinds of exceptions that every reading of an order judges anew.
const judgedAgain = `["move_refused", "unknown_status", "platforms_disagree", "amount_differs", "schema_changed", "gone_on_platform", "contradiction", "state_differs", "paid_twice", "overdue", "action_differs"]`

// sentTwice opens a case where both orders had an instruction of which somebody may
// have heard before anybody knew that they are one.
func (tx *Tx) sentTwice(ctx context.Context, shell, into models.Order) error {
	var twice []struct {
		ID        int64
		InsteadID int64
		Kind      models.ActionKind
	}
	if err := tx.rows(ctx, &twice, `
SELECT a.id, a.instead_id, a.kind FROM actions a WHERE a.order_id = ? AND a.instead_id IS NOT NULL AND a.state NOT IN ('not_needed', 'withdrawn')
  AND ?::jsonb @> to_jsonb(a.kind) ORDER BY a.id`, shell.ID, risky()); err != nil {
		return err
	}
	for _, a := range twice {
		p := models.Problem{Kind: models.ShippedTwice, Case: string(a.Kind), Axis: models.Fulfillment, Detail: fmt.Sprintf("%d, %d", a.InsteadID, a.ID)}
		c := Case{ConnectionID: into.ConnectionID, Subject: fmt.Sprintf("order:%d", into.ID), OrderID: into.ID, Ref: into.Ref, Problem: p}
		if err := tx.OpenCase(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

// LeadsTo is the order of the object to which asking for this one leads; 0: none.
func (r reads) LeadsTo(ctx context.Context, object int64) (int64, error) {
	var id int64
	err := r.rows(ctx, &id, `
SELECT COALESCE(p.order_id, l.order_id, 0) FROM platform_objects p LEFT JOIN platform_objects l ON l.id = p.leads_to WHERE p.id = ?`, object)
	return id, err
}

// EventsWait tells whether an event of an order's objects isn't processed, apart from
// the given ones.
func (r reads) EventsWait(ctx context.Context, order int64, but []int64) (bool, error) {
	var waits bool
	err := r.rows(ctx, &waits, `
SELECT EXISTS (
    SELECT 1 FROM platform_objects p
    JOIN events e ON e.connection_id = p.connection_id AND e.account = p.account AND e.object_kind = p.kind AND e.object_ref = p.ref
    LEFT JOIN platform_objects l ON l.id = p.leads_to
    WHERE (p.order_id = ? OR l.order_id = ?) AND e.due_at IS NOT NULL AND e.state IN ('received', 'waiting') AND NOT (e.id = ANY (?::bigint[])))`, order, order, idList(but))
	return waits, err
}

// CaseOpen tells whether a subject has an open exception of a kind.
func (r reads) CaseOpen(ctx context.Context, connection int64, subject string, kind models.ExceptionKind) (bool, error) {
	var open bool
	err := r.rows(ctx, &open, `
SELECT EXISTS (SELECT 1 FROM exceptions WHERE connection_id = ? AND subject = ? AND kind = ? AND state = 'open')`, connection, subject, kind)
	return open, err
}

// unmatchedDay begins the subject of the one case of a connection for the events of a
// day that match no order and moved no money.
const unmatchedDay = "unmatched:"

// UnmatchedDay is the subject of that case.
func UnmatchedDay(day string) string { return unmatchedDay + day }

// CloseUnmatchedDays closes the cases of days of whose events none waits any more,
// apart from the given ones, which are about to be settled.
func (tx *Tx) CloseUnmatchedDays(ctx context.Context, connection int64, settled []int64) error {
	return tx.exec(ctx, `
UPDATE exceptions x SET state = 'closed', closed_at = ?, closed_how = 'order appeared'
WHERE x.connection_id = ? AND x.kind = 'unmatched' AND x.state = 'open' AND starts_with(x.subject, ?) AND NOT EXISTS (
    SELECT 1 FROM events e WHERE e.connection_id = x.connection_id AND e.state = 'unmatched' AND NOT (e.id = ANY (?::bigint[]))
      AND to_char(e.received_at AT TIME ZONE 'UTC', 'YYYY-MM-DD') = substr(x.subject, length(?) + 1))`, tx.Now, connection, unmatchedDay, idList(settled), unmatchedDay)
}

// JudgeUnmatchedAgain makes due what waits for an order, to be read and judged again:
// the rules that say to which order something belongs, or that it is another system's,
// have changed.
func (tx *Tx) JudgeUnmatchedAgain(ctx context.Context, connection int64) error {
	if err := tx.exec(ctx, `
UPDATE platform_objects p SET reread_at = now() FROM (
    SELECT o.id FROM platform_objects o WHERE o.connection_id = ? AND o.order_id IS NULL AND EXISTS (
        SELECT 1 FROM events e WHERE e.connection_id = o.connection_id AND e.account = o.account AND e.object_kind = o.kind AND e.object_ref = o.ref AND e.state = 'unmatched')
    ORDER BY o.id FOR UPDATE) x
WHERE p.id = x.id`, connection); err != nil {
		return err
	}
	return tx.exec(ctx, `
UPDATE events e SET due_at = now() FROM (
    SELECT id FROM events WHERE connection_id = ? AND state = 'unmatched' ORDER BY key FOR UPDATE) x
WHERE e.id = x.id`, connection)
}
