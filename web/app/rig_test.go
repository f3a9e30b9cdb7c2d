package app

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"counterfoil/models"
	"counterfoil/models/connect"
	"counterfoil/models/platform/sandbox"
	"counterfoil/models/seal"
	"counterfoil/models/staff"
	"counterfoil/models/store/storetest"
	"counterfoil/web/config"
)

// patience is how long a test waits for what should come at once.
const patience = 45 * time.Second

// A rig is the whole program on a database of its own, with the sandbox's platforms.
type rig struct {
	t     testing.TB
	waits time.Duration
	app   *App
	base  string
	doors func() string // where the next request goes; nil: to base
	token string
	dsn   string
	key   string

	shop    *sandbox.Shopify
	stripe  *sandbox.Stripe
	receipt *sandbox.ReceiptRoller
	clock   *clock
	people  *people
}

// A clock is the real one plus what a test adds.
type clock struct {
	mu  sync.Mutex
	add time.Duration
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.add)
}

func (c *clock) forward(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.add += d
}

// start runs the program on a database of its own.
func start(t testing.TB) *rig { return startOn(t, storetest.New(t)) }

func startOn(t testing.TB, dsn string) *rig {
	t.Helper()
	return (&rig{t: t, waits: patience, clock: &clock{}, people: &people{}, dsn: dsn, key: seal.New()}).start()
}

// beside runs a second process' program on the same database.
func (r *rig) beside() *rig {
	r.t.Helper()
	return (&rig{t: r.t, waits: r.waits, clock: r.clock, people: &people{}, dsn: r.dsn, key: r.key}).start()
}

func (r *rig) start() *rig {
	t := r.t
	t.Helper()
	var log bytes.Buffer
	var mu sync.Mutex
	t.Cleanup(func() {
		if t.Failed() {
			mu.Lock()
			defer mu.Unlock()
			text := log.String()
			t.Log("log:\n" + text[max(0, len(text)-8000):])
		}
	})
	ctx, cancel := context.WithCancel(context.Background())
	app, err := New(ctx, config.Database{URL: r.dsn, Key: r.key, Data: t.TempDir()},
		config.Serve{Addr: "127.0.0.1:0", Zone: "Asia/Hong_Kong", BodyLimit: 8 << 20, BodyMemory: 32 << 20}, false,
		options{now: r.clock.now, log: slog.New(slog.NewTextHandler(&locked{&mu, &log}, &slog.HandlerOptions{Level: slog.LevelWarn}))})
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	r.app = app
	r.base = "http://" + app.Addr
	done := make(chan error, 1)
	go func() { done <- app.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error("stop:", err)
		}
	})
	r.token, _, err = app.staff.AddToken(ctx, commandLine, staff.NewToken{Name: "test " + app.Addr, Role: models.Admin})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

type locked struct {
	mu *sync.Mutex
	w  io.Writer
}

func (l *locked) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(b)
}

// holding is the rig with another token.
func (r *rig) holding(n staff.NewToken) *rig {
	r.t.Helper()
	if n.Name == "" {
		n.Name = string(n.Role)
	}
	token, _, err := r.app.staff.AddToken(context.Background(), commandLine, n)
	if err != nil {
		r.t.Fatal(err)
	}
	other := *r
	other.token = token
	return &other
}

// serve runs a platform's API and gives its address.
func (r *rig) serve(h http.Handler) string {
	s := httptest.NewServer(h)
	r.t.Cleanup(s.Close)
	return s.URL
}

func (r *rig) connect(in connect.Setup) {
	r.t.Helper()
	if err := r.app.book.Add(context.Background(), "console", in); err != nil {
		r.t.Fatal(err)
	}
}

const shopSecret = "shop-client-secret"

