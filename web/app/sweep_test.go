package app

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"counterfoil/models"
	"counterfoil/models/connect"
	"counterfoil/models/platform/sandbox"
	"counterfoil/models/store"
)

// compare compares a connection now, as the command does.
func (r *rig) compare(slug string) compared {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), r.waits)
	defer cancel()
	out, err := r.app.base.reconcile(ctx, slug, slog.New(slog.DiscardHandler))
	if err != nil {
		r.t.Fatal(err)
	}
	return out
}

// snapshot is all that the record says of orders: states, sums, ledger, actions.
func (r *rig) snapshot() string {
	r.t.Helper()
	var s string
	r.scan(&s, `SELECT COALESCE((SELECT string_agg(concat_ws(' ', o.id, o.payment, o.refund, o.dispute, o.fulfillment, o.cancellation, o.return, o.total, o.paid, o.refunded, o.items::text), E'\n' ORDER BY o.id) FROM orders o), '')
		|| (SELECT count(*)::text FROM ledger) || (SELECT count(*)::text FROM actions)`)
	return s
}

func (r *rig) casesOf(kind, axis string) (open int, how string) {
	r.t.Helper()
	r.scan(&open, `SELECT count(*) FROM exceptions WHERE kind = $1 AND COALESCE(axis, '') = $2 AND state = 'open'`, kind, axis)
	r.scan(&how, `SELECT COALESCE(max(closed_how), '') FROM exceptions WHERE kind = $1 AND COALESCE(axis, '') = $2 AND state <> 'open'`, kind, axis)
	return open, how
}

func TestDroppedNotificationIsFoundAndSettledByResync(t *testing.T) {
	t.Parallel()
	r := start(t).withShopify(map[string]string{"missed_after": "0s"})
	if first := r.compare("hk"); first.Missed != 0 {
		t.Fatalf("the import counts as missed: %+v", first)
	}
	id, _, err := r.shop.CreateOrder(sandbox.ShopifyOrder{Total: "100.00"})
	if err != nil {
		t.Fatal(err)
	}
	must(r.shop.Pay(id))
	before := r.snapshot()
	got := r.compare("hk")
	if got.Missed != 1 || got.Different != 0 || got.Checkpoint == "" {
		t.Fatalf("compared %+v", got)
	}
	if open, _ := r.casesOf("missed_notification", "payment"); open != 1 {
		t.Fatalf("%d exceptions", open)
	}
	if after := r.snapshot(); after != before {
		t.Fatalf("a sweep wrote:\n%s\n%s", before, after)
	}
	if again := r.compare("hk"); again.Missed != 1 {
		t.Fatalf("compared again %+v", again)
	}
	var topic string
	r.scan(&topic, `SELECT topic FROM exceptions WHERE kind = 'missed_notification'`)
	if topic != "orders/create" {
		t.Errorf("topic %q", topic)
	}
	if code := r.callWith(http.MethodPost, "/api/v1/connections/hk/resync", `{"ref": "`+gid(id)+`"}`, nil); code != http.StatusOK {
		t.Fatalf("resync answered %d", code)
	}
	o, ok := r.order(gid(id))
	if !ok || o.states() != "paid none none unfulfilled active none" {
		t.Fatalf("order %+v", o)
	}
	instructions := 0
	for _, a := range o.Actions {
		if a.Kind == "fulfillment_instruction" {
			instructions++
		}
	}
	if instructions != 1 {
		t.Errorf("%d instructions", instructions)
	}
	if open, how := r.casesOf("missed_notification", "payment"); open != 0 || how != "resync" {
		t.Errorf("%d open, closed %q", open, how)
	}
	if clean := r.compare("hk"); clean.Missed != 0 || clean.Different != 0 {
		t.Errorf("compared %+v", clean)
	}
}

