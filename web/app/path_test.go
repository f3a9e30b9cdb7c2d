package app

import (
	"fmt"
	"net/http"
	"sync"
	"testing"

	"counterfoil/models/platform/sandbox"
)

func TestOfficialObjectDecidesNotTheMessage(t *testing.T) {
	t.Parallel()
	r := start(t).withShopify(nil)
	id, created, err := r.shop.CreateOrder(sandbox.ShopifyOrder{Total: "1280.00"})
	if err != nil {
		t.Fatal(err)
	}
	must(r.shop.Pay(id)) // its notifications never come
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if got := r.post("hk", created[0]); got != http.StatusOK {
				t.Errorf("answered %d", got)
			}
		})
	}
	wg.Wait()
	r.settled()
	o, ok := r.order(gid(id))
	if !ok || o.states() != "paid none none unfulfilled active none" || o.Verification.State != "verified" || o.Paid != "1280.00" {
		t.Fatalf("order %+v", o)
	}
	events := r.events()
	if len(events) != 1 || events[0].Deliveries != 20 || events[0].State != "applied" {
		t.Fatalf("events %+v", events)
	}
	payments := 0
	for _, e := range o.Ledger {
		if e.Axis == "payment" {
			payments++
			if e.To != "paid" || e.From != "" || e.Cause.Kind != "event" || e.Cause.ID != events[0].ID {
				t.Errorf("entry %+v", e)
			}
		}
	}
	if payments != 1 {
		t.Errorf("%d entries on payment", payments)
	}
}

func TestArrivalOrderDoesNotDecide(t *testing.T) {
	t.Parallel()
	for name, order := range map[string][]int{"as sent": {0, 1, 2, 3, 4, 5}, "backwards": {5, 4, 3, 2, 1, 0}, "paid before created": {1, 0, 2, 3, 5, 4}, "twice": {0, 3, 3, 1, 5, 5, 4, 2, 0}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := start(t).withShopify(nil)
			id, ns, err := r.shop.CreateOrder(sandbox.ShopifyOrder{Total: "640.00"})
			if err != nil {
				t.Fatal(err)
			}
			ns = append(ns, must(r.shop.Pay(id))...)
			ns = append(ns, must(r.shop.Fulfill(id, 0, "SF1"))...)
			ns = append(ns, must(r.shop.CancelFulfillment(id))...)
			for _, i := range order {
				r.postAll("hk", ns[i%len(ns)])
			}
			r.settled()
			o, _ := r.order(gid(id))
			if o.states() != "paid none none unfulfilled active none" || o.Unresolved.Events+o.Unresolved.Exceptions != 0 {
				t.Fatalf("order %+v", o)
			}
		})
	}
}

func TestStripeWithoutAStoreMakesItsOwnOrder(t *testing.T) {
	t.Parallel()
	r := start(t).withStripe("web", nil)
	pi, ns := r.stripe.CreateIntent(5400, "jpy", sandbox.StripeIntent{Metadata: map[string]string{"order_id": "W-77"}})
	ns = append(ns, must(r.stripe.Succeed(pi))...)
	_, refunded, err := r.stripe.Refund(pi, 400, "succeeded")
	if err != nil {
		t.Fatal(err)
	}
	r.postAll("pay", append(ns, refunded...)...)
	r.settled()
	o, ok := r.order(pi)
	if !ok || o.states() != "paid partial none unfulfilled active none" || o.Total != "5400" || o.Refunded != "400" || o.Number != "W-77" {
		t.Fatalf("order %+v", o)
	}
}

func TestStripePaysTheStoresOrder(t *testing.T) {
	t.Parallel()
	r := start(t).withShopify(nil).withStripe("hk", nil)
	id, ns, err := r.shop.CreateOrder(sandbox.ShopifyOrder{Total: "100.00"})
	if err != nil {
		t.Fatal(err)
	}
	pi, paid := r.stripe.CreateIntent(10000, "hkd", sandbox.StripeIntent{Metadata: map[string]string{"order_id": fmt.Sprint(id)}})
	paid = append(paid, must(r.stripe.Succeed(pi))...)
	r.postAll("pay", paid...)
	r.wait("the payment waits for its order", func() bool {
		for _, e := range r.events() {
			if e.State != "unmatched" {
				return false
			}
		}
		return true
	})
	r.postAll("hk", ns...)
	r.settled()
	o, _ := r.order(gid(id))
	if o.states() != "paid none none unfulfilled active none" || o.Paid != "100.00" {
		t.Fatalf("order %+v", o)
	}
	if same, _ := r.order(pi); same.ID != o.ID {
		t.Fatalf("the payment's order is %s, not %s", same.ID, o.ID)
	}
}

func TestReceiptsWithAndWithoutAPI(t *testing.T) {
	t.Parallel()
	for _, api := range []bool{true, false} {
		for name, order := range map[string][]int{"in order": {0, 1}, "refunded before issued": {1, 0}, "old one again": {0, 1, 0}} {
			t.Run(fmt.Sprintf("api %t %s", api, name), func(t *testing.T) {
				t.Parallel()
				r := start(t).withReceipts(api)
				receipt, issued := r.receipt.Issue(sandbox.Receipt{Lines: []sandbox.ReceiptLine{{Product: "tea", Price: 76, Quantity: 1}}})
				refunded, err := r.receipt.Refund(receipt.ID, 76)
				if err != nil {
					t.Fatal(err)
				}
				ns := []sandbox.Notification{issued, refunded}
				for _, i := range order {
					r.postAll("till", ns[i])
				}
				r.settled()
				o, ok := r.order(receipt.ID)
				if !ok || o.states() != "paid full none fulfilled active none" {
					t.Fatalf("order %+v\nevents %+v", o, r.events())
				}
			})
		}
	}
}
