package store

import (
	"context"
	"encoding/json"
	"strconv"
	"time"

	"counterfoil/models"
)

// An actionRow is an action as it is kept.
type actionRow struct {
	ID         int64
	OrderID    int64
	OrderName  string
	ShopID     int64
	Shop       string
	Kind       models.ActionKind
	Stage      string
	Occasion   models.Occasion
	State      models.ActionState
	Why        string
	EntryID    *int64
	Official   bool
	Person     bool
	ReleasedAt *time.Time
	NotBefore  *time.Time
	DueAt      *time.Time
	Tries      int
	Told       bool
	Doubt      bool
	SettledBy  string
	Error      string
	Receipt    string
	WithdrewID *int64
	InsteadID  *int64
	PlannedAt  time.Time
	SentAt     *time.Time
	DoneAt     *time.Time

	ReleasedEntry int64
	ReleasedCase  int64
	RequestID     *int64
	Pieces        int
	RepeatsID     *int64
	Round         int
	RetriedAt     *time.Time
	RetriedBy     string
	RetryReason   string
}

const actionColumns = `
SELECT a.id, a.order_id, COALESCE(NULLIF(o.number, ''), o.platform_ref) AS order_name, a.shop_id, s.slug AS shop, a.kind, a.stage, a.occasion, a.state, a.why,
       a.entry_id, a.official, a.person, a.released_at, a.not_before, a.due_at, a.tries, a.error, a.receipt, a.withdrew_id, a.instead_id,
       a.planned_at, a.told, a.doubt, a.settled_by, a.sent_at, a.done_at, a.released_entry, a.released_case, a.request_id, a.pieces, a.repeats_id, a.round,
       a.retried_at, a.retried_by, a.retry_reason
FROM actions a JOIN orders o ON o.id = a.order_id JOIN shops s ON s.id = a.shop_id`

func (r actionRow) action() models.Action {
	some := func(id *int64) int64 {
		if id == nil {
			return 0
		}
		return *id
	}
	return models.Action{ID: r.ID, OrderID: r.OrderID, OrderName: r.OrderName, ShopID: r.ShopID, Shop: r.Shop, Kind: r.Kind, Stage: r.Stage,
		Occasion: r.Occasion, State: r.State, Why: r.Why, Entry: some(r.EntryID), Official: r.Official, Person: r.Person, Released: utc(r.ReleasedAt),
		NotBefore: utc(r.NotBefore), Due: utc(r.DueAt), Tries: r.Tries, Told: r.Told, Doubt: r.Doubt, SettledBy: r.SettledBy, Error: r.Error, Receipt: r.Receipt, Withdrew: some(r.WithdrewID),
		Instead: some(r.InsteadID), Planned: r.PlannedAt.UTC(), Sent: utc(r.SentAt), Done: utc(r.DoneAt),
		ReleasedEntry: r.ReleasedEntry, ReleasedCase: r.ReleasedCase, Request: some(r.RequestID), Pieces: r.Pieces, Repeats: some(r.RepeatsID), Round: r.Round,
		Retried: utc(r.RetriedAt), RetriedBy: r.RetriedBy, RetryReason: r.RetryReason}
}

func (r reads) actionsWhere(ctx context.Context, cond string, args ...any) ([]models.Action, error) {
	var rows []actionRow
	if err := r.rows(ctx, &rows, actionColumns+" WHERE "+cond, args...); err != nil {
		return nil, err
	}
	var out []models.Action
	for _, row := range rows {
		out = append(out, row.action())
	}
	return out, nil
}

// Actions lists actions, newest first.
func (r reads) Actions(ctx context.Context, q models.ActionQuery) (models.Page[models.Action], error) {
	var page models.Page[models.Action]
	before, err := cursorID(q.Cursor)
	if err != nil {
		return page, err
	}
	w := &where{}
	if before > 0 {
		w.and("a.id < ?", before)
	}
	if len(q.Shops) > 0 {
		w.and("a.shop_id = ANY (?::bigint[])", idList(q.Shops))
	}
	if q.State != "" {
		w.and("a.state = ?", q.State)
	}
	if q.Kind != "" {
		w.and("a.kind = ?", q.Kind)
	}
	if q.Order != 0 {
		w.and("a.order_id = COALESCE((SELECT merged_into FROM orders WHERE id = ?), ?)", q.Order, q.Order)
	}
	limit := pageSize(q.Limit)
	items, err := r.actionsWhere(ctx, w.String()+" ORDER BY a.id DESC LIMIT ?", append(w.args, limit+1)...)
	if err != nil {
		return page, err
	}
	if len(items) > limit {
		items = items[:limit]
		page.Next = strconv.FormatInt(items[limit-1].ID, 10)
	}
	page.Items = items
	return page, nil
}

// Action looks at an action without locking it.
func (r reads) Action(ctx context.Context, id int64) (models.Action, error) {
	var row actionRow
	err := r.one(ctx, "error.action_unknown", &row, actionColumns+" WHERE a.id = ?", id)
	return row.action(), err
}

