package app

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"counterfoil/models"
	"counterfoil/models/platform/sandbox"
)

// A payment that came before its order is applied as soon as the order is there, not
// when it happens to look again.
func TestOrderCallsThePaymentThatWaits(t *testing.T) { oneAndTwo(t, orderCallsThePaymentThatWaits) }

func orderCallsThePaymentThatWaits(t *testing.T, start begin) {
	t.Parallel()
	r := start(t).withShopify(nil).withStripe("hk", nil)
	id, ns, err := r.shop.CreateOrder(sandbox.ShopifyOrder{Total: "100.00"})
	if err != nil {
		t.Fatal(err)
	}
	pi, paid := r.stripe.CreateIntent(10000, "hkd", sandbox.StripeIntent{Metadata: map[string]string{"order_id": fmt.Sprint(id)}})
	r.postAll("pay", append(paid, must(r.stripe.Succeed(pi))...)...)
	// By then it looks by itself every few seconds only, and from now on not at all.
	r.wait("the payment has looked for its order for three seconds", func() bool {
		var n int
		r.scan(&n, `SELECT count(*) FROM events WHERE state = 'unmatched' AND received_at < now() - interval '3 seconds' AND due_at > now() + interval '1 second'`)
		return n > 0
	})
	r.wait("nobody looks", func() bool {
		r.exec(`UPDATE events SET due_at = now() + interval '1 hour' WHERE state = 'unmatched'`)
		var n int
		r.scan(&n, `SELECT count(*) FROM events e WHERE e.due_at < now() + interval '1 minute' OR EXISTS (
			SELECT 1 FROM platform_objects p WHERE p.claimed_until > now() OR p.reread_at IS NOT NULL)`)
		return n == 0
	})
	calls := r.stripe.Calls()
	r.postAll("hk", ns...)
	r.settled()
	o, _ := r.order(gid(id))
	if o.states() != "paid none none unfulfilled active none" || o.Paid != "100.00" {
		t.Fatalf("order %+v", o)
	}
	var late float64
	r.scan(&late, `SELECT EXTRACT(epoch FROM max(p.at) - min(s.at)) FROM ledger s, ledger p WHERE s.from_state = '' AND p.from_state <> ''`)
	t.Logf("the payment was applied %.0f ms after its order", 1000*late)
	if more := r.stripe.Calls() - calls; more != 0 {
		t.Errorf("%d calls for what was known", more)
	}
}

// Stripe made its own order first, then the shop's order comes: one order, one
// instruction, whatever arrives in which order.
func TestTwoOrdersBecomeOne(t *testing.T) { oneAndTwo(t, twoOrdersBecomeOne) }

func twoOrdersBecomeOne(t *testing.T, start begin) {
	t.Parallel()
	for _, first := range []string{"payment", "order", "both"} {
		t.Run(first+" first", func(t *testing.T) {
			t.Parallel()
			r := start(t).withShopify(nil).withStripe("hk", map[string]string{"creates_orders": "true"})
			id, ordered, err := r.shop.CreateOrder(sandbox.ShopifyOrder{Total: "100.00"})
			if err != nil {
				t.Fatal(err)
			}
			pi, paid := r.stripe.CreateIntent(10000, "hkd", sandbox.StripeIntent{Metadata: map[string]string{"order_id": fmt.Sprint(id)}})
			paid = append(paid, must(r.stripe.Succeed(pi))...)
			tell := map[string]func(){"payment": func() { r.postAll("pay", paid...) }, "order": func() { r.postAll("hk", ordered...) }}
			switch first {
			case "both":
				var wg sync.WaitGroup
				for _, do := range tell {
					wg.Go(do)
				}
				wg.Wait()
			case "payment":
				tell["payment"]()
				r.settled()
				tell["order"]()
			default:
				tell["order"]()
				r.settled()
				tell["payment"]()
			}
			r.settled()
			o, _ := r.order(gid(id))
			if o.states() != "paid none none unfulfilled active none" {
				t.Errorf("order %+v", o)
			}
			var list struct{ Items []seenOrder }
			r.call(http.MethodGet, "/api/v1/orders", &list)
			if len(list.Items) != 1 {
				t.Errorf("%d orders", len(list.Items))
			}
			if same, _ := r.order(pi); same.ID != o.ID {
				t.Errorf("the payment leads to %s, not to %s", same.ID, o.ID)
			}
			var shell string
			r.scan(&shell, `SELECT COALESCE(string_agg(id::text, ' '), '') FROM orders WHERE merged_into IS NOT NULL`)
			if shell != "" {
				var led seenOrder
				if code := r.call(http.MethodGet, "/api/v1/orders/"+shell, &led); code != http.StatusOK || led.ID != o.ID {
					t.Errorf("the shell answers %d with order %s", code, led.ID)
				}
			} else if first == "payment" {
				t.Error("there was no shell")
			}
			var live int
			r.scan(&live, `SELECT count(*) FROM actions WHERE kind = 'fulfillment_instruction' AND state <> 'not_needed'`)
			if live != 1 {
				t.Errorf("%d instructions", live)
			}
			for _, e := range r.events() {
				if e.OrderID == nil || *e.OrderID != o.ID || e.State != "applied" && e.State != "superseded" {
					t.Errorf("event %+v", e)
				}
			}
		})
	}
}

