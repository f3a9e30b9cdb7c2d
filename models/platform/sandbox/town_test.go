package sandbox

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"counterfoil/models"
)

// A receiver takes what a town sends and remembers it.
type receiver struct {
	*httptest.Server
	status func(n int) int // of the n-th request

	mu  sync.Mutex
	got []string // slug, status that a careful receiver would give, digest of the body
}

// founded is a town of the year 2026 whose notifications go to a receiver, without pauses.
func founded(t *testing.T, seed uint64) (*Town, *receiver) {
	t.Helper()
	now := time.Date(2026, 11, 28, 9, 0, 0, 0, time.UTC)
	town := NewTown(func() time.Time { now = now.Add(time.Second); return now }, seed)
	town.Rush, town.Pace = 0, 4*time.Second
	town.Trouble = func(err error) { t.Error(err) }
	r := &receiver{status: func(int) int { return http.StatusOK }}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, err := io.ReadAll(q.Body)
		if err != nil {
			t.Error(err)
		}
		slug := strings.TrimPrefix(q.URL.Path, "/hooks/")
		word := "forged"
		if genuine(town, slug, q.Header, body) {
			word = "genuine"
		}
		sum := sha256.Sum256(body)
		r.mu.Lock()
		defer r.mu.Unlock()
		w.WriteHeader(r.status(len(r.got)))
		r.got = append(r.got, slug+" "+word+" "+hex.EncodeToString(sum[:8]))
	}))
	t.Cleanup(r.Close)
	town.Deliver(func(slug string) string { return r.URL + "/hooks/" + slug })
	return town, r
}

// genuine tells whether the connection's own secret signed a request.
func genuine(town *Town, slug string, h http.Header, body []byte) bool {
	for _, p := range town.posts {
		if p.Slug != slug {
			continue
		}
		switch p.Platform {
		case models.Shopify:
			return h.Get("X-Shopify-Hmac-Sha256") == shopSigned(p.Webhook[0], body)
		case models.Stripe:
			at, _, _ := strings.Cut(strings.TrimPrefix(h.Get("Stripe-Signature"), "t="), ",")
			return strings.Contains(h.Get("Stripe-Signature"), signedAt(p.Webhook[0], at, body))
		case models.ReceiptRoller:
			return h.Get("X-RR-Signature") == signedAt(p.Webhook[0], h.Get("X-RR-Timestamp"), body)
		}
	}
	return false
}

func (r *receiver) all() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.got)
}

func TestEveryPlotCanBeTold(t *testing.T) {
	t.Parallel()
	town, _ := founded(t, 1)
	for range 5 { // with other amounts, other shops
		for _, p := range town.plots() {
			for i, b := range p.tell().beats {
				ns, err := b.do()
				if err != nil || len(ns) == 0 {
					t.Errorf("%s, beat %d: %d notifications, %v", p.name, i, len(ns), err)
				}
			}
		}
	}
}

func TestPastReachesEveryState(t *testing.T) {
	t.Parallel()
	town, _ := founded(t, 2)
	if err := town.history(context.Background()); err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	for _, shop := range []*shopfront{town.hkMain, town.twMain} {
		for _, id := range shop.Orders() {
			o := shop.orders[id]
			seen["orders "+shop.currency]++
			seen[fmt.Sprint("financial ", o.financial())]++
			seen[fmt.Sprint("fulfillment ", o.fulfillment())]++
			seen[fmt.Sprint("return ", o.returned())]++
			seen["request "+o.request.request]++
			seen["source "+o.source]++
			if !o.cancelled.IsZero() {
				seen["cancelled"]++
			}
			if len(o.shipments) > 1 {
				seen["parcels"]++
			}
			for _, r := range o.returns {
				seen["return part "+r.status]++
			}
			for _, m := range o.moves {
				seen[m.kind+" "+m.status]++
			}
			for _, d := range o.disputes {
				seen["dispute "+d.status]++
			}
			if age := town.now().Sub(o.created); age < recent || age > pastDays+day {
				t.Errorf("order %d was placed %v ago", id, age)
			}
		}
	}
	for _, x := range []*till{town.hkTill, town.web} {
		for _, o := range x.order {
			seen[fmt.Sprint(o.kind, " ", o.fields["status"])]++
			if o.kind == "payment_intent" {
				seen[fmt.Sprint("intent in ", o.fields["currency"])]++
			}
		}
	}
	seen["receipts"] = len(town.counter.receipts)
	for _, want := range []string{
		"financial PENDING", "financial AUTHORIZED", "financial PARTIALLY_PAID", "financial PAID", "financial VOIDED", "financial PARTIALLY_REFUNDED",
		"financial REFUNDED", "financial SETTLEMENT_HELD", "fulfillment UNFULFILLED", "fulfillment IN_PROGRESS", "fulfillment PARTIALLY_FULFILLED",
		"fulfillment FULFILLED", "fulfillment ON_HOLD", "return RETURN_REQUESTED", "return IN_PROGRESS", "return RETURNED", "return part DECLINED",
		"REFUND SUCCESS", "REFUND PENDING", "REFUND FAILURE", "SALE FAILURE", "VOID SUCCESS", "dispute NEEDS_RESPONSE", "dispute WON", "dispute LOST",
		"request CANCELLATION_REQUESTED", "request CANCELLATION_REJECTED", "cancelled", "parcels", "source pos",
		"payment_intent succeeded", "payment_intent requires_capture", "payment_intent requires_payment_method", "payment_intent requires_action",
		"payment_intent canceled", "payment_intent requires_review", "refund succeeded", "refund pending", "refund failed",
		"dispute needs_response", "dispute won", "dispute lost", "dispute warning_closed", "intent in hkd", "intent in usd", "intent in jpy",
	} {
		if seen[want] == 0 {
			t.Errorf("the past days have no %q", want)
		}
	}
	if seen["orders HKD"] < 25 || seen["orders TWD"] < 10 || seen["receipts"] < 6 {
		t.Errorf("too little happened: %d, %d, %d", seen["orders HKD"], seen["orders TWD"], seen["receipts"])
	}
}