// ActionsOf lists the actions of an order, newest first.
func (r reads) ActionsOf(ctx context.Context, order int64) ([]models.Action, error) {
	return r.actionsWhere(ctx, "a.order_id = ? ORDER BY a.id DESC", order)
}

// A Planned is an action that a step plans, with the ledger entry of its move.
type Planned struct {
	models.Plan
	Entry    int64
	Official bool
}

// PlanActions writes the actions that a step of an order plans, each once whatever
// tells of it. It answers those that are due now; a kind without a destination is
// watched.
func (tx *Tx) PlanActions(ctx context.Context, order models.Order, plans []Planned) ([]int64, error) {
	type row struct {
		Kind     models.ActionKind `json:"kind"`
		Stage    string            `json:"stage"`
		Occasion models.Occasion   `json:"occasion"`
		Why      models.NotNeeded  `json:"why"`
		EntryID  int64             `json:"entry_id"`
		Official bool              `json:"official"`
		Person   bool              `json:"person"`
		Wait     float64           `json:"wait"`
	}
	list := make([]row, len(plans))
	for i, p := range plans {
		list[i] = row{p.Kind, p.Stage, p.Occasion, p.Not, p.Entry, p.Official, p.Person, p.Wait.Seconds()}
	}
	b, err := json.Marshal(list)
	if err != nil {
		return nil, err
	}
	var ids []int64
	err = tx.rows(ctx, &ids, `
WITH fresh AS (
    INSERT INTO actions (order_id, shop_id, kind, stage, occasion, state, why, entry_id, official, person, not_before, due_at, planned_at)
    SELECT ?, ?, p.kind, p.stage, p.occasion, CASE WHEN p.why <> '' THEN 'not_needed' WHEN d.live THEN 'planned' ELSE 'watched' END, p.why,
           p.entry_id, p.official, p.person, CASE WHEN p.wait > 0 THEN ?::timestamptz + make_interval(secs => p.wait) END,
           CASE WHEN p.why = '' AND d.live THEN now() + make_interval(secs => p.wait) END, ?
    FROM jsonb_to_recordset(?::jsonb) AS p (kind text, stage text, occasion text, why text, entry_id bigint, official boolean, person boolean, wait float8)
    CROSS JOIN LATERAL (SELECT EXISTS (SELECT 1 FROM destinations d WHERE d.shop_id = ? AND d.kind = p.kind AND d.mode <> 'watch') AS live) d
    ON CONFLICT ON CONSTRAINT actions_once_key DO NOTHING
    RETURNING id, due_at
) SELECT id FROM fresh WHERE due_at <= now() ORDER BY id`, order.ID, order.ShopID, tx.Now, tx.Now, string(b), order.ShopID)
	return ids, err
}

// unsent are the states of actions of which nobody outside has heard. A list of work
// is inside.
const unsent = `('planned', 'waiting', 'manual')`

// risky are the kinds that can't be taken back, as a JSON array.
func risky() string {
	var kinds []models.ActionKind
	for _, k := range models.ActionKinds {
		if k.HighRisk() {
			kinds = append(kinds, k)
		}
	}
	b, _ := json.Marshal(kinds)
	return string(b)
}

// LockActions locks what may still change of an order's actions, in the order of their
// ids. It tells whether there are some of which nobody outside has heard, and some
// that rest on payloads alone.
func (tx *Tx) LockActions(ctx context.Context, order int64) (unsentOnes, unsure bool, err error) {
	var rows []struct{ Unsent, Unsure bool }
	err = tx.rows(ctx, &rows, `
SELECT state IN `+unsent+` AS unsent, NOT official AS unsure FROM actions
WHERE order_id = ? AND (state IN `+unsent+` OR NOT official) ORDER BY id FOR UPDATE`, order)
	for _, row := range rows {
		unsentOnes, unsure = unsentOnes || row.Unsent, unsure || row.Unsure
	}
	return unsentOnes, unsure, err
}

// WithdrawActions calls the unsent high-risk actions of an order back, because of the
// axis that moved: its newest ledger entry is the reason.
func (tx *Tx) WithdrawActions(ctx context.Context, order int64, axis models.Axis) error {
	return tx.exec(ctx, `
UPDATE actions SET state = 'withdrawn', why = ?, due_at = NULL, done_at = ?,
       withdrew_id = (SELECT max(l.id) FROM ledger l WHERE l.order_id = ? AND l.axis = ?)
WHERE order_id = ? AND state IN `+unsent+` AND ?::jsonb @> to_jsonb(kind)`, axis, tx.Now, order, axis, order, risky())
}

// ShippedActions says of an order's unsent instructions that the goods have left
// already. A replacement is wanted although they have.
func (tx *Tx) ShippedActions(ctx context.Context, order int64) error {
	return tx.exec(ctx, `
UPDATE actions SET state = 'not_needed', why = ?, due_at = NULL, done_at = ?
WHERE order_id = ? AND state IN `+unsent+` AND kind = ? AND (stage = ? OR starts_with(stage, ?))`,
		models.ShippedAlready, tx.Now, order, models.FulfillmentInstruction, models.WholeOrder, models.StageMore)
}

