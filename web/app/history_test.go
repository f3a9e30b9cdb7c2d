package app

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"counterfoil/models"
	"counterfoil/models/connect"
	"counterfoil/models/platform/sandbox"
)

// histories is how many random histories of each platform one run tries; the flag
// -rapid.checks asks for more.
const histories = "12"

func TestMain(m *testing.M) {
	if err := flag.Set("rapid.checks", histories); err != nil {
		panic(err)
	}
	flag.Parse()
	os.Exit(m.Run())
}

// draw takes a number from rapid, which shrinks it when the property fails.
func draw(t *rapid.T, name string, n int) int { return rapid.IntRange(0, n-1).Draw(t, name) }

// mixed delivers notifications in any order, some of them again.
func mixed(t *rapid.T, ns []sandbox.Notification) []sandbox.Notification {
	out := rapid.Permutation(ns).Draw(t, "order of arrival")
	for range draw(t, "repetitions", 4) {
		out = append(out, out[draw(t, "which again", len(out))])
	}
	return out
}

// TestAnyHistoryEndsAtThePlatformsState: whatever happened at a shop, in whatever
// order and however often it was told, the order ends where the platform is, and no
// move was refused on the way.
func TestAnyHistoryEndsAtThePlatformsState(t *testing.T) {
	t.Parallel()
	r := start(t).withShopify(nil)
	paid, cancelled := map[int64]bool{}, map[int64]bool{}
	acts := []func(id int64) ([]sandbox.Notification, error){
		r.shop.Authorize,
		func(id int64) (ns []sandbox.Notification, err error) {
			if cancelled[id] { // nobody pays for what was called off
				return nil, nil
			}
			ns, err = r.shop.Pay(id)
			paid[id] = paid[id] || err == nil
			return ns, err
		},
		func(id int64) ([]sandbox.Notification, error) { return r.shop.PayPartly(id, "30.00") },
		func(id int64) ([]sandbox.Notification, error) {
			if !paid[id] { // no button refunds what nobody paid
				return nil, nil
			}
			return r.shop.Refund(id, "10.00", sandbox.RefundSucceeds)
		},
		func(id int64) ([]sandbox.Notification, error) { return r.shop.Fulfill(id, 1, "A") },
		func(id int64) ([]sandbox.Notification, error) { return r.shop.Fulfill(id, 0, "B") },
		r.shop.CancelFulfillment, r.shop.Hold, r.shop.Release, r.shop.RequestFulfillment,
		func(id int64) ([]sandbox.Notification, error) { return r.shop.RequestReturn(id, 1) },
		r.shop.ApproveReturn, r.shop.DeclineReturn, r.shop.CancelReturn, r.shop.ReopenReturn,
		func(id int64) ([]sandbox.Notification, error) { return r.shop.CloseReturn(id, 1) },
		func(id int64) ([]sandbox.Notification, error) { return r.shop.Edit(id, "20.00", 1) },
		r.shop.OpenDispute,
		func(id int64) ([]sandbox.Notification, error) { return r.shop.ResolveDispute(id, "LOST") },
		func(id int64) ([]sandbox.Notification, error) {
			cancelled[id] = true
			return r.shop.Cancel(id, "customer")
		},
	}
	rapid.Check(t, func(rt *rapid.T) {
		id, ns, err := r.shop.CreateOrder(sandbox.ShopifyOrder{Total: "100.00", Pieces: 3})
		if err != nil {
			rt.Fatal(err)
		}
		for range 1 + draw(rt, "acts", 9) {
			// What can't be done in this state isn't done; nothing is told of it.
			if more, err := acts[draw(rt, "act", len(acts))](id); err == nil {
				ns = append(ns, more...)
			}
			if draw(rt, "read between", 3) == 0 {
				r.postAll("hk", ns[draw(rt, "told early", len(ns))])
			}
		}
		r.postAll("hk", mixed(rt, ns)...)
		r.endsWhereThePlatformIs(rt, gid(id))
	})
}

