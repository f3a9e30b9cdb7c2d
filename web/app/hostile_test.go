package app

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"counterfoil/models"
	"counterfoil/models/connect"
	"counterfoil/models/platform/sandbox"
)

// The same bytes come under a new id after the object went away and came back: only
// the platform can say where it is now.
func TestSameBodyAfterAnotherIsRead(t *testing.T) {
	t.Parallel()
	r := start(t).withShopify(nil)
	id, ns, err := r.shop.CreateOrder(sandbox.ShopifyOrder{Total: "100.00"})
	if err != nil {
		t.Fatal(err)
	}
	r.postAll("hk", ns[0])
	r.settled()
	r.postAll("hk", must(r.shop.Fulfill(id, 0, "T"))...)
	r.settled()
	must(r.shop.CancelFulfillment(id))
	h := ns[0].Header.Clone()
	h.Set("X-Shopify-Webhook-Id", "a-third-id")
	if status, _ := r.send("hk", h, ns[0].Body); status != http.StatusOK {
		t.Fatal(status)
	}
	r.settled()
	if o, _ := r.order(gid(id)); o.states() != "pending none none unfulfilled active none" {
		t.Errorf("order %+v", o)
	}
}

func TestOneUnreadableObjectStopsNobody(t *testing.T) {
	t.Parallel()
	r := start(t).withStripe("web", map[string]string{"down_after": "0s"})
	bad, ns := r.stripe.CreateIntent(100, "hkd", sandbox.StripeIntent{})
	r.stripe.Break(bad)
	r.postAll("pay", ns...)
	var good []string
	for range 12 {
		pi, more := r.stripe.CreateIntent(100, "hkd", sandbox.StripeIntent{})
		good = append(good, pi)
		r.postAll("pay", append(more, must(r.stripe.Succeed(pi))...)...)
	}
	r.wait("every other payment is applied", func() bool {
		for _, pi := range good {
			if o, ok := r.order(pi); !ok || o.Verification.State != "verified" || o.states() != "paid none none unfulfilled active none" {
				return false
			}
		}
		return true
	})
	for _, e := range r.events() {
		if e.State == "failed" || e.State == "review" {
			t.Errorf("event %+v", e)
		}
	}
}

// One payment is answered badly, whoever asks for it together with others. These are
// claimed in one go, because all of them waited for the platform.
func TestOneBadAnswerStopsNobody(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]http.HandlerFunc{
		"denied":  func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) },
		"failing": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) },
		"silent":  func(_ http.ResponseWriter, req *http.Request) { <-req.Context().Done() },
		"locked": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusTooManyRequests)
			_, _ = w.Write([]byte(`{"error":{"code":"lock_timeout"}}`))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := start(t)
			r.stripe = sandbox.NewStripe("acct_own", "sk_test_key", "whsec_test", r.clock.now)
			var bad atomic.Value
			api := r.stripe.Handler()
			r.connect(connect.Setup{Platform: models.Stripe, Slug: "pay", Account: "acct_own", Shop: "web", Set: map[string]string{"rate": "500"},
				Secrets: connect.Secrets{Webhook: []string{"whsec_test"}, APIToken: "sk_test_key"},
				APIURL: r.serve(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
					if id, ok := bad.Load().(string); ok && strings.Contains(req.URL.Path, id) {
						_, _ = io.Copy(io.Discard, req.Body)
						answer(w, req)
						return
					}
					api.ServeHTTP(w, req)
				}))})
			r.stripe.Down.Store(true)
			var good []string
			for i := range 7 {
				pi, ns := r.stripe.CreateIntent(100, "hkd", sandbox.StripeIntent{})
				r.postAll("pay", append(ns, must(r.stripe.Succeed(pi))...)...)
				if i == 3 {
					bad.Store(pi)
				} else {
					good = append(good, pi)
				}
			}
			r.wait("all wait", func() bool {
				var n int
				r.scan(&n, `SELECT count(*) FROM events WHERE state <> 'waiting'`)
				return n == 0
			})
			r.stripe.Down.Store(false)
			r.wait("every other payment is applied", func() bool {
				for _, pi := range good {
					if o, ok := r.order(pi); !ok || o.Verification.State != "verified" || o.states() != "paid none none unfulfilled active none" {
						return false
					}
				}
				return true
			})
			r.wait("the bad one waits by itself", func() bool {
				var n int
				r.scan(&n, `SELECT count(*) FROM events WHERE error = 'note.unreadable' AND state = 'waiting' AND tries = 0`)
				return n == 3
			})
			r.clock.forward(11 * time.Minute)
			r.wait("people see it", func() bool {
				var open int
				r.scan(&open, `SELECT count(*) FROM exceptions WHERE state = 'open'`)
				return open == 1
			})
		})
	}
}

func TestPlatformThatComesAndGoesLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	r := start(t).withShopify(nil)
	r.shop.Slow.Store(int64(30 * time.Millisecond))
	var ids []int64
	for i := range 24 {
		r.shop.Down.Store(i%4 == 1 || i%4 == 2)
		id, ns, err := r.shop.CreateOrder(sandbox.ShopifyOrder{Total: "100.00"})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
		r.postAll("hk", append(ns, must(r.shop.Pay(id))...)...)
	}
	r.shop.Down.Store(false)
	r.settled()
	for _, id := range ids {
		if o, _ := r.order(gid(id)); o.states() != "paid none none unfulfilled active none" || o.Verification.State != "verified" {
			t.Errorf("order %+v", o)
		}
	}
}

func TestAnnouncedBodiesHoldNoMemory(t *testing.T) {
	t.Parallel()
	r := start(t).withShopify(nil)
	for _, slug := range []string{"hk", "hk", "hk", "hk", "hk", "hk", "nobody", "nobody"} {
		c, err := net.Dial("tcp", r.app.Addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		fmt.Fprintf(c, "POST /hooks/%s HTTP/1.1\r\nHost: x\r\nContent-Length: 8388608\r\n\r\n{", slug)
	}
	body := []byte(`{"id":12}`)
	began := time.Now()
	if status, _ := r.send("hk", shopSigned("orders/updated", "beside", body), body); status != http.StatusOK || time.Since(began) > 2*time.Second {
		t.Errorf("answered %d after %s", status, time.Since(began))
	}
}

func TestLongOrdersAreKept(t *testing.T) {
	t.Parallel()
	r := start(t).withShopify(nil)
	refund := `{"id":%d,"created_at":"2026-11-01T00:00:00Z","transactions":[{"id":%d,"kind":"refund","status":"success","amount":"0.01","currency":"HKD"}],"refund_line_items":[]}`
	var refunds []string
	for i := range 9000 {
		refunds = append(refunds, fmt.Sprintf(refund, i+1, i+100000))
	}
	body := []byte(`{"id":77,"name":"#77","currency":"HKD","total_price":"100.00","financial_status":"partially_refunded","updated_at":"2026-11-01T00:00:00Z","refunds":[` + strings.Join(refunds, ",") + `]}`)
	if status, _ := r.send("hk", shopSigned("orders/updated", "long", body), body); status != http.StatusOK {
		t.Errorf("%d bytes: answered %d", len(body), status)
	}
}

func TestUnreadableAnswersUseUpNoTries(t *testing.T) {
	t.Parallel()
	r := start(t)
	answer := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"data":null,"errors":[{"message":"Query timed out"}]}`))
	})
	r.connectShopify(r.serve(answer))
	body := []byte(`{"id":5,"name":"#5","updated_at":"2026-11-01T00:00:00Z","financial_status":"paid"}`)
	if status, _ := r.send("hk", shopSigned("orders/updated", "x", body), body); status != http.StatusOK {
		t.Fatal(status)
	}
	r.wait("it waits", func() bool { return r.events()[0].State == "waiting" })
	var tries int
	r.scan(&tries, `SELECT max(tries) FROM events`)
	if tries != 0 {
		t.Errorf("%d tries", tries)
	}
	var res struct{ Result string }
	if code := r.callWith(http.MethodPost, "/api/v1/connections/hk/resync", `{"ref":"5"}`, &res); code != http.StatusOK || res.Result != "unavailable" {
		t.Errorf("resync answered %d %q", code, res.Result)
	}
}