// ConfirmActions notes that what a payload had reported of an axis, and what was
// planned on it, rests on an official reading now.
func (tx *Tx) ConfirmActions(ctx context.Context, o models.Order, axis models.Axis) error {
	return tx.exec(ctx, `
UPDATE actions a SET official = true, due_at = CASE WHEN a.state IN ('planned', 'waiting') THEN now() ELSE a.due_at END FROM ledger l
WHERE a.order_id = ? AND NOT a.official AND l.id = a.entry_id AND l.axis = ? AND l.to_state = ? AND l.refunded <= ?`,
		o.ID, axis, o.State(axis), o.Refunded)
}

// WakeActions makes due what waits on an order, and answers it. moved: what is on a
// list of work is looked at again too, before a person does it.
func (tx *Tx) WakeActions(ctx context.Context, order int64, moved bool) ([]int64, error) {
	var ids []int64
	err := tx.rows(ctx, &ids, `
UPDATE actions SET state = CASE WHEN state = 'manual' THEN 'waiting' ELSE state END, due_at = now()
WHERE order_id = ? AND (state IN ('planned', 'waiting') OR state = 'manual' AND ? AND ?::jsonb @> to_jsonb(kind)) RETURNING id`, order, moved, risky())
	return ids, err
}

// MergeActions gives the actions of a shell to the order that it became part of. Where
// both have one of a kind and stage, the one of which somebody outside may have heard
// stays; the other isn't needed, and names it. What came on top of either stays. Both
// orders are locked.
func (tx *Tx) MergeActions(ctx context.Context, shell, into int64) error {
	if err := tx.exec(ctx, `SELECT 1 FROM actions WHERE order_id IN (?, ?) ORDER BY id FOR UPDATE`, shell, into); err != nil {
		return err
	}
	var pairs []struct{ Loser, Winner int64 }
	if err := tx.rows(ctx, &pairs, `
SELECT CASE WHEN s.heard AND NOT i.heard THEN i.id ELSE s.id END AS loser, CASE WHEN s.heard AND NOT i.heard THEN s.id ELSE i.id END AS winner
FROM (SELECT id, kind, stage, state IN ('sending', 'done', 'failed', 'unclear') OR told AS heard FROM actions WHERE order_id = ? AND NOT stage ~ ?) s
JOIN (SELECT id, kind, stage, state IN ('sending', 'done', 'failed', 'unclear') OR told AS heard FROM actions WHERE order_id = ?) i
  ON i.kind = s.kind AND i.stage = s.stage ORDER BY 1`, shell, numbered, into); err != nil {
		return err
	}
	for _, p := range pairs {
		// Two rows can't change places under their unique key but by a third name.
		if err := tx.exec(ctx, `UPDATE actions SET stage = stage || '~' WHERE id = ?`, p.Loser); err != nil {
			return err
		}
		if err := tx.exec(ctx, `UPDATE actions SET order_id = ? WHERE id = ?`, into, p.Winner); err != nil {
			return err
		}
		if err := tx.exec(ctx, `
UPDATE actions SET order_id = ?, stage = rtrim(stage, '~'), instead_id = ?,
       state = CASE WHEN state IN `+unsent+` OR state = 'watched' THEN 'not_needed' ELSE state END,
       why = CASE WHEN state IN `+unsent+` OR state = 'watched' THEN ? ELSE why END,
       due_at = CASE WHEN state IN `+unsent+` THEN NULL ELSE due_at END
WHERE id = ?`, shell, p.Winner, models.MergedAway, p.Loser); err != nil {
			return err
		}
	}
	// What came on top of the one order doesn't stand for what came on top of the other:
	// it goes on counting there.
	if err := tx.exec(ctx, `
UPDATE actions a SET order_id = ?, stage = n.prefix || n.number FROM (
    SELECT s.id, p.prefix, row_number() OVER (PARTITION BY s.kind, p.prefix ORDER BY s.id) + COALESCE((
        SELECT max(substr(i.stage, length(p.prefix) + 1)::integer) FROM actions i WHERE i.order_id = ? AND i.kind = s.kind AND starts_with(i.stage, p.prefix) AND i.stage ~ ?), 0) AS number
    FROM actions s CROSS JOIN LATERAL (SELECT split_part(s.stage, ':', 1) || ':' AS prefix) p WHERE s.order_id = ? AND s.instead_id IS NULL AND s.stage ~ ?
) n WHERE a.id = n.id`, into, into, numbered, shell, numbered); err != nil {
		return err
	}
	return tx.exec(ctx, `UPDATE actions SET order_id = ? WHERE order_id = ? AND instead_id IS NULL`, into, shell)
}

// numbered are the stages of what comes on top of what an order needs once.
const numbered = `^(more|replacement|again):[0-9]{1,6}$`