func TestAnyPaymentEndsAtThePlatformsState(t *testing.T) {
	t.Parallel()
	r := start(t).withStripe("web", nil)
	done := 0
	rapid.Check(t, func(rt *rapid.T) {
		done++
		pi, ns := r.stripe.CreateIntent(10000, "hkd", sandbox.StripeIntent{Manual: draw(rt, "manual", 2) == 1, Metadata: map[string]string{"order_id": fmt.Sprint("R-", done)}})
		last := ""
		acts := []func() ([]sandbox.Notification, error){
			func() ([]sandbox.Notification, error) { return r.stripe.Fail(pi, "card_declined") },
			func() ([]sandbox.Notification, error) { return r.stripe.Authorize(pi) },
			func() ([]sandbox.Notification, error) { return r.stripe.Capture(pi, 10000) },
			func() ([]sandbox.Notification, error) { return r.stripe.Succeed(pi) },
			func() ([]sandbox.Notification, error) { return r.stripe.CancelIntent(pi) },
			func() (out []sandbox.Notification, err error) {
				last, out, err = r.stripe.Refund(pi, 2500, []string{"succeeded", "pending"}[draw(rt, "refund", 2)])
				return out, err
			},
			func() ([]sandbox.Notification, error) { return r.stripe.FailRefund(last, "expired_or_canceled_card") },
			func() ([]sandbox.Notification, error) { return r.stripe.SettleRefund(last) },
		}
		for range 1 + draw(rt, "acts", 7) {
			if more, err := acts[draw(rt, "act", len(acts))](); err == nil {
				ns = append(ns, more...)
			}
			if draw(rt, "read between", 3) == 0 {
				r.postAll("pay", ns[draw(rt, "told early", len(ns))])
			}
		}
		r.postAll("pay", mixed(rt, ns)...)
		r.endsWhereThePlatformIs(rt, pi)
	})
}

func (r *rig) endsWhereThePlatformIs(t *rapid.T, ref string) {
	r.settled()
	o, ok := r.order(ref)
	if !ok {
		t.Fatalf("no order %s", ref)
	}
	var res struct{ Result string }
	r.call(http.MethodPost, "/api/v1/orders/"+o.ID+"/resync", &res)
	var wrong string
	r.scan(&wrong, `SELECT COALESCE(string_agg(concat_ws(' ', kind, case_name, axis, platform_state, local_state, detail), '; '), '')
		FROM exceptions WHERE order_id = $1 AND kind NOT IN ('state_differs', 'contradiction', 'paid_twice', 'shipped_twice')`, o.ID)
	// What merchants do at random often doesn't fit together, and is told as long as it stands.
	want, odd := "same", 0
	r.scan(&odd, `SELECT count(*) FROM exceptions WHERE order_id = $1 AND state = 'open' AND (kind = 'paid_twice' OR kind = 'contradiction' AND
		case_name IN ('shipped_unpaid', 'cancelled_not_refunded', 'refunded_not_cancelled'))`, o.ID)
	if odd > 0 {
		want = "exception"
	}
	if res.Result != want || wrong != "" || o.Verification.State != "verified" {
		t.Fatalf("%s: resync %q, exceptions %q: %+v", ref, res.Result, wrong, o)
	}
}

func TestSameBodyUnderAnotherIDSavesTheCall(t *testing.T) {
	t.Parallel()
	r := start(t).withShopify(nil)
	_, ns, err := r.shop.CreateOrder(sandbox.ShopifyOrder{})
	if err != nil {
		t.Fatal(err)
	}
	r.postAll("hk", ns[0])
	r.settled()
	calls := r.shop.Calls()
	h := ns[0].Header.Clone()
	h.Set("X-Shopify-Webhook-Id", "a-second-subscription")
	if status, _ := r.send("hk", h, ns[0].Body); status != http.StatusOK {
		t.Fatal(status)
	}
	r.settled()
	events := r.events()
	if len(events) != 2 || events[0].State != "superseded" || r.shop.Calls() != calls {
		t.Errorf("%d calls more, events %+v", r.shop.Calls()-calls, events)
	}
}

