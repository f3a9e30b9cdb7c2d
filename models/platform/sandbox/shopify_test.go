package sandbox

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"
)

// shopCall makes one query and answers the whole reply as JSON text.
func shopCall(t *testing.T, srv *httptest.Server, token, query string, vars map[string]any) (string, *http.Response) {
	t.Helper()
	b, err := json.Marshal(map[string]any{"query": query, "variables": vars})
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, srv.URL+"/admin/api/2026-10/graphql.json", bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Shopify-Access-Token", token)
	res, err := srv.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	out, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(out), res
}

func TestShopifyAnswersQueries(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC)
	shop := NewShopify(ShopifyConfig{Token: "t", Now: func() time.Time { return now }})
	srv := httptest.NewServer(shop)
	t.Cleanup(srv.Close)
	var ids []int64
	for range 3 {
		id, _, err := shop.CreateOrder(ShopifyOrder{Total: "20"})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	if _, err := shop.Pay(ids[0]); err != nil {
		t.Fatal(err)
	}
	gid := ShopifyGID(ids[0])
	tests := []struct {
		name, query string
		vars        map[string]any
		has         []string
		lacks       string
	}{
		{"one order", `query($id: ID!) { order(id: $id) { id displayFinancialStatus totalPriceSet { shopMoney { amount currencyCode } } } }`, map[string]any{"id": gid},
			[]string{`"displayFinancialStatus":"PAID"`, `"amount":"20.0"`, `"requestedQueryCost":3`, `"actualQueryCost":3`}, `"errors"`},
		{"alias and fragments", `{ first: node(id: "` + gid + `") { ...o ... on Return { status } __typename } } fragment o on Order { name }`, nil, []string{`"first":{"__typename":"Order","name":"#1001"}`}, `"errors"`},
		{"unknown id", `query($ids: [ID!]!) { nodes(ids: $ids) { id } }`, map[string]any{"ids": []string{"gid://shopify/Order/1"}}, []string{`"nodes":[null]`}, `"errors"`},
		{"no GID", `{ order(id: "12") { id } }`, nil, []string{`Invalid global id`, `"path":["query","order"]`}, `"data"`},
		{"unknown field", `{ order(id: "` + gid + `") { mood } }`, nil, []string{`"undefinedField"`, `"typeName":"Order"`, `"fieldName":"mood"`}, `"data"`},
		{"sorted page", `{ orders(first: 1, sortKey: UPDATED_AT, reverse: true) { edges { cursor node { id } } pageInfo { hasNextPage } } }`, nil, []string{gid, `"hasNextPage":true`}, `"errors"`},
		{"search", `{ orders(first: 9, query: "updated_at:>='2026-11-30T09:00:01Z' AND test:false") { nodes { id } } }`, nil, []string{`"nodes":[]`}, `"warnings"`},
		{"either", `{ orders(first: 9, query: "financial_status:paid OR name:#1003") { nodes { name } } }`, nil, []string{"#1001", "#1003"}, "#1002"},
		{"misspelt search matches everything", `{ orders(first: 9, query: "updatd_at:>='2030-01-01T00:00:00Z'") { nodes { name } } }`, nil, []string{"#1001", "#1002", "#1003", `"warnings"`, "updatd_at"}, `"errors"`},
		{"no page size", `{ orders { nodes { id } } }`, nil, []string{"you must provide one of first or last"}, `"data"`},
		{"too dear", `{ orders(first: 250) { nodes { id refunds(first: 250) { id } } } }`, nil, []string{"MAX_COST_EXCEEDED", `"maxCost":1000`}, `"data"`},
		{"nonsense", `{ orders( `, nil, []string{"Parse error"}, `"data"`},
	}
	for _, tt := range tests {
		got, res := shopCall(t, srv, "t", tt.query, tt.vars)
		for _, want := range tt.has {
			if !strings.Contains(got, want) {
				t.Errorf("%s: no %s in %s", tt.name, want, got)
			}
		}
		if tt.lacks != "" && strings.Contains(got, tt.lacks) || res.StatusCode != http.StatusOK || res.Header.Get("X-Shopify-API-Version") != "2026-10" {
			t.Errorf("%s: %d %s", tt.name, res.StatusCode, got)
		}
	}
	if _, res := shopCall(t, srv, "other", "{ shop { name } }", nil); res.StatusCode != http.StatusUnauthorized {
		t.Errorf("a wrong token: %d", res.StatusCode)
	}
	shop.SetScopes("read_orders")
	got, _ := shopCall(t, srv, "t", `{ node(id: "`+gid+`") { ... on Order { id disputes { id } } } shop { name } }`, nil)
	if !strings.Contains(got, `"node":null`) || !strings.Contains(got, "ACCESS_DENIED") || !strings.Contains(got, `"name":"Example"`) {
		t.Error(got)
	}
}

