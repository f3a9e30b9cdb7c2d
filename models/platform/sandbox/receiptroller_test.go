package sandbox_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"counterfoil/models/platform/sandbox"
)

func noon() time.Time { return time.Date(2026, 11, 15, 3, 0, 0, 0, time.UTC) }

// A till is a ReceiptRoller behind HTTP.
type till struct {
	*sandbox.ReceiptRoller
	t   *testing.T
	url string
}

func newTill(t *testing.T) *till {
	t.Helper()
	p := sandbox.NewReceiptRoller("org1", "secret", noon)
	server := httptest.NewServer(p.Handler())
	t.Cleanup(server.Close)
	return &till{p, t, server.URL}
}

// call makes a call and reads its JSON answer.
func (p *till) call(method, path, token, body string) (int, any) {
	p.t.Helper()
	req, err := http.NewRequestWithContext(p.t.Context(), method, p.url+path, strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		p.t.Fatal(err)
	}
	defer res.Body.Close()
	var v any
	if err := json.NewDecoder(res.Body).Decode(&v); err != nil {
		p.t.Fatalf("%s %s: %v", method, path, err)
	}
	return res.StatusCode, v
}

// field walks down an answer.
func field(v any, path ...string) any {
	for _, name := range path {
		m, _ := v.(map[string]any)
		v = m[name]
	}
	return v
}

func TestReceiptRollerLogin(t *testing.T) {
	t.Parallel()
	p := newTill(t)
	status, v := p.call("POST", "/account/login", "", `{"userName":"console@shop.example","password":"sandbox-password","expire":"2026-11-15T04:00:00.000Z"}`)
	token, _ := field(v, "token").(string)
	if status != 200 || token == "" || field(v, "expire") != "2026-11-15T04:00:00.000Z" || p.Logins() != 1 {
		t.Fatalf("login: %d", status)
	}
	for _, c := range []struct {
		name, method, path, token, body string
		status                          int
	}{
		{"who am I", "GET", "/account/me", token, "", 200},
		{"organizations", "GET", "/account/organizations", token, "", 200},
		{"static token", "GET", "/account/me", "sandbox-token", "", 200},
		{"no token", "GET", "/account/me", "", "", 401},
		{"unknown token", "GET", "/account/me", "x", "", 401},
		{"wrong password", "POST", "/account/login", "", `{"userName":"console@shop.example","password":"x"}`, 401},
		{"unreadable login", "POST", "/account/login", "", `[`, 400},
		{"another organization", "POST", "/org2/receipts", token, `{}`, 403},
		{"wrong sort", "POST", "/org1/receipts", token, `{"sort":"name asc"}`, 400},
		{"empty month", "POST", "/org1/receipts", token, `{"year":2026,"month":1}`, 404},
		{"missing receipt", "GET", "/org1/202611/store1/receipt/x", token, "", 404},
	} {
		status, v := p.call(c.method, c.path, c.token, c.body)
		if status != c.status {
			t.Errorf("%s: %d, want %d", c.name, status, c.status)
		}
		if status >= 400 && field(v, "error") == nil {
			t.Errorf("%s: no error in the answer", c.name)
		}
	}
	p.RevokeTokens()
	if status, _ := p.call("GET", "/account/me", token, ""); status != 401 {
		t.Errorf("a revoked token: %d", status)
	}
	if p.Calls() == 0 {
		t.Error("calls aren't counted")
	}
}

func TestReceiptRollerPages(t *testing.T) {
	t.Parallel()
	p := newTill(t)
	for range 5 {
		p.Issue(sandbox.Receipt{})
	}
	p.Issue(sandbox.Receipt{Store: "other"})
	p.Issue(sandbox.Receipt{Placed: time.Date(2026, 11, 30, 15, 0, 0, 0, time.UTC)}) // December in Tokyo
	for _, c := range []struct {
		body  string
		items int
		first string
		pages float64
	}{
		{`{"year":2026,"month":11,"currentPage":1,"itemsPerPage":4}`, 4, "rcp000001", 2},
		{`{"year":2026,"month":11,"currentPage":2,"itemsPerPage":4}`, 2, "rcp000005", 2},
		{`{"year":2026,"month":11,"currentPage":9,"itemsPerPage":4}`, 0, "", 2},
		{`{"year":2026,"month":11,"sort":"transactionId desc"}`, 6, "rcp000006", 1},
		{`{"year":2026,"month":11,"storeId":"other"}`, 1, "rcp000006", 1},
		{`{"year":2026,"month":12}`, 1, "rcp000007", 1},
	} {
		status, v := p.call("POST", "/org1/receipts", p.Token, c.body)
		items, _ := field(v, "items").([]any)
		if status != 200 || len(items) != c.items || field(v, "totalPages") != c.pages {
			t.Errorf("%s: %d, %d items of %v pages", c.body, status, len(items), field(v, "totalPages"))
			continue
		}
		if c.items > 0 && field(items[0], "receipt", "receiptId") != c.first {
			t.Errorf("%s: first is %v", c.body, field(items[0], "receipt", "receiptId"))
		}
	}
}

