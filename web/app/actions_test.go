package app

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"counterfoil/models"
	"counterfoil/models/actions"
	"counterfoil/models/platform/sandbox"
)

const sinkSecret = "whsec_c2luay1zZWNyZXQ="

// A call is one request that a destination got.
type call struct {
	key, kind, stage string
	body             string
	order            map[string]any
}

// A sink is a destination that counts by key.
type sink struct {
	t   testing.TB
	url string

	mu     sync.Mutex
	calls  []call
	answer func(w http.ResponseWriter, c call, nth int) // nth call of its key, from 1; nil: 200 with a receipt
}

func newSink(t testing.TB) *sink {
	t.Helper()
	s := &sink{t: t}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	s.url = server.URL
	return s
}

func (s *sink) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		s.t.Error(err)
	}
	mac := hmac.New(sha256.New, []byte("sink-secret"))
	fmt.Fprintf(mac, "%s.%s.%s", r.Header.Get("webhook-id"), r.Header.Get("webhook-timestamp"), body)
	if want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)); r.Header.Get("webhook-signature") != want {
		s.t.Errorf("signed %q, want %q", r.Header.Get("webhook-signature"), want)
	}
	var told struct {
		Action, Kind, Stage, Shop string
		Order                     map[string]any
	}
	if err := json.Unmarshal(body, &told); err != nil {
		s.t.Error(err)
	}
	c := call{key: r.Header.Get("Idempotency-Key"), kind: told.Kind, stage: told.Stage, body: string(body), order: told.Order}
	if c.key != told.Action || c.key != r.Header.Get("webhook-id") {
		s.t.Errorf("key %q, id %q, action %q", c.key, r.Header.Get("webhook-id"), told.Action)
	}
	s.mu.Lock()
	nth := 1
	for _, earlier := range s.calls {
		if earlier.key == c.key {
			nth++
			if earlier.body != c.body {
				s.t.Errorf("try %d of %s has other bytes", nth, c.key)
			}
		}
	}
	s.calls = append(s.calls, c)
	answer := s.answer
	s.mu.Unlock()
	if answer != nil {
		answer(w, c, nth)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"receipt": "R-%s"}`, c.key)
}

// effects counts the different keys of each kind and stage.
func (s *sink) effects() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	keys := map[string]map[string]bool{}
	for _, c := range s.calls {
		name := c.kind + "/" + c.stage
		if keys[name] == nil {
			keys[name] = map[string]bool{}
		}
		keys[name][c.key] = true
	}
	var out []string
	for _, name := range slices.Sorted(maps.Keys(keys)) {
		out = append(out, fmt.Sprintf("%s %d", name, len(keys[name])))
	}
	return strings.Join(out, ", ")
}

func (s *sink) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.calls)
}

const allOnce = "customer_message/payment_received 1, fulfillment_instruction/order 1, invoice/order 1"

// live sends the kinds of a shop to a sink.
func (r *rig) live(shop string, s *sink, idempotent bool, kinds ...models.ActionKind) {
	r.t.Helper()
	for _, k := range kinds {
		r.destination(actions.Setup{Shop: shop, Kind: k, Mode: models.ByHTTP, URL: s.url, Idempotent: idempotent, Hosts: []string{"127.0.0.1"}, Secret: sinkSecret})
	}
}

func (r *rig) destination(in actions.Setup) {
	r.t.Helper()
	if err := actions.SetDestination(context.Background(), r.app.store, r.app.keys, "console", in); err != nil {
		r.t.Fatal(err)
	}
}

var usual = []models.ActionKind{models.FulfillmentInstruction, models.Invoice, models.CustomerMessage}

// seenAction is an action as programs read it.
type seenAction struct {
	ID, Kind, Stage, State, Why, Error, Receipt string
	Tries, Pieces                               int
	Person                                      bool
	Withdrew                                    *string    `json:"withdrew_id"`
	Request                                     *string    `json:"request_id"`
	Expires                                     *time.Time `json:"expires_at"`
}

// actions lists the newest action of each kind and stage.
func (r *rig) actions() map[string]seenAction {
	r.t.Helper()
	var list struct{ Items []seenAction }
	if code := r.call(http.MethodGet, "/api/v1/actions?limit=200", &list); code != http.StatusOK {
		r.t.Fatalf("actions answered %d", code)
	}
	out := map[string]seenAction{}
	for _, a := range list.Items {
		if name := a.Kind + "/" + a.Stage; out[name].ID == "" {
			out[name] = a // the list begins with the newest
		}
	}
	return out
}

// instruction is the newest one.
func (r *rig) instruction() seenAction { return r.actions()["fulfillment_instruction/order"] }

// becomes waits until the one instruction is in a state, and for a reason.
func (r *rig) becomes(state models.ActionState, why string) seenAction {
	r.t.Helper()
	var a seenAction
	r.wait(fmt.Sprintf("the instruction is %s %s", state, why), func() bool {
		a = r.instruction()
		return a.State == string(state) && (why == "" || a.Why == why)
	})
	return a
}

// carried waits until every event is processed and no action waits for the console.
func (r *rig) carried() {
	r.t.Helper()
	r.settled()
	r.wait("every action is carried", func() bool {
		var n int
		r.scan(&n, `SELECT count(*) FROM actions WHERE state IN ('planned', 'waiting', 'sending')`)
		return n == 0
	})
}

func (r *rig) exec(query string, args ...any) {
	r.t.Helper()
	if _, err := r.app.store.SQL().Exec(query, args...); err != nil {
		r.t.Fatal(query, err)
	}
}

// placed is an order of the shop that the console knows.
func (r *rig) placed(o sandbox.ShopifyOrder) int64 {
	r.t.Helper()
	if o.Total == "" {
		o.Total = "100.00"
	}
	id, ns, err := r.shop.CreateOrder(o)
	if err != nil {
		r.t.Fatal(err)
	}
	r.postAll("hk", ns...)
	r.settled()
	return id
}

// manyWays is one payment of a shop's order as both platforms tell it.
func (r *rig) manyWays() (int64, map[string][]sandbox.Notification) {
	r.t.Helper()
	id, created, err := r.shop.CreateOrder(sandbox.ShopifyOrder{Total: "100.00"})
	if err != nil {
		r.t.Fatal(err)
	}
	session := r.stripe.CreateSession(10000, "hkd", sandbox.StripeSession{Metadata: map[string]string{"order_id": fmt.Sprint(id)}, IntentMetadata: map[string]string{"order_id": fmt.Sprint(id)}})
	_, stripe, err := r.stripe.CompleteSession(session)
	if err != nil {
		r.t.Fatal(err)
	}
	shop := append(created, must(r.shop.Pay(id))...)
	shop = append(shop, must(r.shop.Touch(id))...)
	return id, map[string][]sandbox.Notification{"hk": shop, "pay": stripe}
}

// shuffled delivers notifications, each at least once, in any order, n in all.
func shuffled(all map[string][]sandbox.Notification, n int, post func(slug string, n sandbox.Notification)) {
	type one struct {
		slug string
		n    sandbox.Notification
	}
	var list []one
	for slug, ns := range all {
		for _, x := range ns {
			list = append(list, one{slug, x})
		}
	}
	for base := len(list); len(list) < n; {
		list = append(list, list[rand.IntN(base)])
	}
	rand.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	var wg sync.WaitGroup
	for lane := range 4 {
		wg.Go(func() {
			for i := lane; i < len(list); i += 4 {
				post(list[i].slug, list[i].n)
			}
		})
	}
	wg.Wait()
}

func TestOnePaymentToldInManyWaysHasEachConsequenceOnce(t *testing.T) {
	oneAndTwo(t, onePaymentToldInManyWaysHasEachConsequenceOnce)
}

func onePaymentToldInManyWaysHasEachConsequenceOnce(t *testing.T, start begin) {
	t.Parallel()
	r := start(t).withShopify(nil).withStripe("hk", nil)
	s := newSink(t)
	r.live("hk", s, true, usual...)
	id, told := r.manyWays()
	topics := map[string]bool{}
	for _, ns := range told {
		for _, n := range ns {
			topics[n.Topic] = true
		}
	}
	if len(topics) < 8 {
		t.Fatalf("only %d topics: %v", len(topics), topics)
	}
	shuffled(told, 50, func(slug string, n sandbox.Notification) {
		if got := r.post(slug, n); got != http.StatusOK {
			t.Errorf("%s answered %d", n.Topic, got)
		}
	})
	r.carried()
	if got := s.effects(); got != allOnce || s.count() != 3 {
		t.Errorf("%d calls: %s\n%+v", s.count(), got, r.actions())
	}
	o, _ := r.order(gid(id))
	if len(o.Actions) != 3 {
		t.Errorf("the order shows %+v", o.Actions)
	}
	for name, a := range r.actions() {
		if a.State != "done" || a.Receipt != "R-"+a.ID || a.Tries != 1 {
			t.Errorf("%s %+v", name, a)
		}
	}
	first := s.calls[0].order
	for _, key := range []string{"ledger", "objects", "events"} {
		if _, told := first[key]; told {
			t.Errorf("the destination is told the order's %s", key)
		}
	}
	if first["platform_ref"] != gid(id) || first["total"] != "100.00" || first["payment"] != "paid" {
		t.Errorf("the destination is told %v", first)
	}
}

func TestWithoutDestinationsNothingIsCalled(t *testing.T) {
	t.Parallel()
	r := start(t).withShopify(nil)
	s := newSink(t)
	for i := range 5 {
		id := r.placed(sandbox.ShopifyOrder{})
		r.postAll("hk", must(r.shop.Pay(id))...)
		if i == 0 {
			r.settled()
			r.postAll("hk", must(r.shop.Refund(id, "20.00", sandbox.RefundSucceeds))...)
		}
	}
	r.settled()
	var list struct{ Items []seenAction }
	r.call(http.MethodGet, "/api/v1/actions?state=watched", &list)
	if len(list.Items) != 16 || s.count() != 0 {
		t.Errorf("%d would have been sent, %d were: %+v", len(list.Items), s.count(), list.Items)
	}
	// What was only watched isn't sent when its kind becomes live.
	r.live("hk", s, true, usual...)
	id := r.placed(sandbox.ShopifyOrder{})
	r.postAll("hk", must(r.shop.Pay(id))...)
	r.carried()
	if got := s.effects(); got != allOnce {
		t.Errorf("sent %s", got)
	}
}

func TestNothingShipsWhileThePlatformIsDown(t *testing.T) {
	oneAndTwo(t, nothingShipsWhileThePlatformIsDown)
}

func nothingShipsWhileThePlatformIsDown(t *testing.T, start begin) {
	t.Parallel()
	r := start(t).withShopify(map[string]string{"down_after": "0s", "carry_fresh": "1ms"})
	s := newSink(t)
	r.live("hk", s, true, models.FulfillmentInstruction)
	id := r.placed(sandbox.ShopifyOrder{})
	// The payment is read, and then the platform goes away before anything is carried.
	r.exec(`UPDATE destinations SET mode = 'manual'`)
	lock := r.lock(`SELECT 1 FROM shops FOR NO KEY UPDATE`)
	r.postAll("hk", must(r.shop.Pay(id))...)
	r.settled()
	r.shop.Down.Store(true)
	if _, err := lock.Exec(`UPDATE destinations SET mode = 'http'`); err != nil {
		t.Fatal(err)
	}
	if err := lock.Commit(); err != nil {
		t.Fatal(err)
	}
	r.becomes(models.ActionWaiting, "verified")
	o, _ := r.order(gid(id))
	if o.Verification.State != "unverified" || s.count() != 0 {
		t.Fatalf("%d calls, order %+v", s.count(), o.Verification)
	}
	r.shop.Down.Store(false)
	r.carried()
	if got := s.effects(); got != "fulfillment_instruction/order 1" || s.count() != 1 {
		t.Errorf("%d calls: %s", s.count(), got)
	}
}

func TestAHoldJustBeforeCarryingStopsIt(t *testing.T) { oneAndTwo(t, aHoldJustBeforeCarryingStopsIt) }

func aHoldJustBeforeCarryingStopsIt(t *testing.T, start begin) {
	t.Parallel()
	for _, scope := range models.HoldScopes {
		t.Run(string(scope), func(t *testing.T) {
			t.Parallel()
			r := start(t).withShopify(nil)
			s := newSink(t)
			r.live("hk", s, true, models.FulfillmentInstruction)
			id := r.placed(sandbox.ShopifyOrder{})
			// Whoever claims waits here, after everything else was in order.
			lock := r.lock(`SELECT 1 FROM shops FOR NO KEY UPDATE`)
			r.postAll("hk", must(r.shop.Pay(id))...)
			r.settled()
			r.exec(`INSERT INTO holds (scope, subject, reason, actor, since)
				SELECT $1, CASE $1 WHEN 'order' THEN o.id WHEN 'connection' THEN o.connection_id ELSE o.shop_id END, 'test', 'console', now() FROM orders o`, scope)
			if err := lock.Commit(); err != nil {
				t.Fatal(err)
			}
			r.becomes(models.ActionWaiting, "no_hold")
			if s.count() != 0 {
				t.Fatalf("%d calls", s.count())
			}
			r.exec(`UPDATE holds SET released_at = now(), released_by = 'console'`)
			r.exec(`UPDATE actions SET due_at = now()`)
			r.carried()
			if s.count() != 1 {
				t.Errorf("%d calls after the hold", s.count())
			}
		})
	}
}

// Whenever a hold is set, it either stops the instruction or says that it was too late.
func TestAHoldStopsOrSaysThatItIsLate(t *testing.T) { oneAndTwo(t, aHoldStopsOrSaysThatItIsLate) }

func aHoldStopsOrSaysThatItIsLate(t *testing.T, start begin) {
	t.Parallel()
	r := start(t).withShopify(nil)
	s := newSink(t)
	r.live("hk", s, true, models.FulfillmentInstruction)
	manager := r.as("Ng", models.Manager)
	const orders = 24
	stopped := map[string]bool{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for i := range orders {
		id := r.placed(sandbox.ShopifyOrder{})
		o, _ := r.order(gid(id))
		wg.Go(func() {
			r.postAll("hk", must(r.shop.Pay(id))...)
			<-time.After(time.Duration(i) * 4 * time.Millisecond)
			var held struct {
				Sending []struct{ ID string }
				Actions []seenAction
			}
			if code := manager.callWith(http.MethodPost, "/api/v1/orders/"+o.ID+"/hold", `{"reason": "test"}`, &held); code != http.StatusOK {
				t.Errorf("hold answered %d", code)
			}
			late := len(held.Sending) > 0
			for _, a := range held.Actions {
				late = late || a.State == "done" || a.State == "sending"
			}
			mu.Lock()
			defer mu.Unlock()
			stopped[o.ID] = !late
		})
	}
	wg.Wait()
	r.settled()
	r.wait("what isn't held is carried", func() bool {
		var n int
		r.scan(&n, `SELECT count(*) FROM actions WHERE state IN ('planned', 'sending') OR state = 'waiting' AND why <> 'no_hold'`)
		return n == 0
	})
	for _, c := range s.calls {
		if order, _ := c.order["id"].(string); stopped[order] {
			t.Errorf("order %s was sent although its hold said that it came in time", order)
		}
	}
	n := 0
	for _, in := range stopped {
		if in {
			n++
		}
	}
	t.Logf("%d of %d holds came in time", n, orders)
	if s.count() != orders-n {
		t.Errorf("%d calls, %d holds in time", s.count(), n)
	}
}

// pausedInstruction is a paid order whose instruction waits for a hold of ours.
func (r *rig) pausedInstruction() int64 {
	r.t.Helper()
	id := r.placed(sandbox.ShopifyOrder{})
	r.exec(`INSERT INTO holds (scope, subject, reason, actor, since) SELECT 'order', max(id), 'test', 'console', now() FROM orders`)
	r.postAll("hk", must(r.shop.Pay(id))...)
	r.becomes(models.ActionWaiting, "no_hold")
	return id
}

func TestWhatEndsAnOrderCallsItsInstructionBack(t *testing.T) {
	oneAndTwo(t, whatEndsAnOrderCallsItsInstructionBack)
}

func whatEndsAnOrderCallsItsInstructionBack(t *testing.T, start begin) {
	t.Parallel()
	for why, end := range map[models.Axis]func(s *sandbox.Shopify, id int64) ([]sandbox.Notification, error){
		models.Refund: func(s *sandbox.Shopify, id int64) ([]sandbox.Notification, error) {
			return s.Refund(id, "100.00", sandbox.RefundSucceeds)
		},
		models.Cancellation: func(s *sandbox.Shopify, id int64) ([]sandbox.Notification, error) { return s.Cancel(id, "customer") },
		models.Dispute:      func(s *sandbox.Shopify, id int64) ([]sandbox.Notification, error) { return s.OpenDispute(id) },
	} {
		t.Run(string(why), func(t *testing.T) {
			t.Parallel()
			r := start(t).withShopify(nil)
			s := newSink(t)
			r.live("hk", s, true, models.FulfillmentInstruction)
			id := r.pausedInstruction()
			r.postAll("hk", must(end(r.shop, id))...)
			a := r.becomes(models.ActionWithdrawn, string(why))
			var axis string
			if a.Withdrew == nil {
				t.Fatalf("no ledger entry: %+v", a)
			}
			r.scan(&axis, `SELECT axis FROM ledger WHERE id = $1::bigint`, *a.Withdrew)
			if axis != string(why) {
				t.Errorf("withdrawn by an entry on %s", axis)
			}
			r.exec(`UPDATE holds SET released_at = now(), released_by = 'console'`)
			r.postAll("hk", must(r.shop.Touch(id))...)
			r.settled()
			if s.count() != 0 || r.instruction().State != "withdrawn" {
				t.Errorf("%d calls, %+v", s.count(), r.instruction())
			}
		})
	}
}

func TestAPartialRefundLetsItWait(t *testing.T) { oneAndTwo(t, aPartialRefundLetsItWait) }

func aPartialRefundLetsItWait(t *testing.T, start begin) {
	t.Parallel()
	r := start(t).withShopify(nil)
	s := newSink(t)
	r.live("hk", s, true, usual...)
	id := r.pausedInstruction()
	r.postAll("hk", must(r.shop.Refund(id, "20.00", sandbox.RefundSucceeds))...)
	r.settled()
	r.exec(`UPDATE holds SET released_at = now(), released_by = 'console'`)
	r.exec(`UPDATE actions SET due_at = now() WHERE state = 'waiting'`)
	r.becomes(models.ActionWaiting, "not_refunded_partly")
	r.wait("the refund is told", func() bool { return r.actions()["customer_message/refund:2000"].State == "done" })
	if got := s.effects(); strings.Contains(got, "fulfillment") {
		t.Errorf("sent %s", got)
	}
}

func TestAShipmentAtThePlatformMakesTheInstructionNeedless(t *testing.T) {
	oneAndTwo(t, aShipmentAtThePlatformMakesTheInstructionNeedless)
}

func aShipmentAtThePlatformMakesTheInstructionNeedless(t *testing.T, start begin) {
	t.Parallel()
	r := start(t).withShopify(nil)
	s := newSink(t)
	r.live("hk", s, true, models.FulfillmentInstruction)
	id := r.pausedInstruction()
	r.postAll("hk", must(r.shop.Fulfill(id, 0, "SF1"))...)
	r.becomes(models.ActionNotNeeded, string(models.ShippedAlready))
	if s.count() != 0 {
		t.Errorf("%d calls", s.count())
	}
}

func TestOrdersThatNeedNoInstruction(t *testing.T) { oneAndTwo(t, ordersThatNeedNoInstruction) }

func ordersThatNeedNoInstruction(t *testing.T, start begin) {
	t.Parallel()
	weeksAgo := time.Now().Add(-20 * 24 * time.Hour)
	for name, c := range map[string]struct {
		order sandbox.ShopifyOrder
		acts  func(r *rig, id int64)
		state models.ActionState
		why   string
		sent  string
	}{
		"point of sale": {order: sandbox.ShopifyOrder{Source: "pos"}, state: models.ActionNotNeeded, why: "point_of_sale",
			sent: "customer_message/payment_received 1, invoice/order 1"},
		"test":                       {order: sandbox.ShopifyOrder{Test: true}, state: models.ActionNotNeeded, why: "test"},
		"first seen when it was old": {order: sandbox.ShopifyOrder{Placed: weeksAgo}, state: models.ActionWaiting, why: "released"},
		"pay on delivery": {order: sandbox.ShopifyOrder{Gateway: "Cash on Delivery (COD)"}, state: models.ActionDone,
			acts: func(r *rig, id int64) {
				r.wait("it is shipped before money comes", func() bool { return r.instruction().State == "done" })
				r.postAll("hk", must(r.shop.Fulfill(id, 0, "SF1"))...)
				r.settled()
				r.clock.forward(14 * 24 * time.Hour)
			},
			sent: allOnce},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := start(t).withShopify(nil)
			s := newSink(t)
			r.live("hk", s, true, usual...)
			c.order.Total = "100.00"
			id, ns, err := r.shop.CreateOrder(c.order)
			if err != nil {
				t.Fatal(err)
			}
			if c.acts != nil {
				r.postAll("hk", ns...)
				r.settled()
				c.acts(r, id)
			}
			r.postAll("hk", must(r.shop.Pay(id))...)
			r.settled()
			if a := r.becomes(c.state, c.why); c.state != models.ActionWaiting {
				r.carried()
			} else if a.Tries != 0 {
				t.Errorf("tried: %+v", a)
			}
			if got := s.effects(); got != c.sent {
				t.Errorf("sent %q, want %q: %+v", got, c.sent, r.actions())
			}
		})
	}
}

func TestAReceiptNeedsNoInstruction(t *testing.T) { oneAndTwo(t, aReceiptNeedsNoInstruction) }

func aReceiptNeedsNoInstruction(t *testing.T, start begin) {
	t.Parallel()
	r := start(t).withReceipts(true)
	s := newSink(t)
	r.live("till", s, true, usual...)
	_, issued := r.receipt.Issue(sandbox.Receipt{Lines: []sandbox.ReceiptLine{{Product: "tea", Price: 76, Quantity: 1}}})
	r.postAll("till", issued)
	r.carried()
	if a := r.instruction(); a.State != "not_needed" || a.Why != "receipt" || strings.Contains(s.effects(), "fulfillment") {
		t.Errorf("%s: %+v", s.effects(), a)
	}
}

func TestThePlatformsOwnHoldIsWaitedFor(t *testing.T) { oneAndTwo(t, thePlatformsOwnHoldIsWaitedFor) }

func thePlatformsOwnHoldIsWaitedFor(t *testing.T, start begin) {
	t.Parallel()
	r := start(t).withShopify(nil)
	s := newSink(t)
	r.live("hk", s, true, models.FulfillmentInstruction)
	id := r.placed(sandbox.ShopifyOrder{})
	r.postAll("hk", must(r.shop.Hold(id))...)
	r.postAll("hk", must(r.shop.Pay(id))...)
	r.settled()
	r.becomes(models.ActionWaiting, "not_held")
	if s.count() != 0 {
		t.Fatalf("%d calls", s.count())
	}
	r.postAll("hk", must(r.shop.Release(id))...)
	r.carried()
	if s.count() != 1 {
		t.Errorf("%d calls", s.count())
	}
}

func TestARefundToldByTwoPlatformsIsOneMessage(t *testing.T) {
	oneAndTwo(t, aRefundToldByTwoPlatformsIsOneMessage)
}

func aRefundToldByTwoPlatformsIsOneMessage(t *testing.T, start begin) {
	t.Parallel()
	r := start(t).withShopify(nil).withStripe("hk", nil)
	s := newSink(t)
	r.live("hk", s, false, models.CustomerMessage)
	id, ns, err := r.shop.CreateOrder(sandbox.ShopifyOrder{Total: "100.00"})
	if err != nil {
		t.Fatal(err)
	}
	intent, paid := r.stripe.CreateIntent(10000, "hkd", sandbox.StripeIntent{Metadata: map[string]string{"order_id": fmt.Sprint(id)}})
	r.postAll("hk", append(ns, must(r.shop.Pay(id))...)...)
	r.postAll("pay", append(paid, must(r.stripe.Succeed(intent))...)...)
	r.carried()
	_, byStripe, err := r.stripe.Refund(intent, 2000, "succeeded")
	if err != nil {
		t.Fatal(err)
	}
	shuffled(map[string][]sandbox.Notification{"hk": must(r.shop.Refund(id, "20.00", sandbox.RefundSucceeds)), "pay": byStripe}, 12, func(slug string, n sandbox.Notification) {
		if got := r.post(slug, n); got != http.StatusOK {
			t.Errorf("%s answered %d", n.Topic, got)
		}
	})
	r.carried()
	if got := s.effects(); got != "customer_message/payment_received 1, customer_message/refund:2000 1" || s.count() != 2 {
		t.Errorf("%d calls: %s", s.count(), got)
	}
}

func TestTwoProcessesCarryOnce(t *testing.T) {
	t.Parallel()
	r := start(t).withShopify(nil).withStripe("hk", nil)
	other := r.beside()
	s := newSink(t)
	r.live("hk", s, false, usual...)
	for range 8 {
		_, told := r.manyWays()
		shuffled(told, 24, func(slug string, n sandbox.Notification) {
			to := r
			if rand.IntN(2) == 0 {
				to = other
			}
			if got := to.post(slug, n); got != http.StatusOK {
				t.Errorf("%s answered %d", n.Topic, got)
			}
		})
	}
	r.carried()
	if got := s.effects(); s.count() != 24 || strings.ReplaceAll(got, " 8", " 1") != allOnce {
		t.Errorf("%d calls: %s", s.count(), got)
	}
}
