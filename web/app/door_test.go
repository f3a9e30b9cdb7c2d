package app

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"counterfoil/models"
	"counterfoil/models/connect"
	"counterfoil/models/platform/sandbox"
	"counterfoil/models/store/storetest"
)

// shopSigned is a body as Shopify would sign and send it.
func shopSigned(topic, id string, body []byte) http.Header {
	mac := hmac.New(sha256.New, []byte(shopSecret))
	mac.Write(body)
	h := http.Header{}
	h.Set("Content-Type", "application/json")
	h.Set("X-Shopify-Topic", topic)
	h.Set("X-Shopify-Shop-Domain", "hk.myshopify.com")
	h.Set("X-Shopify-Webhook-Id", id)
	h.Set("X-Shopify-Api-Version", "2026-10")
	h.Set("X-Shopify-Hmac-Sha256", base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	return h
}

// stripeSigned is a body as Stripe would sign it at a time.
func stripeSigned(secret string, body []byte, at time.Time) http.Header {
	t := strconv.FormatInt(at.Unix(), 10)
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(t + "." + string(body)))
	h := http.Header{}
	h.Set("Content-Type", "application/json; charset=utf-8")
	h.Set("Stripe-Signature", "t="+t+",v1="+hex.EncodeToString(mac.Sum(nil)))
	return h
}

func (r *rig) rejections(slug string) []models.Rejection {
	r.t.Helper()
	files, err := connect.Reads{Store: r.app.store, Book: r.app.book}.Connections(context.Background(), nil)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, f := range files {
		if f.Slug == slug {
			return f.Rejections
		}
	}
	return nil
}

