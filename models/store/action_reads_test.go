package store_test

import (
	"strconv"
	"testing"

	"counterfoil/models"
)

func TestTheListOfActionsIsPagedAndCounted(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	order := b.order("o-1")
	b.must(`INSERT INTO actions (order_id, shop_id, kind, stage, state, official, planned_at)
SELECT o.id, o.shop_id, 'invoice', s || ':' || n, s, true, now() FROM orders o, unnest(ARRAY['manual', 'failed', 'waiting', 'done', 'watched']) s, generate_series(1, 7) n`,
		`UPDATE actions SET person = true WHERE stage = 'waiting:3'`, `UPDATE actions SET why = 'not_refunded_partly' WHERE stage = 'waiting:4'`,
		`UPDATE actions SET person = true, released_at = now(), why = 'verified' WHERE stage = 'waiting:5'`)
	q := models.ActionListQuery{Shops: []int64{b.shop}, Tab: models.TabNeeds, Limit: 5}
	seen, last, pages := map[int64]bool{}, int64(1<<62), 0
	for {
		page, err := b.ActionList(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		pages++
		for _, a := range page.Items {
			if a.ID >= last || seen[a.ID] || a.State == models.ActionWaiting && !a.ForPerson() || a.ShopName == "" || a.Currency == "" {
				t.Errorf("%d after %d: %+v", a.ID, last, a)
			}
			seen[a.ID], last = true, a.ID
		}
		if q.Cursor = page.Next; q.Cursor == "" {
			break
		}
	}
	if len(seen) != 16 || pages != 4 {
		t.Errorf("%d actions on %d pages", len(seen), pages)
	}
	counts, err := b.ActionCounts(t.Context(), q, 7)
	if err != nil || counts[models.TabNeeds] != (models.ActionCount{N: 7, More: true}) || counts[models.TabWaiting] != (models.ActionCount{N: 7}) || counts[models.TabMoving] != (models.ActionCount{}) {
		t.Errorf("%+v %v", counts, err)
	}
	if other, err := b.ActionList(t.Context(), models.ActionListQuery{Shops: []int64{b.shop + 1}, Tab: models.TabAll}); err != nil || len(other.Items) != 0 {
		t.Errorf("another shop's: %+v %v", other.Items, err)
	}
	if _, err := b.ActionList(t.Context(), models.ActionListQuery{Cursor: "x"}); models.CodeOf(err) != models.Invalid {
		t.Errorf("a cursor that is none: %v", err)
	}
	watched, err := b.WatchedKinds(t.Context(), models.ActionListQuery{})
	if err != nil || len(watched[models.Invoice]) != 1 || len(watched) != 1 {
		t.Errorf("watched: %v %v", watched, err)
	}
	b.destination(models.Invoice, models.ByHand)
	if watched, err = b.WatchedKinds(t.Context(), models.ActionListQuery{}); err != nil || len(watched) != 0 {
		t.Errorf("watched: %v %v", watched, err)
	}
	if list, err := b.ActionList(t.Context(), models.ActionListQuery{Order: order, Tab: models.TabAll, Kind: models.Invoice, State: ""}); err != nil || len(list.Items) != 35 {
		t.Errorf("%d of the order: %v", len(list.Items), err)
	}
}

func TestWhatIsAskedForFollowsTheListsFilters(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.destination(models.FulfillmentInstruction, models.ByHTTP)
	order, other := b.order("o-1"), b.order("o-2")
	for _, o := range []int64{order, other} {
		a, err := b.Action(t.Context(), b.plan(o, instruction)[0])
		if err != nil {
			t.Fatal(err)
		}
		b.ask(a, 1)
	}
	list := func(q models.ActionListQuery, limit int) ([]models.Request, bool) {
		t.Helper()
		found, more, err := b.AskedFor(t.Context(), q, limit)
		if err != nil {
			t.Fatal(err)
		}
		return found, more
	}
	for name, c := range map[string]struct {
		query models.ActionListQuery
		want  int
	}{
		"nothing":         {models.ActionListQuery{}, 2},
		"the tab":         {models.ActionListQuery{Tab: models.TabDone, State: models.ActionDone}, 2},
		"the shop":        {models.ActionListQuery{Shop: "hk"}, 2},
		"another shop":    {models.ActionListQuery{Shop: "tw"}, 0},
		"hidden shops":    {models.ActionListQuery{Shops: []int64{b.shop + 1}}, 0},
		"the kind":        {models.ActionListQuery{Kind: models.FulfillmentInstruction}, 2},
		"another kind":    {models.ActionListQuery{Kind: models.Invoice}, 0},
		"an order":        {models.ActionListQuery{Order: other}, 1},
		"an order and so": {models.ActionListQuery{Order: other, Kind: models.Invoice}, 0},
	} {
		if got, _ := list(c.query, 20); len(got) != c.want {
			t.Errorf("filtered by %s: %d requests, want %d", name, len(got), c.want)
		}
	}
	if got, more := list(models.ActionListQuery{}, 1); len(got) != 1 || !more || got[0].OrderID != other {
		t.Errorf("the newest of two: %+v, more %t", got, more)
	}
	file, err := b.OrderFile(t.Context(), order)
	if err != nil || len(file.Asked) != 1 || file.Asked[0].OrderID != order {
		t.Errorf("of the order: %+v %v", file.Asked, err)
	}
	b.must(`UPDATE requests SET state = 'withdrawn' WHERE order_id = ` + strconv.FormatInt(order, 10))
	if file, err = b.OrderFile(t.Context(), order); err != nil || len(file.Asked) != 0 {
		t.Errorf("withdrawn: %+v %v", file.Asked, err)
	}
}

func TestTheFileOfAnAction(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	order := b.order("o-1")
	b.destination(models.CustomerMessage, models.ByHTTP)
	first := b.plan(order, models.Plan{Kind: models.CustomerMessage, Stage: "payment_received"})[0]
	id := strconv.FormatInt(first, 10)
	b.must(`INSERT INTO actions (order_id, shop_id, kind, stage, state, official, planned_at, repeats_id, instead_id, pieces)
SELECT order_id, shop_id, kind, 'again:1', 'planned', true, now(), id, id, 3 FROM actions WHERE id = ` + id)
	f, err := b.ActionFile(t.Context(), first)
	if err != nil || f.PlannedBy == nil || f.PlannedBy.ID != f.Entry || f.Destination.Mode != models.ByHTTP || len(f.RepeatedBy) != 1 || f.RepeatOf != nil || f.WithdrawnBy != nil {
		t.Fatalf("%+v %v", f, err)
	}
	again, err := b.ActionFile(t.Context(), f.RepeatedBy[0].ID)
	if err != nil || again.InsteadBy == nil || again.InsteadBy.ID != first || again.RepeatOf == nil || again.RepeatOf.ID != again.Repeats || again.Pieces != 3 || again.PlannedBy != nil {
		t.Errorf("%+v %v", again, err)
	}
	if _, err := b.ActionFile(t.Context(), 999); models.CodeOf(err) != models.NotFound {
		t.Errorf("one that isn't there: %v", err)
	}
}
