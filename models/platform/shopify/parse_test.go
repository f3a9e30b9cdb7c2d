package shopify

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"counterfoil/models"
	"counterfoil/models/platform"
	"counterfoil/models/platform/sandbox"
)

var update = flag.Bool("update", false, "write golden files")

func TestWordsGolden(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	for _, w := range Words() {
		word := w.Word
		if word == "" {
			word = "null"
		}
		if !w.Axis.Has(w.State) {
			t.Errorf("%s has no state %s", w.Axis, w.State)
		}
		fmt.Fprintf(&b, "%s\t%s\t%s\t%s\t%s\n", w.Field, word, w.Axis, w.State, w.Note)
	}
	const file = "testdata/words.golden"
	if *update {
		if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if b.String() != string(want) {
		t.Errorf("the table differs from %s; run with -update and look at the change", file)
	}
}

func deaf(t testing.TB, secrets ...string) *Adapter {
	t.Helper()
	a, err := New(platform.Config{Account: account, Webhook: secrets})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestVerify(t *testing.T) {
	t.Parallel()
	shop := sandbox.NewShopify(sandbox.ShopifyConfig{Account: account, Secret: "new"})
	n := shop.Notify("orders/updated", []byte(`{"id":1}`))
	with := func(change func(r *platform.Request)) platform.Request {
		r := platform.Request{Header: n.Header.Clone(), Body: bytes.Clone(n.Body)}
		change(&r)
		return r
	}
	set := func(k, v string) func(*platform.Request) {
		return func(r *platform.Request) { r.Header.Set(k, v) }
	}
	test := shop.TestNotification("orders/create", "key of the admin")
	big := shop.Notify("orders/updated", []byte(`{"id":1,"note":"`+strings.Repeat("x", 2<<20)+`"}`))
	tests := []struct {
		name    string
		secrets []string
		r       platform.Request
		secret  int
		reason  platform.Reason
		cause   platform.Cause
	}{
		{"signed", []string{"new"}, with(func(*platform.Request) {}), 0, "", ""},
		{"second of two secrets", []string{"old", "new"}, with(func(*platform.Request) {}), 1, "", ""},
		{"larger than a megabyte", []string{"new"}, platform.Request{Header: big.Header, Body: big.Body}, 0, "", ""},
		{"shop in capitals", []string{"new"}, with(set("X-Shopify-Shop-Domain", "Example-Shop.myshopify.com")), 0, "", ""},
		{"no shop header", []string{"new"}, with(func(r *platform.Request) { r.Header.Del("X-Shopify-Shop-Domain") }), 0, "", ""},
		{"other shop", []string{"new"}, with(set("X-Shopify-Shop-Domain", "other.myshopify.com")), 0, platform.WrongAccount, platform.CauseOtherShop},
		{"no signature", []string{"new"}, with(func(r *platform.Request) { r.Header.Del("X-Shopify-Hmac-Sha256") }), 0, platform.SignatureMissing, platform.CauseHeaderMissing},
		{"no base64", []string{"new"}, with(set("X-Shopify-Hmac-Sha256", "%%%")), 0, platform.SignatureMissing, platform.CauseMalformed},
		{"too short", []string{"new"}, with(set("X-Shopify-Hmac-Sha256", "YWJj")), 0, platform.SignatureMissing, platform.CauseMalformed},
		{"wrong secret", []string{"else"}, with(func(*platform.Request) {}), 0, platform.SignatureWrong, platform.CauseUnknown},
		{"wrong secret and shop", []string{"else"}, with(set("X-Shopify-Shop-Domain", "other.myshopify.com")), 0, platform.SignatureWrong, platform.CauseOtherShop},
		{"body changed", []string{"new"}, with(func(r *platform.Request) { r.Body[6] = '2' }), 0, platform.SignatureWrong, platform.CauseUnknown},
		{"body cut", []string{"new"}, with(func(r *platform.Request) { r.Body = r.Body[:4] }), 0, platform.SignatureWrong, platform.CauseUnknown},
		{"an empty secret", []string{""}, with(set("X-Shopify-Hmac-Sha256", "6CJ7tP/rFFHsDS6IaohlB3ezVdB4HOijACxLExMVDTY=")), 0, platform.SignatureWrong, platform.CauseUnknown},
		{"no body", []string{"new"}, with(func(r *platform.Request) { r.Body = nil }), 0, platform.SignatureWrong, platform.CauseUnknown},
		{"test of the admin", []string{"new"}, platform.Request{Header: test.Header, Body: test.Body}, 0, platform.SignatureWrong, platform.CauseAdminKey},
		{"test of the admin with its key", []string{"new", "key of the admin"}, platform.Request{Header: test.Header, Body: test.Body}, 1, "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			m, err := deaf(t, tt.secrets...).Verify(tt.r, time.Time{})
			if tt.reason == "" {
				if err != nil || m.Secret != tt.secret || m.Timed {
					t.Errorf("%+v %v", m, err)
				}
				return
			}
			r, ok := err.(*platform.Refusal)
			if !ok || r.Reason != tt.reason || r.Cause != tt.cause {
				t.Errorf("got %v, want %s: %s", err, tt.reason, tt.cause)
			}
		})
	}
}

func TestSettingsThatCantBeUsed(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]platform.Config{
		"no account":    {},
		"an address":    {Account: "https://example.myshopify.com/"},
		"half a client": {Account: account, ClientID: "app"},
		"version":       {Account: account, Settings: map[string]string{"api_version": "latest"}},
		"base address":  {Account: account, APIURL: "nowhere"},
	} {
		if _, err := New(cfg); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
}

func parse(a *Adapter, topic, body string) models.Notice {
	h := http.Header{}
	if topic != "" {
		h.Set("X-Shopify-Topic", topic)
	}
	h.Set("X-Shopify-Webhook-Id", "w1")
	return a.Parse(platform.Request{Header: h, Body: []byte(body)}, time.Unix(1_790_000_000, 0))
}

func TestParseFindsTheObject(t *testing.T) {
	t.Parallel()
	const order = "gid://shopify/Order/820982911946154508"
	deep := strings.Repeat(`{"a":`, 20000) + "1" + strings.Repeat("}", 20000)
	tests := []struct {
		name, topic, body string
		kind, id          string
		known, test       bool
		conflict          string
	}{
		{"order", "orders/updated", `{"id":7,"admin_graphql_api_id":"gid://shopify/Order/7","financial_status":"paid","updated_at":"2026-11-01T00:00:00+08:00"}`, KindOrder, "gid://shopify/Order/7", true, false, ""},
		{"id beyond 2^53", "orders/paid", `{"id":820982911946154508,"financial_status":"paid"}`, KindOrder, order, true, true, ""},
		{"id as text", "orders/paid", `{"id":"900719925474099299","financial_status":"paid"}`, KindOrder, "gid://shopify/Order/900719925474099299", true, false, ""},
		{"id only", "orders/delete", `{"id":12}`, KindOrder, "gid://shopify/Order/12", true, false, ""},
		{"id rounded by somebody", "orders/paid", `{"id":8.2e17,"financial_status":"paid"}`, "", "", false, false, ""},
		{"id negative", "orders/paid", `{"id":-5}`, "", "", false, false, ""},
		{"id zero", "orders/paid", `{"id":0}`, "", "", false, false, ""},
		{"two ids", "orders/updated", `{"id":7,"admin_graphql_api_id":"gid://shopify/Order/8","financial_status":"paid"}`, KindOrder, "gid://shopify/Order/8", true, false, "id"},
		{"old body without a GID", "orders/updated", `{"id":7,"financial_status":null,"total_price":"1.00"}`, KindOrder, "gid://shopify/Order/7", true, false, ""},
		{"edit", "orders/edited", `{"order_edit":{"id":1,"order_id":7}}`, KindOrder, "gid://shopify/Order/7", true, false, ""},
		{"risk", "orders/risk_assessment_changed", `{"order_id":"7","admin_graphql_api_order_id":"gid://shopify/Order/7"}`, KindOrder, "gid://shopify/Order/7", true, false, ""},
		{"risk without id", "orders/risk_assessment_changed", `{"order_id":null,"admin_graphql_api_order_id":"gid://shopify/Order/7"}`, KindOrder, "gid://shopify/Order/7", true, false, ""},
		{"refund", "refunds/create", `{"id":3,"admin_graphql_api_id":"gid://shopify/Refund/3","order_id":7}`, KindOrder, "gid://shopify/Order/7", true, false, ""},
		{"transaction of a test", "order_transactions/create", `{"id":3,"order_id":7,"test":true}`, KindOrder, "gid://shopify/Order/7", true, true, ""},
		{"shipment", "fulfillments/update", `{"id":3,"order_id":7,"status":"success"}`, KindOrder, "gid://shopify/Order/7", true, false, ""},
		{"carrier", "fulfillment_events/create", `{"id":3,"fulfillment_id":4,"order_id":7}`, KindOrder, "gid://shopify/Order/7", true, false, ""},
		{"dispute", "disputes/create", `{"id":3,"order_id":7,"status":"needs_response"}`, KindOrder, "gid://shopify/Order/7", true, false, ""},
		{"return with its order", "returns/request", `{"id":3,"admin_graphql_api_id":"gid://shopify/Return/3","order":{"id":7}}`, KindOrder, "gid://shopify/Order/7", true, false, ""},
		{"return with an order id", "returns/close", `{"id":3,"admin_graphql_api_id":"gid://shopify/Return/3","order_id":7}`, KindOrder, "gid://shopify/Order/7", true, false, ""},
		{"return alone", "returns/update", `{"admin_graphql_api_id":"gid://shopify/Return/3"}`, KindReturn, "gid://shopify/Return/3", true, false, ""},
		{"return by number", "returns/approve", `{"id":3}`, KindReturn, "gid://shopify/Return/3", true, false, ""},
		{"return of nothing", "returns/process", `{}`, "", "", false, false, ""},
		{"fulfillment order", "fulfillment_orders/placed_on_hold", `{"fulfillment_order":{"id":"gid://shopify/FulfillmentOrder/3"}}`, KindFulfillmentOrder, "gid://shopify/FulfillmentOrder/3", true, false, ""},
		{"fulfillment order moved", "fulfillment_orders/moved", `{"moved_fulfillment_order":{"id":"gid://shopify/FulfillmentOrder/4"},"original_fulfillment_order":{"id":"gid://shopify/FulfillmentOrder/3"}}`, KindFulfillmentOrder, "gid://shopify/FulfillmentOrder/3", true, false, ""},
		{"fulfillment order split", "fulfillment_orders/split", `{"a":1,"remaining_fulfillment_order":{"id":"gid://shopify/FulfillmentOrder/5"}}`, KindFulfillmentOrder, "gid://shopify/FulfillmentOrder/5", true, false, ""},
		{"unknown topic about an order", "orders/teleported", `{"id":7,"admin_graphql_api_id":"gid://shopify/Order/7"}`, KindOrder, "gid://shopify/Order/7", false, false, ""},
		{"unknown topic naming an order", "parcels/lost", `{"id":1,"order_id":7}`, KindOrder, "gid://shopify/Order/7", false, false, ""},
		{"unknown topic", "parcels/lost", `{"id":1}`, "", "", false, false, ""},
		{"product", "products/update", `{"id":1,"admin_graphql_api_id":"gid://shopify/Product/1"}`, "", "", true, false, ""},
		{"customer", "customers/data_request", `{"customer":{"id":1},"orders_requested":[7]}`, "", "", true, false, ""},
		{"app", "app/uninstalled", `{"id":1}`, "", "", true, false, ""},
		{"topic changed on the way", "products/update", `{"id":7,"admin_graphql_api_id":"gid://shopify/Order/7","financial_status":"paid"}`, KindOrder, "gid://shopify/Order/7", true, false, ""},
		{"refund under an order's topic", "orders/paid", `{"id":3,"admin_graphql_api_id":"gid://shopify/Refund/3","order_id":7}`, KindOrder, "gid://shopify/Order/7", true, false, ""},
		{"all null", "orders/updated", `{"id":null,"admin_graphql_api_id":null,"order":null,"order_edit":null,"refunds":null,"line_items":null,"financial_status":null}`, "", "", false, false, ""},
		{"other types", "orders/updated", `{"id":7,"financial_status":["x"],"refunds":"none","line_items":{"a":1},"order":7,"order_edit":[],"updated_at":5,"fulfillments":[1,"x",null],"returns":[[]],"name":{"a":"b"}}`, KindOrder, "gid://shopify/Order/7", true, false, ""},
		{"nothing", "orders/updated", ``, "", "", false, false, ""},
		{"a list", "orders/updated", `[1,2]`, "", "", false, false, ""},
		{"cut", "orders/updated", `{"id":7,"na`, "", "", false, false, ""},
		{"NUL", "orders/updated", "{\"id\":7,\"name\":\"a\x00\"}", "", "", false, false, ""},
		{"NUL written out", "orders/updated", `{"id":7,"financial_status":"paid","name":"#1\u0000"}`, KindOrder, "gid://shopify/Order/7", true, false, ""},
		{"broken UTF-8", "orders/updated", "{\"id\":7,\"financial_status\":\"\xff\",\"name\":\"\xff\xfe\"}", KindOrder, "gid://shopify/Order/7", true, false, ""},
		{"nested deeply", "orders/updated", deep, "", "", false, false, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			n := parse(deaf(t), tt.topic, tt.body)
			if n.Object.Kind != tt.kind || n.Object.ID != tt.id || n.Known != tt.known || n.Test != tt.test || n.Conflict != tt.conflict {
				t.Errorf("object %v known %v test %v conflict %q", n.Object, n.Known, n.Test, n.Conflict)
			}
			if n.Said != nil {
				n.Said.Digest()
				if strings.ContainsRune(n.Said.Number, 0) {
					t.Error("NUL in the number")
				}
			}
		})
	}
}

