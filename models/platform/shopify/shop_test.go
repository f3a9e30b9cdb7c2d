package shopify

import (
	"context"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"counterfoil/models"
	"counterfoil/models/platform"
	"counterfoil/models/platform/sandbox"
)

// A clock that only the test moves.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

const account = "example-shop.myshopify.com"

// A world is a sandbox shop behind HTTP and the adapter that speaks to it.
type world struct {
	*Adapter
	t     *testing.T
	shop  *sandbox.Shopify
	clock *clock
	url   string
}

func newWorld(t *testing.T, change ...func(*platform.Config)) *world {
	t.Helper()
	c := &clock{now: time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC)}
	shop := sandbox.NewShopify(sandbox.ShopifyConfig{Account: account, Secret: "s1", ClientID: "app", Token: "shpat_static", Now: c.Now})
	srv := httptest.NewServer(shop)
	t.Cleanup(srv.Close)
	cfg := platform.Config{Slug: "hk", Account: account, APIURL: srv.URL, Webhook: []string{"s1"}, APIToken: "shpat_static", Now: c.Now,
		Settings: map[string]string{"rate": "1000"}}
	for _, f := range change {
		f(&cfg)
	}
	a, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return &world{Adapter: a, t: t, shop: shop, clock: c, url: srv.URL}
}

// order places an order and plays what happens to it.
func (w *world) order(o sandbox.ShopifyOrder, acts ...func(id int64) ([]sandbox.Notification, error)) (int64, []sandbox.Notification) {
	w.t.Helper()
	id, all, err := w.shop.CreateOrder(o)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, act := range acts {
		w.clock.pass(time.Second)
		ns, err := act(id)
		if err != nil {
			w.t.Fatal(err)
		}
		all = append(all, ns...)
	}
	return id, all
}

func (w *world) ref(id int64) models.ObjectRef {
	return models.ObjectRef{Account: account, Kind: KindOrder, ID: sandbox.ShopifyGID(id)}
}

func (w *world) read(refs ...models.ObjectRef) map[models.ObjectRef]models.Observation {
	w.t.Helper()
	got, err := w.Fetch(context.Background(), refs)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, r := range refs {
		if _, ok := got[r]; !ok {
			w.t.Fatalf("no observation for %v", r)
		}
	}
	return got
}

func (w *world) one(id int64) models.Observation {
	w.t.Helper()
	return w.read(w.ref(id))[w.ref(id)]
}

func (w *world) request(n sandbox.Notification) platform.Request {
	return platform.Request{Header: n.Header, Body: n.Body}
}

// axes writes an observation's statements in one line.
func axes(o models.Observation) string {
	var out []string
	for _, a := range models.Axes {
		s, ok := o.Axes[a]
		word := string(s.State)
		if !ok {
			word = "-"
		}
		if s.Unclear {
			word += "?"
		}
		out = append(out, word)
	}
	return strings.Join(out, " ")
}

func faults(o models.Observation) string {
	var out []string
	for _, f := range o.Faults {
		s := string(f.Kind) + " " + f.Path
		if f.Word != "" {
			s += "=" + f.Word
		}
		out = append(out, s)
	}
	slices.Sort(out)
	return strings.Join(out, "; ")
}
