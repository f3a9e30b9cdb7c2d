package api

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"counterfoil/models"
	"counterfoil/web"
)

// shelf is a book of two shops: order 7 in shop 1 became part of nothing, 8 is an
// empty shell that became part of 7, 9 is only announced and belongs to shop 2.
type shelf struct {
	orders *models.OrderQuery
	events *models.EventQuery
	result string
	asked  *[]string
}

var moment = time.Date(2026, 11, 30, 14, 0, 0, 0, time.FixedZone("HKT", 8*3600))

func (shelf) file(id int64) (models.OrderFile, bool) {
	read := models.AxisRecord{Check: models.Verified, CheckedAt: moment, Connection: 1, Platform: models.Shopify}
	axes := map[models.Axis]models.AxisRecord{}
	for axis, state := range map[models.Axis]models.State{models.Payment: models.PaymentPaid, models.Refund: models.RefundPartial, models.Dispute: models.DisputeNone,
		models.Fulfillment: models.FulfillmentUnfulfilled, models.Cancellation: models.CancellationActive, models.Return: models.ReturnNone} {
		rec := read
		rec.State = state
		axes[axis] = rec
	}
	full := models.OrderFile{
		Order: models.Order{ID: 7, ShopID: 1, ConnectionID: 1, Platform: models.Shopify, Ref: "gid://shopify/Order/7", Number: "#1007", Placed: moment,
			Amounts: models.Amounts{Currency: "HKD", Total: 128000, Received: 128000, Refunded: 500}, Axes: axes, Store: true, Version: 4},
		Shop: "harbour", Connection: "harbour-shopify",
		Health: map[int64]models.Health{1: {State: models.APIUp, Settle: time.Minute, Review: time.Hour}},
		Objects: []models.Object{{ObjectView: models.ObjectView{Slug: "harbour-shopify", Ref: models.ObjectRef{Kind: "order", ID: "gid://shopify/Order/7"},
			Official: &models.Observation{Axes: map[models.Axis]models.Statement{models.Payment: {Word: "PARTIALLY_REFUNDED"}, models.Refund: {Word: "PARTIALLY_REFUNDED"}, models.Fulfillment: {Word: "UNFULFILLED"}}}}, Fetched: moment}},
		Ledger:     []models.Entry{{ID: 2, Axis: models.Payment, From: models.PaymentPending, To: models.PaymentPaid, At: moment, Actor: "console", Cause: models.Cause{Kind: models.CauseEvent, ID: "12"}}},
		Waiting:    []models.Event{{ID: 12}},
		Exceptions: []models.Exception{{ID: 1, State: "open"}, {ID: 2, State: "closed"}},
	}
	switch id {
	case 7:
		return full, true
	case 8:
		return models.OrderFile{Order: models.Order{ID: 8, ShopID: 1, MergedInto: 7}}, true
	case 9:
		return models.OrderFile{Order: models.Order{ID: 9, ShopID: 2, Announced: true, Ref: "r9"}, Shop: "peak", Connection: "peak-receipts"}, true
	}
	return models.OrderFile{}, false
}

func (s shelf) Orders(_ context.Context, q models.OrderQuery) (models.Page[models.OrderRow], error) {
	*s.orders = q
	f, _ := s.file(7)
	row := models.OrderRow{Order: f.Order, Shop: f.Shop, Connection: f.Connection, Events: 1, Exceptions: 1,
		Health: map[int64]models.Health{1: {State: models.APIDownState, Since: moment, Review: time.Hour}},
		Shown:  models.Shown{Check: models.Unverified, Doubt: models.APIDown, At: moment, Platform: models.Shopify}}
	return models.Page[models.OrderRow]{Items: []models.OrderRow{row}, Next: "7"}, nil
}

func (s shelf) OrderFile(_ context.Context, id int64) (models.OrderFile, error) {
	f, ok := s.file(id)
	if !ok {
		return f, models.Fail(models.NotFound, "error.order_unknown")
	}
	return f, nil
}

