package app

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"counterfoil/models"
	"counterfoil/models/connect"
	"counterfoil/models/platform/sandbox"
	"counterfoil/models/reconcile"
)

// open counts a connection's open exceptions of a kind.
func (r *rig) open(kind models.ExceptionKind) int {
	r.t.Helper()
	var n int
	r.scan(&n, `SELECT count(*) FROM exceptions WHERE state = 'open' AND kind = $1`, kind)
	return n
}

// lookNow makes every look at subscriptions due, as if so much time had passed.
func (r *rig) lookNow(passed time.Duration) {
	r.t.Helper()
	r.exec(`UPDATE subscription_faults SET since = since - make_interval(secs => $1)`, passed.Seconds())
	r.exec(`UPDATE subscription_looks SET next_at = now()`)
}

func (r *rig) looked(after time.Time) {
	r.t.Helper()
	r.wait("the subscriptions are looked at", func() bool {
		var n int
		r.scan(&n, `SELECT count(*) FROM subscription_looks WHERE looked_at > $1 AND next_at > now()`, after)
		return n > 0
	})
}

// A subscription that the platform deletes after failures is an exception after the
// second look; a person's press registers it again, which closes it.
func TestADeletedSubscriptionIsToldAndRegisteredAgain(t *testing.T) {
	t.Parallel()
	r := start(t).withShopify(nil)
	manager := r.seat(models.Manager)
	const page = "/connections/hk/notifications"
	if status, text := manager.get(page); status != http.StatusOK || !strings.Contains(text, "The platform’s own pages") {
		t.Fatalf("%d: %s", status, text)
	}
	status, text := manager.post(page, nil)
	if status != http.StatusOK || !strings.Contains(text, "Made: 20. Mended: 0.") {
		t.Fatalf("register: %d: %s", status, text)
	}
	r.looked(time.Time{})
	if len(r.shop.Subscriptions()) != 20 || r.open(models.SubscriptionMissing) != 0 {
		t.Fatalf("registered %v", r.shop.Subscriptions())
	}
	var made int
	r.scan(&made, `SELECT count(*) FROM audit WHERE verb = 'connection.notify' AND after LIKE '%made=20%'`)
	if made != 1 {
		t.Errorf("%d audit rows", made)
	}

	id, ns, err := r.shop.CreateOrder(sandbox.ShopifyOrder{})
	if err != nil {
		t.Fatal(err)
	}
	r.shop.Outbox.Put(ns...)
	if _, err := r.shop.Outbox.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.wait("a notification comes where it was registered", func() bool {
		var n int
		r.scan(&n, `SELECT count(*) FROM events`)
		return n > 0
	})
	r.shop.Outbox.Forge.Store(true) // so that each is refused
	for range 8 {
		r.shop.Outbox.Put(must(r.shop.Touch(id))...)
		if _, err := r.shop.Outbox.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	r.shop.Outbox.Forge.Store(false)
	if slices.Contains(r.shop.Subscriptions(), "ORDERS_UPDATED") {
		t.Fatal("eight failures left the subscription")
	}
	first := r.clock.now()
	r.lookNow(0)
	r.looked(first)
	if r.open(models.SubscriptionMissing) != 0 {
		t.Error("the first look opens an exception")
	}
	r.lookNow(6 * time.Minute)
	r.wait("the second look opens it", func() bool { return r.open(models.SubscriptionMissing) == 1 })
	var topic, detail string
	r.scan(&topic, `SELECT topic FROM exceptions WHERE kind = 'subscription_missing'`)
	r.scan(&detail, `SELECT detail FROM exceptions WHERE kind = 'subscription_missing'`)
	if topic != "orders/updated" || detail != "orders/updated" {
		t.Errorf("it names %q, %q", topic, detail)
	}
	if _, text := manager.get(page); !strings.Contains(text, "Missing") {
		t.Error("the page doesn't say which is missing")
	}
	if status, text := manager.post(page, nil); status != http.StatusOK || !strings.Contains(text, "Made: 1. Mended: 0.") {
		t.Fatalf("register again: %d: %s", status, text)
	}
	r.wait("it closes", func() bool { return r.open(models.SubscriptionMissing) == 0 })

	r.shop.MoveSubscription("orders/paid", "https://elsewhere.example/hooks/hk")
	r.lookNow(0)
	r.wait("one that sends elsewhere is seen", func() bool {
		var fault string
		_ = r.app.store.SQL().QueryRow(`SELECT fault FROM subscription_faults WHERE topic = 'orders/paid'`).Scan(&fault)
		return fault == "elsewhere"
	})
	if status, text := manager.post(page, nil); status != http.StatusOK || !strings.Contains(text, "Made: 0. Mended: 1.") {
		t.Fatalf("mend: %d: %s", status, text)
	}
	if _, text := r.seat(models.Support).get(page); !strings.Contains(text, "Not with the role") {
		t.Error("support isn't told who can register")
	}
}

// What was set up on the platform's own pages, or in the app's config, isn't missing.
func TestSubscriptionsMadeElsewhereAreNotMissing(t *testing.T) {
	t.Parallel()
	for _, way := range []string{"", "admin", "config"} {
		t.Run("set to "+way, func(t *testing.T) {
			t.Parallel()
			r := start(t).withShopify(map[string]string{"subscriptions": way})
			calls := r.shop.Calls()
			hears := &reconcile.Subscriptions{Store: r.app.store, Book: r.app.book, Log: r.app.log}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			hears.Lookout(ctx)
			if n := r.open(models.SubscriptionMissing); n != 0 || r.shop.Calls()-calls > 3 {
				t.Errorf("%d exceptions, %d calls", n, r.shop.Calls()-calls)
			}
			status, text := r.seat(models.Admin).post("/connections/hk/notifications", nil)
			if way == "" && status != http.StatusOK || way != "" && (status != http.StatusConflict || !strings.Contains(text, way)) {
				t.Errorf("pressed: %d %s", status, text)
			}
		})
	}
}

// The secret that Stripe tells once is sealed, and accepted beside the other.
func TestARegisteredEndpointsSecretIsAccepted(t *testing.T) {
	t.Parallel()
	r := start(t).withStripe("hk", nil)
	manager := r.seat(models.Manager)
	if status, text := manager.post("/connections/pay/notifications", nil); status != http.StatusOK || !strings.Contains(text, "Made: 1.") {
		t.Fatalf("%d: %s", status, text)
	}
	if got := r.stripe.Endpoints(); len(got) != 1 || got[0] != r.base+"/hooks/pay" || len(r.stripe.Secrets) != 2 {
		t.Fatalf("endpoints %v", got)
	}
	for i, secret := range r.stripe.Secrets {
		only := sandbox.NewStripe("acct_own", "sk_test_key", secret, r.clock.now)
		_, ns := only.CreateIntent(int64(1000+i), "hkd", sandbox.StripeIntent{})
		if got := r.post("pay", ns[0]); got != http.StatusOK {
			t.Errorf("signed with secret %d: %d", i, got)
		}
	}
	r.stripe.Disable()
	first := r.clock.now()
	r.lookNow(0)
	r.looked(first)
	r.lookNow(6 * time.Minute)
	r.wait("a disabled endpoint is an exception", func() bool { return r.open(models.SubscriptionMissing) == 1 })

	r.stripe.Deny("/v1/webhook_endpoints", "rak_webhook_write")
	if status, text := manager.post("/connections/pay/notifications", nil); status != http.StatusServiceUnavailable || !strings.Contains(text, "rak_webhook_write") {
		t.Errorf("a restricted key: %d: %s", status, text)
	}
}

// A busy hour without a notification, while the platform shows changes, is an alarm
// until the first one comes. Nothing else is.
func TestUnusualSilence(t *testing.T) {
	t.Parallel()
	r := start(t).withShopify(nil)
	_, ns, err := r.shop.CreateOrder(sandbox.ShopifyOrder{})
	if err != nil {
		t.Fatal(err)
	}
	r.postAll("hk", ns...)
	r.settled()
	look := func() int {
		t.Helper()
		s := &reconcile.Silences{Store: r.app.store, Book: r.app.book, Log: r.app.log}
		if err := s.Look(t.Context()); err != nil {
			t.Fatal(err)
		}
		return r.open(models.Silence)
	}
	r.clock.forward(70 * time.Minute)
	if look() != 0 {
		t.Error("an alarm without history")
	}
	id, _, err := r.shop.CreateOrder(sandbox.ShopifyOrder{}) // told nobody
	if err != nil {
		t.Fatal(err)
	}
	r.clock.forward(20 * time.Minute)
	hour := r.clock.now().UTC().Add(-time.Hour).Truncate(time.Hour)
	for week := range 3 {
		r.exec(`INSERT INTO event_hours (connection_id, hour, events) SELECT id, $1, 12 FROM connections ON CONFLICT DO NOTHING`, hour.Add(-time.Duration(week+1)*7*24*time.Hour))
	}
	if look() != 1 {
		t.Fatal("no alarm")
	}
	r.postAll("hk", must(r.shop.Pay(id))...)
	r.exec(`UPDATE events SET received_at = $1 WHERE id = (SELECT max(id) FROM events)`, r.clock.now().Add(time.Minute))
	if look() != 0 {
		t.Error("the alarm stays after a notification")
	}
	var how string
	r.scan(&how, `SELECT closed_how FROM exceptions WHERE kind = 'silence'`)
	if how != "late" {
		t.Errorf("closed as %q", how)
	}
}

// Checking names what is missing, in words, and what to do.
func TestCheckConnection(t *testing.T) {
	t.Parallel()
	r := start(t).withShopify(nil)
	id, ns, err := r.shop.CreateOrder(sandbox.ShopifyOrder{})
	if err != nil {
		t.Fatal(err)
	}
	r.postAll("hk", ns...)
	r.settled()
	manager := r.seat(models.Manager)
	const page = "/connections/hk/check"
	see := func(status int, text string, want ...string) {
		t.Helper()
		if status != http.StatusOK || strings.Contains(text, "probe.") || strings.Contains(text, "canaries.") {
			t.Fatalf("%d: %s", status, text)
		}
		for _, w := range want {
			if !strings.Contains(text, w) {
				t.Errorf("the page doesn't say %q", w)
			}
		}
	}
	status, text := manager.post("/connections/hk/canaries", url.Values{"ref": {"no such"}})
	if status != http.StatusUnprocessableEntity || !strings.Contains(text, "no such") {
		t.Errorf("a reference of nothing: %d", status)
	}
	status, text = manager.post("/connections/hk/canaries", url.Values{"ref": {r.shop.Name(id)}})
	if status == http.StatusUnprocessableEntity {
		status, text = manager.post("/connections/hk/canaries", url.Values{"ref": {gid(id)}})
	}
	see(status, text, "The test object was added")
	status, text = manager.post(page, nil)
	see(status, text, "All fine", "Changes can be listed: order", "can be read", "points are left", "is kept now", "signs is accepted")

	r.shop.SetScopes("read_orders", "read_fulfillments", "read_merchant_managed_fulfillment_orders")
	r.shop.Remove("Order", "sourceName")
	status, text = manager.post(page, nil)
	see(status, text, "To be mended", "The scope read_returns is missing.", "has lost or changed: disputes, returns, sourceName")

	r.shop.SetSecret("another-secret")
	if got := r.post("hk", must(r.shop.Touch(id))[0]); got != http.StatusUnauthorized {
		t.Fatalf("a wrong secret answered %d", got)
	}
	r.wait("the refusal is kept", func() bool {
		var n int
		r.scan(&n, `SELECT count(*) FROM rejections`)
		return n > 0
	})
	r.exec(`UPDATE rejections SET at = $1`, r.clock.now().Add(time.Minute))
	status, text = manager.post(page, nil)
	see(status, text, "signs with a secret that isn’t among these")
	r.shop.SetSecret(shopSecret)

	status, text = manager.post("/connections/hk/canaries/1", url.Values{"do": {"await"}})
	see(status, text, "Waiting since")
	r.postAll("hk", must(r.shop.Touch(id))...)
	status, text = manager.get(page)
	see(status, text, "Its notification came")

	if _, text := r.seat(models.Support).get(page); !strings.Contains(text, "Not with the role") {
		t.Error("support isn't told who can check")
	}
}

// A check starts by itself after what it rests on changed, and not before.
func TestAChangedConnectionIsCheckedByItself(t *testing.T) {
	t.Parallel()
	r := start(t).withStripe("hk", nil)
	r.wait("the connection is known", func() bool {
		var n int
		r.scan(&n, `SELECT count(*) FROM connection_marks`)
		return n == 1
	})
	checks := func() (n int) {
		r.scan(&n, `SELECT count(*) FROM connection_checks WHERE by = 'console' AND ended_at IS NOT NULL`)
		return n
	}
	r.connect(connect.Setup{Slug: "pay", Set: map[string]string{"sweep_every": "1h"}})
	if n := checks(); n != 0 {
		t.Errorf("%d checks after a setting that it doesn't rest on", n)
	}
	r.stripe.Deny("/v1/disputes", "rak_dispute_read")
	r.connect(connect.Setup{Slug: "pay", Secrets: connect.Secrets{Webhook: []string{"whsec_new"}}})
	r.wait("it is checked", func() bool { return checks() == 1 })
	_, text := r.seat(models.Auditor).get("/connections/pay/check")
	for _, want := range []string{"Checked by itself", "rak_dispute_read", "retired secret"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page doesn't say %q: %s", want, text)
		}
	}
}

