package app

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"counterfoil/models/platform/sandbox"
)

func TestPlatformDownAndBack(t *testing.T) {
	t.Parallel()
	r := start(t).withShopify(map[string]string{"down_after": "0s"})
	known, ns, err := r.shop.CreateOrder(sandbox.ShopifyOrder{Total: "100.00"})
	if err != nil {
		t.Fatal(err)
	}
	r.postAll("hk", ns...)
	r.settled()
	r.shop.Down.Store(true)
	r.postAll("hk", must(r.shop.Pay(known))...)
	fresh, ns, err := r.shop.CreateOrder(sandbox.ShopifyOrder{Total: "55.00", Name: "#HK-2001"})
	if err != nil {
		t.Fatal(err)
	}
	r.postAll("hk", ns...)
	r.wait("the known order is in doubt and the new one announced", func() bool {
		a, _ := r.order(gid(known))
		var found struct{ Items []seenOrder }
		r.call(http.MethodGet, "/api/v1/orders?q=HK-2001", &found)
		for _, e := range r.events() {
			if e.State == "received" {
				return false
			}
		}
		return a.Verification.State == "unverified" && len(found.Items) == 1 && found.Items[0].Announced
	})
	a, _ := r.order(gid(known))
	if a.states() != "pending none none unfulfilled active none" || a.Verification.Reason != "api_down" {
		t.Errorf("known order %+v", a)
	}
	b, _ := r.order(gid(fresh))
	if b.Payment != nil || len(b.Ledger) != 0 {
		t.Errorf("announced order %+v", b)
	}
	for _, e := range r.events() {
		if e.State != "waiting" && e.State != "applied" && e.State != "superseded" {
			t.Errorf("event %+v", e)
		}
	}
	var res struct{ Result string }
	if code := r.call(http.MethodPost, "/api/v1/orders/"+a.ID+"/resync", &res); code != http.StatusOK || res.Result != "unavailable" {
		t.Errorf("resync answered %d %q", code, res.Result)
	}
	r.shop.Down.Store(false)
	r.wait("both are applied and verified without anybody", func() bool {
		a, _ := r.order(gid(known))
		b, _ := r.order(gid(fresh))
		return a.states() == "paid none none unfulfilled active none" && a.Verification.State == "verified" &&
			b.states() == "pending none none unfulfilled active none" && b.Verification.State == "verified" && !b.Announced
	})
	for _, e := range r.events() {
		if e.State == "failed" {
			t.Errorf("event %+v", e)
		}
	}
}

func TestThrottledUsesUpNoTries(t *testing.T) {
	t.Parallel()
	r := start(t).withShopify(nil)
	r.shop.Throttle.Store(true)
	id, ns, err := r.shop.CreateOrder(sandbox.ShopifyOrder{Total: "100.00"})
	if err != nil {
		t.Fatal(err)
	}
	r.postAll("hk", ns...)
	r.wait("it waits", func() bool { return r.events()[0].State == "waiting" })
	var tries int
	r.scan(&tries, `SELECT max(tries) FROM events`)
	if tries != 0 {
		t.Errorf("%d tries used up", tries)
	}
	r.shop.Throttle.Store(false)
	r.wait("applied", func() bool { o, _ := r.order(gid(id)); return o.Verification.State == "verified" })
}

func TestTokenIsRenewedOverADay(t *testing.T) {
	t.Parallel()
	r := start(t).withShopify(nil)
	id, ns, err := r.shop.CreateOrder(sandbox.ShopifyOrder{Total: "100.00"})
	if err != nil {
		t.Fatal(err)
	}
	r.postAll("hk", ns...)
	r.settled()
	for range 25 {
		r.clock.forward(time.Hour)
	}
	r.postAll("hk", must(r.shop.Pay(id))...)
	r.settled()
	o, _ := r.order(gid(id))
	if o.states() != "paid none none unfulfilled active none" || o.Verification.State != "verified" {
		t.Fatalf("order %+v", o)
	}
	if r.shop.Grants() < 2 {
		t.Errorf("%d tokens were asked for", r.shop.Grants())
	}
}

func TestEventsBeforeDuringAndAfterAFetch(t *testing.T) {
	t.Parallel()
	r := start(t).withShopify(nil)
	r.shop.Slow.Store(int64(300 * time.Millisecond))
	id, ns, err := r.shop.CreateOrder(sandbox.ShopifyOrder{Total: "100.00"})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for i := range 12 {
		wg.Go(func() {
			<-time.After(time.Duration(i) * 70 * time.Millisecond)
			for _, n := range must(r.shop.Touch(id)) {
				r.post("hk", n)
			}
		})
	}
	r.postAll("hk", ns...)
	wg.Wait()
	last := must(r.shop.Pay(id))
	r.postAll("hk", last...)
	kept := time.Now()
	r.settled()
	if waited := time.Since(kept); waited > 3*time.Second+2*300*time.Millisecond {
		t.Errorf("the last events waited %s", waited)
	}
	o, _ := r.order(gid(id))
	if o.states() != "paid none none unfulfilled active none" {
		t.Fatalf("order %+v", o)
	}
	if calls := r.shop.Calls(); calls > 14 {
		t.Errorf("%d calls for one object", calls)
	}
}

