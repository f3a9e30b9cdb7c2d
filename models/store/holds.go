package store

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"counterfoil/models"
)

// A HoldTarget is what a hold stops.
type HoldTarget struct {
	Scope  models.HoldScope `gorm:"-"`
	ID     int64            // a shell's is that of the order it became part of
	ShopID int64
	Name   string // number or slug
	Merged bool
}

// HoldTarget finds what a hold of a scope would stop.
func (r reads) HoldTarget(ctx context.Context, scope models.HoldScope, id int64) (HoldTarget, error) {
	return r.holdTarget(ctx, scope, id, "")
}

// LockHoldTarget locks what a hold stops, against everybody who carries an action of
// it: a claim either came before, and its action is being sent already, or it will
// see what this transaction writes. References to a connection or a shop aren't in
// the way.
func (tx *Tx) LockHoldTarget(ctx context.Context, scope models.HoldScope, id int64) (HoldTarget, error) {
	t, err := tx.holdTarget(ctx, scope, id, " FOR NO KEY UPDATE OF t")
	if err == nil && t.Merged {
		return t, models.Fail(models.Conflict, "error.moved_meanwhile")
	}
	return t, err
}

func (r reads) holdTarget(ctx context.Context, scope models.HoldScope, id int64, lock string) (HoldTarget, error) {
	var t HoldTarget
	var err error
	switch scope {
	case models.HoldShop:
		err = r.one(ctx, "error.shop_unknown", &t, `SELECT t.id, t.id AS shop_id, t.slug AS name FROM shops t WHERE t.id = ?`+lock, id)
	case models.HoldConnection:
		err = r.one(ctx, "error.connection_unknown", &t, `SELECT t.id, t.shop_id, t.slug AS name FROM connections t WHERE t.id = ?`+lock, id)
	default:
		err = r.one(ctx, "error.order_unknown", &t, `
SELECT t.id, t.shop_id, COALESCE(NULLIF(t.number, ''), t.platform_ref) AS name, t.merged_into IS NOT NULL AS merged
FROM orders t WHERE t.id = COALESCE((SELECT merged_into FROM orders WHERE id = ?), ?)`+lock, id, id)
	}
	t.Scope = scope
	return t, err
}

type holdRow struct {
	ID        int64
	Scope     models.HoldScope
	Subject   int64
	Name      string
	Reason    string
	Actor     string
	ActorName string
	Since     time.Time
	Until     *time.Time
	Resumes   bool
}

func (x holdRow) hold() models.Hold {
	return models.Hold{ID: x.ID, Scope: x.Scope, Subject: x.Subject, Name: x.Name, Reason: x.Reason, By: x.Actor, ByName: x.ActorName,
		Since: x.Since.UTC(), Until: utc(x.Until), Resumes: x.Resumes}
}

// openHolds are the holds in force. The subject of a shell's is the order that the
// shell became part of.
const openHolds = `
SELECT h.id, h.scope, COALESCE(o.merged_into, h.subject) AS subject, COALESCE(NULLIF(o.number, ''), o.platform_ref, c.slug, NULLIF(s.name, ''), s.slug, '') AS name,
       h.reason, h.actor, h.actor_name, h.since, h.until, h.resumes
FROM holds h
LEFT JOIN orders o ON h.scope = 'order' AND o.id = h.subject
LEFT JOIN connections c ON h.scope = 'connection' AND c.id = h.subject
LEFT JOIN shops s ON h.scope = 'shop' AND s.id = h.subject
WHERE h.released_at IS NULL`

// shellsToo is an order with the shells that became part of it, as scopes and subjects.
const shellsToo = `SELECT 'order', ?::bigint UNION ALL SELECT 'order', id FROM orders WHERE merged_into = ?`

func (r reads) holdsWhere(ctx context.Context, cond string, args ...any) ([]models.Hold, error) {
	var rows []holdRow
	if err := r.rows(ctx, &rows, openHolds+" AND "+cond+" ORDER BY h.id", args...); err != nil {
		return nil, err
	}
	var out []models.Hold
	for _, x := range rows {
		out = append(out, x.hold())
	}
	return out, nil
}

// HoldsReaching lists the open holds of an order, of its shop and of connections, the
// oldest first.
func (r reads) HoldsReaching(ctx context.Context, order, shop int64, connections []int64) ([]models.Hold, error) {
	return r.holdsWhere(ctx, `(h.scope, h.subject) IN (`+shellsToo+` UNION ALL SELECT 'shop', ?::bigint UNION ALL SELECT 'connection', unnest(?::bigint[]))`,
		order, order, shop, idList(connections))
}