func TestSweepWritesNoOrder(t *testing.T) {
	t.Parallel()
	r := start(t).withShopify(map[string]string{"missed_after": "0s"})
	r.compare("hk")
	var ids []int64
	for range 4 {
		id, ns, err := r.shop.CreateOrder(sandbox.ShopifyOrder{Total: "100.00"})
		if err != nil {
			t.Fatal(err)
		}
		r.postAll("hk", ns...)
		r.postAll("hk", must(r.shop.Pay(id))...)
		ids = append(ids, id)
	}
	r.settled()
	must(r.shop.Cancel(ids[0], "customer"))
	must(r.shop.Fulfill(ids[1], 0, "T1"))
	must(r.shop.Refund(ids[2], "30.00", sandbox.RefundSucceeds))
	must(r.shop.Touch(ids[3]))
	before := r.snapshot()
	got := r.compare("hk")
	if got.Missed != 3 {
		t.Errorf("compared %+v", got)
	}
	if after := r.snapshot(); after != before {
		t.Errorf("a sweep wrote:\n%s\n%s", before, after)
	}
	for _, axis := range []string{"cancellation", "fulfillment", "refund"} {
		if open, _ := r.casesOf("missed_notification", axis); open == 0 {
			t.Errorf("no exception on %s", axis)
		}
	}
	o, _ := r.order(gid(ids[0]))
	if o.Verification.State == "verified" {
		t.Errorf("verification %+v", o.Verification)
	}
	// The notification arrives late after all.
	r.postAll("hk", must(r.shop.Touch(ids[0]))...)
	r.settled()
	if open, how := r.casesOf("missed_notification", "cancellation"); open != 0 || how != "late" {
		t.Errorf("%d open, closed %q", open, how)
	}
}

func TestClosedReturnIsFound(t *testing.T) {
	t.Parallel()
	r := start(t).withShopify(map[string]string{"missed_after": "0s", "sweep_overlap": "0s"})
	r.compare("hk")
	id, ns, err := r.shop.CreateOrder(sandbox.ShopifyOrder{Total: "100.00"})
	if err != nil {
		t.Fatal(err)
	}
	r.postAll("hk", ns...)
	r.postAll("hk", must(r.shop.Pay(id))...)
	r.postAll("hk", must(r.shop.Fulfill(id, 0, "T1"))...)
	r.postAll("hk", must(r.shop.RequestReturn(id, 1))...)
	r.postAll("hk", must(r.shop.ApproveReturn(id))...)
	r.settled()
	must(r.shop.CloseReturn(id, 1))
	if got := r.compare("hk"); got.Missed != 1 {
		t.Errorf("compared %+v", got)
	}
	if open, _ := r.casesOf("missed_notification", "return"); open != 1 {
		t.Errorf("%d exceptions", open)
	}
}

func TestRefundThatFailedLaterIsFound(t *testing.T) {
	t.Parallel()
	r := start(t).withStripe("pay", map[string]string{"missed_after": "0s"})
	r.compare("pay")
	pi, ns := r.stripe.CreateIntent(10000, "hkd", sandbox.StripeIntent{})
	r.postAll("pay", ns...)
	r.postAll("pay", must(r.stripe.Succeed(pi))...)
	re, ns, err := r.stripe.Refund(pi, 4000, "succeeded")
	if err != nil {
		t.Fatal(err)
	}
	r.postAll("pay", ns...)
	r.settled()
	r.compare("pay")
	r.clock.forward(20 * 24 * time.Hour)
	must(r.stripe.FailRefund(re, "expired_or_canceled_card"))
	before := r.snapshot()
	got := r.compare("pay")
	if got.Missed != 1 || r.snapshot() != before {
		t.Errorf("compared %+v", got)
	}
	if open, _ := r.casesOf("missed_notification", "refund"); open != 1 {
		t.Errorf("%d exceptions", open)
	}
}