func (s shelf) Events(_ context.Context, q models.EventQuery) (models.Page[models.Event], error) {
	*s.events = q
	return models.Page[models.Event]{}, nil
}

func (shelf) EventFile(_ context.Context, id int64) (models.EventFile, error) {
	if id != 12 {
		return models.EventFile{}, models.Fail(models.NotFound, "error.event_unknown")
	}
	return models.EventFile{ShopID: 1, Event: models.Event{ID: 12, Connection: "harbour-shopify", Account: "a", EventID: "e", Topic: "orders/paid",
		Object: models.ObjectRef{Kind: "order", ID: "o"}, OrderID: 7, State: models.EventApplied, Deliveries: 2, Received: moment}}, nil
}

func (shelf) Connections(_ context.Context, shops []int64) ([]models.ConnectionFile, error) {
	var all []models.ConnectionFile
	for _, f := range []models.ConnectionFile{{ShopID: 1, Slug: "harbour-shopify", Platform: models.Shopify, Account: "a", Shop: "harbour", API: models.APIUp, APISince: moment, OpenExc: 3, OldestExc: moment},
		{ShopID: 2, Slug: "peak-receipts", Platform: models.ReceiptRoller, API: models.APINone}} {
		if len(shops) == 0 || slices.Contains(shops, f.ShopID) {
			all = append(all, f)
		}
	}
	return all, nil
}

func (s shelf) Order(_ context.Context, actor models.Actor, id int64) (string, error) {
	*s.asked = append(*s.asked, actor.ID()+" "+string(rune('0'+id)))
	return s.result, nil
}

func (s shelf) Ref(_ context.Context, actor models.Actor, slug, ref string) (string, int64, error) {
	if slug != "harbour-shopify" || !actor.Sees(1) {
		return "", 0, models.Fail(models.NotFound, "error.connection_unknown")
	}
	*s.asked = append(*s.asked, actor.ID()+" "+slug+" "+ref)
	if ref == "nothing" {
		return "unavailable", 0, nil
	}
	return s.result, 8, nil
}

// tokens: cf_all sees every shop, cf_one shop 1, cf_two shop 2.
type tokens struct{}

func (tokens) Session(context.Context, string) (models.Actor, error) {
	return models.Actor{}, models.Fail(models.Unauthenticated, "error.unauthenticated")
}

func (tokens) Token(_ context.Context, text string) (models.Actor, error) {
	a := models.Actor{TokenID: 3, Role: models.Service, Scopes: []models.Scope{models.ScopeRead, models.ScopeWrite}}
	switch text {
	case "cf_all":
	case "cf_one":
		a.Shops = []int64{1}
	case "cf_two":
		a.Shops = []int64{2}
	default:
		return models.Actor{}, models.Fail(models.Unauthenticated, "error.unauthenticated")
	}
	return a, nil
}

func serve(t testing.TB) (*web.Engine, shelf) {
	t.Helper()
	s := shelf{orders: &models.OrderQuery{}, events: &models.EventQuery{}, result: "moved", asked: &[]string{}}
	e, err := web.New(web.Options{Log: slog.New(slog.NewTextHandler(io.Discard, nil)), Now: func() time.Time { return moment }, People: tokens{}, Keys: [][]byte{make([]byte, 32)}})
	if err != nil {
		t.Fatal(err)
	}
	a := API{Book: s, Resync: s}
	e.API(http.MethodGet, "/api/v1/orders", models.OrdersRead, a.Orders)
	e.API(http.MethodGet, "/api/v1/orders/:id", models.OrdersRead, a.Order)
	e.API(http.MethodPost, "/api/v1/orders/:id/resync", models.OrdersResync, a.ResyncOrder)
	e.API(http.MethodGet, "/api/v1/events", models.EventsRead, a.Events)
	e.API(http.MethodGet, "/api/v1/events/:id", models.EventsRead, a.Event)
	e.API(http.MethodGet, "/api/v1/connections", models.ConnectionsRead, a.Connections)
	e.API(http.MethodPost, "/api/v1/connections/:slug/resync", models.OrdersResync, a.ResyncRef)
	return e, s
}

