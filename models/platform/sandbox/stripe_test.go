package sandbox_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"counterfoil/models/platform/sandbox"
)

func newStripe(t *testing.T) (*sandbox.Stripe, func(path string, header ...string) (int, http.Header, map[string]any)) {
	t.Helper()
	at := time.Date(2026, 11, 28, 14, 2, 0, 0, time.UTC)
	p := sandbox.NewStripe("acct_own", "sk_test_x", "whsec_x", func() time.Time { return at })
	srv := httptest.NewServer(p.Handler())
	t.Cleanup(srv.Close)
	return p, func(path string, header ...string) (int, http.Header, map[string]any) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, srv.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer sk_test_x")
		for i := 0; i+1 < len(header); i += 2 {
			req.Header.Set(header[i], header[i+1])
		}
		res, err := srv.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		var body map[string]any
		if err := json.NewDecoder(res.Body).Decode(&body); err != nil {
			t.Fatal(path, err)
		}
		return res.StatusCode, res.Header, body
	}
}

func stripeIDs(body map[string]any) (ids []string) {
	data, _ := body["data"].([]any)
	for _, x := range data {
		o, _ := x.(map[string]any)
		ids = append(ids, fmt.Sprint(o["id"]))
	}
	return ids
}

func TestStripePagesBothWays(t *testing.T) {
	t.Parallel()
	p, get := newStripe(t)
	var made []string
	for range 7 {
		id, _ := p.CreateIntent(100, "hkd", sandbox.StripeIntent{})
		made = append(made, id)
	}
	slices.Reverse(made)
	for _, tt := range []struct {
		query string
		want  []string
		more  bool
	}{
		{"", made, false},
		{"?limit=3", made[:3], true},
		{"?limit=3&starting_after=" + made[2], made[3:6], true},
		{"?limit=3&starting_after=" + made[5], made[6:], false},
		{"?limit=3&ending_before=" + made[5], made[2:5], true},
		{"?limit=3&ending_before=" + made[2], made[:2], false},
		{"?created[gt]=1795874520", nil, false},
		{"?created[gte]=1795874520", made, false},
	} {
		status, _, body := get("/v1/payment_intents" + tt.query)
		if status != 200 || !slices.Equal(stripeIDs(body), tt.want) || body["has_more"] != tt.more {
			t.Errorf("%s: %d %v, more %v", tt.query, status, stripeIDs(body), body["has_more"])
		}
	}
}

func TestStripeRefusesAsStripeDoes(t *testing.T) {
	t.Parallel()
	p, get := newStripe(t)
	id, _ := p.CreateIntent(100, "hkd", sandbox.StripeIntent{Account: "acct_connected"})
	for _, tt := range []struct {
		path   string
		header []string
		status int
		code   string
	}{
		{"/v1/payment_intents", []string{"Authorization", "Bearer other"}, 401, ""},
		{"/v1/payment_intents/" + id, nil, 404, "resource_missing"},
		{"/v1/payment_intents/" + id, []string{"Stripe-Account", "acct_else"}, 403, "account_invalid"},
		{"/v1/payment_intents?frob=1", nil, 400, "parameter_unknown"},
		{"/v1/payment_intents?limit=101", nil, 400, "parameter_invalid_integer"},
		{"/v1/payment_intents?starting_after=pi_none", nil, 400, "resource_missing"},
		{"/v1/frobnicators", nil, 404, ""},
		{"/v1/charges?expand[]=data.frob", nil, 200, ""},
	} {
		status, header, body := get(tt.path, tt.header...)
		e, _ := body["error"].(map[string]any)
		code, _ := e["code"].(string)
		if status != tt.status || code != tt.code || !strings.HasPrefix(header.Get("Request-Id"), "req_") {
			t.Errorf("%s: %d %q, want %d %q", tt.path, status, code, tt.status, tt.code)
		}
	}
	for _, header := range []string{"Stripe-Account", "Stripe-Context"} {
		if status, _, body := get("/v1/payment_intents/"+id, header, "acct_connected"); status != 200 || body["id"] != id {
			t.Errorf("%s: %d", header, status)
		}
	}
	if status, _, _ := get("/v1/payment_intents/"+id+"?expand[]=frob", "Stripe-Account", "acct_connected"); status != 400 {
		t.Errorf("an unknown expansion is answered %d", status)
	}
}

func TestStripeEventsCanBeFetched(t *testing.T) {
	t.Parallel()
	p, get := newStripe(t)
	p.Thin = true
	id, ns := p.CreateIntent(100, "hkd", sandbox.StripeIntent{})
	for i, path := range []string{"/v1/events/", "/v2/core/events/"} {
		var sent map[string]any
		if err := json.Unmarshal(ns[i].Body, &sent); err != nil {
			t.Fatal(err)
		}
		if status, _, body := get(path + fmt.Sprint(sent["id"])); status != 200 || body["type"] != sent["type"] {
			t.Errorf("%s: %d %v", path, status, body["type"])
		}
	}
	if _, _, body := get("/v1/events?type=payment_intent.*"); len(stripeIDs(body)) != 1 {
		t.Errorf("events of %s: %v", id, stripeIDs(body))
	}
	if _, _, body := get("/v1/events?types[]=charge.refunded"); len(stripeIDs(body)) != 0 {
		t.Errorf("events: %v", stripeIDs(body))
	}
}

func TestStripeAtOnce(t *testing.T) {
	t.Parallel()
	p, get := newStripe(t)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 3 {
				id, _ := p.CreateIntent(100, "hkd", sandbox.StripeIntent{})
				_, err := p.Succeed(id)
				_, _, refused := p.Refund(id, 10, "succeeded")
				if status, _, _ := get("/v1/payment_intents/" + id + "?expand[]=latest_charge.refunds"); status != 200 || err != nil || refused != nil {
					t.Errorf("%d %v %v", status, err, refused)
				}
				get("/v1/events?limit=20")
				p.Paths()
			}
		})
	}
	wg.Wait()
}

func TestStripeIdsAreTheSameEachTime(t *testing.T) {
	t.Parallel()
	one, _ := newStripe(t)
	two, _ := newStripe(t)
	a, first := one.CreateIntent(100, "hkd", sandbox.StripeIntent{})
	b, second := two.CreateIntent(100, "hkd", sandbox.StripeIntent{})
	if a != b || string(first[0].Body) != string(second[0].Body) {
		t.Errorf("%s and %s", a, b)
	}
	if _, err := one.Capture(a, 1); err == nil {
		t.Error("captured what was never authorised")
	}
	if _, err := one.Succeed("pi_none"); err == nil {
		t.Error("paid what doesn't exist")
	}
}
