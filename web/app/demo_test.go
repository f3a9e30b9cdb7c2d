package app

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"counterfoil/models"
	"counterfoil/models/connect"
	"counterfoil/models/seal"
	"counterfoil/models/staff"
	"counterfoil/models/store/storetest"
	"counterfoil/web/config"
)

var demoServe = config.Serve{Addr: "127.0.0.1:0", Zone: "Asia/Hong_Kong", BodyLimit: 8 << 20, BodyMemory: 32 << 20}

// demoOn builds a demonstration on a database and runs it until the test ends.
func demoOn(t *testing.T, dsn string, rush time.Duration) *demo {
	t.Helper()
	var log bytes.Buffer
	var mu sync.Mutex
	t.Cleanup(func() {
		mu.Lock()
		defer mu.Unlock()
		if t.Failed() {
			text := log.String()
			t.Log("log:\n" + text[max(0, len(text)-8000):])
		}
	})
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	d, err := newDemo(ctx, config.Database{URL: dsn, Key: seal.New(), Data: t.TempDir()}, demoServe, 42,
		options{log: slog.New(slog.NewTextHandler(&locked{&mu, &log}, &slog.HandlerOptions{Level: slog.LevelWarn}))})
	if err != nil {
		t.Fatal(err)
	}
	d.town.Rush = rush
	d.town.Pace = 250 * time.Millisecond
	d.town.Trouble = func(err error) { t.Error(err) }
	done := make(chan error, 1)
	go func() { done <- d.run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error("stop:", err)
		}
		d.stop()
	})
	return d
}

// A demoOrder is what the test reads of an order.
type demoOrder struct {
	ID, Number, Connection, Currency                            string
	Payment, Refund, Dispute, Fulfillment, Cancellation, Return string
	Verification                                                struct{ State string }
	Objects                                                     []struct{ Kind string }
}

func demoAsk(t *testing.T, d *demo, path string, into any) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, d.address()+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+d.token)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		t.Fatalf("%s: status %d", path, res.StatusCode)
	}
	if err := json.NewDecoder(res.Body).Decode(into); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

func demoOrders(t *testing.T, d *demo) []demoOrder {
	var all []demoOrder
	for cursor := ""; ; {
		var page struct {
			Items []demoOrder
			Next  string
		}
		demoAsk(t, d, "/api/v1/orders?limit=200&cursor="+url.QueryEscape(cursor), &page)
		all = append(all, page.Items...)
		if cursor = page.Next; cursor == "" {
			return all
		}
	}
}

// demoLinked tells whether two platforms describe some order of the shop.
func demoLinked(t *testing.T, d *demo) bool {
	for _, o := range demoOrders(t, d) {
		if o.Connection != "hk-main" {
			continue
		}
		demoAsk(t, d, "/api/v1/orders/"+o.ID, &o)
		kinds := map[string]bool{}
		for _, x := range o.Objects {
			kinds[x.Kind] = true
		}
		if kinds["order"] && kinds["payment_intent"] {
			return true
		}
	}
	return false
}

// interesting are the states that a newcomer should find within a minute.
var interesting = []string{
	"payment pending", "payment authorized", "payment partially_paid", "payment paid", "payment failed", "payment voided", "payment review",
	"refund none", "refund pending", "refund partial", "refund full",
	"dispute none", "dispute open", "dispute won", "dispute lost",
	"fulfillment unfulfilled", "fulfillment in_progress", "fulfillment partial", "fulfillment fulfilled", "fulfillment held",
	"cancellation active", "cancellation requested", "cancellation cancelled",
	"return none", "return requested", "return in_progress", "return received", "return declined",
	"currency HKD", "currency TWD", "currency USD", "currency JPY",
	"connection hk-main", "connection tw-main", "connection stripe-web", "connection rr-counter",
	"verification verified", "verification unverified", "verification review",
}

func TestDemoShowsEveryState(t *testing.T) {
	t.Parallel()
	d := demoOn(t, storetest.New(t), time.Millisecond)
	seen := map[string]int{}
	missing := func() (none []string) {
		clear(seen)
		for _, o := range demoOrders(t, d) {
			for _, s := range []string{"payment " + o.Payment, "refund " + o.Refund, "dispute " + o.Dispute, "fulfillment " + o.Fulfillment,
				"cancellation " + o.Cancellation, "return " + o.Return, "currency " + o.Currency, "connection " + o.Connection, "verification " + o.Verification.State} {
				seen[s]++
			}
			seen["orders"]++
		}
		for _, s := range interesting {
			if seen[s] == 0 {
				none = append(none, s)
			}
		}
		return none
	}
	for end := time.Now().Add(4 * patience); ; <-time.After(400 * time.Millisecond) {
		none := missing()
		if len(none) == 0 && seen["orders"] >= 60 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("%d orders, none of %s", seen["orders"], strings.Join(none, ", "))
		}
	}
	if !demoLinked(t, d) {
		t.Error("no order of the shop has its payment at Stripe")
	}
	demoSends(t, d)

	var failed struct {
		Items []struct{ ID, Topic, Error string }
	}
	demoAsk(t, d, "/api/v1/events?state=failed", &failed)
	for _, e := range failed.Items {
		t.Errorf("event %s (%s) failed: %s", e.ID, e.Topic, e.Error)
	}
	var connections struct{ Items []struct{ Slug string } }
	demoAsk(t, d, "/api/v1/connections", &connections)
	if len(connections.Items) != 5 {
		t.Errorf("%d connections", len(connections.Items))
	}
	for _, c := range d.app.book.All() {
		u, err := url.Parse(c.APIURL)
		if err != nil || !config.Loopback(u.Host) || !c.Demo {
			t.Errorf("%s asks %q, which may be a real platform; demo %t", c.Slug, c.APIURL, c.Demo)
		}
	}
}