func ask(t testing.TB, e *web.Engine, token, method, path, body string) (int, map[string]any) {
	t.Helper()
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer "+token)
	w := httptest.NewRecorder()
	e.ServeHTTP(w, r)
	var got map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
		t.Fatalf("%s %s: %v in %s", method, path, err, w.Body)
	}
	return w.Code, got
}

func same(t testing.TB, got any, want string) {
	t.Helper()
	var w any
	if err := json.Unmarshal([]byte(want), &w); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, w) {
		b, _ := json.MarshalIndent(got, "", " ")
		t.Errorf("got %s\nwant %s", b, want)
	}
}

const axisJSON = `"verification": "verified", "reason": "", "verified_at": "2026-11-30T06:00:00Z", "platform": "shopify"}`

const orderSeven = `{"id": "7", "number": "#1007", "shop": "harbour", "connection": "harbour-shopify", "platform": "shopify",
	"platform_ref": "gid://shopify/Order/7", "placed_at": "2026-11-30T06:00:00Z", "currency": "HKD", "total": "1280.00", "paid": "1280.00", "refunded": "5.00",
	"payment": "paid", "refund": "partial", "dispute": "none", "fulfillment": "unfulfilled", "cancellation": "active", "return": "none",
	"verification": {"state": "verified", "reason": "", "verified_at": "2026-11-30T06:00:00Z"},
	"axes": {"payment": {"state": "paid", ` + axisJSON + `, "refund": {"state": "partial", ` + axisJSON + `, "dispute": {"state": "none", ` + axisJSON + `,
		"fulfillment": {"state": "unfulfilled", ` + axisJSON + `, "cancellation": {"state": "active", ` + axisJSON + `, "return": {"state": "none", ` + axisJSON + `},
	"announced": false, "test": false, "holds": [], "unresolved": {"events": 1, "exceptions": 1},
	"objects": [{"connection": "harbour-shopify", "kind": "order", "ref": "gid://shopify/Order/7", "fetched_at": "2026-11-30T06:00:00Z", "state": "PARTIALLY_REFUNDED UNFULFILLED"}],
	"ledger": [{"axis": "payment", "from": "pending", "to": "paid", "at": "2026-11-30T06:00:00Z", "cause": {"kind": "event", "id": "12"}, "actor": "console"}],
	"actions": [], "version": 4,
	"outcome": {"verdict": "bad", "lines": [
		{"about": "instruction", "stage": "order", "verdict": "bad", "found": "missing", "actions": [], "ledger": ["2"], "money": null, "explain": false, "explained": null},
		{"about": "message", "stage": "payment_received", "verdict": "bad", "found": "missing", "actions": [], "ledger": ["2"], "money": null, "explain": false, "explained": null},
		{"about": "money", "stage": "", "verdict": "unknown", "found": "no_money", "actions": [], "ledger": [], "money": null, "explain": false, "explained": null}]}}`

func TestOrder(t *testing.T) {
	t.Parallel()
	e, _ := serve(t)
	for _, path := range []string{"/api/v1/orders/7", "/api/v1/orders/8"} {
		code, got := ask(t, e, "cf_one", http.MethodGet, path, "")
		if code != 200 {
			t.Errorf("%s: %d", path, code)
		}
		same(t, got, orderSeven)
	}
}

func TestAnAnnouncedOrderHasNoStates(t *testing.T) {
	t.Parallel()
	e, _ := serve(t)
	_, got := ask(t, e, "cf_all", http.MethodGet, "/api/v1/orders/9", "")
	if got["payment"] != nil || got["return"] != nil || got["announced"] != true || got["placed_at"] != nil {
		t.Errorf("%v", got)
	}
	same(t, got["verification"], `{"state": "unverified", "reason": "reported_only", "verified_at": null}`)
	same(t, got["axes"], `{}`)
}