func TestBurstOfOneObjectCostsFewCalls(t *testing.T) {
	t.Parallel()
	r := start(t).withShopify(nil)
	var all []sandbox.Notification
	for range 40 {
		id, ns, err := r.shop.CreateOrder(sandbox.ShopifyOrder{Total: "100.00"})
		if err != nil {
			t.Fatal(err)
		}
		all = append(append(all, ns...), must(r.shop.Pay(id))...)
	}
	r.shop.Down.Store(true)
	r.postAll("hk", all...)
	r.wait("all wait", func() bool {
		var n int
		r.scan(&n, `SELECT count(*) FROM events WHERE state <> 'waiting'`)
		return n == 0
	})
	before := r.shop.Calls()
	r.shop.Down.Store(false)
	r.settled()
	if calls := r.shop.Calls() - before; calls > 40 {
		t.Errorf("%d calls for 40 objects with %d events", calls, len(all))
	}
}

func TestRecordedSequencesEndWithoutARefusedMove(t *testing.T) {
	t.Parallel()
	type act = func(r *rig, id int64) []sandbox.Notification
	shop := func(f func(s *sandbox.Shopify, id int64) ([]sandbox.Notification, error)) act {
		return func(r *rig, id int64) []sandbox.Notification { return must(f(r.shop, id)) }
	}
	pay := shop(func(s *sandbox.Shopify, id int64) ([]sandbox.Notification, error) { return s.Pay(id) })
	fulfill := shop(func(s *sandbox.Shopify, id int64) ([]sandbox.Notification, error) { return s.Fulfill(id, 0, "T") })
	unship := shop(func(s *sandbox.Shopify, id int64) ([]sandbox.Notification, error) { return s.CancelFulfillment(id) })
	back := func(amount string) act {
		return shop(func(s *sandbox.Shopify, id int64) ([]sandbox.Notification, error) {
			return s.Refund(id, amount, sandbox.RefundSucceeds)
		})
	}
	ask := shop(func(s *sandbox.Shopify, id int64) ([]sandbox.Notification, error) { return s.RequestReturn(id, 1) })
	accept := shop(func(s *sandbox.Shopify, id int64) ([]sandbox.Notification, error) { return s.ApproveReturn(id) })
	closeIt := shop(func(s *sandbox.Shopify, id int64) ([]sandbox.Notification, error) { return s.CloseReturn(id, 1) })
	reopen := shop(func(s *sandbox.Shopify, id int64) ([]sandbox.Notification, error) { return s.ReopenReturn(id) })
	edit := shop(func(s *sandbox.Shopify, id int64) ([]sandbox.Notification, error) { return s.Edit(id, "50.00", 1) })
	cancel := shop(func(s *sandbox.Shopify, id int64) ([]sandbox.Notification, error) { return s.Cancel(id, "customer") })
	for name, c := range map[string]struct {
		acts []act
		want string
	}{
		"shipment cancelled":          {[]act{pay, fulfill, unship}, "paid none none unfulfilled active none"},
		"return closed and reopened":  {[]act{pay, fulfill, ask, accept, closeIt, reopen}, "paid none none fulfilled active in_progress"},
		"order edited after payment":  {[]act{pay, edit}, "partially_paid none none unfulfilled active none"},
		"three refunds":               {[]act{pay, fulfill, back("10.00"), back("20.00"), back("30.00"), unship}, "paid partial none unfulfilled active none"},
		"refunded, then cancelled":    {[]act{pay, back("100.00"), cancel}, "paid full none unfulfilled cancelled none"},
		"paid after it was edited up": {[]act{pay, edit, pay}, "paid none none unfulfilled active none"},
	} {
		for _, each := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, read after each %t", name, each), func(t *testing.T) {
				t.Parallel()
				r := start(t).withShopify(nil)
				id, ns, err := r.shop.CreateOrder(sandbox.ShopifyOrder{Total: "100.00", Pieces: 2})
				if err != nil {
					t.Fatal(err)
				}
				r.postAll("hk", ns...)
				for _, do := range c.acts {
					if each {
						r.settled()
					}
					r.postAll("hk", do(r, id)...)
				}
				r.settled()
				o, _ := r.order(gid(id))
				if o.states() != c.want || o.Verification.State != "verified" {
					t.Errorf("%s, want %s: %+v", o.states(), c.want, o)
				}
				var refused int
				r.scan(&refused, `SELECT count(*) FROM exceptions WHERE kind = 'move_refused'`)
				if refused != 0 {
					t.Errorf("%d moves were refused", refused)
				}
			})
		}
	}
}

func TestSameSecondOppositeStates(t *testing.T) {
	t.Parallel()
	for _, order := range [][]int{{0, 1}, {1, 0}} {
		t.Run(fmt.Sprint(order), func(t *testing.T) {
			t.Parallel()
			r := start(t).withShopify(nil)
			id, ns, err := r.shop.CreateOrder(sandbox.ShopifyOrder{Total: "100.00"})
			if err != nil {
				t.Fatal(err)
			}
			r.postAll("hk", ns...)
			r.settled()
			made := must(r.shop.Fulfill(id, 0, "T"))
			undone := must(r.shop.CancelFulfillment(id))
			pair := []sandbox.Notification{made[len(made)-1], undone[len(undone)-1]}
			r.postAll("hk", pair[order[0]], pair[order[1]])
			r.settled()
			o, _ := r.order(gid(id))
			if o.states() != "pending none none unfulfilled active none" {
				t.Errorf("order %+v", o)
			}
		})
	}
}