func TestForgedRequestsLeaveEvidenceAndNothingElse(t *testing.T) {
	t.Parallel()
	r := start(t).withShopify(nil).withStripe("web", nil)
	r.connect(connect.Setup{Platform: models.Shopify, Slug: "tw", Account: "tw.myshopify.com", Shop: "tw", Secrets: connect.Secrets{Webhook: []string{"another-secret"}}})
	r.connect(connect.Setup{Platform: models.Stripe, Slug: "pay2", Account: "acct_2", Shop: "web", Secrets: connect.Secrets{Webhook: []string{"whsec_old"}}})
	r.connect(connect.Setup{Slug: "pay2", Secrets: connect.Secrets{Webhook: []string{"whsec_new"}}})
	_, created, err := r.shop.CreateOrder(sandbox.ShopifyOrder{})
	if err != nil {
		t.Fatal(err)
	}
	good := created[0]
	_, ns := r.stripe.CreateIntent(100, "hkd", sandbox.StripeIntent{})
	event := ns[0].Body
	flipped := bytes.Clone(good.Body)
	flipped[len(flipped)/2] ^= 1
	unsigned := good.Header.Clone()
	unsigned.Del("X-Shopify-Hmac-Sha256")
	other := good.Header.Clone()
	mac := hmac.New(sha256.New, []byte("another-secret"))
	mac.Write(good.Body)
	other.Set("X-Shopify-Hmac-Sha256", base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	elsewhere := good.Header.Clone()
	elsewhere.Set("X-Shopify-Shop-Domain", "someone-else.myshopify.com")
	var loose map[string]any
	if err := json.Unmarshal(good.Body, &loose); err != nil {
		t.Fatal(err)
	}
	var spaced bytes.Buffer
	if err := json.Indent(&spaced, good.Body, "", "    "); err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	cases := []struct {
		name, slug    string
		header        http.Header
		body          []byte
		reason, cause string
	}{
		{"one flipped byte", "hk", good.Header, flipped, "signature_wrong", ""},
		{"no signature", "hk", unsigned, good.Body, "signature_missing", "header_missing"},
		{"secret of another connection", "hk", other, good.Body, "signature_wrong", "other_connection"},
		{"another shop's name", "hk", elsewhere, good.Body, "wrong_account", "other_shop"},
		{"written again with blanks", "hk", good.Header, spaced.Bytes(), "signature_wrong", "reencoded"},
		{"cut short", "hk", good.Header, good.Body[:len(good.Body)-20], "signature_wrong", "cut_short"},
		{"wrong secret", "pay", stripeSigned("whsec_guess", event, now), event, "signature_wrong", "unknown"},
		{"ten minutes late", "pay", stripeSigned("whsec_test", event, now.Add(-10*time.Minute)), event, "time_off", "clock_off"},
		{"ten minutes early", "pay", stripeSigned("whsec_test", event, now.Add(10*time.Minute)), event, "time_off", "clock_off"},
		{"a retired secret", "pay2", stripeSigned("whsec_old", event, now), event, "signature_wrong", "retired_secret"},
	}
	for _, c := range cases {
		if got, _ := r.send(c.slug, c.header, c.body); got != http.StatusUnauthorized {
			t.Errorf("%s: answered %d", c.name, got)
		}
	}
	seen := func() []models.Rejection {
		return append(append(r.rejections("hk"), r.rejections("pay")...), r.rejections("pay2")...)
	}
	r.wait("all refusals are on the page", func() bool { return len(seen()) == len(cases) })
	counts := map[string]int{}
	for _, x := range seen() {
		counts[x.Reason+" "+x.Cause]++
	}
	for _, c := range cases {
		if c.cause != "" && counts[c.reason+" "+c.cause] == 0 {
			t.Errorf("%s: not told as %s by %s; seen %v", c.name, c.reason, c.cause, counts)
		}
	}
	if n := len(r.events()); n != 0 {
		t.Errorf("%d events", n)
	}
	if status, _ := r.send("hk/", good.Header, good.Body); status != http.StatusOK {
		t.Errorf("with a slash at the end: %d", status)
	}
	if status, _ := r.send("nobody", good.Header, good.Body); status != http.StatusNotFound {
		t.Errorf("unknown slug: %d", status)
	}
}

func TestMissingSecretIsOurFault(t *testing.T) {
	t.Parallel()
	r := start(t)
	r.connect(connect.Setup{Platform: models.Stripe, Slug: "bare", Account: "acct", Shop: "web"})
	status, h := r.send("bare", stripeSigned("whsec", []byte("{}"), time.Now()), []byte("{}"))
	if status != http.StatusServiceUnavailable || h.Get("Retry-After") == "" {
		t.Fatalf("answered %d, Retry-After %q", status, h.Get("Retry-After"))
	}
}

func TestGarbageGetsAClearAnswer(t *testing.T) {
	t.Parallel()
	r := start(t).withShopify(nil).withStripe("web", nil).withReceipts(true)
	bodies := map[string][]byte{
		"empty": {}, "null": []byte("null"), "list": []byte("[]"), "text": []byte(`"x"`), "number": []byte("1e999"),
		"nesting": []byte(strings.Repeat(`{"id":[`, 20000)), "closed nesting": []byte(strings.Repeat("[", 9000) + strings.Repeat("]", 9000)),
		"broken UTF-8": []byte("{\"id\":\"\xff\xfe\",\"type\":\"\xff\"}"), "NUL": []byte(`{"id":"a\u0000b","type":"charge.\u0000","data":{"object":{"id":"ch_\u0000","object":"charge","payment_intent":"pi_\u0000"}},"event_id":"x\u0000","name":"#\u0000"}`),
		"raw NUL":            []byte("{\"id\":\"a\x00b\"}"),
		"numbers as strings": []byte(`{"id":"12","created":"17","livemode":"false","version":"3","event_id":7,"total_price":12.5,"updated_at":5,"data":{"object":{"amount":"7"}}}`),
		"null everywhere":    []byte(`{"id":null,"object":"event","type":null,"created":null,"data":{"object":null},"event_id":null,"occurred_at":null,"updated_at":null,"line_items":null,"refunds":[null]}`),
		"unknown topic":      []byte(`{"id":"evt_z","object":"event","type":"tomorrow.invented","created":1,"data":{"object":{"id":"zz_1"}},"event_id":"z","occurred_at":"2026-01-01T00:00:00Z"}`),
		"huge id":            []byte(`{"id":` + strings.Repeat("9", 5000) + `,"event_id":"` + strings.Repeat("k", 5000) + `"}`),
		"far times":          []byte(`{"id":"evt_t","object":"event","type":"charge.updated","created":99999999999999,"event_id":"t","occurred_at":"99999-01-01T00:00:00Z","updated_at":"0000-00-00"}`),
	}
	kept := 0
	for name, body := range bodies {
		for i, topic := range []string{"orders/updated", "refunds/create", "made/up"} {
			if got, _ := r.send("hk", shopSigned(topic, fmt.Sprintf("%s-%d", name, i), body), body); got != http.StatusOK {
				t.Errorf("shopify %s %s: %d", name, topic, got)
			}
			kept++
		}
		if got, _ := r.send("pay", stripeSigned("whsec_test", body, time.Now()), body); got != http.StatusOK {
			t.Errorf("stripe %s: %d", name, got)
		}
		n := r.receipt.Sign("receipt.issued", "id-"+hex.EncodeToString([]byte(name)), body, time.Now())
		if got := r.post("till", n); got != http.StatusOK {
			t.Errorf("receiptroller %s: %d", name, got)
		}
	}
	big := make([]byte, 8<<20+1)
	if got, _ := r.send("hk", shopSigned("orders/updated", "big", big), big); got != http.StatusRequestEntityTooLarge {
		t.Errorf("8 MiB + 1: %d", got)
	}
	fits := append([]byte(`{"id":5,"pad":"`), bytes.Repeat([]byte("x"), 8<<20-17)...)
	fits = append(fits, `"}`...)
	if got, _ := r.send("hk", shopSigned("orders/updated", "fits", fits), fits); got != http.StatusOK {
		t.Errorf("8 MiB: %d", got)
	}
	var n int
	r.scan(&n, `SELECT count(*) FROM events e JOIN connections c ON c.id = e.connection_id WHERE c.slug = 'hk'`)
	if n != kept+1 {
		t.Errorf("%d of %d events kept", n, kept+1)
	}
	r.scan(&n, `SELECT count(*) FROM payloads`)
	var events int
	r.scan(&events, `SELECT count(*) FROM events`)
	if n != events {
		t.Errorf("%d payloads of %d events", n, events)
	}
	for _, path := range []string{"/api/v1/orders?q=%00", "/api/v1/orders?q=%FF%FE", "/api/v1/orders?cursor=x", "/api/v1/orders/1%2500", "/api/v1/orders?ref=%27%3B--", "/api/v1/events?event_id=%00", "/api/v1/events?state=nope", "/api/v1/orders/99999999999999999999"} {
		if code := r.call(http.MethodGet, path, nil); code >= 500 {
			t.Errorf("%s answered %d", path, code)
		}
	}
}

func TestOneBadSenderDoesNotSpoilTheBatch(t *testing.T) {
	t.Parallel()
	r := start(t).withStripe("web", nil)
	var bad, good, spoiled atomic.Int64
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				body := fmt.Appendf(nil, `{"id":"evt_\u0000%d_%d","object":"event","type":"charge.\u0000","account":"a\u0000","created":1,"data":{"object":{"id":"ch_\u0000","object":"charge","payment_intent":"pi_\u0000"}}}`, w, i)
				h := stripeSigned("whsec_test", body, time.Now())
				h.Set("X-Extra", "\xff")
				r.send("pay", h, body)
				bad.Add(1)
			}
		})
	}
	for w := range 8 {
		wg.Go(func() {
			for i := range 40 {
				body := fmt.Appendf(nil, `{"id":"evt_good_%d_%d","object":"event","type":"product.created","created":1,"data":{"object":{"id":"prod_1"}}}`, w, i)
				if status, _ := r.send("pay", stripeSigned("whsec_test", body, time.Now()), body); status == http.StatusOK {
					good.Add(1)
				} else {
					spoiled.Add(1)
				}
			}
			if w == 0 {
				close(stop)
			}
		})
	}
	wg.Wait()
	if spoiled.Load() != 0 || good.Load() != 320 {
		t.Errorf("beside %d bad requests %d good ones were kept and %d not", bad.Load(), good.Load(), spoiled.Load())
	}
}