func TestReceiptRollerNotifies(t *testing.T) {
	t.Parallel()
	p := newTill(t)
	r, issued := p.Issue(sandbox.Receipt{Lines: []sandbox.ReceiptLine{{Product: "cup", Price: 300, Quantity: 3}}})
	part, err := p.Refund(r.ID, 200)
	if err != nil {
		t.Fatal(err)
	}
	whole, err := p.Refund(r.ID, 0)
	if err != nil {
		t.Fatal(err)
	}
	back, returned, err := p.Return(r.ID)
	if err != nil {
		t.Fatal(err)
	}
	changed, again, err := p.ChangeReceipt(r.ID, func(r *sandbox.Receipt) { r.Lines[0].Quantity = 2 })
	if err != nil {
		t.Fatal(err)
	}
	if r.Total() != 900 || changed.Total() != 600 || back.Type != 2 || back.Total() != 900 {
		t.Errorf("totals %d, %d, %d; type %d", r.Total(), changed.Total(), back.Total(), back.Type)
	}
	seen := map[string]bool{}
	for _, n := range []sandbox.Notification{issued, part, whole, returned, again, p.ProductUpdated("cup"), p.InventoryChanged("cup", 7)} {
		m := hmac.New(sha256.New, []byte("secret"))
		m.Write([]byte(n.Header.Get("X-RR-Timestamp") + "." + string(n.Body)))
		if n.Header.Get("X-RR-Signature") != hex.EncodeToString(m.Sum(nil)) {
			t.Errorf("%s: wrong signature", n.Topic)
		}
		var v any
		if err := json.Unmarshal(n.Body, &v); err != nil {
			t.Fatal(err)
		}
		id, _ := field(v, "event_id").(string)
		if id == "" || seen[id] || id != n.Header.Get("X-RR-Event-Id") || field(v, "type") != n.Topic || field(v, "occurred_at") == nil {
			t.Errorf("%s: id %q", n.Topic, id)
		}
		seen[id] = true
	}
	var v any
	if json.Unmarshal(part.Body, &v) != nil || field(v, "data", "refundedAmount") != 200.0 || field(v, "version") != 2.0 {
		t.Error("the refund's amount or version")
	}
	for _, missing := range []func() error{
		func() error { _, err := p.Refund("x", 1); return err },
		func() error { _, _, err := p.Return("x"); return err },
		func() error { _, _, err := p.ChangeReceipt("x", func(*sandbox.Receipt) {}); return err },
	} {
		if missing() == nil {
			t.Error("a receipt that isn't there is no error")
		}
	}
}

func TestReceiptRollerAgain(t *testing.T) {
	t.Parallel()
	now := noon()
	p := sandbox.NewReceiptRoller("org1", "secret", func() time.Time { return now })
	p.Bare = true
	_, first := p.Issue(sandbox.Receipt{})
	now = now.Add(time.Hour)
	second := p.Again(first)
	if string(first.Body) != string(second.Body) || first.Header.Get("X-RR-Event-Id") != second.Header.Get("X-RR-Event-Id") {
		t.Error("a second try is another event")
	}
	if first.Header.Get("X-RR-Timestamp") == second.Header.Get("X-RR-Timestamp") {
		t.Error("a second try has the first one's time stamp")
	}
	if strings.Contains(string(first.Body), "grandTotal") {
		t.Error("a bare notification carries the receipt")
	}
}

func TestReceiptRollerAtOnce(t *testing.T) {
	t.Parallel()
	p := newTill(t)
	var wg sync.WaitGroup
	var mu sync.Mutex
	ids := map[string]bool{}
	for range 8 {
		wg.Go(func() {
			r, _ := p.Issue(sandbox.Receipt{})
			mu.Lock()
			ids[r.ID] = true
			mu.Unlock()
			if _, _, err := p.ChangeReceipt(r.ID, func(r *sandbox.Receipt) { r.Lines[0].Quantity++ }); err != nil {
				t.Error(err)
			}
			if r.Total() != 1280 {
				t.Error("a change reached a receipt given out before")
			}
			p.call("GET", "/org1/202611/store1/receipt/"+r.ID, p.Token, "")
			p.call("POST", "/org1/receipts", p.Token, `{"year":2026,"month":11}`)
		})
	}
	wg.Wait()
	if len(ids) != 8 {
		t.Errorf("%d ids for eight receipts", len(ids))
	}
}
