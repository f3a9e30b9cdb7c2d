package api

import (
	"context"
	"net/http"
	"reflect"
	"testing"
	"time"

	"counterfoil/models"
	"counterfoil/models/casework"
)

// A gatekeeper notes what it is asked for.
type gatekeeper struct {
	pauses   []casework.Pause
	released []int64
	failed   error
}

func (g *gatekeeper) Hold(_ context.Context, _ models.Actor, p casework.Pause) (casework.Held, error) {
	g.pauses = append(g.pauses, p)
	return casework.Held{ID: 1, Sending: []models.Action{{ID: 31, Kind: models.FulfillmentInstruction, Stage: "order"}}, Manual: []models.Action{{ID: 32, Kind: models.StockDeduction, Stage: "order"}}}, g.failed
}

func (g *gatekeeper) Release(_ context.Context, _ models.Actor, scope models.HoldScope, id int64) error {
	if scope == models.HoldOrder {
		g.released = append(g.released, id)
	}
	return g.failed
}

func TestHoldAndRelease(t *testing.T) {
	t.Parallel()
	e, s := serve(t)
	g := &gatekeeper{}
	a := API{Book: s, Resync: s, Holds: g}
	e.API(http.MethodPost, "/api/v1/orders/:id/hold", models.OrdersRead, a.HoldOrder)
	e.API(http.MethodPost, "/api/v1/orders/:id/release", models.OrdersRead, a.ReleaseOrder)
	post := func(path, body string) (int, map[string]any) {
		return ask(t, e, "cf_one", http.MethodPost, "/api/v1/orders/"+path, body)
	}
	code, got := post("8/hold", `{"reason": "two refunds", "until": "2026-12-01T02:00:00+08:00"}`)
	if code != 200 {
		t.Fatalf("%d %v", code, got)
	}
	same(t, got["sending"], `[{"id": "31", "kind": "fulfillment_instruction", "stage": "order"}]`)
	same(t, got["manual"], `[{"id": "32", "kind": "stock_deduction", "stage": "order"}]`)
	delete(got, "sending")
	delete(got, "manual")
	same(t, got, orderSeven)
	if code, got = post("8/release", ""); code != 200 {
		t.Fatalf("%d %v", code, got)
	}
	same(t, got, orderSeven)
	for _, body := range []string{"", `{}`, `{"reason": "x", "until": null}`, `{"reason": "x", "until": "", "resumes": true}`} {
		if code, got := post("7/hold", body); code != 200 {
			t.Errorf("%s: %d %v", body, code, got) // what is missing is the service's to say
		}
	}
	until := time.Date(2026, 11, 30, 18, 0, 0, 0, time.UTC)
	if first := g.pauses[0]; first.Subject != 7 || first.Scope != models.HoldOrder || first.Reason != "two refunds" || !first.Until.Equal(until) || first.Resumes {
		t.Errorf("asked for %+v", first)
	}
	if last := g.pauses[4]; !last.Until.IsZero() || !last.Resumes {
		t.Errorf("asked for %+v", last)
	}
	if !reflect.DeepEqual(g.released, []int64{7}) {
		t.Errorf("released %v", g.released)
	}
	for body, field := range map[string]string{`{"reason": 7}`: "body", `{"until": 7}`: "body", `{"until": "tomorrow"}`: "until", `{"until": "2026-12-01"}`: "until"} {
		code, got := post("7/hold", body)
		failure, _ := got["error"].(map[string]any)
		if fields, _ := failure["fields"].(map[string]any); code != 422 || fields[field] == nil {
			t.Errorf("%s: %d %v", body, code, got)
		}
	}
	if len(g.pauses) != 5 {
		t.Errorf("asked %d times", len(g.pauses))
	}
	for _, id := range []string{"9", "100", "x"} {
		for _, do := range []string{"hold", "release"} {
			if code, got := post(id+"/"+do, `{"reason": "x"}`); code != 404 {
				t.Errorf("%s of order %s: %d %v", do, id, code, got)
			}
		}
	}
	g.failed = models.Fail(models.Conflict, "error.held_by", "Wing", until)
	code, got = post("7/hold", `{"reason": "x"}`)
	same(t, got, `{"error": {"code": "conflict", "message": "It is paused already, by Wing since 30 Nov 2026, 18:00.", "fields": {}}}`)
	if code != 409 {
		t.Errorf("%d", code)
	}
}

func TestHoldsOfAnOrder(t *testing.T) {
	t.Parallel()
	holds := []models.Hold{{Scope: models.HoldOrder, Reason: "two refunds", By: "staff:7", ByName: "Wing", Since: moment, Until: moment.Add(time.Hour)},
		{Scope: models.HoldShop, Reason: "flood", By: "staff:8", Since: moment}}
	f, _ := shelf{}.file(7)
	f.Holds = holds
	want := []hold{{models.HoldOrder, "two refunds", "Wing", moment.UTC(), instant(moment.Add(time.Hour))}, {models.HoldShop, "flood", "staff:8", moment.UTC(), nil}}
	if got := fileJSON(f, moment).Holds; !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
	if got := rowJSON(models.OrderRow{Order: f.Order, Holds: holds}, moment).Holds; !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
}