func TestKnownIDWithOtherContentOpensACase(t *testing.T) {
	t.Parallel()
	r := start(t).withShopify(nil)
	for _, body := range []string{`{"id":71,"note":"a"}`, `{"id":71,"note":"b"}`, `{"id":71,"note":"b"}`} {
		if status, _ := r.send("hk", shopSigned("orders/updated", "one-id", []byte(body)), []byte(body)); status != http.StatusOK {
			t.Fatal(status)
		}
	}
	var payloads, cases int
	r.scan(&payloads, `SELECT count(*) FROM payloads`)
	r.scan(&cases, `SELECT count(*) FROM exceptions WHERE kind = 'payload_conflict' AND state = 'open'`)
	if e := r.events(); len(e) != 1 || e[0].Deliveries != 3 || payloads != 2 || cases != 1 {
		t.Errorf("events %+v, %d payloads, %d cases", e, payloads, cases)
	}
}

func TestReceiptHeaderOfAnotherEventOpensACase(t *testing.T) {
	t.Parallel()
	r := start(t).withReceipts(true)
	_, n := r.receipt.Issue(sandbox.Receipt{})
	n.Header.Set("X-RR-Event-Id", "another")
	r.postAll("till", n)
	var cases int
	r.scan(&cases, `SELECT count(*) FROM exceptions WHERE kind = 'payload_conflict'`)
	if cases != 1 {
		t.Errorf("%d cases", cases)
	}
}

func TestDueRowIsFoundWithoutItsJob(t *testing.T) {
	t.Parallel()
	r := start(t).withShopify(nil)
	_, ns, err := r.shop.CreateOrder(sandbox.ShopifyOrder{})
	if err != nil {
		t.Fatal(err)
	}
	r.postAll("hk", ns[0])
	r.settled()
	if _, err := r.app.store.SQL().Exec(`UPDATE events SET state = 'received', due_at = now(), done_at = NULL`); err != nil {
		t.Fatal(err)
	}
	lost := time.Now()
	r.settled()
	if waited := time.Since(lost); waited > 4*time.Second {
		t.Errorf("found after %s", waited)
	}
}

func TestAnotherProcessIsSeenAtOnce(t *testing.T) {
	t.Parallel()
	r := start(t)
	other := connect.New(r.app.store, r.app.keys, makers, nil, nil)
	if err := other.Look(context.Background()); err != nil {
		t.Fatal(err)
	}
	if err := other.Add(context.Background(), "console", connect.Setup{Platform: models.Stripe, Slug: "new", Account: "acct", Shop: "web", Secrets: connect.Secrets{Webhook: []string{"whsec_1"}}}); err != nil {
		t.Fatal(err)
	}
	body := []byte(`{"id":"evt_1","object":"event","type":"product.created","created":1,"data":{"object":{"id":"prod_1"}}}`)
	r.wait("the new slug is known", func() bool {
		status, _ := r.send("new", stripeSigned("whsec_1", body, time.Now()), body)
		return status == http.StatusOK
	})
	if err := other.Add(context.Background(), "console", connect.Setup{Slug: "new", Secrets: connect.Secrets{Webhook: []string{"whsec_2", "whsec_1"}}}); err != nil {
		t.Fatal(err)
	}
	r.wait("the new secret is known", func() bool {
		status, _ := r.send("new", stripeSigned("whsec_2", body, time.Now()), body)
		return status == http.StatusOK
	})
}

func TestSecretsAndPayloadsAreSealed(t *testing.T) {
	t.Parallel()
	r := start(t).withShopify(nil)
	body := []byte(`{"id":9,"email":"somebody@example.test","note":"a very private note"}`)
	r.send("hk", shopSigned("orders/updated", "sealed", body), body)
	var dump string
	r.scan(&dump, `SELECT (SELECT string_agg(encode(sealed, 'escape'), '') FROM payloads) || (SELECT string_agg(e::text, '') FROM events e)
		|| (SELECT string_agg(c::text || encode(coalesce(credentials, ''), 'escape'), '') FROM connections c) || (SELECT string_agg(encode(sealed, 'escape'), '') FROM connection_secrets)`)
	for _, secret := range []string{"somebody@example.test", "private note", shopSecret} {
		if strings.Contains(dump, secret) {
			t.Errorf("%q stands in the database", secret)
		}
	}
}