func TestTopicsAreDerivedAndBounded(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{"id":7,"financial_status":"paid"}`:                                  "orders/updated",
		`{"admin_graphql_api_id":"gid://shopify/Order/7"}`:                    "orders/updated",
		`{"order_edit":{"order_id":1}}`:                                       "orders/edited",
		`{"admin_graphql_api_id":"gid://shopify/Refund/3","order_id":1}`:      "refunds/create",
		`{"admin_graphql_api_id":"gid://shopify/Fulfillment/3","order_id":1}`: "fulfillments/update",
		`{"admin_graphql_api_id":"gid://shopify/OrderTransaction/3"}`:         "order_transactions/create",
		`{"admin_graphql_api_id":"gid://shopify/Return/3"}`:                   "returns/update",
		`{"id":7}`: "unknown",
		`x`:        "unknown",
	} {
		if n := parse(deaf(t), "", body); n.Topic != want {
			t.Errorf("%s: %q, want %q", body, n.Topic, want)
		}
	}
	a := deaf(t)
	n := a.Parse(platform.Request{Header: http.Header{"X-Shopify-Topic": {"orders/" + strings.Repeat("x", 500) + "\x00\xff"}, "X-Shopify-Webhook-Id": {strings.Repeat("y", 1000)}}, Body: []byte("{}")}, time.Now())
	if len(n.Topic) > 300 || !n.Anonymous || len(n.EventID) > 300 {
		t.Errorf("topic of %d bytes, id of %d", len(n.Topic), len(n.EventID))
	}
	if n := a.Parse(platform.Request{Body: []byte("{}")}, time.Now()); !n.Anonymous || n.EventID != "" {
		t.Errorf("%+v", n)
	}
}

func TestWhatNotificationsReport(t *testing.T) {
	t.Parallel()
	const head = `"id":7,"name":"#1001","currency":"HKD","created_at":"2026-11-01T08:00:00+08:00","updated_at":"2026-11-02T08:00:00+08:00","cancelled_at":null,"fulfillment_status":null,"returns":[],"fulfillments":[],"line_items":[{"quantity":2}],`
	refund := func(status, amount string) string {
		return `{"id":5,"transactions":[{"id":6,"kind":"refund","status":"` + status + `","amount":"` + amount + `","currency":"HKD"}]}`
	}
	tests := []struct{ name, body, axes, money, faults string }{
		{"pending", head + `"financial_status":"pending","total_price":"20.00","current_total_price":"20.00","total_outstanding":"20.00","refunds":[]`, "pending none - unfulfilled active none", "2000 0 0", ""},
		{"paid", head + `"financial_status":"paid","total_price":"20.00","current_total_price":"20.00","total_outstanding":"0.00","refunds":[]`, "paid none - unfulfilled active none", "2000 2000 0", ""},
		{"partly paid", head + `"financial_status":"partially_paid","total_price":"20.00","current_total_price":"20.00","total_outstanding":"15.00","refunds":[]`, "partially_paid none - unfulfilled active none", "2000 500 0", ""},
		{"partly refunded", head + `"financial_status":"partially_refunded","total_price":"20.00","current_total_price":"15.00","total_outstanding":"0.00","refunds":[` + refund("success", "5.00") + `]`, "paid partial - unfulfilled active none", "2000 2000 500", ""},
		{"refunded", head + `"financial_status":"refunded","total_price":"20.00","current_total_price":"0.00","total_outstanding":"0.00","refunds":[` + refund("success", "20.00") + `]`, "paid full - unfulfilled active none", "2000 2000 2000", ""},
		{"refund under way", head + `"financial_status":"paid","total_price":"20.00","refunds":[` + refund("pending", "5.00") + `]`, "paid pending - unfulfilled active none", "2000 2000 0", ""},
		{"refund without money", head + `"financial_status":"paid","total_price":"20.00","current_total_price":"20.00","total_outstanding":"0.00","refunds":[{"id":5,"transactions":[]}]`, "paid none - unfulfilled active none", "2000 2000 0", ""},
		{"refund of an unknown kind", head + `"financial_status":"paid","total_price":"20.00","refunds":[` + refund("thinking", "5.00") + `]`, "paid review? - unfulfilled active none", "2000 2000 0", "unknown_status refunds.transactions.status=thinking"},
		{"partly refunded, sums missing", head + `"financial_status":"partially_refunded","total_price":"20.00","refunds":[` + refund("success", "5.00") + `]`, "review? partial - unfulfilled active none", "", ""},
		{"unknown word", head + `"financial_status":"maybe","total_price":"20.00","refunds":[]`, "review? none - unfulfilled active none", "", "unknown_status financial_status=maybe"},
		{"null and unpaid", head + `"financial_status":null,"total_price":"20.00","current_total_price":"20.00","total_outstanding":"20.00","refunds":[]`, "pending none - unfulfilled active none", "2000 0 0", ""},
		{"null and paid", head + `"financial_status":null,"total_price":"20.00","current_total_price":"20.00","total_outstanding":"0.00","refunds":[]`, "review? none - unfulfilled active none", "2000 2000 0", ""},
		{"few fields", `"id":7,"financial_status":"paid"`, "paid - - - - -", "", ""},
		{"other types", `"id":7,"financial_status":{},"fulfillment_status":3,"total_price":[],"currency":"HKD"`, "review? - - ? - -", "", "schema_changed financial_status; schema_changed fulfillment_status; schema_changed total_price"},
		{"goods", `"id":7,"financial_status":"paid","fulfillment_status":"partial","cancelled_at":"2026-11-02T08:00:00+08:00","cancel_reason":"fraud","returns":[{"id":1,"status":"closed"},{"id":2,"status":"open"}]`, "paid - - partial cancelled in_progress", "", ""},
		{"restocked and unknown return", `"id":7,"financial_status":"voided","fulfillment_status":"restocked","returns":[{"id":1,"status":"odd"}]`, "voided - - unfulfilled - ?", "", "unknown_status returns.status=odd"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			n := parse(deaf(t), "orders/updated", "{"+tt.body+"}")
			if n.Said == nil {
				t.Fatal("nothing said")
			}
			o := *n.Said
			money := ""
			if o.Amounts != nil {
				money = fmt.Sprint(o.Amounts.Total, o.Amounts.Received, o.Amounts.Refunded)
			}
			if axes(o) != tt.axes || money != tt.money || faults(o) != tt.faults {
				t.Errorf("got %s | %s | %s\nwant %s | %s | %s", axes(o), money, faults(o), tt.axes, tt.money, tt.faults)
			}
			if o.Basis != models.Reported || !o.Store || !o.Changed.Equal(n.Floor) {
				t.Errorf("%+v", o)
			}
			for axis, s := range o.Axes {
				if !s.At.Equal(o.Changed) {
					t.Errorf("%s at %v", axis, s.At)
				}
			}
		})
	}
}

func TestAPartStatesOnlyItself(t *testing.T) {
	t.Parallel()
	tests := []struct{ topic, body, part string }{
		{"refunds/create", `{"id":5,"admin_graphql_api_id":"gid://shopify/Refund/5","order_id":7,"transactions":[{"id":6,"kind":"refund","status":"success","amount":"5.00","currency":"HKD"}]}`, "refund partial gid://shopify/OrderTransaction/6 500"},
		{"refunds/create", `{"id":5,"admin_graphql_api_id":"gid://shopify/Refund/5","order_id":7,"transactions":[]}`, "refund none gid://shopify/Refund/5 0"},
		{"order_transactions/create", `{"id":6,"order_id":7,"kind":"sale","status":"success","amount":"5.00","currency":"HKD"}`, "payment paid gid://shopify/OrderTransaction/6 500"},
		{"order_transactions/create", `{"id":6,"order_id":7,"kind":"authorization","status":"failure","amount":"5.00","currency":"HKD"}`, "payment failed gid://shopify/OrderTransaction/6 500"},
		{"fulfillments/create", `{"id":6,"order_id":7,"status":"cancelled"}`, "fulfillment unfulfilled gid://shopify/Fulfillment/6 0"},
		{"returns/close", `{"id":6,"admin_graphql_api_id":"gid://shopify/Return/6","order_id":7,"status":"closed"}`, "return received gid://shopify/Return/6 0"},
		{"disputes/update", `{"id":6,"order_id":7,"status":"lost","amount":"5.00","currency":"HKD"}`, "dispute lost gid://shopify/ShopifyPaymentsDispute/6 500"},
	}
	for _, tt := range tests {
		n := parse(deaf(t), tt.topic, tt.body)
		if n.Said == nil || len(n.Said.Parts) != 1 || len(n.Said.Axes) != 0 || n.Said.Amounts != nil || !n.Floor.IsZero() {
			t.Errorf("%s: %+v", tt.topic, n.Said)
			continue
		}
		p := n.Said.Parts[0]
		if got := fmt.Sprintf("%s %s %s %d", p.Axis, p.State, p.ID, p.Amount); got != tt.part {
			t.Errorf("%s: %s, want %s", tt.topic, got, tt.part)
		}
	}
	for topic, body := range map[string]string{"orders/delete": `{"id":7}`, "orders/edited": `{"order_edit":{"order_id":7}}`} {
		if n := parse(deaf(t), topic, body); n.Said != nil {
			t.Errorf("%s says %+v", topic, n.Said)
		}
	}
}

func TestEveryNotificationOfTheSandboxIsUnderstood(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.shop
	id, ns := w.order(sandbox.ShopifyOrder{}, s.Authorize, s.Pay, s.RequestFulfillment, s.Hold, s.Release,
		func(id int64) ([]sandbox.Notification, error) { return s.Fulfill(id, 1, "A") },
		func(id int64) ([]sandbox.Notification, error) { return s.Fulfill(id, 0, "B") }, s.CancelFulfillment,
		func(id int64) ([]sandbox.Notification, error) { return s.Refund(id, "10", sandbox.RefundPends) },
		func(id int64) ([]sandbox.Notification, error) { return s.SettleRefund(id, sandbox.RefundSucceeds) },
		func(id int64) ([]sandbox.Notification, error) { return s.RequestReturn(id, 1) }, s.ApproveReturn,
		func(id int64) ([]sandbox.Notification, error) { return s.CloseReturn(id, 1) }, s.ReopenReturn, s.UpdateReturn,
		func(id int64) ([]sandbox.Notification, error) { return s.Edit(id, "5", 0) }, s.OpenDispute,
		func(id int64) ([]sandbox.Notification, error) { return s.Cancel(id, "OTHER") }, s.Delete)
	if len(ns) < 30 {
		t.Fatalf("%d notifications", len(ns))
	}
	seen := map[string]bool{}
	for _, n := range ns {
		if _, err := w.Verify(w.request(n), w.clock.Now()); err != nil {
			t.Errorf("%s: %v", n.Topic, err)
		}
		p := w.Parse(w.request(n), w.clock.Now())
		if !p.Known || p.Object.Zero() || p.Anonymous || p.Occurred.IsZero() || p.Act == "" || seen[p.EventID] || p.Conflict != "" {
			t.Errorf("%s: %+v", n.Topic, p)
		}
		seen[p.EventID] = true
		if p.Object.Kind == KindOrder && p.Object != w.ref(id) {
			t.Errorf("%s: %v", n.Topic, p.Object)
		}
		if strings.HasPrefix(n.Topic, "orders/") && n.Topic != "orders/edited" && n.Topic != "orders/delete" && (p.Said == nil || p.Floor.IsZero()) {
			t.Errorf("%s says nothing", n.Topic)
		}
	}
}

// What a notification reports and what the platform says are the same, wherever
// the body can know it.
func TestReportedAndOfficialAgree(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.shop
	id, ns := w.order(sandbox.ShopifyOrder{}, s.Pay)
	for _, act := range []act{
		func(id int64) ([]sandbox.Notification, error) { return s.Fulfill(id, 1, "A") },
		func(id int64) ([]sandbox.Notification, error) { return s.Refund(id, "100", sandbox.RefundSucceeds) },
		func(id int64) ([]sandbox.Notification, error) { return s.Edit(id, "50", 1) },
		func(id int64) ([]sandbox.Notification, error) { return s.Edit(id, "0", -2) },
		func(id int64) ([]sandbox.Notification, error) { return s.Refund(id, "20", sandbox.RefundPends) },
		func(id int64) ([]sandbox.Notification, error) { return s.Cancel(id, "FRAUD") },
	} {
		more, err := act(id)
		if err != nil {
			t.Fatal(err)
		}
		ns = append(ns, more...)
		said, official := *w.Parse(w.request(ns[len(ns)-1]), w.clock.Now()).Said, w.one(id)
		for axis, st := range said.Axes {
			if st.State != official.Axes[axis].State {
				t.Errorf("%s: %s, the platform says %s", axis, st.State, official.Axes[axis].State)
			}
		}
		if said.Amounts == nil || said.Amounts.Refunded != official.Amounts.Refunded || said.Amounts.Total != official.Amounts.Total {
			t.Errorf("amounts %+v, the platform says %+v", said.Amounts, official.Amounts)
		}
		if !said.Changed.Equal(official.Changed) || said.Number != official.Number || !slices.Equal(said.Refs, official.Refs) || *said.Items != *official.Items {
			t.Errorf("%+v\n%+v", said, official)
		}
	}
}

func TestSpellAndDeep(t *testing.T) {
	t.Parallel()
	a := deaf(t)
	for typed, want := range map[string][]string{
		"1234567890":              {"gid://shopify/Order/1234567890", "1234567890", "#1234567890"},
		"gid://shopify/Order/12":  {"gid://shopify/Order/12", "12"},
		"gid://shopify/Refund/12": {"gid://shopify/Refund/12"},
		"#1001":                   {"#1001", "1001"},
		" 1001 ":                  {"gid://shopify/Order/1001", "1001", "#1001"},
		"TW-1001":                 {"TW-1001"},
		"":                        nil,
		"https://admin.shopify.com/store/example/orders/12": {"gid://shopify/Order/12", "12"},
	} {
		if got := a.Spell(typed); !slices.Equal(got, want) {
			t.Errorf("%q: %q", typed, got)
		}
	}
	if got := a.Deep(a.order("12")); got != "https://example-shop.myshopify.com/admin/orders/12" {
		t.Error(got)
	}
	if got := a.Deep(models.ObjectRef{Kind: KindReturn, ID: "gid://shopify/Return/1"}); got != "" {
		t.Error(got)
	}
	for _, s := range a.Settings() {
		if s.Name == "" || s.Value == "" || s.Set {
			t.Errorf("%+v", s)
		}
	}
}

// Recorded and documented shapes, where somebody has them.
func TestRecordedSamples(t *testing.T) {
	t.Parallel()
	root := os.Getenv("COUNTERFOIL_SAMPLES")
	if root == "" {
		t.Skip("COUNTERFOIL_SAMPLES names no folder")
	}
	var bodies []string
	for _, pattern := range []string{"shopify/*.json", "shopify/docs_examples/*.json"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		bodies = append(bodies, found...)
	}
	if len(bodies) == 0 {
		t.Fatal("no samples")
	}
	a := deaf(t)
	for _, file := range bodies {
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(name, "graphql_") {
			sampleAnswer(t, a, name, raw)
			continue
		}
		topic := strings.Replace(strings.Split(name, "__")[0], "_", "/", 1)
		for _, family := range []string{"order_transactions", "fulfillment_orders"} {
			if rest, ok := strings.CutPrefix(name, family+"_"); ok {
				topic = family + "/" + rest
			}
		}
		if strings.HasPrefix(name, "test_notification") {
			topic = "orders/create"
		}
		n := parse(a, topic, string(raw))
		if strings.HasPrefix(name, "headers_") {
			continue
		}
		if n.Object.Zero() || !n.Known {
			t.Errorf("%s: no object", name)
			continue
		}
		if strings.HasPrefix(name, "orders_") && strings.Contains(name, "__") {
			if n.Said == nil || n.Said.Amounts == nil || n.Floor.IsZero() || len(n.Said.Faults) > 0 {
				t.Errorf("%s: %+v", name, n.Said)
				continue
			}
			m := n.Said.Amounts
			if m.Received != m.Total {
				t.Errorf("%s: %+v, although all were paid", name, m)
			}
		}
		if strings.HasPrefix(name, "test_notification") && !n.Test {
			t.Errorf("%s isn't a test", name)
		}
	}
}

// sampleAnswer looks for orders anywhere in a recording and decodes them.
func sampleAnswer(t *testing.T, a *Adapter, name string, raw []byte) {
	t.Helper()
	if name == "graphql_throttled" {
		out := a.throttled(platform.Answer{Status: 200, Body: raw})
		if out == nil || !out.Throttled || out.After < time.Second || out.After > 10*time.Second {
			t.Errorf("%s: %+v", name, out)
		}
		return
	}
	var orders int
	var dig func(v json.RawMessage)
	dig = func(v json.RawMessage) {
		if got, ok := a.official(v, a.wide, nil, time.Now()); ok {
			orders++
			if got.obs.Ref.Zero() || got.obs.Number == "" && !strings.Contains(name, "return") {
				t.Errorf("%s: %+v", name, got.obs)
			}
			if strings.Contains(name, "cancelled_refunded") {
				if got.obs.Axes[models.Cancellation].State != models.CancellationCancelled || got.obs.Axes[models.Fulfillment].State != models.FulfillmentUnfulfilled {
					t.Errorf("%s: %s", name, axes(got.obs))
				}
			}
		}
		var object map[string]json.RawMessage
		var list []json.RawMessage
		if json.Unmarshal(v, &object) == nil {
			for _, x := range object {
				dig(x)
			}
		} else if json.Unmarshal(v, &list) == nil {
			for _, x := range list {
				dig(x)
			}
		}
	}
	dig(raw)
	if orders == 0 {
		t.Errorf("%s: no order", name)
	}
}

func FuzzVerify(f *testing.F) {
	f.Add("YWJj", "example-shop.myshopify.com", []byte(`{"id":1}`))
	f.Add("", "", []byte(nil))
	f.Add("47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=", "other", []byte(`{"id":820982911946154508,"test":true}`))
	f.Fuzz(func(t *testing.T, sig, shop string, body []byte) {
		a := deaf(t, "a secret that nobody guesses", "another")
		_, err := a.Verify(platform.Request{Header: http.Header{"X-Shopify-Hmac-Sha256": {sig}, "X-Shopify-Shop-Domain": {shop}}, Body: body}, time.Now())
		if r, ok := err.(*platform.Refusal); !ok || r.Reason == "" || r.Cause == "" {
			t.Errorf("%v", err)
		}
	})
}

func FuzzParse(f *testing.F) {
	shop := sandbox.NewShopify(sandbox.ShopifyConfig{Account: account, Now: func() time.Time { return time.Unix(1_790_000_000, 0) }})
	id, ns, err := shop.CreateOrder(sandbox.ShopifyOrder{})
	if err != nil {
		f.Fatal(err)
	}
	for _, act := range []act{shop.Pay, func(id int64) ([]sandbox.Notification, error) { return shop.Refund(id, "1", sandbox.RefundSucceeds) },
		func(id int64) ([]sandbox.Notification, error) { return shop.RequestReturn(id, 1) }, shop.UpdateReturn, shop.Hold} {
		more, err := act(id)
		if err != nil {
			f.Fatal(err)
		}
		ns = append(ns, more...)
	}
	for _, n := range ns {
		f.Add(n.Topic, n.Header.Get("X-Shopify-Webhook-Id"), n.Body)
	}
	f.Add("", "", []byte(`{"id":"\u0000","refunds":[null,1,{"transactions":{}}],"order":[]}`))
	f.Fuzz(func(t *testing.T, topic, id string, body []byte) {
		a := deaf(t)
		r := platform.Request{Header: http.Header{"X-Shopify-Topic": {topic}, "X-Shopify-Webhook-Id": {id}}, Body: body}
		n := a.Parse(r, time.Unix(1_790_000_000, 0))
		if strings.ContainsRune(n.Topic, 0) || n.Topic == "" || n.EventID == "" && !n.Anonymous {
			t.Errorf("%+v", n)
		}
		if o := n.Object; !o.Zero() && (o.Account != account || !strings.HasPrefix(o.ID, gidPrefix) || strings.ContainsAny(o.ID, "\x00 ")) {
			t.Errorf("%+v", o)
		}
		if n.Said != nil {
			first := n.Said.Digest()
			if a.Parse(r, time.Unix(1_790_000_000, 0)).Said.Digest() != first {
				t.Error("parsed twice, said two things")
			}
		}
	})
}

func TestLargeBodiesAndIDs(t *testing.T) {
	t.Parallel()
	c := &clock{now: time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC)}
	shop := sandbox.NewShopify(sandbox.ShopifyConfig{Account: account, FirstID: 820982911946160001, Now: c.Now})
	id, ns, err := shop.CreateOrder(sandbox.ShopifyOrder{})
	if err != nil || id != 820982911946160001 {
		t.Fatal(id, err)
	}
	a := deaf(t)
	n := a.Parse(platform.Request{Header: ns[0].Header, Body: ns[0].Body}, c.Now())
	if n.Object.ID != "gid://shopify/Order/820982911946160001" {
		t.Error(n.Object)
	}
	body := strings.Replace(string(ns[0].Body), `"line_items":[`, `"line_items":[`+strings.Repeat(`{"id":1,"quantity":1,"title":"`+strings.Repeat("x", 1000)+`"},`, 1500), 1)
	n = a.Parse(platform.Request{Header: ns[0].Header, Body: []byte(body)}, c.Now())
	if len(body) < 1<<20 || n.Said == nil || n.Said.Items == nil || n.Said.Items.Ordered != 1502 {
		t.Errorf("%d bytes: %+v", len(body), n.Said)
	}
}

func TestTheAdminsTestNotification(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *platform.Config) { c.Webhook = []string{"s1", "admin"} })
	n := w.shop.TestNotification("orders/create", "admin")
	if _, err := w.Verify(w.request(n), w.clock.Now()); err != nil {
		t.Fatal(err)
	}
	p := w.Parse(w.request(n), w.clock.Now())
	if !p.Test || !p.Known || p.Said == nil || !p.Said.Test {
		t.Errorf("%+v", p)
	}
	if o := w.read(p.Object)[p.Object]; o.Absence != models.AdminTest || w.shop.Calls() != 0 {
		t.Errorf("%+v after %d calls", o, w.shop.Calls())
	}
	real, ns := w.order(sandbox.ShopifyOrder{})
	ns[0].Header.Set("X-Shopify-Test", "true") // headers aren't signed
	if p := w.Parse(w.request(ns[0]), w.clock.Now()); p.Test || p.Object != w.ref(real) {
		t.Errorf("%+v", p)
	}
}

func TestRotationOfSecrets(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *platform.Config) { c.Webhook = []string{"s2", "s1"} })
	_, before := w.order(sandbox.ShopifyOrder{})
	w.shop.SetSecret("s2")
	_, after := w.order(sandbox.ShopifyOrder{})
	for want, n := range map[int]sandbox.Notification{1: before[0], 0: after[0]} {
		if m, err := w.Verify(w.request(n), w.clock.Now()); err != nil || m.Secret != want {
			t.Errorf("%+v %v, want %d", m, err, want)
		}
	}
}