// demoSends waits until follow-ups went every way that the demonstration has: what the
// warehouse took is exactly what it is said to have taken.
func demoSends(t *testing.T, d *demo) {
	t.Helper()
	warehouse, _ := d.town.Warehouse()
	for end := time.Now().Add(patience); ; <-time.After(200 * time.Millisecond) {
		taken := warehouse.Slips()
		ways := map[string]int{}
		var done, byHand struct {
			Items []struct{ Shop, Kind, State, Receipt string }
		}
		demoAsk(t, d, "/api/v1/actions?state=done&limit=200", &done)
		for _, a := range done.Items {
			if a.Shop != "hk" || a.Kind != string(models.FulfillmentInstruction) || !strings.HasPrefix(a.Receipt, "WH-") {
				t.Errorf("done is %+v", a)
			}
			ways["sent"]++
		}
		demoAsk(t, d, "/api/v1/actions?state=manual", &byHand)
		ways["by hand"] = len(byHand.Items)
		if ways["sent"] > 0 && ways["by hand"] > 0 && ways["sent"] <= warehouse.Slips() && ways["sent"] >= taken {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%v, the warehouse took %d", ways, taken)
		}
	}
}

func TestDemoStartsAnewAndLetsEveryRoleIn(t *testing.T) {
	t.Parallel()
	dsn := storetest.New(t)
	given(t, config.Database{URL: dsn, Key: seal.New(), Data: t.TempDir()}, connected(true))
	d := demoOn(t, dsn, time.Hour)
	if _, err := d.app.book.Slug(context.Background(), "pay"); err == nil {
		t.Error("the last demonstration's connection is still there")
	}
	var said bytes.Buffer
	if err := d.introduce(&said); err != nil {
		t.Fatal(err)
	}
	for _, p := range demoStaff {
		if !strings.Contains(said.String(), p.Email) || !strings.Contains(said.String(), p.Name) {
			t.Errorf("%s isn't introduced", p.Email)
		}
		jar, err := cookiejar.New(nil)
		if err != nil {
			t.Fatal(err)
		}
		client := &http.Client{Jar: jar}
		form := url.Values{"email": {p.Email}, "password": {d.password}}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, d.address()+"/login", strings.NewReader(form.Encode()))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		res, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != http.StatusOK || res.Request.URL.Path != "/orders" {
			t.Errorf("%s: status %d at %s", p.Email, res.StatusCode, res.Request.URL.Path)
		}
	}
	for _, want := range []string{d.address(), d.password, d.token, "rr-counter"} {
		if !strings.Contains(said.String(), want) {
			t.Errorf("the introduction lacks %q", want)
		}
	}
}

// given does something to a database before a demonstration comes.
func given(t *testing.T, db config.Database, do func(*base) error) {
	t.Helper()
	b, err := forCommand(context.Background(), db)
	if err != nil {
		t.Fatal(err)
	}
	defer b.shut()
	if err := do(b); err != nil {
		t.Fatal(err)
	}
}

func connected(isDemo bool) func(*base) error {
	return func(b *base) error {
		return b.book.Add(context.Background(), "console", connect.Setup{Platform: models.Stripe, Slug: "pay", Account: "acct_own", Shop: "hk",
			APIURL: "http://127.0.0.1:9", Demo: isDemo, Secrets: connect.Secrets{Webhook: []string{"whsec_own"}}})
	}
}

func TestDemoDatabase(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	for _, c := range []struct {
		name  string
		given func(*base) error
		sql   string
		want  string
	}{
		{name: "new"},
		{name: "an earlier demonstration", given: connected(true)},
		{name: "a console", given: connected(false), want: "no demonstration"},
		{name: "a console that begins", want: "no demonstration", given: func(b *base) error {
			_, err := b.staff.AddAccount(ctx, commandLine, staff.NewAccount{Email: "a@shop.example", Name: "A", Role: models.Admin})
			return err
		}},
		{name: "something else", sql: "DROP TABLE staff CASCADE", want: "aren't a demonstration's"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dsn := storetest.New(t)
			db := config.Database{URL: dsn, Key: seal.New(), Data: t.TempDir()}
			if c.given != nil {
				given(t, db, c.given)
			}
			conn, err := pgx.Connect(ctx, dsn)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close(ctx)
			if c.sql != "" {
				if _, err := conn.Exec(ctx, c.sql); err != nil {
					t.Fatal(err)
				}
			}
			count := func() (n int) {
				if err := conn.QueryRow(ctx, "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").Scan(&n); err != nil {
					t.Fatal(err)
				}
				return n
			}
			before := count()
			hold, err := emptied(ctx, dsn)
			if c.want != "" {
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("got %v, want %q", err, c.want)
				}
				if after := count(); after != before {
					t.Errorf("%d tables before, %d after", before, after)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer hold.Close(ctx)
			if c.given != nil && count() != 0 {
				t.Errorf("%d tables are left", count())
			}
			if _, err := emptied(ctx, dsn); err == nil || !strings.Contains(err.Error(), "another demonstration") {
				t.Errorf("a second one: %v", err)
			}
		})
	}
}