// holdsOver lists the holds that have reached an order since it is known, also those
// that ended, the newest first.
func (r reads) holdsOver(ctx context.Context, o models.Order) ([]models.Hold, error) {
	var rows []struct {
		Row          holdRow `gorm:"embedded"`
		ReleasedAt   *time.Time
		ReleasedBy   string
		ReleasedName string
	}
	err := r.rows(ctx, &rows, `
SELECT h.id, h.scope, h.subject, COALESCE(c.slug, NULLIF(s.name, ''), s.slug, '') AS name, h.reason, h.actor, h.actor_name, h.since, h.until, h.resumes,
       h.released_at, h.released_by, COALESCE(p.name, '') AS released_name
FROM holds h
LEFT JOIN connections c ON h.scope = 'connection' AND c.id = h.subject
LEFT JOIN shops s ON h.scope = 'shop' AND s.id = h.subject
LEFT JOIN staff p ON h.released_by = 'staff:' || p.id
WHERE (h.scope, h.subject) IN (`+shellsToo+` UNION ALL SELECT 'shop', ?::bigint UNION ALL SELECT 'connection', unnest(?::bigint[]))
  AND (h.released_at IS NULL OR h.released_at >= ?)
ORDER BY h.id DESC LIMIT 100`, o.ID, o.ID, o.ShopID, idList(o.Connections()), o.Created)
	if err != nil {
		return nil, err
	}
	var out []models.Hold
	for _, x := range rows {
		h := x.Row.hold()
		h.Released, h.ReleasedBy, h.ReleasedName = utc(x.ReleasedAt), x.ReleasedBy, x.ReleasedName
		out = append(out, h)
	}
	return out, nil
}

// OpenHolds lists the open holds of a target itself: one at most, and one more for
// each shell that was held when it became part of an order.
func (r reads) OpenHolds(ctx context.Context, t HoldTarget) ([]models.Hold, error) {
	if t.Scope == models.HoldOrder {
		return r.holdsWhere(ctx, `(h.scope, h.subject) IN (`+shellsToo+`)`, t.ID, t.ID)
	}
	return r.holdsWhere(ctx, `h.scope = ? AND h.subject = ?`, t.Scope, t.ID)
}

// WideHolds lists the open holds of whole connections and shops, of some shops or
// (empty) of all.
func (r reads) WideHolds(ctx context.Context, shops []int64) ([]models.Hold, error) {
	return r.holdsWhere(ctx, `h.scope <> 'order' AND (?::bigint[] = '{}' OR COALESCE(c.shop_id, s.id) = ANY (?::bigint[]))`, idList(shops), idList(shops))
}

// holdsOf gives each of some orders the holds that reach it.
func (r reads) holdsOf(ctx context.Context, orders []*models.Order, give func(i int, h models.Hold)) error {
	if len(orders) == 0 {
		return nil
	}
	ids := make([]int64, len(orders))
	for i, o := range orders {
		ids[i] = o.ID
	}
	holds, err := r.holdsWhere(ctx, `(h.scope <> 'order' OR COALESCE(o.merged_into, h.subject) = ANY (?::bigint[]))`, idList(ids))
	for _, h := range holds {
		for i, o := range orders {
			if h.Scope == models.HoldOrder && h.Subject == o.ID || h.Scope == models.HoldShop && h.Subject == o.ShopID ||
				h.Scope == models.HoldConnection && slices.Contains(o.Connections(), h.Subject) {
				give(i, h)
			}
		}
	}
	return err
}

// paused filters orders by the holds that reach them. The few open ones are read first:
// a list of orders is then found by their ids, not by asking every order.
func (r reads) paused(ctx context.Context, w *where) error {
	holds, err := r.holdsWhere(ctx, "true")
	if err != nil {
		return err
	}
	held := map[models.HoldScope][]int64{}
	for _, h := range holds {
		held[h.Scope] = append(held[h.Scope], h.Subject)
	}
	conds, args := []string{"o.id = ANY (?::bigint[])"}, []any{idList(held[models.HoldOrder])}
	if ids := held[models.HoldShop]; len(ids) > 0 {
		conds, args = append(conds, "o.shop_id = ANY (?::bigint[])"), append(args, idList(ids))
	}
	if ids := idList(held[models.HoldConnection]); len(held[models.HoldConnection]) > 0 {
		conds = append(conds, "o.connection_id = ANY (?::bigint[])", "o.money_by = ANY (?::bigint[])", "o.goods_by = ANY (?::bigint[])")
		args = append(args, ids, ids, ids)
	}
	w.and("("+strings.Join(conds, " OR ")+")", args...)
	return nil
}

// SetHold writes a hold of a target that this transaction has locked.
func (tx *Tx) SetHold(ctx context.Context, h models.Hold) (int64, error) {
	var id int64
	err := tx.one(ctx, "", &id, `
INSERT INTO holds (scope, subject, reason, actor, actor_name, since, until, resumes) VALUES (?, ?, ?, ?, ?, ?, ?, ?) RETURNING id`,
		h.Scope, h.Subject, h.Reason, h.By, h.ByName, tx.Now, nullTime(h.Until), h.Resumes)
	return id, err
}

