package store

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"counterfoil/models"
)

// An orderRow is an order as it is kept.
type orderRow struct {
	ID            int64
	ShopID        int64
	ConnectionID  int64
	Platform      models.Platform
	Account       string
	PlatformRef   string
	Number        string
	PlacedAt      *time.Time
	Currency      string
	Total         int64
	Paid          int64
	Refunded      int64
	Outstanding   int64
	Items         string
	Payment       *string
	Refund        *string
	Dispute       *string
	Fulfillment   *string
	Cancellation  *string
	Return        *string
	Axes          string
	Store         bool
	Announced     bool
	Said          *string
	Test          bool
	Method        string
	Channel       string
	DisagreeSince *time.Time
	DisagreeDue   *time.Time
	MergedInto    *int64
	Version       int64
	CreatedAt     time.Time
	UpdatedAt     time.Time
}

const orderColumns = `o.id, o.shop_id, o.connection_id, o.platform, o.account, o.platform_ref, o.number, o.placed_at, o.currency,
       o.total, o.paid, o.refunded, o.outstanding, o.items::text AS items, o.payment, o.refund, o.dispute, o.fulfillment, o.cancellation,
       o.return, o.axes::text AS axes, o.store, o.announced, o.said::text AS said, o.test, o.method, o.channel, o.disagree_since, o.disagree_due, o.merged_into,
       o.version, o.created_at, o.updated_at`

func (r orderRow) order() (models.Order, error) {
	o := models.Order{
		ID: r.ID, ShopID: r.ShopID, ConnectionID: r.ConnectionID, Platform: r.Platform, Account: r.Account, Ref: r.PlatformRef,
		Number: r.Number, Placed: utc(r.PlacedAt), Announced: r.Announced, Test: r.Test, Store: r.Store, Method: r.Method,
		Channel: r.Channel, DisagreeSince: utc(r.DisagreeSince), DisagreeDue: utc(r.DisagreeDue), Version: r.Version, Created: r.CreatedAt.UTC(), Updated: r.UpdatedAt.UTC(),
		Amounts: models.Amounts{Currency: r.Currency, Total: r.Total, Received: r.Paid, Refunded: r.Refunded, Outstanding: r.Outstanding},
	}
	if r.MergedInto != nil {
		o.MergedInto = *r.MergedInto
	}
	if err := json.Unmarshal([]byte(r.Items), &o.Items); err != nil {
		return o, fmt.Errorf("store: items of order %d: %w", r.ID, err)
	}
	if r.Said != nil {
		o.Said = &models.Observation{}
		if err := json.Unmarshal([]byte(*r.Said), o.Said); err != nil {
			return o, fmt.Errorf("store: announcement of order %d: %w", r.ID, err)
		}
	}
	if r.Announced {
		return o, nil
	}
	if err := json.Unmarshal([]byte(r.Axes), &o.Axes); err != nil {
		return o, fmt.Errorf("store: axes of order %d: %w", r.ID, err)
	}
	if o.Axes == nil {
		o.Axes = map[models.Axis]models.AxisRecord{}
	}
	for axis, state := range map[models.Axis]*string{models.Payment: r.Payment, models.Refund: r.Refund, models.Dispute: r.Dispute,
		models.Fulfillment: r.Fulfillment, models.Cancellation: r.Cancellation, models.Return: r.Return} {
		if state != nil {
			rec := o.Axes[axis]
			rec.State = models.State(*state)
			o.Axes[axis] = rec
		}
	}
	return o, nil
}

// LockRefs locks references of a shop until the end of the transaction, in one order
// for everybody: who marks an event unmatched and who makes or renames an order meet here.
func (tx *Tx) LockRefs(ctx context.Context, shop int64, refs []string) error {
	list, err := json.Marshal(append([]string{}, refs...))
	if err != nil {
		return err
	}
	return tx.exec(ctx, `
SELECT pg_advisory_xact_lock(h) FROM (
    SELECT DISTINCT hashtextextended(r, ?) AS h FROM jsonb_array_elements_text(?::jsonb) r ORDER BY h OFFSET 0) sorted`, shop, string(list))
}