func TestOutageLeavesTheCheckpoint(t *testing.T) {
	t.Parallel()
	r := start(t).withShopify(map[string]string{"missed_after": "0s", "down_after": "0s"})
	at := r.compare("hk").Checkpoint
	r.shop.Down.Store(true)
	for range 3 {
		id, _, err := r.shop.CreateOrder(sandbox.ShopifyOrder{Total: "10.00"})
		if err != nil {
			t.Fatal(id, err)
		}
		if _, err := r.app.base.reconcile(context.Background(), "hk", slog.New(slog.DiscardHandler)); err == nil {
			t.Fatal("finished while the platform is down")
		}
	}
	var still string
	r.scan(&still, `SELECT to_char(min(at) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') FROM checkpoints`)
	if still != at {
		t.Errorf("checkpoint %s, was %s", still, at)
	}
	r.shop.Down.Store(false)
	if got := r.compare("hk"); got.Missed > 3 {
		t.Errorf("compared %+v", got)
	}
	r.wait("the whole gap is compared", func() bool {
		var n int
		r.scan(&n, `SELECT count(*) FROM findings`)
		return n == 3
	})
}

func TestFirstSweepIsQuiet(t *testing.T) {
	t.Parallel()
	r := start(t)
	r.shop = sandbox.NewShopify(sandbox.ShopifyConfig{Account: "hk.myshopify.com", Secret: shopSecret, ClientID: "app", Now: r.clock.now, FirstID: 820982911946155001})
	for i := range 60 {
		id, _, err := r.shop.CreateOrder(sandbox.ShopifyOrder{Total: fmt.Sprintf("%d.00", 10+i)})
		if err != nil {
			t.Fatal(err)
		}
		must(r.shop.Pay(id))
	}
	r.clock.forward(time.Minute)
	r.connect(connectSetup(r))
	got := r.compare("hk")
	var orders, actions, exceptions, imported int
	r.scan(&orders, `SELECT count(*) FROM orders WHERE payment = 'paid'`)
	r.scan(&actions, `SELECT count(*) FROM actions WHERE state <> 'not_needed'`)
	r.scan(&exceptions, `SELECT count(*) FROM exceptions`)
	r.scan(&imported, `SELECT count(*) FROM connections WHERE imported_at IS NOT NULL`)
	if got.Seen != 60 || got.Missed != 0 || orders != 60 || actions != 0 || exceptions != 0 || imported != 1 {
		t.Errorf("compared %+v: %d orders, %d actions, %d exceptions, %d imported", got, orders, actions, exceptions, imported)
	}
}

func connectSetup(r *rig) connect.Setup {
	return connect.Setup{Platform: "shopify", Slug: "hk", Account: "hk.myshopify.com", Shop: "hk", APIURL: r.serve(r.shop), Set: with(nil, "rate", "500"),
		Secrets: connect.Secrets{Webhook: []string{shopSecret}, ClientID: "app", ClientSecret: shopSecret}}
}

// What waits for a platform is compared at once when it answers again, and calling for
// it again and again meanwhile makes no pile.
func TestTheGapIsComparedWhenThePlatformAnswers(t *testing.T) {
	t.Parallel()
	r := start(t).withShopify(map[string]string{"missed_after": "0s", "down_after": "0s"})
	r.compare("hk") // the import
	id, _, err := r.shop.CreateOrder(sandbox.ShopifyOrder{Total: "100.00"})
	must(nil, err)
	must(r.shop.Pay(id))
	r.shop.Down.Store(true)
	for range 3 {
		if _, err := r.app.base.reconcile(t.Context(), "hk", slog.New(slog.DiscardHandler)); err == nil {
			t.Fatal("a platform that is down was compared")
		}
	}
	var runs, kinds int
	r.scan(&runs, `SELECT count(*) FROM sweeps WHERE state = 'running'`)
	r.scan(&kinds, `SELECT count(DISTINCT kind) FROM sweeps WHERE state = 'running'`)
	if runs > 2*kinds || runs == 0 { // one that is being tried isn’t taken along
		t.Errorf("%d runs of %d kinds wait", runs, kinds)
	}
	r.shop.Down.Store(false)
	r.wait("the gap is compared and the order found", func() bool {
		open, _ := r.casesOf("missed_notification", "payment")
		r.scan(&runs, `SELECT count(*) FROM sweeps WHERE state = 'running'`)
		return open == 1 && runs == 0
	})
}

