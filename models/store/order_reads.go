package store

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"counterfoil/models"
)

const (
	defaultLimit = 50
	maxLimit     = 200
)

func pageSize(n int) int {
	if n <= 0 {
		return defaultLimit
	}
	return min(n, maxLimit)
}

// cursorID reads a keyset cursor: the last id of the stretch before.
func cursorID(cursor string) (int64, error) {
	if cursor == "" {
		return 0, nil
	}
	id, err := strconv.ParseInt(cursor, 10, 64)
	if err != nil || id <= 0 {
		return 0, &models.Error{Code: models.Invalid, Key: "error.cursor", Fields: map[string]string{"cursor": "error.cursor"}}
	}
	return id, nil
}

// where gathers conditions; each comes with its arguments.
type where struct {
	parts []string
	args  []any
}

func (w *where) and(cond string, args ...any) {
	w.parts = append(w.parts, cond)
	w.args = append(w.args, args...)
}

func (w *where) String() string {
	if len(w.parts) == 0 {
		return "true"
	}
	return strings.Join(w.parts, "\n  AND ")
}

// waitingOrders has the orders on which an unprocessed event waits, with the
// connection and since when. It starts from the few events that are due.
const waitingOrders = `
    SELECT COALESCE(p.order_id, l.order_id, e.order_id) AS order_id, e.connection_id, min(e.received_at) AS since, count(*) AS n
    FROM events e
    LEFT JOIN platform_objects p ON p.connection_id = e.connection_id AND p.account = e.account AND p.kind = e.object_kind AND p.ref = e.object_ref
    LEFT JOIN platform_objects l ON l.id = p.leads_to
    WHERE e.due_at IS NOT NULL AND e.state IN ('received', 'waiting')
    GROUP BY 1, 2`

// An OrderFilter is an OrderQuery together with what is known of the platforms now:
// down and waiting are judged at the moment of looking, not written into every order.
type OrderFilter struct {
	models.OrderQuery
	Health map[int64]models.Health
	Now    time.Time
}

