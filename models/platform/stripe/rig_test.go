package stripe_test

import (
	"context"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"counterfoil/models"
	"counterfoil/models/platform"
	"counterfoil/models/platform/sandbox"
	"counterfoil/models/platform/stripe"
)

const (
	ownAccount = "acct_own"
	apiKey     = "sk_test_sandbox"
	secret     = "whsec_sandbox"
)

// A clock that tests move.
type clock struct {
	mu sync.Mutex
	t  time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
}

// A rig is the adapter with a sandbox behind real HTTP.
type rig struct {
	*sandbox.Stripe
	a     *stripe.Adapter
	clock *clock
	cfg   platform.Config
}

func newRig(t *testing.T, set ...func(*platform.Config)) *rig {
	t.Helper()
	c := &clock{t: time.Date(2026, 11, 28, 14, 2, 0, 0, time.UTC)}
	p := sandbox.NewStripe(ownAccount, apiKey, secret, c.now)
	srv := httptest.NewServer(p.Handler())
	t.Cleanup(srv.Close)
	cfg := platform.Config{Slug: "stripe", Account: ownAccount, APIURL: srv.URL, APIToken: apiKey, Webhook: []string{secret},
		Settings: map[string]string{"rate": "10000"}, Now: c.now}
	for _, f := range set {
		f(&cfg)
	}
	return &rig{Stripe: p, a: adapter(t, cfg), clock: c, cfg: cfg}
}

func adapter(t testing.TB, cfg platform.Config) *stripe.Adapter {
	t.Helper()
	a, err := stripe.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func setting(name, value string) func(*platform.Config) {
	return func(c *platform.Config) { c.Settings[name] = value }
}

func intentRef(id string) models.ObjectRef { return models.ObjectRef{Kind: "payment_intent", ID: id} }

// fetch reads one object.
func (r *rig) fetch(t *testing.T, ref models.ObjectRef) models.Observation {
	t.Helper()
	got, err := r.a.Fetch(context.Background(), []models.ObjectRef{ref})
	if err != nil {
		t.Fatal(err)
	}
	o, ok := got[ref]
	if !ok || len(got) != 1 {
		t.Fatalf("the answer isn't about %v alone: %v", ref, got)
	}
	return o
}

// notice verifies and parses a notification.
func (r *rig) notice(t *testing.T, n sandbox.Notification) models.Notice {
	t.Helper()
	req := platform.Request{Header: n.Header, Body: n.Body}
	if _, err := r.a.Verify(req, r.clock.now()); err != nil {
		t.Fatalf("%s: %v", n.Topic, err)
	}
	return r.a.Parse(req, r.clock.now())
}

// must unwraps a change of the sandbox.
func must(t *testing.T) func(ns []sandbox.Notification, err error) []sandbox.Notification {
	t.Helper()
	return func(ns []sandbox.Notification, err error) []sandbox.Notification {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return ns
	}
}

// paid makes a paid intent that names its order.
func (r *rig) paid(t *testing.T, amount int64, currency string) string {
	t.Helper()
	id, _ := r.CreateIntent(amount, currency, sandbox.StripeIntent{Metadata: map[string]string{"order_id": "1001"}})
	must(t)(r.Succeed(id))
	return id
}

func wantState(t *testing.T, o models.Observation, axis models.Axis, want models.State) {
	t.Helper()
	s, ok := o.Axes[axis]
	if !ok || s.State != want {
		t.Errorf("%s is %q (%+v), want %q", axis, s.State, o.Axes, want)
	}
}

func wantAmounts(t *testing.T, o models.Observation, currency string, total, received, refunded int64) {
	t.Helper()
	want := models.Amounts{Currency: currency, Total: total, Received: received, Refunded: refunded}
	if o.Amounts == nil || *o.Amounts != want {
		t.Errorf("amounts are %+v, want %+v", o.Amounts, want)
	}
}