// OrderByRef finds an order by its platform reference within a connection; 0: none.
func (r reads) OrderByRef(ctx context.Context, connection int64, ref string) (int64, error) {
	var id int64
	err := r.rows(ctx, &id, `SELECT id FROM orders WHERE connection_id = ? AND platform_ref = ?`, connection, ref)
	return id, err
}

// OrdersNamed finds the orders of a shop that a reference names, at most two: two
// mean that the reference decides nothing.
func (r reads) OrdersNamed(ctx context.Context, shop int64, ref string) ([]int64, error) {
	var ids []int64
	err := r.rows(ctx, &ids, ordersNamed+` AND f.ref = ? LIMIT 2`, shop, ref)
	return ids, err
}

const ordersNamed = `
SELECT DISTINCT COALESCE(o.merged_into, o.id) AS id FROM order_refs f JOIN orders o ON o.id = f.order_id WHERE f.shop_id = ?`

// AllOrdersNamed is OrdersNamed for many references.
func (r reads) AllOrdersNamed(ctx context.Context, shop int64, refs []string) (map[string][]int64, error) {
	list, err := refList(refs)
	if err != nil {
		return nil, err
	}
	var rows []struct {
		Ref string
		ID  int64
	}
	if err := r.rows(ctx, &rows, `
SELECT n.ref, x.id FROM (SELECT DISTINCT ref FROM jsonb_array_elements_text(?::jsonb) AS ref) n,
LATERAL (`+ordersNamed+` AND f.ref = n.ref LIMIT 2) x`, list, shop); err != nil {
		return nil, err
	}
	out := map[string][]int64{}
	for _, row := range rows {
		out[row.Ref] = append(out[row.Ref], row.ID)
	}
	return out, nil
}

// TestOrders tells which of some orders are test orders.
func (r reads) TestOrders(ctx context.Context, ids []int64) (map[int64]bool, error) {
	var tests []int64
	err := r.rows(ctx, &tests, `SELECT id FROM orders WHERE id = ANY (?::bigint[]) AND test`, idList(ids))
	out := map[int64]bool{}
	for _, id := range tests {
		out[id] = true
	}
	return out, err
}

// LockOrder locks an order: from here on, work on it is in sequence.
func (tx *Tx) LockOrder(ctx context.Context, id int64) (models.Order, error) {
	var row orderRow
	if err := tx.one(ctx, "error.order_unknown", &row, `SELECT `+orderColumns+` FROM orders o WHERE o.id = ? FOR NO KEY UPDATE`, id); err != nil {
		return models.Order{}, err
	}
	return row.order()
}

// ShareOrder shares an order with others who only rely on it, until the end of the
// transaction; whoever changes it comes before or after.
func (tx *Tx) ShareOrder(ctx context.Context, id int64) (models.Order, error) {
	var row orderRow
	if err := tx.one(ctx, "error.order_unknown", &row, `SELECT `+orderColumns+` FROM orders o WHERE o.id = ? FOR SHARE`, id); err != nil {
		return models.Order{}, err
	}
	return row.order()
}

// Order looks at an order without locking it.
func (r reads) Order(ctx context.Context, id int64) (models.Order, error) {
	var row orderRow
	if err := r.one(ctx, "error.order_unknown", &row, `SELECT `+orderColumns+` FROM orders o WHERE o.id = ?`, id); err != nil {
		return models.Order{}, err
	}
	return row.order()
}