// Orders lists orders, newest first by id.
func (r reads) Orders(ctx context.Context, f OrderFilter) (models.Page[models.OrderRow], error) {
	var page models.Page[models.OrderRow]
	before, err := cursorID(f.Cursor)
	if err != nil {
		return page, err
	}
	w := &where{}
	w.and("o.merged_into IS NULL")
	if before > 0 {
		w.and("o.id < ?", before)
	}
	if len(f.Shops) > 0 {
		w.and("o.shop_id = ANY (?::bigint[])", idList(f.Shops))
	}
	if f.Shop != "" {
		w.and("o.shop_id = (SELECT id FROM shops WHERE slug = ?)", f.Shop)
	}
	if f.Connection != "" {
		w.and(`EXISTS (SELECT 1 FROM connections c WHERE c.slug = ? AND (c.id = o.connection_id
        OR EXISTS (SELECT 1 FROM platform_objects p WHERE p.order_id = o.id AND p.connection_id = c.id)))`, f.Connection)
	}
	if f.Ref != "" {
		w.and("o.id IN (SELECT COALESCE(m.merged_into, m.id) FROM order_refs x JOIN orders m ON m.id = x.order_id WHERE x.ref = ANY (ARRAY(SELECT jsonb_array_elements_text(?::jsonb))))", spellings(f.Ref))
	}
	if f.Text != "" {
		like := likePrefix(models.Half(strings.TrimSpace(f.Text)))
		w.and(`o.id IN (
        SELECT COALESCE(m.merged_into, m.id) FROM order_refs x JOIN orders m ON m.id = x.order_id WHERE x.ref LIKE ? OR x.ref = ANY (ARRAY(SELECT jsonb_array_elements_text(?::jsonb)))
        UNION SELECT e.order_id FROM events e WHERE e.event_id LIKE ? AND e.order_id IS NOT NULL)`, like, spellings(f.Text), like)
	}
	for axis, state := range f.States {
		if !axis.Has(state) {
			return page, &models.Error{Code: models.Invalid, Key: "error.state_unknown", Fields: map[string]string{string(axis): "error.state_unknown"}}
		}
		w.and("o."+column(axis)+" = ?", state)
	}
	if f.Announced {
		w.and("o.announced")
	}
	if !f.Test && f.Ref == "" && f.Text == "" {
		w.and("NOT o.test")
	}
	if f.Unresolved {
		w.and(`o.id IN (
        SELECT x.order_id FROM exceptions x WHERE x.state = 'open' AND x.order_id IS NOT NULL
        UNION SELECT e.order_id FROM events e WHERE e.state IN ('unmatched', 'review', 'failed') AND e.order_id IS NOT NULL
        UNION SELECT q.order_id FROM (` + waitingOrders + `) q WHERE q.order_id IS NOT NULL)`)
	}
	if f.Paused {
		if err := r.paused(ctx, w); err != nil {
			return page, err
		}
	}
	f.verification(w)
	limit := pageSize(f.Limit)
	var rows []struct {
		Row        orderRow `gorm:"embedded"`
		Shop       string
		ShopName   string
		Connection string
		Events     int
		Exceptions int
		Urgent     bool
		Waits      string
	}
	err = r.rows(ctx, &rows, `
WITH page AS (
    SELECT o.id FROM orders o WHERE `+w.String()+`
    ORDER BY o.id DESC LIMIT ?
), waits AS (`+waitingOrders+`)
SELECT `+orderColumns+`, s.slug AS shop, s.name AS shop_name, c.slug AS connection,
       (SELECT count(*) FROM events e WHERE e.order_id = o.id AND e.state IN ('unmatched', 'review', 'failed'))
           + COALESCE((SELECT sum(n) FROM waits q WHERE q.order_id = o.id), 0) AS events,
       (SELECT count(*) FROM exceptions x WHERE x.order_id = o.id AND x.state = 'open') AS exceptions,
       EXISTS (SELECT 1 FROM exceptions x WHERE x.order_id = o.id AND x.state = 'open' AND x.policy = 'hold') AS urgent,
       COALESCE((SELECT jsonb_object_agg(q.connection_id, q.since) FROM waits q WHERE q.order_id = o.id), '{}')::text AS waits
FROM page JOIN orders o ON o.id = page.id JOIN shops s ON s.id = o.shop_id JOIN connections c ON c.id = o.connection_id
ORDER BY o.id DESC`, append(w.args, limit+1)...)
	if err != nil {
		return page, err
	}
	for i, row := range rows {
		if i == limit {
			page.Next = strconv.FormatInt(rows[i-1].Row.ID, 10)
			break
		}
		o, err := row.Row.order()
		if err != nil {
			return page, err
		}
		health, err := withWaits(f.Health, row.Waits)
		if err != nil {
			return page, err
		}
		page.Items = append(page.Items, models.OrderRow{Order: o, Shop: row.Shop, ShopName: row.ShopName, Connection: row.Connection,
			Shown: o.Worst(health, f.Now), Health: health, Events: row.Events, Exceptions: row.Exceptions, Urgent: row.Urgent})
	}
	orders := make([]*models.Order, len(page.Items))
	for i := range page.Items {
		orders[i] = &page.Items[i].Order
	}
	if err := r.holdsOf(ctx, orders, func(i int, h models.Hold) { page.Items[i].Holds = append(page.Items[i].Holds, h) }); err != nil {
		return page, err
	}
	if f.Whole && len(page.Items) > 0 {
		err = r.whole(ctx, page.Items)
	}
	return page, err
}

// whole adds the objects, ledgers and actions of a page's orders, in one query each.
func (r reads) whole(ctx context.Context, rows []models.OrderRow) error {
	ids, at := make([]int64, len(rows)), map[int64]int{}
	for i, row := range rows {
		ids[i], at[row.ID] = row.ID, i
	}
	entries, err := r.entries(ctx, "order_id = ANY (?::bigint[])", maxEntries*len(rows), idList(ids))
	if err != nil {
		return err
	}
	for _, e := range entries {
		i := at[e.OrderID]
		rows[i].Ledger = append(rows[i].Ledger, e)
	}
	objects, err := r.objectsWhere(ctx, "p.order_id = ANY (?::bigint[])", idList(ids))
	if err != nil {
		return err
	}
	for _, o := range objects {
		i := at[o.OrderID]
		rows[i].Objects = append(rows[i].Objects, shown(o))
	}
	actions, err := r.actionsWhere(ctx, "a.order_id = ANY (?::bigint[]) ORDER BY a.id DESC", idList(ids))
	for _, a := range actions {
		i := at[a.OrderID]
		rows[i].Actions = append(rows[i].Actions, a)
	}
	return err
}

// shown is a kept object as pages and programs see it.
func shown(o ObjectRow) models.Object {
	return models.Object{Fetched: o.Fetched, Reported: o.Reported, ObjectView: models.ObjectView{ID: o.ID, Connection: o.ConnectionID, Ref: o.Ref,
		LinkedBy: o.LinkedBy, Official: o.Official, Said: o.Said}}
}

