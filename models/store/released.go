package store

import (
	"context"
	"slices"
	"time"

	"counterfoil/models"
)

// What people let go, ask for on top, or have tried once more.

// ReleaseAction notes that people released an action that this transaction has locked
// together with its order: they knew everything that its ledger and its exceptions say
// now. What was withdrawn, or didn't happen as somebody reported, is put back as the
// same row with the same key and bytes, and gets a new round of tries.
func (tx *Tx) ReleaseAction(ctx context.Context, id, request int64) error {
	n, err := tx.changed(ctx, `
UPDATE actions a SET released_at = ?, request_id = ?, due_at = now(), withdrew_id = NULL, done_at = NULL, why = '',
       released_entry = COALESCE((SELECT max(l.id) FROM ledger l WHERE l.order_id = a.order_id), 0),
       released_case = COALESCE((SELECT max(x.id) FROM exceptions x WHERE x.order_id = a.order_id), 0),
       round = CASE WHEN state = 'failed' THEN tries ELSE round END,
       state = CASE WHEN state = 'withdrawn' THEN 'planned' WHEN state IN ('failed', 'manual') THEN 'waiting' ELSE state END
WHERE id = ? AND (state IN ('planned', 'waiting', 'manual', 'failed') OR state = 'sending' AND why <> '' OR state = 'withdrawn' AND NOT told)`, tx.Now, request, id)
	if err == nil && n == 0 {
		return models.Fail(models.Conflict, "error.action_not_waiting")
	}
	return err
}

// RetryAction gives an action whose tries are used up, and that this transaction has
// locked, a new round of them, with the same key and bytes.
func (tx *Tx) RetryAction(ctx context.Context, id int64, by, reason string) error {
	n, err := tx.changed(ctx, `
UPDATE actions SET state = CASE WHEN doubt THEN 'sending' ELSE 'waiting' END, why = '', due_at = now(), round = tries, retried_at = ?, retried_by = ?, retry_reason = ?
WHERE id = ? AND state = 'failed'`, tx.Now, by, reason, id)
	if err == nil && n == 0 {
		return models.Fail(models.Conflict, "error.action_not_failed")
	}
	return err
}

// LapseReleases has what people released of an order, and is still here, wait for them
// again: they didn't know of what came since.
func (tx *Tx) LapseReleases(ctx context.Context, order int64) error {
	return tx.exec(ctx, `UPDATE actions SET released_entry = -1 WHERE order_id = ? AND released_at IS NOT NULL AND state IN `+unsent, order)
}

// An Extra is an action that no rule plans: it comes on top of what an order needs once.
type Extra struct {
	Kind     models.ActionKind
	Stage    string // more:, replacement:, again:; the next number follows
	Entry    int64  // ledger entry that it comes from, 0: none
	Official bool
	Pieces   int
	Repeats  int64 // action
	Request  int64 // it is released by; 0: it waits for people
}

// AddAction adds an extra to an order that this transaction has locked, under the next
// free number of its stage. It answers the action, and whether it is due.
func (tx *Tx) AddAction(ctx context.Context, order models.Order, x Extra) (id int64, due bool, err error) {
	null := func(n int64) any {
		if n == 0 {
			return nil
		}
		return n
	}
	var released any
	if x.Request != 0 {
		released = tx.Now
	}
	var row struct {
		ID  int64
		Due bool
	}
	err = tx.one(ctx, "error.order_unknown", &row, `
INSERT INTO actions (order_id, shop_id, kind, stage, state, entry_id, official, person, due_at, planned_at, pieces, repeats_id, request_id, released_at, released_entry, released_case)
SELECT o.id, o.shop_id, k.kind, k.stage || (SELECT 1 + COALESCE(max(substr(a.stage, length(k.stage) + 1)::integer), 0) FROM actions a
           WHERE a.order_id = o.id AND a.kind = k.kind AND starts_with(a.stage, k.stage) AND substr(a.stage, length(k.stage) + 1) ~ '^[0-9]{1,6}$'),
       CASE WHEN d.live THEN 'planned' ELSE 'watched' END, ?::bigint, ?, true, CASE WHEN d.live THEN now() END, ?::timestamptz, ?, ?::bigint, ?::bigint, ?::timestamptz,
       CASE WHEN r.given THEN COALESCE((SELECT max(l.id) FROM ledger l WHERE l.order_id = o.id), 0) ELSE 0 END,
       CASE WHEN r.given THEN COALESCE((SELECT max(x.id) FROM exceptions x WHERE x.order_id = o.id), 0) ELSE 0 END
FROM orders o
CROSS JOIN (SELECT ?::text AS kind, ?::text AS stage) k
CROSS JOIN (SELECT ?::boolean AS given) r
CROSS JOIN LATERAL (SELECT EXISTS (SELECT 1 FROM destinations d WHERE d.shop_id = o.shop_id AND d.kind = k.kind AND d.mode <> 'watch') AS live) d
WHERE o.id = ? RETURNING id, due_at IS NOT NULL AS due`,
		null(x.Entry), x.Official, tx.Now, x.Pieces, null(x.Repeats), null(x.Request), released, x.Kind, x.Stage, x.Request != 0, order.ID)
	return row.ID, row.Due, err
}

// An Instruction is one of an order's fulfillment instructions, with whether it can
// still tell more than it does.
type Instruction struct {
	models.Action
	Open bool // nobody outside has heard of it, and its bytes aren't fixed
}

// Instructions lists the fulfillment instructions of an order, the oldest first.
func (r reads) Instructions(ctx context.Context, order int64) ([]Instruction, error) {
	list, err := r.actionsWhere(ctx, "a.order_id = ? AND a.kind = ? ORDER BY a.id", order, models.FulfillmentInstruction)
	if err != nil || len(list) == 0 {
		return nil, err
	}
	var open []int64
	err = r.rows(ctx, &open, `SELECT id FROM actions WHERE order_id = ? AND kind = ? AND state IN `+unsent+` AND NOT told`, order, models.FulfillmentInstruction)
	out := make([]Instruction, len(list))
	for i, a := range list {
		out[i] = Instruction{Action: a, Open: slices.Contains(open, a.ID)}
	}
	return out, err
}

// SetPieces says for how many goods an open instruction is. What people decided before
// was about another number, so it waits for them again.
func (tx *Tx) SetPieces(ctx context.Context, id int64, pieces int) error {
	return tx.exec(ctx, `
UPDATE actions SET pieces = ?, released_at = NULL, listed_at = NULL, state = CASE WHEN state = 'manual' THEN 'waiting' ELSE state END, due_at = now()
WHERE id = ?`, pieces, id)
}

// ForgoAction says of an action that this transaction has locked that it isn't needed.
func (tx *Tx) ForgoAction(ctx context.Context, id int64, why models.NotNeeded) error {
	return tx.exec(ctx, `UPDATE actions SET state = 'not_needed', why = ?, pieces = 0, due_at = NULL, done_at = ? WHERE id = ?`, why, tx.Now, id)
}

// ShiftSum is what an approver let go since a moment, in one currency.
func (r reads) ShiftSum(ctx context.Context, approver, currency string, since time.Time) (int64, error) {
	var sum int64
	err := r.rows(ctx, &sum, `
SELECT COALESCE(sum(o.total), 0)::bigint FROM approvals p JOIN requests q ON q.id = p.request_id JOIN orders o ON o.id = q.order_id
WHERE p.actor = ? AND p.at > ? AND q.state = 'applied' AND q.kind IN (?, ?) AND o.currency = ?`,
		approver, since, models.RequestRelease, models.RequestReplacement, currency)
	return sum, err
}
