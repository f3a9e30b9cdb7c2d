package store

import (
	"context"
	"strconv"
	"strings"

	"counterfoil/models"
)

// A stretch is the actions of one state that a tab shows.
type stretch struct {
	state models.ActionState
	also  string
}

// forPerson is models.Action.ForPerson, for an action that waits.
const forPerson = `(a.why IN ('no_exception', 'not_refunded_partly', 'released', 'not_expired') OR a.person AND a.released_at IS NULL)`

var tabs = map[models.ActionTab][]stretch{
	models.TabNeeds:     {{models.ActionManual, ""}, {models.ActionFailed, ""}, {models.ActionUnclear, ""}, {models.ActionWaiting, forPerson}},
	models.TabWaiting:   {{models.ActionWaiting, ""}},
	models.TabMoving:    {{models.ActionPlanned, ""}, {models.ActionSending, ""}},
	models.TabWatched:   {{models.ActionWatched, ""}},
	models.TabDone:      {{models.ActionDone, ""}},
	models.TabWithdrawn: {{models.ActionWithdrawn, ""}},
	models.TabNotNeeded: {{models.ActionNotNeeded, ""}},
}

// stretches are what a query asks for; none: every action.
func stretches(q models.ActionListQuery) []stretch {
	if q.State != "" {
		return []stretch{{q.State, ""}}
	}
	return tabs[q.Tab]
}

// listed selects the ids of at most limit actions, newest first. Each state comes from
// actions_state or actions_shop_state by itself, so that a rare one isn't searched for
// among all others.
func listed(q models.ActionListQuery, before int64, limit int) (string, []any) {
	var parts []string
	var args []any
	branch := func(state, also string) {
		w := &where{}
		if state != "" {
			w.and("a.state = ?", state)
		}
		if also != "" {
			w.and(also)
		}
		if before > 0 {
			w.and("a.id < ?", before)
		}
		if len(q.Shops) > 0 {
			w.and("a.shop_id = ANY (?::bigint[])", idList(q.Shops))
		}
		if q.Shop != "" {
			w.and("a.shop_id = (SELECT id FROM shops WHERE slug = ?)", q.Shop)
		}
		if q.Kind != "" {
			w.and("a.kind = ?", q.Kind)
		}
		if q.Order != 0 {
			w.and("a.order_id = COALESCE((SELECT merged_into FROM orders WHERE id = ?), ?)", q.Order, q.Order)
		}
		parts = append(parts, "(SELECT a.id FROM actions a WHERE "+w.String()+" ORDER BY a.id DESC LIMIT ?)")
		args = append(append(args, w.args...), limit)
	}
	for _, s := range stretches(q) {
		branch(string(s.state), s.also)
	}
	if len(parts) == 0 {
		branch("", "")
	}
	return "SELECT x.id FROM (" + strings.Join(parts, "\nUNION ALL ") + ") x ORDER BY x.id DESC LIMIT ?", append(args, limit)
}