// maxEntries of one order's ledger are shown; a longer one is no order's life.
const maxEntries = 500

// verification filters by what people would see on the row.
func (f OrderFilter) verification(w *where) {
	if f.Verification == "" {
		return
	}
	type late struct {
		ID     int64     `json:"id"`
		Stale  time.Time `json:"stale"`
		Unsent time.Time `json:"unsent"`
		Down   bool      `json:"down"`
		Review bool      `json:"review"`
		Settle float64   `json:"settle"`
	}
	var known []late
	for id, h := range f.Health {
		l := late{ID: id, Down: h.State == models.APIDownState, Settle: h.Settle.Seconds()}
		l.Review = l.Down && f.Now.Sub(h.Since) > h.Review
		if h.Stale > 0 {
			l.Stale = f.Now.Add(-h.Stale)
		}
		if h.Unsent > 0 {
			l.Unsent = f.Now.Add(-h.Unsent)
		}
		known = append(known, l)
	}
	list, _ := json.Marshal(append([]late{}, known...)) // numbers and times always marshal
	const deciders = `
        SELECT h.* FROM jsonb_to_recordset(?::jsonb) AS h (id bigint, stale timestamptz, unsent timestamptz, down boolean, review boolean, settle float8)
        WHERE h.id = o.money_by OR h.id = o.goods_by`
	const review = `(o.verification = 'review' OR EXISTS (SELECT 1 FROM (` + deciders + `) h WHERE h.review))`
	const doubted = `(o.verification <> 'verified'
        OR EXISTS (SELECT 1 FROM (` + deciders + `) h WHERE h.down OR NOT o.settled AND o.checked_at <
            CASE WHEN o.payment = 'paid' AND o.fulfillment = 'unfulfilled' AND o.store THEN h.unsent ELSE h.stale END)
        OR o.id IN (SELECT q.order_id FROM (` + waitingOrders + `) q JOIN jsonb_to_recordset(?::jsonb) AS h (id bigint, settle float8) ON h.id = q.connection_id
            WHERE q.order_id IS NOT NULL AND q.since < ?::timestamptz - make_interval(secs => h.settle)))`
	switch f.Verification {
	case models.Verified:
		w.and("NOT "+doubted, string(list), string(list), f.Now)
	case models.ToReview:
		w.and(review, string(list))
	default:
		w.and(doubted+" AND NOT "+review, string(list), string(list), f.Now, string(list))
	}
}

// withWaits adds to each connection's health since when an event of the order waits.
func withWaits(health map[int64]models.Health, waits string) (map[int64]models.Health, error) {
	var since map[int64]time.Time
	if err := json.Unmarshal([]byte(waits), &since); err != nil {
		return nil, fmt.Errorf("store: waiting events: %w", err)
	}
	if len(since) == 0 {
		return health, nil
	}
	out := make(map[int64]models.Health, len(health))
	for id, h := range health {
		h.Waiting = since[id]
		out[id] = h
	}
	return out, nil
}

// column is the column of an axis; never from request text.
func column(a models.Axis) string {
	switch a {
	case models.Payment:
		return "payment"
	case models.Refund:
		return "refund"
	case models.Dispute:
		return "dispute"
	case models.Fulfillment:
		return "fulfillment"
	case models.Cancellation:
		return "cancellation"
	}
	return "return"
}

// spellings are the ways in which a typed reference may be kept, as a JSON array.
func spellings(typed string) string {
	forms := models.RefForms(typed)
	for _, f := range models.RefForms(typed) {
		if strings.Trim(f, "0123456789") == "" && f != "" {
			forms = append(forms, "gid://shopify/Order/"+f, "#"+f)
		}
	}
	b, _ := json.Marshal(append([]string{}, forms...))
	return string(b)
}

var likeEscape = strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`)

func likePrefix(s string) string { return likeEscape.Replace(s) + "%" }

// OrderFile reads an order with everything its page shows. A merged shell answers
// with the order that it became part of.
func (r reads) OrderFile(ctx context.Context, id int64) (models.OrderFile, error) {
	var row struct {
		Row        orderRow `gorm:"embedded"`
		Shop       string
		ShopName   string
		Connection string
		Waits      string
	}
	err := r.one(ctx, "error.order_unknown", &row, `
WITH waits AS (`+waitingOrders+`)
SELECT `+orderColumns+`, s.slug AS shop, s.name AS shop_name, c.slug AS connection,
       COALESCE((SELECT jsonb_object_agg(q.connection_id, q.since) FROM waits q WHERE q.order_id = o.id), '{}')::text AS waits