// The time in which no process lived is compared at once, and its page says so.
func TestTheTimeOffIsCompared(t *testing.T) {
	t.Parallel()
	r := start(t).withShopify(map[string]string{"missed_after": "0s", "sweep_every": "10m"})
	r.wait("the import is over", func() bool {
		var n int
		r.scan(&n, `SELECT count(*) FROM connections WHERE imported_at IS NOT NULL`)
		return n == 1
	})
	r.wait("nothing is due", func() bool {
		var n int
		r.scan(&n, `SELECT (SELECT count(*) FROM sweeps WHERE state = 'running') + (SELECT count(*) FROM checkpoints WHERE next_at <= now()) + 3 - LEAST(3, (SELECT count(*) FROM checkpoints))`)
		return n == 0
	})
	id, _, err := r.shop.CreateOrder(sandbox.ShopifyOrder{Total: "100.00"})
	must(nil, err)
	must(r.shop.Pay(id))
	if err := r.app.store.Tx(t.Context(), func(tx *store.Tx) error {
		return tx.Alive(t.Context(), "before")
	}); err != nil {
		t.Fatal(err)
	}
	r.exec(`UPDATE console_life SET seen_at = now() - interval '5 hours'`)
	if err := r.app.store.Tx(t.Context(), func(tx *store.Tx) error { return tx.Alive(t.Context(), "after") }); err != nil {
		t.Fatal(err)
	}
	r.wait("the order that nobody heard of is found", func() bool {
		open, _ := r.casesOf("missed_notification", "payment")
		return open == 1
	})
	f, err := r.app.sweeps.File(t.Context(), commandLine, "hk")
	if err != nil || len(f.Off) != 1 {
		t.Fatalf("%v, off %+v", err, f.Off)
	}
	if _, _, lost := f.Off[0].Lost(models.Shopify); !lost {
		t.Error("Shopify is said to send again what is five hours old")
	}
}

// Many refused requests are an exception; when genuine ones come again, it names how
// many there were, and the time is compared.
func TestRefusalsAreToldAndCompared(t *testing.T) {
	t.Parallel()
	r := start(t).withShopify(map[string]string{"missed_after": "0s"})
	r.compare("hk") // the import
	id, ns, err := r.shop.CreateOrder(sandbox.ShopifyOrder{Total: "100.00"})
	must(ns, err)
	must(r.shop.Pay(id)) // its notifications are lost with those that are refused
	r.shop.SetSecret("rolled")
	for range 25 {
		if got := r.post("hk", must(r.shop.Touch(id))[0]); got != http.StatusUnauthorized {
			t.Fatalf("a wrong signature is answered %d", got)
		}
	}
	conn, err := r.app.book.Slug(t.Context(), "hk")
	if err != nil {
		t.Fatal(err)
	}
	is := func(want string) func() bool {
		return func() bool {
			if err := r.app.doors.Look(t.Context(), conn); err != nil {
				t.Fatal(err)
			}
			var got string
			r.scan(&got, `SELECT COALESCE(string_agg(concat_ws(' ', case_name, state, closed_how), ', '), '') FROM exceptions WHERE kind = 'signature_failures'`)
			return got == want
		}
	}
	r.wait("the refusals are an exception", is("alone open "))
	r.shop.SetSecret(shopSecret)
	r.clock.forward(time.Minute)
	_, ns, err = r.shop.CreateOrder(sandbox.ShopifyOrder{})
	r.postAll("hk", must(ns, err)...)
	r.wait("it ends with a genuine one", is("alone closed ended"))
	r.wait("the time is compared and the order found", func() bool {
		open, _ := r.casesOf("missed_notification", "payment")
		var n int
		r.scan(&n, `SELECT count(*) FROM sweeps WHERE reason = 'refusals' AND state = 'done'`)
		return open == 1 && n == 3
	})
	var note string
	r.scan(&note, `SELECT closed_note FROM exceptions WHERE kind = 'signature_failures'`)
	if len(note) < 40 || note[:3] != "20," {
		t.Errorf("it says %q", note)
	}
}