// ActionList lists actions as their page shows them, newest first.
func (r reads) ActionList(ctx context.Context, q models.ActionListQuery) (models.Page[models.ActionRow], error) {
	var page models.Page[models.ActionRow]
	before, err := cursorID(q.Cursor)
	if err != nil {
		return page, err
	}
	limit := pageSize(q.Limit)
	ids, args := listed(q, before, limit+1)
	items, err := r.actionRows(ctx, "a.id IN ("+ids+") ORDER BY a.id DESC", args...)
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

func (r reads) actionRows(ctx context.Context, cond string, args ...any) ([]models.ActionRow, error) {
	var rows []struct {
		Row      actionRow `gorm:"embedded"`
		ShopName string
		Currency string
	}
	if err := r.rows(ctx, &rows, strings.Replace(actionColumns, "SELECT a.id", "SELECT s.name AS shop_name, o.currency, a.id", 1)+" WHERE "+cond, args...); err != nil {
		return nil, err
	}
	out := make([]models.ActionRow, len(rows))
	for i, row := range rows {
		out[i] = models.ActionRow{Action: row.Row.action(), ShopName: row.ShopName, Currency: row.Currency}
	}
	return out, nil
}

// ActionCounts counts what each tab has under the other filters of a query, up to a cap.
func (r reads) ActionCounts(ctx context.Context, q models.ActionListQuery, limit int) (map[models.ActionTab]models.ActionCount, error) {
	var parts []string
	var args []any
	for _, tab := range models.ActionTabs {
		if tab == models.TabAll {
			continue
		}
		q.State, q.Tab = "", tab
		ids, more := listed(q, 0, limit+1)
		parts = append(parts, "SELECT ? AS tab, (SELECT count(*) FROM ("+ids+") n) AS n")
		args = append(append(args, string(tab)), more...)
	}
	var rows []struct {
		Tab models.ActionTab
		N   int
	}
	if err := r.rows(ctx, &rows, strings.Join(parts, "\nUNION ALL "), args...); err != nil {
		return nil, err
	}
	out := map[models.ActionTab]models.ActionCount{}
	for _, row := range rows {
		out[row.Tab] = models.ActionCount{N: min(row.N, limit), More: row.N > limit}
	}
	return out, nil
}

// AskedFor lists the newest open requests about what a list of actions shows, by its
// filters but without its tab, and tells whether there are more.
func (r reads) AskedFor(ctx context.Context, q models.ActionListQuery, limit int) ([]models.Request, bool, error) {
	w := &where{}
	w.and("q.state = ?", models.RequestProposed)
	if len(q.Shops) > 0 {
		w.and("q.shop_id = ANY (?::bigint[])", idList(q.Shops))
	}
	if q.Shop != "" {
		w.and("s.slug = ?", q.Shop)
	}
	if q.Kind != "" {
		w.and("q.action_kind = ?", q.Kind)
	}
	if q.Order != 0 {
		const id = `COALESCE((SELECT merged_into FROM orders WHERE id = ?), ?)`
		w.and("q.order_id IN (SELECT "+id+" UNION ALL SELECT id FROM orders WHERE merged_into = "+id+")", q.Order, q.Order, q.Order, q.Order)
	}
	items, err := r.requestsWhere(ctx, w.String()+" ORDER BY q.id DESC LIMIT ?", append(w.args, limit+1)...)
	if len(items) > limit {
		return items[:limit], true, err
	}
	return items, false, err
}

// watchedLook is how many of the newest watched actions say which kinds are watched.
const watchedLook = 200

// WatchedKinds lists the kinds that have been planned lately in shops (none: all) where
// they go nowhere, each with the slugs of those shops.
func (r reads) WatchedKinds(ctx context.Context, q models.ActionListQuery) (map[models.ActionKind][]string, error) {
	q.State, q.Tab, q.Order = models.ActionWatched, "", 0
	ids, args := listed(q, 0, watchedLook)
	var rows []struct {
		Kind models.ActionKind
		Slug string
	}
	err := r.rows(ctx, &rows, `
SELECT DISTINCT a.kind, s.slug FROM actions a JOIN shops s ON s.id = a.shop_id
WHERE a.id IN (`+ids+`) AND NOT EXISTS (SELECT 1 FROM destinations d WHERE d.shop_id = a.shop_id AND d.kind = a.kind AND d.mode <> 'watch')
ORDER BY s.slug`, args...)
	out := map[models.ActionKind][]string{}
	for _, row := range rows {
		out[row.Kind] = append(out[row.Kind], row.Slug)
	}
	return out, err
}

// ActionFile reads an action with everything its page shows beside its order.
func (r reads) ActionFile(ctx context.Context, id int64) (models.ActionFile, error) {
	var f models.ActionFile
	found, err := r.actionRows(ctx, "a.id = ?", id)
	if err != nil {
		return f, err
	}
	if len(found) == 0 {
		return f, models.Fail(models.NotFound, "error.action_unknown")
	}
	f.ActionRow = found[0]
	var more struct {
		URL        string `gorm:"column:url"`
		Idempotent bool
	}
	if err := r.one(ctx, "error.action_unknown", &more, `
SELECT url, idempotent FROM actions WHERE id = ?`, id); err != nil {
		return f, err
	}
	f.URL, f.Idempotent = more.URL, more.Idempotent
	d, err := r.Destination(ctx, f.ShopID, f.Kind)
	if err != nil {
		return f, err
	}
	f.Destination = d.Destination
	entries, err := r.entries(ctx, "id = ANY (?::bigint[])", 2, idList([]int64{f.Entry, f.Withdrew}))
	if err != nil {
		return f, err
	}
	for i, e := range entries {
		if e.ID == f.Entry {
			f.PlannedBy = &entries[i]
		}
		if e.ID == f.Withdrew {
			f.WithdrawnBy = &entries[i]
		}
	}
	return f, r.relatives(ctx, &f)
}

// relatives adds the actions that an action stands for, or that stand for it.
func (r reads) relatives(ctx context.Context, f *models.ActionFile) error {
	others, err := r.actionsWhere(ctx, "a.id = ANY (?::bigint[]) OR a.order_id = ? AND a.repeats_id = ? ORDER BY a.id",
		idList([]int64{f.Instead, f.Repeats}), f.OrderID, f.ID)
	for i, a := range others {
		if a.ID == f.Instead {
			f.InsteadBy = &others[i]
		}
		if a.ID == f.Repeats {
			f.RepeatOf = &others[i]
		}
		if a.ID != f.Instead && a.ID != f.Repeats {
			f.RepeatedBy = append(f.RepeatedBy, a)
		}
	}
	return err
}