func TestOrders(t *testing.T) {
	t.Parallel()
	e, s := serve(t)
	code, got := ask(t, e, "cf_one", http.MethodGet, "/api/v1/orders?connection=c&ref=r&q=%EF%BC%831042&payment=paid&fulfillment=held&verification=unverified&unresolved=true&cursor=9&limit=200", "")
	want := models.OrderQuery{Shops: []int64{1}, Connection: "c", Ref: "r", Text: "＃1042", Verification: models.Unverified, Unresolved: true, Whole: true, Cursor: "9", Limit: 200,
		States: map[models.Axis]models.State{models.Payment: models.PaymentPaid, models.Fulfillment: models.FulfillmentHeld}}
	if code != 200 || !reflect.DeepEqual(*s.orders, want) {
		t.Errorf("%d asked for %+v, want %+v", code, *s.orders, want)
	}
	items, _ := got["items"].([]any)
	if len(items) != 1 || got["next"] != "7" {
		t.Fatalf("%v", got)
	}
	item, _ := items[0].(map[string]any)
	same(t, item["verification"], `{"state": "unverified", "reason": "api_down", "verified_at": "2026-11-30T06:00:00Z"}`)
	same(t, item["axes"].(map[string]any)["payment"], `{"state": "paid", "verification": "unverified", "reason": "api_down", "verified_at": "2026-11-30T06:00:00Z", "platform": "shopify"}`)
	same(t, []any{item["objects"], item["ledger"], item["holds"], item["actions"], item["unresolved"]}, `[[], [], [], [], {"events": 1, "exceptions": 1}]`)
	_, whole := ask(t, e, "cf_one", http.MethodGet, "/api/v1/orders/7", "")
	for key := range whole {
		if _, ok := item[key]; !ok {
			t.Errorf("a row has no %s", key)
		}
	}
	if _, got := ask(t, e, "cf_all", http.MethodGet, "/api/v1/orders", ""); got["next"] != "7" || s.orders.Limit != 50 || s.orders.Shops != nil {
		t.Errorf("without filters: %+v", *s.orders)
	}
}

func TestBadValuesAreNamed(t *testing.T) {
	t.Parallel()
	e, _ := serve(t)
	for query, field := range map[string]string{
		"orders?payment=payed":                             "payment",
		"orders?fulfillment=paid":                          "fulfillment",
		"orders?refund=review&payment=review&dispute=full": "dispute",
		"orders?verification=sure":                         "verification",
		"orders?unresolved=perhaps":                        "unresolved",
		"orders?limit=0":                                   "limit",
		"orders?limit=201":                                 "limit",
		"orders?limit=ten":                                 "limit",
		"orders?q=%00":                                     "q",
		"orders?ref=%ff":                                   "ref",
		"orders?q=" + strings.Repeat("x", maxText+1):       "q",
		"events?state=lost":                                "state",
		"events?order=x":                                   "order",
		"events?order=-1":                                  "order",
		"events?limit=1000":                                "limit",
		"events?event_id=%00":                              "event_id",
		"orders?ref=%zz":                                   "query",
		"orders?ref=a;b":                                   "query",
		"orders?cursor=5%zz&limit=2":                       "query",
		"events?order=1;2":                                 "query",
		"orders?payment=paid&payment=pending":              "payment",
	} {
		code, got := ask(t, e, "cf_all", http.MethodGet, "/api/v1/"+query, "")
		failure, _ := got["error"].(map[string]any)
		fields, _ := failure["fields"].(map[string]any)
		if code != 422 || failure["code"] != "invalid" || len(fields) != 1 || fields[field] == nil {
			t.Errorf("%.60s: %d %v", query, code, got)
		}
	}
}