// AnnounceOrder makes an order that is known only by name: no axis, no ledger. Two
// who do so at once get the same order.
func (tx *Tx) AnnounceOrder(ctx context.Context, o models.Order) (int64, error) {
	var said any
	if o.Said != nil {
		b, err := json.Marshal(o.Said)
		if err != nil {
			return 0, err
		}
		said = string(b)
	}
	var id int64
	err := tx.one(ctx, "", &id, `
INSERT INTO orders (shop_id, connection_id, platform, account, platform_ref, number, placed_at, store, announced, said, test, created_at, updated_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, true, ?::jsonb, ?, ?, ?)
ON CONFLICT ON CONSTRAINT orders_platform_ref_key DO UPDATE SET platform_ref = EXCLUDED.platform_ref RETURNING id`,
		o.ShopID, o.ConnectionID, o.Platform, o.Account, o.Ref, o.Number, nullTime(o.Placed), o.Store, said, o.Test, tx.Now, tx.Now)
	return id, err
}

// SaveOrder writes an order that this transaction has locked. The trigger refuses an
// axis or amount without its ledger entry.
func (tx *Tx) SaveOrder(ctx context.Context, o models.Order) error {
	axes, err := json.Marshal(o.Axes)
	if err != nil {
		return err
	}
	items, err := json.Marshal(o.Items)
	if err != nil {
		return err
	}
	var said any
	if o.Said != nil {
		b, err := json.Marshal(o.Said)
		if err != nil {
			return err
		}
		said = string(b)
	}
	worst, checked := models.Verified, time.Time{}
	for _, a := range models.Axes {
		rec := o.Axes[a]
		if rec.Check == models.ToReview || rec.Check == models.Unverified && worst == models.Verified {
			worst = rec.Check
		}
		if !rec.CheckedAt.IsZero() && (checked.IsZero() || rec.CheckedAt.Before(checked)) {
			checked = rec.CheckedAt
		}
	}
	state := func(a models.Axis) any {
		if o.Announced {
			return nil
		}
		return string(o.Axes[a].State)
	}
	some := func(id int64) any {
		if id == 0 {
			return nil
		}
		return id
	}
	if o.Announced {
		worst = models.Unverified
	}
	n, err := tx.changed(ctx, `
UPDATE orders SET number = ?, placed_at = ?, currency = ?, total = ?, paid = ?, refunded = ?, outstanding = ?, items = ?::jsonb,
       payment = ?, refund = ?, dispute = ?, fulfillment = ?, cancellation = ?, return = ?, axes = ?::jsonb, verification = ?,
       money_by = ?, goods_by = ?, checked_at = ?, settled = ?, store = ?, announced = ?, said = ?::jsonb, test = ?, method = ?, channel = ?, disagree_since = ?, disagree_due = ?, overdue_at = ?,
       version = version + 1, updated_at = ?
WHERE id = ?`, o.Number, nullTime(o.Placed), o.Currency, o.Total, o.Received, o.Refunded, o.Outstanding, string(items),
		state(models.Payment), state(models.Refund), state(models.Dispute), state(models.Fulfillment), state(models.Cancellation), state(models.Return),
		string(axes), worst, some(o.Axes[models.Payment].Connection), some(o.Axes[models.Fulfillment].Connection), nullTime(checked),
		!o.Announced && o.Settled(), o.Store, o.Announced, said, o.Test, o.Method, o.Channel, nullTime(o.DisagreeSince), nullTime(o.DisagreeDue), nullTime(o.NextDuty()), tx.Now, o.ID)
	if err == nil && n == 0 {
		return models.Fail(models.NotFound, "error.order_unknown")
	}
	return err
}

// WakeDisagreements has the platforms of orders read once more whose disagreement has
// outlasted its grace.
func (tx *Tx) WakeDisagreements(ctx context.Context, now time.Time) error {
	return tx.exec(ctx, `
WITH due AS (
    SELECT id FROM orders WHERE disagree_due <= ? ORDER BY id LIMIT 100 FOR UPDATE SKIP LOCKED
), once AS (
    UPDATE orders o SET disagree_due = NULL FROM due WHERE o.id = due.id)
UPDATE platform_objects p SET reread_at = now() FROM (
    SELECT p.id FROM due JOIN platform_objects p ON p.order_id = due.id ORDER BY p.id FOR UPDATE OF p) x
WHERE p.id = x.id`, now)
}