func TestShopifyPointsRunOutAndComeBack(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	now := time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC)
	shop := NewShopify(ShopifyConfig{Token: "t", Now: func() time.Time { mu.Lock(); defer mu.Unlock(); return now }})
	srv := httptest.NewServer(shop)
	t.Cleanup(srv.Close)
	shop.SetPoints(12, 2)
	const query = `{ orders(first: 10) { nodes { id } } }`
	for i, want := range []string{`"currentlyAvailable":10`, "THROTTLED", `"currentlyAvailable":10`} {
		if i == 2 {
			mu.Lock()
			now = now.Add(time.Second)
			mu.Unlock()
		}
		if got, _ := shopCall(t, srv, "t", query, nil); !strings.Contains(got, want) {
			t.Errorf("call %d: no %s in %s", i, want, got)
		}
	}
	shop.TooMany.Store(true)
	if _, res := shopCall(t, srv, "t", query, nil); res.StatusCode != http.StatusTooManyRequests || res.Header.Get("Retry-After") == "" {
		t.Errorf("status %d", res.StatusCode)
	}
}

func TestShopifyTokensEnd(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	now := time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC)
	shop := NewShopify(ShopifyConfig{Secret: "s", ClientID: "c", Now: func() time.Time { mu.Lock(); defer mu.Unlock(); return now }})
	srv := httptest.NewServer(shop)
	t.Cleanup(srv.Close)
	grant := func(secret string) (token string, status int) {
		res, err := srv.Client().PostForm(srv.URL+"/admin/oauth/access_token", url.Values{"grant_type": {"client_credentials"}, "client_id": {"c"}, "client_secret": {secret}})
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		var got struct {
			Token string `json:"access_token"`
		}
		_ = json.NewDecoder(res.Body).Decode(&got)
		return got.Token, res.StatusCode
	}
	if _, status := grant("wrong"); status == http.StatusOK {
		t.Error("a token for a wrong secret")
	}
	token, _ := grant("s")
	for _, tt := range []struct {
		pass time.Duration
		want int
	}{{0, 200}, {23 * time.Hour, 200}, {time.Hour, 401}} {
		mu.Lock()
		now = now.Add(tt.pass)
		mu.Unlock()
		if _, res := shopCall(t, srv, token, "{ shop { name } }", nil); res.StatusCode != tt.want {
			t.Errorf("after %v: %d", tt.pass, res.StatusCode)
		}
	}
}

func TestShopifySendsWhatAnActCauses(t *testing.T) {
	t.Parallel()
	shop := NewShopify(ShopifyConfig{Now: func() time.Time { return time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC) }})
	id, ns, err := shop.CreateOrder(ShopifyOrder{})
	if err != nil {
		t.Fatal(err)
	}
	topics := func(ns []Notification) string {
		var out []string
		acts, deliveries := map[string]bool{}, map[string]bool{}
		for _, n := range ns {
			out = append(out, n.Topic)
			acts[n.Header.Get("X-Shopify-Event-Id")] = true
			deliveries[n.Header.Get("X-Shopify-Webhook-Id")] = true
			if n.Header.Get("X-Shopify-Hmac-Sha256") != shopSigned("sandbox-client-secret", n.Body) || !json.Valid(n.Body) {
				t.Errorf("%s isn't signed", n.Topic)
			}
		}
		if len(acts) != 1 || len(deliveries) != len(ns) {
			t.Errorf("%d acts, %d ids of %d deliveries", len(acts), len(deliveries), len(ns))
		}
		return strings.Join(out, " ")
	}
	if got := topics(ns); got != "orders/create" {
		t.Error(got)
	}
	for _, tt := range []struct {
		act  func() ([]Notification, error)
		want string
	}{
		{func() ([]Notification, error) { return shop.PayPartly(id, "80") }, "order_transactions/create orders/updated"},
		{func() ([]Notification, error) { return shop.Pay(id) }, "order_transactions/create orders/paid orders/updated"},
		{func() ([]Notification, error) { return shop.Fulfill(id, 1, "T") }, "fulfillments/create orders/partially_fulfilled orders/updated"},
		{func() ([]Notification, error) { return shop.Fulfill(id, 0, "T") }, "fulfillments/create orders/fulfilled orders/updated"},
		{func() ([]Notification, error) { return shop.Refund(id, "80", RefundPends) }, "refunds/create orders/updated"},
		{func() ([]Notification, error) { return shop.SettleRefund(id, RefundSucceeds) }, "order_transactions/create orders/updated"},
		{func() ([]Notification, error) { return shop.RequestReturn(id, 1) }, "returns/request"},
		{func() ([]Notification, error) { return shop.ApproveReturn(id) }, "returns/approve"},
		{func() ([]Notification, error) { return shop.Cancel(id, "CUSTOMER") }, "orders/cancelled orders/updated"},
	} {
		ns, err := tt.act()
		if err != nil {
			t.Fatal(err)
		}
		if got := topics(ns); got != tt.want {
			t.Errorf("got %s, want %s", got, tt.want)
		}
	}
	if _, err := shop.Pay(12); err == nil {
		t.Error("paid an order that doesn't exist")
	}
	if _, err := shop.CloseReturn(id+1, 1); err == nil {
		t.Error("closed a return that doesn't exist")
	}
	again := NewShopify(ShopifyConfig{Now: func() time.Time { return time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC) }})
	if other, ns2, _ := again.CreateOrder(ShopifyOrder{}); other != id || !bytes.Equal(ns2[0].Body, ns[0].Body) || fmt.Sprint(ns2[0].Header) != fmt.Sprint(ns[0].Header) {
		t.Error("two shops with one story differ")
	}
}