func TestDatabaseStoppedFrozenAndBack(t *testing.T) {
	t.Parallel()
	server := storetest.NewServer(t)
	r := startOn(t, server.New()).withShopify(nil)
	number := 0
	send := func() (int, string, time.Duration) {
		number++
		body := fmt.Appendf(nil, `{"id":%d}`, number)
		began := time.Now()
		status, h := r.send("hk", shopSigned("orders/updated", fmt.Sprint("stop-", number), body), body)
		return status, h.Get("Retry-After"), time.Since(began)
	}
	if status, _, _ := send(); status != http.StatusOK {
		t.Fatalf("before: %d", status)
	}
	server.Stop()
	for range 5 {
		if status, after, took := send(); status != http.StatusServiceUnavailable || after == "" || took > 2*time.Second {
			t.Errorf("stopped: %d, Retry-After %q, after %s", status, after, took)
		}
	}
	server.StartAgain()
	r.wait("kept again after the start", func() bool { status, _, _ := send(); return status == http.StatusOK })
	server.Freeze()
	if status, _, took := send(); status != http.StatusServiceUnavailable || took > 5*time.Second {
		t.Errorf("frozen: %d after %s", status, took)
	}
	server.Thaw()
	r.wait("kept again after the thaw", func() bool { status, _, _ := send(); return status == http.StatusOK })
}