// withShopify connects a Shopify shop under the slug hk.
func (r *rig) withShopify(set map[string]string) *rig {
	r.shop = sandbox.NewShopify(sandbox.ShopifyConfig{Account: "hk.myshopify.com", Secret: shopSecret, ClientID: "app", Now: r.clock.now, FirstID: 820982911946155001})
	r.shop.Outbox.URL = r.base + "/hooks/hk"
	r.connect(connect.Setup{Platform: models.Shopify, Slug: "hk", Account: "hk.myshopify.com", Shop: "hk", APIURL: r.serve(r.shop), Set: with(set, "rate", "500"),
		Secrets: connect.Secrets{Webhook: []string{shopSecret}, ClientID: "app", ClientSecret: shopSecret}})
	return r
}

// connectShopify connects a Shopify shop whose API a test plays itself.
func (r *rig) connectShopify(url string) {
	r.connect(connect.Setup{Platform: models.Shopify, Slug: "hk", Account: "hk.myshopify.com", Shop: "hk", APIURL: url, Set: map[string]string{"rate": "500", "sweep_every": "0s"},
		Secrets: connect.Secrets{Webhook: []string{shopSecret}, APIToken: "token"}})
}

// withStripe connects a Stripe account under the slug pay, in the given shop.
func (r *rig) withStripe(shop string, set map[string]string) *rig {
	r.stripe = sandbox.NewStripe("acct_own", "sk_test_key", "whsec_test", r.clock.now)
	r.stripe.Outbox.URL = r.base + "/hooks/pay"
	r.connect(connect.Setup{Platform: models.Stripe, Slug: "pay", Account: "acct_own", Shop: shop, APIURL: r.serve(r.stripe.Handler()), Set: with(set, "rate", "500"),
		Secrets: connect.Secrets{Webhook: []string{"whsec_test"}, APIToken: "sk_test_key"}})
	return r
}

// withReceipts connects a ReceiptRoller organization under the slug till.
func (r *rig) withReceipts(api bool) *rig {
	r.receipt = sandbox.NewReceiptRoller("org1", "till-secret", r.clock.now)
	r.receipt.Outbox.URL = r.base + "/hooks/till"
	in := connect.Setup{Platform: models.ReceiptRoller, Slug: "till", Account: "org1", Shop: "till", Set: map[string]string{"currency": "HKD", "rate": "500", "sweep_every": "0s"},
		Secrets: connect.Secrets{Webhook: []string{"till-secret"}}}
	if api {
		in.APIURL = r.serve(r.receipt.Handler())
		in.Secrets.APIToken = r.receipt.Token
	}
	r.connect(in)
	return r
}

// with adds a setting; nothing is compared unless a test asks for it.
func with(set map[string]string, key, value string) map[string]string {
	out := map[string]string{key: value, "sweep_every": "0s"}
	for k, v := range set {
		out[k] = v
	}
	return out
}

// post sends a notification and gives the status of the answer.
func (r *rig) post(slug string, n sandbox.Notification) int {
	r.t.Helper()
	status, _ := r.send(slug, n.Header, n.Body)
	return status
}

func (r *rig) send(slug string, h http.Header, body []byte) (int, http.Header) {
	r.t.Helper()
	return r.sendBy(http.DefaultClient, slug, h, body)
}

func (r *rig) sendBy(client *http.Client, slug string, h http.Header, body []byte) (int, http.Header) {
	r.t.Helper()
	req, err := http.NewRequest(http.MethodPost, r.door()+"/hooks/"+slug, bytes.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header = h.Clone()
	res, err := client.Do(req)
	if err != nil {
		r.t.Error(err)
		return 0, nil
	}
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, res.Body)
	return res.StatusCode, res.Header
}

// postAll sends notifications one after another; each has to be kept.
func (r *rig) postAll(slug string, ns ...sandbox.Notification) {
	r.t.Helper()
	for _, n := range ns {
		if got := r.post(slug, n); got != http.StatusOK {
			r.t.Fatalf("%s answered %d", n.Topic, got)
		}
	}
}

// must gives the notifications of a change that has to work.
func must(ns []sandbox.Notification, err error) []sandbox.Notification {
	if err != nil {
		panic(err)
	}
	return ns
}

