package app

import (
	"context"
	"net/http"
	"strconv"
	"testing"
	"time"

	"counterfoil/models"
	"counterfoil/models/actions"
	"counterfoil/models/casework"
	"counterfoil/models/platform/sandbox"
	"counterfoil/models/staff"
)

// What stands on a list of work is taken off it by a pause, comes back when shipping is
// resumed, and can be ticked off in between by whoever had done it already.
func TestAPauseTakesWorkOffTheList(t *testing.T) {
	t.Parallel()
	r := start(t).withShopify(nil)
	r.destination(actions.Setup{Shop: "hk", Kind: models.FulfillmentInstruction, Mode: models.ByHand})
	wing := r.as("Wing", models.Support)
	var orders []string
	for range 2 {
		id := r.placed(sandbox.ShopifyOrder{})
		r.postAll("hk", must(r.shop.Pay(id))...)
		o, _ := r.order(gid(id))
		orders = append(orders, o.ID)
	}
	instruction := func(i int) seenAction {
		var list struct{ Items []seenAction }
		r.call(http.MethodGet, "/api/v1/actions?kind=fulfillment_instruction&order="+orders[i], &list)
		if len(list.Items) != 1 {
			return seenAction{}
		}
		return list.Items[0]
	}
	is := func(i int, state, why string) {
		t.Helper()
		r.wait("the instruction is "+state+" "+why, func() bool {
			a := instruction(i)
			return a.State == state && a.Why == why
		})
	}
	is(0, "manual", "")
	is(1, "manual", "")

	var held struct {
		Sending, Manual []struct{ ID, Kind, Stage string }
	}
	if code := wing.callWith(http.MethodPost, "/api/v1/orders/"+orders[0]+"/hold", `{"reason": "two refunds"}`, &held); code != http.StatusOK {
		t.Fatalf("held: %d", code)
	}
	if len(held.Sending) != 0 || len(held.Manual) != 1 || held.Manual[0].ID != instruction(0).ID || held.Manual[0].Kind != "fulfillment_instruction" || held.Manual[0].Stage != "order" {
		t.Errorf("the answer names %+v", held)
	}
	if a := instruction(0); a.State != "waiting" || a.Why != "no_hold" {
		t.Errorf("a paused order's instruction is %s %s", a.State, a.Why)
	}
	is(1, "manual", "") // another order's stays

	// It doesn't come back by itself, however often it looks.
	r.exec(`UPDATE actions SET due_at = now() WHERE state = 'waiting'`)
	r.wait("the instruction has looked", func() bool {
		var n int
		r.scan(&n, `SELECT count(*) FROM actions WHERE state = 'waiting' AND due_at <= now()`)
		return n == 0
	})
	is(0, "waiting", "no_hold")
	if code := wing.callWith(http.MethodPost, "/api/v1/orders/"+orders[0]+"/release", "", nil); code != http.StatusOK {
		t.Fatalf("released: %d", code)
	}
	is(0, "manual", "")

	// A pause of the whole shop, and somebody who was faster.
	var shop int64
	r.scan(&shop, `SELECT id FROM shops WHERE slug = 'hk'`)
	boss := models.Actor{StaffID: 1, Name: "Ng", Role: models.Manager}
	all, err := r.app.holds.Hold(context.Background(), boss, casework.Pause{Scope: models.HoldShop, Subject: shop, Reason: "stock"})
	if err != nil || len(all.Manual) != 2 || len(all.Sending) != 0 {
		t.Fatalf("%+v %v", all, err)
	}
	receipt := "/api/v1/actions/" + instruction(1).ID + "/receipt"
	warehouse := r.holding(staff.NewToken{Name: "warehouse", Role: models.Service, Scopes: []models.Scope{models.ScopeReceipt}})
	for body, want := range map[string]int{`{}`: http.StatusUnprocessableEntity, `{"outcome": "failed"}`: http.StatusConflict} {
		if code := warehouse.callWith(http.MethodPost, receipt, body, nil); code != want {
			t.Errorf("%s: %d", body, code)
		}
	}
	if code := warehouse.callWith(http.MethodPost, receipt, `{"receipt": "SF-1"}`, nil); code != http.StatusOK {
		t.Fatalf("ticked off: %d", code)
	}
	is(1, "done", "")
	if err := r.app.holds.Release(context.Background(), boss, models.HoldShop, shop); err != nil {
		t.Fatal(err)
	}
	is(0, "manual", "")
	is(1, "done", "")
}

// What never was on a list can't be ticked off while it waits.
func TestWhatWasNeverListedCannotBeTickedOff(t *testing.T) {
	t.Parallel()
	r := start(t).withShopify(nil)
	r.destination(actions.Setup{Shop: "hk", Kind: models.FulfillmentInstruction, Mode: models.ByHand})
	id := r.placed(sandbox.ShopifyOrder{})
	o, _ := r.order(gid(id))
	order, _ := strconv.ParseInt(o.ID, 10, 64)
	if _, err := r.app.holds.Hold(context.Background(), models.Actor{StaffID: 1, Name: "Ng", Role: models.Manager},
		casework.Pause{Scope: models.HoldOrder, Subject: order, Reason: "stock", Until: time.Now().Add(time.Hour)}); err != nil {
		t.Fatal(err)
	}
	r.postAll("hk", must(r.shop.Pay(id))...)
	a := r.becomes(models.ActionWaiting, "no_hold")
	warehouse := r.holding(staff.NewToken{Name: "warehouse", Role: models.Service, Scopes: []models.Scope{models.ScopeReceipt}})
	if code := warehouse.callWith(http.MethodPost, "/api/v1/actions/"+a.ID+"/receipt", `{"receipt": "SF-1"}`, nil); code != http.StatusConflict {
		t.Errorf("ticked off: %d", code)
	}
}