func TestSameSeedSameTown(t *testing.T) {
	t.Parallel()
	run := func(seed uint64) []string {
		town, r := founded(t, seed)
		if err := town.history(context.Background()); err != nil {
			t.Fatal(err)
		}
		for range 200 {
			if err := town.live(context.Background()); err != nil {
				t.Fatal(err)
			}
		}
		return r.all()
	}
	first := run(7)
	if again := run(7); !slices.Equal(first, again) {
		t.Error("the same seed made two towns")
	}
	if other := run(8); slices.Equal(first, other) {
		t.Error("another seed made the same town")
	}
}

func TestLifeGoesOn(t *testing.T) {
	t.Parallel()
	town, r := founded(t, 3)
	if err := town.history(context.Background()); err != nil {
		t.Fatal(err)
	}
	was, down, throttled, slow := len(r.all()), 0, 0, 0
	for range 3000 {
		if err := town.live(context.Background()); err != nil {
			t.Fatal(err)
		}
		for _, p := range town.posts {
			down, throttled, slow = down+one(p.Down.Load() || p.Dead.Load()), throttled+one(p.Throttle.Load()), slow+one(p.Slow.Load() > 0)
		}
	}
	counts, copies := map[string]int{}, map[string]int{}
	for _, line := range r.all()[was:] {
		f := strings.Fields(line)
		counts[f[0]]++
		counts[f[1]]++
		copies[line]++
	}
	double := 0
	for _, n := range copies {
		double += one(n > 1)
	}
	for _, p := range town.posts {
		if counts[p.Slug] < 100 {
			t.Errorf("%s sent only %d notifications", p.Slug, counts[p.Slug])
		}
	}
	if counts["forged"] < 20 || counts["genuine"] < 20*counts["forged"] || double < 50 {
		t.Errorf("genuine %d, forged %d, more than once %d", counts["genuine"], counts["forged"], double)
	}
	if down == 0 || throttled == 0 || slow == 0 || down+throttled+slow > 1500 {
		t.Errorf("down for %d acts of 3000, throttled %d, slow %d", down, throttled, slow)
	}
	if len(town.living) > openTales {
		t.Errorf("%d tales at once", len(town.living))
	}
}

func one(b bool) int {
	if b {
		return 1
	}
	return 0
}

func TestWhatIsNotTakenComesAgain(t *testing.T) {
	t.Parallel()
	town, r := founded(t, 4)
	r.status = func(n int) int {
		if n == 0 {
			return http.StatusServiceUnavailable
		}
		return http.StatusOK
	}
	_, ns, err := town.twMain.CreateOrder(ShopifyOrder{})
	if err != nil {
		t.Fatal(err)
	}
	town.send(context.Background(), beat{from: town.twMain.post}, ns)
	for range retryTurns {
		town.turn++
		town.send(context.Background(), beat{from: town.twMain.post}, nil)
	}
	got := r.all()
	if len(got) != 2 || got[0] != got[1] {
		t.Errorf("got %q, want the same twice", got)
	}
}

func TestStartListensOnLoopback(t *testing.T) {
	t.Parallel()
	town, _ := founded(t, 5)
	ctx, cancel := context.WithCancel(context.Background())
	if err := town.Start(ctx); err != nil {
		t.Fatal(err)
	}
	all := town.Connections()
	slugs := map[string]bool{}
	for _, c := range all {
		slugs[c.Slug] = true
		if !strings.HasPrefix(c.APIURL, "http://127.0.0.1:") {
			t.Errorf("%s listens on %q", c.Slug, c.APIURL)
		}
		res, err := http.Get(c.APIURL + "/")
		if err != nil {
			t.Errorf("%s doesn't answer: %v", c.Slug, err)
			continue
		}
		_ = res.Body.Close()
	}
	if len(all) != 5 || len(slugs) != 5 {
		t.Errorf("connections %v", slugs)
	}
	cancel()
	for end := time.Now().Add(10 * time.Second); ; {
		res, err := http.Get(all[0].APIURL + "/")
		if err != nil {
			return
		}
		_ = res.Body.Close()
		if time.Now().After(end) {
			t.Fatal("still listening")
		}
	}
}

func signedAt(secret, at string, body []byte) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(at + "."))
	mac.Write(body)
	return hex.EncodeToString(mac.Sum(nil))
}