func TestEventsAndConnections(t *testing.T) {
	t.Parallel()
	e, s := serve(t)
	code, got := ask(t, e, "cf_all", http.MethodGet, "/api/v1/events?connection=c&event_id=e&state=review&order=7&limit=1", "")
	if want := (models.EventQuery{Connection: "c", EventID: "e", Exact: true, State: models.EventReview, Order: 7, Limit: 1}); code != 200 || !reflect.DeepEqual(*s.events, want) {
		t.Errorf("%d asked for %+v", code, *s.events)
	}
	same(t, got, `{"items": [], "next": ""}`)
	_, got = ask(t, e, "cf_one", http.MethodGet, "/api/v1/events/12", "")
	same(t, got, `{"id": "12", "connection": "harbour-shopify", "account": "a", "event_id": "e", "topic": "orders/paid", "object_ref": "o", "order_id": "7",
		"state": "applied", "deliveries": 2, "received_at": "2026-11-30T06:00:00Z", "occurred_at": null, "error": ""}`)
	_, got = ask(t, e, "cf_one", http.MethodGet, "/api/v1/connections", "")
	same(t, got, `{"items": [{"slug": "harbour-shopify", "platform": "shopify", "account": "a", "shop": "harbour",
		"api": {"state": "up", "since": "2026-11-30T06:00:00Z", "last_error": ""}, "last_sweep_at": null, "checkpoint": "", "open_exceptions": 3, "oldest_open_at": "2026-11-30T06:00:00Z"}], "next": ""}`)
}

func TestResync(t *testing.T) {
	t.Parallel()
	e, s := serve(t)
	post := func(token, path, body string) (int, map[string]any) {
		return ask(t, e, token, http.MethodPost, "/api/v1/"+path, body)
	}
	code, got := post("cf_one", "orders/8/resync", "")
	if code != 200 || got["result"] != "moved" {
		t.Errorf("%d %v", code, got)
	}
	same(t, got["order"], orderSeven)
	code, got = post("cf_one", "connections/harbour-shopify/resync", `{"ref": "#1007"}`)
	if code != 200 || got["result"] != "moved" {
		t.Errorf("%d %v", code, got)
	}
	same(t, got["order"], orderSeven)
	_, got = post("cf_all", "connections/harbour-shopify/resync", `{"ref": "nothing"}`)
	same(t, got, `{"result": "unavailable", "order": null}`)
	if want := []string{"token:3 7", "token:3 harbour-shopify #1007", "token:3 harbour-shopify nothing"}; !slices.Equal(*s.asked, want) {
		t.Errorf("asked %q, want %q", *s.asked, want)
	}
	for body, field := range map[string]string{"": "ref", "{}": "ref", `{"ref": ""}`: "ref", `{"ref": "\u0000"}`: "ref", `{"ref": 7}`: "body", "ref=7": "body"} {
		code, got := post("cf_one", "connections/harbour-shopify/resync", body)
		failure, _ := got["error"].(map[string]any)
		if fields, _ := failure["fields"].(map[string]any); code != 422 || fields[field] == nil {
			t.Errorf("%q: %d %v", body, code, got)
		}
	}
}

func TestWhatATokenMayNotSeeIsNotFound(t *testing.T) {
	t.Parallel()
	e, s := serve(t)
	for _, tt := range []struct{ token, method, path string }{
		{"cf_two", http.MethodGet, "orders/7"},
		{"cf_two", http.MethodGet, "orders/8"},
		{"cf_one", http.MethodGet, "orders/9"},
		{"cf_two", http.MethodPost, "orders/7/resync"},
		{"cf_two", http.MethodGet, "events/12"},
		{"cf_two", http.MethodPost, "connections/harbour-shopify/resync"},
		{"cf_all", http.MethodPost, "connections/%00/resync"},
		{"cf_all", http.MethodGet, "orders/100"},
		{"cf_all", http.MethodGet, "orders/0"},
		{"cf_all", http.MethodGet, "orders/-7"},
		{"cf_all", http.MethodGet, "orders/7x"},
		{"cf_all", http.MethodGet, "orders/99999999999999999999"},
		{"cf_all", http.MethodGet, "events/100"},
	} {
		code, got := ask(t, e, tt.token, tt.method, "/api/v1/"+tt.path, `{"ref": "x"}`)
		if failure, _ := got["error"].(map[string]any); code != 404 || failure["code"] != "not_found" {
			t.Errorf("%s %s: %d %v", tt.method, tt.path, code, got)
		}
	}
	if len(*s.asked) != 0 {
		t.Errorf("asked %q", *s.asked)
	}
}
