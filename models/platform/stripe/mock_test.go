package stripe_test

import (
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"counterfoil/models"
	"counterfoil/models/platform"
)

const mockModule = "github.com/stripe/stripe-mock@v0.203.0"

// mockBinary installs Stripe's own mock, which knows the published specification,
// into the user's cache.
func mockBinary(t *testing.T) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(cache, "counterfoil-test", "stripe-mock-v0.203.0")
	binary := filepath.Join(dir, "stripe-mock")
	if _, err := os.Stat(binary); err == nil {
		return binary
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "go", "install", mockModule)
	// Elsewhere than in our own module, whose flags and sums aren't meant for it.
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), "GOBIN="+dir, "GOFLAGS=")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go install %s: %v (COUNTERFOIL_SKIP_STRIPE_MOCK=1 skips this test where there is no network)\n%s", mockModule, err, out)
	}
	return binary
}

// freeAddress is a loopback address that nobody listens on.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// startMock starts the mock and waits until it answers. Both addresses are given:
// with one alone it opens the other on all interfaces.
func startMock(t *testing.T) string {
	t.Helper()
	address := freeAddress(t)
	cmd := exec.Command(mockBinary(t), "-http-addr", address, "-https-addr", freeAddress(t))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	exited := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(exited)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-exited
	})
	deadline := time.After(30 * time.Second)
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for {
		if c, err := net.Dial("tcp", address); err == nil {
			_ = c.Close()
			return "http://" + address
		}
		select {
		case <-exited:
			t.Fatal("stripe-mock ended at once")
		case <-deadline:
			t.Fatal("stripe-mock doesn't answer")
		case <-again.C:
		}
	}
}

// A recorder keeps how each call was answered. Where an address is in instead, what
// was answered is replaced: the mock's fixed objects don't lead to every call.
type recorder struct {
	instead map[string]string

	mu    sync.Mutex
	calls map[string]int
}

func (r *recorder) RoundTrip(req *http.Request) (*http.Response, error) {
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls[req.URL.Path+"?"+req.URL.RawQuery] = res.StatusCode
	if body, ok := r.instead[req.URL.Path]; ok && res.StatusCode == http.StatusOK && !req.URL.Query().Has("starting_after") {
		_ = res.Body.Close()
		res.Body, res.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
	}
	return res, nil
}

// instead leads to the calls that only some payments need.
func instead() map[string]string {
	const page = `{"data": [{"id": "x_1"}], "has_more": true}`
	return map[string]string{
		"/v1/payment_intents/x_late": `{"id": "x_late", "status": "succeeded", "amount": 5, "amount_received": 5, "currency": "usd", "latest_charge": null}`,
		"/v1/charges":                `{"data": [], "has_more": false}`,
		"/v1/charges/x_alone":        `{"id": "x_alone", "status": "succeeded", "disputed": true, "captured": true, "amount": 5, "currency": "usd"}`,
		"/v1/refunds":                page,
		"/v1/disputes":               page,
	}
}

// The mock refuses unknown addresses, parameters and expansions, so every call that
// the adapter can make must be accepted. What it answers is fixed and means nothing.
func TestEveryCallIsLegal(t *testing.T) {
	t.Parallel()
	if os.Getenv("COUNTERFOIL_SKIP_STRIPE_MOCK") == "1" {
		t.Skip("COUNTERFOIL_SKIP_STRIPE_MOCK is 1")
	}
	rec := &recorder{instead: instead(), calls: map[string]int{}}
	a := adapter(t, platform.Config{APIURL: startMock(t), APIToken: "sk_test_x", HTTP: &http.Client{Transport: rec},
		Settings: map[string]string{"rate": "1000"}})
	ctx := t.Context()
	refs := []models.ObjectRef{{Kind: "payment_intent", ID: "x_late"}, {Kind: "charge", ID: "x_alone"}}
	for _, kind := range []string{"payment_intent", "charge", "refund", "dispute", "checkout_session", "invoice", "invoice_payment"} {
		for _, account := range []string{"", "acct_1", "org_1/acct_1"} {
			refs = append(refs, models.ObjectRef{Account: account, Kind: kind, ID: "x_123"})
		}
	}
	for _, ref := range refs {
		if _, err := a.Fetch(ctx, []models.ObjectRef{ref}); err != nil {
			t.Errorf("fetch %v: %v", ref, err)
		}
	}
	window := platform.Window{Since: time.Unix(1764338520, 0), Until: time.Unix(1764348520, 0)}
	for _, window.Kind = range a.Kinds() {
		for _, window.Cursor = range []string{"", "x_123"} {
			if _, err := a.Changed(ctx, window); err != nil {
				t.Errorf("list %v: %v", window, err)
			}
		}
	}
	if _, _, err := a.Recent(ctx, 2); err != nil {
		t.Error(err)
	}
	if _, err := a.Check(ctx); err != nil {
		t.Error(err)
	}
	for call, status := range rec.calls {
		if status != http.StatusOK {
			t.Errorf("%s is answered %d", call, status)
		}
	}
	for _, part := range []string{"/v1/payment_intents/x_123?expand", "/v1/charges/x_alone?expand", "/v1/charges?expand", "/v1/refunds/x_123?",
		"/v1/refunds?limit=100&payment_intent=x_late&starting_after", "/v1/refunds?charge=x_alone", "/v1/disputes/x_123?",
		"/v1/disputes?limit=100&payment_intent=x_late&starting_after", "/v1/disputes?charge=x_alone", "/v1/checkout/sessions/x_123?",
		"/v1/checkout/sessions?limit=1&payment_intent=", "/v1/invoice_payments?invoice=", "/v1/invoice_payments/x_123?", "/v1/invoices/x_123?",
		"/v1/events?created", "/v1/payment_intents?limit=1", "/v1/payment_intents?limit=100"} {
		made := false
		for call := range rec.calls {
			made = made || strings.HasPrefix(call, part)
		}
		if !made {
			t.Errorf("no call begins with %s: %v", part, slices.Sorted(maps.Keys(rec.calls)))
		}
	}
}