// ReleaseHold ends a hold of a target that this transaction has locked.
func (tx *Tx) ReleaseHold(ctx context.Context, id int64, by string) error {
	n, err := tx.changed(ctx, `UPDATE holds SET released_at = ?, released_by = ? WHERE id = ? AND released_at IS NULL`, tx.Now, by, id)
	if err == nil && n == 0 {
		return models.Fail(models.Conflict, "error.not_held")
	}
	return err
}

// DueHolds lists the holds that were set to end by themselves and whose time has come,
// by the database's clock.
func (r reads) DueHolds(ctx context.Context) ([]models.Hold, error) {
	return r.holdsWhere(ctx, `h.resumes AND h.until <= now()`)
}

// reached are the high-risk actions a, of orders o, that a hold of the target stops.
func (t HoldTarget) reached() (string, []any) {
	var risky []models.ActionKind
	for _, k := range models.ActionKinds {
		if k.HighRisk() {
			risky = append(risky, k)
		}
	}
	kinds, _ := json.Marshal(risky)
	cond := `?::jsonb @> to_jsonb(a.kind) AND `
	switch t.Scope {
	case models.HoldShop:
		return cond + `o.shop_id = ?`, []any{string(kinds), t.ID}
	case models.HoldConnection:
		return cond + `? IN (o.connection_id, o.money_by, o.goods_by)`, []any{string(kinds), t.ID}
	}
	return cond + `o.id = ?`, []any{string(kinds), t.ID}
}

// BeingSent lists the actions of a target that a hold comes too late for.
func (r reads) BeingSent(ctx context.Context, t HoldTarget) ([]models.Action, error) {
	cond, args := t.reached()
	return r.actionsWhere(ctx, "a.state = 'sending' AND "+cond+" ORDER BY a.id", args...)
}

// TakeBack takes the actions of a target off the lists of work, so that nobody ships
// from there, and lists them. Whoever saw one there may have done it already.
func (tx *Tx) TakeBack(ctx context.Context, t HoldTarget) ([]models.Action, error) {
	cond, args := t.reached()
	var ids []int64
	if err := tx.rows(ctx, &ids, `
WITH listed AS (
    SELECT a.id FROM actions a JOIN orders o ON o.id = a.order_id WHERE a.state = 'manual' AND `+cond+` ORDER BY a.id FOR UPDATE OF a
)
UPDATE actions a SET state = 'waiting', why = 'no_hold', due_at = now() + make_interval(secs => ?) FROM listed WHERE a.id = listed.id RETURNING a.id`,
		append(args, heldLook.Seconds())...); err != nil || len(ids) == 0 {
		return nil, err
	}
	return tx.actionsWhere(ctx, "a.id = ANY (?::bigint[]) ORDER BY a.id", idList(ids))
}

// heldLook is when what a hold keeps looks by itself. Its end makes it due.
const heldLook = time.Minute

// WasListed tells whether an action was on a list of work.
func (r reads) WasListed(ctx context.Context, action int64) (bool, error) {
	var was bool
	err := r.rows(ctx, &was, `SELECT listed_at IS NOT NULL FROM actions WHERE id = ?`, action)
	return was, err
}

// Unsent counts the actions of a target that a hold keeps here.
func (r reads) Unsent(ctx context.Context, t HoldTarget) (int, error) {
	cond, args := t.reached()
	var n int
	err := r.rows(ctx, &n, `SELECT count(*) FROM actions a JOIN orders o ON o.id = a.order_id WHERE a.state IN `+unsent+` AND `+cond, args...)
	return n, err
}

const (
	resumeFirst  = 5 // are due at once when a hold ends
	resumeMinute = 60
)

// Resume makes due what a hold kept here: a few at once, so that somebody can look at
// them, then the rest at a steady pace, the oldest first.
func (tx *Tx) Resume(ctx context.Context, t HoldTarget) error {
	cond, args := t.reached()
	return tx.exec(ctx, `
WITH kept AS (
    SELECT a.id, a.planned_at FROM actions a JOIN orders o ON o.id = a.order_id
    WHERE a.state IN ('planned', 'waiting') AND NOT a.person AND `+cond+` ORDER BY a.id FOR UPDATE OF a
), queue AS (
    SELECT id, row_number() OVER (ORDER BY planned_at, id) AS n FROM kept
)
UPDATE actions a SET due_at = GREATEST(a.not_before, now() + make_interval(secs => GREATEST(0, q.n - ?) * 60.0 / ?)) FROM queue q WHERE a.id = q.id`,
		append(args, resumeFirst, resumeMinute)...)
}