FROM orders o JOIN shops s ON s.id = o.shop_id JOIN connections c ON c.id = o.connection_id
WHERE o.id = COALESCE((SELECT merged_into FROM orders WHERE id = ?), ?)`, id, id)
	if err != nil {
		return models.OrderFile{}, err
	}
	o, err := row.Row.order()
	if err != nil {
		return models.OrderFile{}, err
	}
	f := models.OrderFile{Order: o, Shop: row.Shop, ShopName: row.ShopName, Connection: row.Connection, Slugs: map[int64]string{}}
	if f.Health, err = r.healths(ctx, row.Waits); err != nil {
		return f, err
	}
	objects, err := r.ObjectsOf(ctx, o.ID)
	if err != nil {
		return f, err
	}
	for _, obj := range objects {
		f.Objects = append(f.Objects, shown(obj))
	}
	if f.Ledger, err = r.entries(ctx, "order_id = ?", maxEntries, o.ID); err != nil {
		return f, err
	}
	if f.Events, err = r.eventsWhere(ctx, "e.id IN ("+eventsOfOrder+")", 100, o.ID, o.ID); err != nil {
		return f, err
	}
	for _, e := range f.Events {
		if e.State.Open() || e.State == models.EventReview || e.State == models.EventFailed {
			f.Waiting = append(f.Waiting, e)
		}
	}
	if f.Exceptions, err = r.exceptionsOf(ctx, o.ID); err != nil {
		return f, err
	}
	if f.Holds, err = r.HoldsReaching(ctx, o.ID, o.ShopID, o.Connections()); err != nil {
		return f, err
	}
	if f.Paused, err = r.holdsOver(ctx, o); err != nil {
		return f, err
	}
	if f.Actions, err = r.ActionsOf(ctx, o.ID); err != nil {
		return f, err
	}
	f.Asked, err = r.requestsWhere(ctx, "q.state = 'proposed' AND q.order_id IN ("+orderAndShells+") ORDER BY q.id DESC", o.ID, o.ID)
	return f, err
}

// healths is filled with since when events wait; the states of the platforms are the
// book's to add.
func (r reads) healths(ctx context.Context, waits string) (map[int64]models.Health, error) {
	var since map[int64]time.Time
	if err := json.Unmarshal([]byte(waits), &since); err != nil {
		return nil, fmt.Errorf("store: waiting events: %w", err)
	}
	out := map[int64]models.Health{}
	for id, t := range since {
		out[id] = models.Health{Waiting: t}
	}
	return out, nil
}

func (r reads) entries(ctx context.Context, cond string, limit int, args ...any) ([]models.Entry, error) {
	var rows []struct {
		ID             int64
		OrderID        int64
		Axis           models.Axis
		FromState      models.State
		ToState        models.State
		Currency       string
		TotalBefore    int64
		PaidBefore     int64
		RefundedBefore int64
		Total          int64
		Paid           int64
		Refunded       int64
		Cause          string
		Actor          string
		At             time.Time
	}
	err := r.rows(ctx, &rows, `
SELECT id, order_id, axis, from_state, to_state, currency, total_before, paid_before, refunded_before, total, paid, refunded, cause::text AS cause, actor, at
FROM ledger WHERE `+cond+` ORDER BY id DESC LIMIT ?`, append(args, limit)...)
	if err != nil {
		return nil, err
	}
	out := make([]models.Entry, len(rows))
	for i, x := range rows {
		out[i] = models.Entry{ID: x.ID, OrderID: x.OrderID, Axis: x.Axis, From: x.FromState, To: x.ToState, Actor: x.Actor, At: x.At.UTC(),
			Before: models.Amounts{Currency: x.Currency, Total: x.TotalBefore, Received: x.PaidBefore, Refunded: x.RefundedBefore},
			After:  models.Amounts{Currency: x.Currency, Total: x.Total, Received: x.Paid, Refunded: x.Refunded}}
		if err := json.Unmarshal([]byte(x.Cause), &out[i].Cause); err != nil {
			return nil, fmt.Errorf("store: cause of entry %d: %w", x.ID, err)
		}
	}
	return out, nil
}

func (r reads) exceptionsOf(ctx context.Context, order int64) ([]models.Exception, error) {
	return r.exceptionsWhere(ctx, "x.order_id = ? AND x.state = 'open' ORDER BY x.policy <> 'hold', x.id DESC", order)
}