func TestSamplesRunThroughTheReceiver(t *testing.T) {
	t.Parallel()
	folder := os.Getenv("COUNTERFOIL_SAMPLES")
	if folder == "" {
		t.Skip("COUNTERFOIL_SAMPLES names no folder of sample bodies")
	}
	r := start(t).withShopify(nil).withStripe("web", nil)
	topics := map[string]string{"orders_create": "orders/create", "orders_updated": "orders/updated", "orders_cancelled": "orders/cancelled", "orders_edited": "orders/edited", "orders_delete": "orders/delete",
		"refunds_create": "refunds/create", "returns_request": "returns/request", "returns_update": "returns/update", "returns_close": "returns/close", "order_transactions_create": "order_transactions/create",
		"fulfillment_orders_moved": "fulfillment_orders/moved", "test_notification": "orders/create"}
	sent := 0
	err := filepath.WalkDir(folder, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".json") {
			return err
		}
		body, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name := filepath.Base(path)
		if strings.Contains(path, "stripe") {
			sent++
			if status, _ := r.send("pay", stripeSigned("whsec_test", body, time.Now()), body); status != http.StatusOK {
				t.Errorf("%s answered %d", name, status)
			}
			return nil
		}
		for prefix, topic := range topics {
			if strings.HasPrefix(name, prefix) {
				sent++
				if status, _ := r.send("hk", shopSigned(topic, "sample-"+name, body), body); status != http.StatusOK {
					t.Errorf("%s answered %d", name, status)
				}
			}
		}
		return nil
	})
	if err != nil || sent == 0 {
		t.Fatalf("%d samples in %s: %v", sent, folder, err)
	}
	r.wait("every sample is looked at", func() bool {
		for _, e := range r.events() {
			if e.State == "received" || e.State == "failed" {
				return false
			}
		}
		return len(r.events()) == sent
	})
}