// What belongs to another system on the same account is answered 200 and dismissed.
func TestAnotherSystemOnTheSameAccount(t *testing.T) {
	t.Parallel()
	r := start(t).withShopify(nil).withStripe("hk", map[string]string{"ignore_metadata": "app=other", "ignore_topics": "charge.*"})
	pi, ns := r.stripe.CreateIntent(100, "hkd", sandbox.StripeIntent{Metadata: map[string]string{"app": "other"}})
	r.postAll("pay", append(ns, must(r.stripe.Succeed(pi))...)...)
	r.settled()
	for _, e := range r.events() {
		if e.State != "not_applied" || !strings.Contains(e.Error, "another system") {
			t.Errorf("event %+v", e)
		}
	}
	if _, ok := r.order(pi); ok {
		t.Error("it has an order")
	}
}

// Shopify says paid, Stripe says refunded: after the grace one case with both states.
func TestShopifyPaidStripeRefunded(t *testing.T) { oneAndTwo(t, shopifyPaidStripeRefunded) }

func shopifyPaidStripeRefunded(t *testing.T, start begin) {
	t.Parallel()
	r := start(t).withShopify(nil).withStripe("hk", nil)
	id, ns, err := r.shop.CreateOrder(sandbox.ShopifyOrder{Total: "100.00"})
	if err != nil {
		t.Fatal(err)
	}
	r.postAll("hk", append(ns, must(r.shop.Pay(id))...)...)
	pi, paid := r.stripe.CreateIntent(10000, "hkd", sandbox.StripeIntent{Metadata: map[string]string{"order_id": fmt.Sprint(id)}})
	paid = append(paid, must(r.stripe.Succeed(pi))...)
	_, back, err := r.stripe.Refund(pi, 10000, "succeeded")
	if err != nil {
		t.Fatal(err)
	}
	r.postAll("pay", append(paid, back...)...)
	r.settled()
	cases := func() string {
		var s string
		r.scan(&s, `SELECT COALESCE(string_agg(concat_ws(' ', axis, platform_state, local_state, policy), '; '), '') FROM exceptions WHERE kind = 'platforms_disagree' AND state = 'open'`)
		return s
	}
	o, _ := r.order(gid(id))
	if o.states() != "paid full none unfulfilled active none" || o.Verification.State != "unverified" || cases() != "" {
		t.Fatalf("within the grace: %q, order %+v", cases(), o)
	}
	r.clock.forward(models.DisagreeGrace(models.Refund) + time.Minute)
	r.wait("a case says so", func() bool { return cases() != "" })
	if got := cases(); !strings.HasPrefix(got, "refund succeeded 100.00 ") || !strings.HasSuffix(got, " hold") || strings.Contains(got, ";") {
		t.Errorf("case %q", got)
	}
	r.settled()
	o, _ = r.order(gid(id))
	var live int
	r.scan(&live, `SELECT count(*) FROM actions WHERE kind = 'fulfillment_instruction' AND state IN ('sending', 'done')`)
	if live != 0 {
		t.Errorf("%d instructions went out", live)
	}
}