// door is where the next request goes.
func (r *rig) door() string {
	if r.doors != nil {
		return r.doors()
	}
	return r.base
}

// call asks the JSON API.
func (r *rig) call(method, path string, into any) int {
	r.t.Helper()
	return r.callWith(method, path, "", into)
}

func (r *rig) callWith(method, path, body string, into any) int {
	r.t.Helper()
	req, err := http.NewRequest(method, r.door()+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+r.token)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	if into != nil {
		if err := json.Unmarshal(text, into); err != nil {
			r.t.Fatalf("%s %s: %v: %s", method, path, err, text)
		}
	}
	return res.StatusCode
}

// seenOrder is an order as programs read it.
type seenOrder struct {
	ID           string
	Number       string
	Currency     string
	Total        string
	Paid         string
	Refunded     string
	Payment      *string
	Refund       *string
	Dispute      *string
	Fulfillment  *string
	Cancellation *string
	Return       *string
	Announced    bool
	Test         bool
	Verification struct{ State, Reason string }
	Unresolved   struct{ Events, Exceptions int }
	Ledger       []struct {
		Axis, From, To string
		Cause          struct{ Kind, ID string }
		Actor          string
	}
	Actions []seenAction
}

func (o seenOrder) states() string {
	text := func(s *string) string {
		if s == nil {
			return "-"
		}
		return *s
	}
	return strings.Join([]string{text(o.Payment), text(o.Refund), text(o.Dispute), text(o.Fulfillment), text(o.Cancellation), text(o.Return)}, " ")
}

// order finds the one order with a reference and reads it whole.
func (r *rig) order(ref string) (seenOrder, bool) {
	r.t.Helper()
	var list struct{ Items []seenOrder }
	if code := r.call(http.MethodGet, "/api/v1/orders?ref="+ref, &list); code != http.StatusOK {
		r.t.Fatalf("orders?ref=%s answered %d", ref, code)
	}
	if len(list.Items) > 1 {
		r.t.Fatalf("%d orders have the reference %s", len(list.Items), ref)
	}
	if len(list.Items) == 0 {
		return seenOrder{}, false
	}
	var o seenOrder
	r.call(http.MethodGet, "/api/v1/orders/"+list.Items[0].ID, &o)
	return o, true
}

type seenEvent struct {
	ID, Topic, State, Error string
	EventID                 string  `json:"event_id"`
	OrderID                 *string `json:"order_id"`
	Deliveries              int64
}

func (r *rig) events() []seenEvent {
	r.t.Helper()
	var list struct{ Items []seenEvent }
	r.call(http.MethodGet, "/api/v1/events?limit=200", &list)
	return list.Items
}

// wait waits for a condition; what says what is missing.
func (r *rig) wait(what string, ok func() bool) {
	r.t.Helper()
	deadline := time.Now().Add(r.waits)
	for !ok() {
		if time.Now().After(deadline) {
			events := r.events()
			r.t.Fatalf("still not: %s\n%d events, the last: %+v", what, len(events), events[:min(12, len(events))])
		}
		<-time.After(15 * time.Millisecond)
	}
}

// settled waits until no event is unprocessed.
func (r *rig) settled() {
	r.t.Helper()
	r.wait("every event is processed", func() bool {
		var n int
		r.scan(&n, `SELECT count(*) FROM events WHERE due_at IS NOT NULL`)
		return n == 0
	})
}

func (r *rig) scan(into any, query string, args ...any) {
	r.t.Helper()
	if err := r.app.store.SQL().QueryRow(query, args...).Scan(into); err != nil {
		r.t.Fatal(query, err)
	}
}

// lock begins a transaction that locks something, until the test ends at the latest.
func (r *rig) lock(query string) *sql.Tx {
	r.t.Helper()
	tx, err := r.app.store.SQL().Begin()
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = tx.Rollback() })
	if _, err := tx.Exec(query); err != nil {
		r.t.Fatal(query, err)
	}
	return tx
}

func gid(id int64) string { return fmt.Sprintf("gid://shopify/Order/%d", id) }