// AddRefs makes an order findable, and makes due every event that waits for one of
// the references. It says on which connections. The given events are changed later in
// the same transaction, so they are locked together with those. The references are an
// array, so that only what waits for them is read: to a list, all that waits would be
// joined.
func (tx *Tx) AddRefs(ctx context.Context, shop, order int64, refs []string, events ...int64) ([]int64, error) {
	list, err := refList(refs)
	if err != nil {
		return nil, err
	}
	if err := tx.exec(ctx, `
INSERT INTO order_refs (shop_id, ref, order_id) SELECT ?::bigint, r, ?::bigint FROM jsonb_array_elements_text(?::jsonb) r ORDER BY r
ON CONFLICT DO NOTHING`, shop, order, list); err != nil {
		return nil, err
	}
	var woken []int64
	err = tx.rows(ctx, &woken, `
WITH waits AS (SELECT DISTINCT w.event_id AS id FROM wanted w WHERE w.ref = ANY (ARRAY(SELECT jsonb_array_elements_text(?::jsonb))) AND w.shop_id = ?),
held AS (
    SELECT e.id FROM events e WHERE e.id = ANY (ARRAY(SELECT id FROM waits UNION SELECT unnest(?::bigint[]))) AND EXISTS (SELECT 1 FROM waits)
    ORDER BY e.connection_id, e.key FOR UPDATE),
due AS (
    UPDATE events e SET due_at = now() FROM held, waits WHERE e.id = ANY (ARRAY(SELECT id FROM held)) AND e.id = held.id AND e.id = waits.id AND e.state IN ('unmatched', 'waiting')
    RETURNING e.connection_id)
SELECT DISTINCT connection_id FROM due ORDER BY 1`, list, shop, idList(events))
	return woken, err
}

// Want remembers under which references an order would settle an unmatched event.
func (tx *Tx) Want(ctx context.Context, shop int64, refs []string, events []int64) error {
	list, err := json.Marshal(refs)
	if err != nil {
		return err
	}
	return tx.exec(ctx, `
INSERT INTO wanted (shop_id, ref, event_id)
SELECT ?::bigint, r, e FROM jsonb_array_elements_text(?::jsonb) r CROSS JOIN unnest(?::bigint[]) e ORDER BY 2, 3
ON CONFLICT DO NOTHING`, shop, string(list), idList(events))
}

// Unwant forgets what events waited for.
func (tx *Tx) Unwant(ctx context.Context, events []int64) error {
	return tx.exec(ctx, `DELETE FROM wanted WHERE event_id = ANY (?::bigint[])`, idList(events))
}

// WriteEntry writes one accepted move. Entries are never changed.
func (tx *Tx) WriteEntry(ctx context.Context, order int64, m models.Move, cause models.Cause, actor string) (int64, error) {
	b, err := json.Marshal(cause)
	if err != nil {
		return 0, err
	}
	var id int64
	err = tx.one(ctx, "", &id, `
INSERT INTO ledger (order_id, axis, from_state, to_state, currency, total_before, paid_before, refunded_before, total, paid, refunded,
    cause_kind, cause_id, cause, actor, at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?::jsonb, ?, ?) RETURNING id`,
		order, m.Axis, m.From, m.To, m.After.Currency, m.Before.Total, m.Before.Received, m.Before.Refunded,
		m.After.Total, m.After.Received, m.After.Refunded, cause.Kind, cause.ID, string(b), actor, tx.Now)
	return id, err
}

// LastEntry is the newest ledger entry of an order, 0 where there is none, and the
// event that caused it, 0 where none did.
func (r reads) LastEntry(ctx context.Context, order int64) (entry, event int64, err error) {
	var row struct{ ID, Event int64 }
	err = r.rows(ctx, &row, `
SELECT id, CASE WHEN cause_kind = 'event' THEN cause_id::bigint ELSE 0 END AS event FROM ledger WHERE order_id = ? ORDER BY id DESC LIMIT 1`, order)
	return row.ID, row.Event, err
}