// Another API version can be tried before it is set; what has none says so.
func TestCheckWithAnotherVersion(t *testing.T) {
	t.Parallel()
	r := start(t).withShopify(nil).withReceipts(true)
	admin := r.seat(models.Admin)
	r.shop.SetVersions("2026-07", "2026-10", "2027-01")
	for version, want := range map[string]string{"2027-01": "API version 2027-01 answers.", "2031-01": "API version 2031-01 was asked for, 2026-07 answers."} {
		status, text := admin.post("/connections/hk/check", url.Values{"version": {version}})
		if status != http.StatusOK || !strings.Contains(text, "with version "+version) || !strings.Contains(text, want) {
			t.Errorf("%s: %d: %s", version, status, text)
		}
	}
	for _, path := range []string{"/connections/hk/check", "/connections/till/check"} {
		if status, _ := admin.post(path, url.Values{"version": {"no version"}}); status != http.StatusUnprocessableEntity {
			t.Errorf("%s: %d", path, status)
		}
	}
	status, text := admin.post("/connections/till/check", nil)
	if status != http.StatusOK || strings.Contains(text, "probe.") || strings.Contains(text, "another API version (") || !strings.Contains(text, "of 1,000 calls in 30 days are used") &&
		!strings.Contains(text, "of 1000 calls in 30 days are used") || !strings.Contains(text, "The organization org1 can be read.") {
		t.Errorf("till: %d: %s", status, text)
	}
	if status, _ := admin.get("/connections/till/notifications"); status != http.StatusNotFound {
		t.Errorf("a platform without subscriptions: %d", status)
	}
}
