package app

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"counterfoil/models"
	"counterfoil/models/platform/sandbox"
)

// A second intent that nobody uses is no move back, and a dollar paid under a typed
// reference pays for nothing.
func TestMoneyThatMovesNothing(t *testing.T) { oneAndTwo(t, moneyThatMovesNothing) }

func moneyThatMovesNothing(t *testing.T, start begin) {
	t.Parallel()
	r := start(t).withShopify(nil).withStripe("hk", nil)
	s := newSink(t)
	r.live("hk", s, false, usual...)
	first, unpaid := r.placed(sandbox.ShopifyOrder{}), r.placed(sandbox.ShopifyOrder{})
	names := func(id int64) sandbox.StripeIntent {
		return sandbox.StripeIntent{Metadata: map[string]string{"order_id": fmt.Sprint(id)}}
	}
	intent, paid := r.stripe.CreateIntent(10000, "hkd", names(first))
	r.postAll("pay", append(paid, must(r.stripe.Succeed(intent))...)...)
	r.postAll("hk", must(r.shop.Pay(first))...)
	r.carried()
	if got := s.effects(); got != allOnce {
		t.Fatalf("sent %s", got)
	}
	// Left open, refused, cancelled: none of it takes the payment back.
	spare, opened := r.stripe.CreateIntent(10000, "hkd", names(first))
	another, ns := r.stripe.CreateIntent(10000, "hkd", names(first))
	opened = append(opened, ns...)
	opened = append(opened, must(r.stripe.Fail(spare, "card_declined"))...)
	opened = append(opened, must(r.stripe.CancelIntent(another))...)
	// The buyer types the number of an order that costs a hundred times as much.
	session := r.stripe.CreateSession(100, "hkd", sandbox.StripeSession{Reference: fmt.Sprint(unpaid)})
	_, typed, err := r.stripe.CompleteSession(session)
	if err != nil {
		t.Fatal(err)
	}
	shuffled(told{"pay": append(opened, typed...)}, 24, func(slug string, n sandbox.Notification) { r.postAll(slug, n) })
	r.wait("all was looked at", func() bool {
		var n int
		r.scan(&n, `SELECT count(*) FROM events WHERE state IN ('received', 'waiting')`)
		return n == 0
	})
	if o, _ := r.order(gid(first)); o.states() != "paid none none unfulfilled active none" || o.Paid != "100.00" {
		t.Errorf("the paid order: %s, %s paid", o.states(), o.Paid)
	}
	if o, _ := r.order(gid(unpaid)); o.states() != "pending none none unfulfilled active none" || o.Paid != "0.00" || len(o.Actions) != 0 {
		t.Errorf("the unpaid order: %s, %s paid, %+v", o.states(), o.Paid, o.Actions)
	}
	var back, orders int
	r.scan(&back, `SELECT count(*) FROM ledger WHERE axis = 'payment' AND from_state = 'paid'`)
	r.scan(&orders, `SELECT count(*) FROM orders`)
	if back != 0 || orders != 2 {
		t.Errorf("%d moves back, %d orders", back, orders)
	}
	if got := s.effects(); got != allOnce || s.count() != 3 {
		t.Errorf("%d calls: %s", s.count(), got)
	}
}

// Orders that were paid at the door are marked paid in one go, two weeks after they
// were shipped: none is shipped again.
func TestPaidAtTheDoorInABatch(t *testing.T) { oneAndTwo(t, paidAtTheDoorInABatch) }

func paidAtTheDoorInABatch(t *testing.T, start begin) {
	t.Parallel()
	r := start(t).withShopify(nil)
	s := newSink(t)
	r.live("hk", s, false, usual...)
	const orders = 12
	var ids []int64
	for range orders {
		ids = append(ids, r.placed(sandbox.ShopifyOrder{Gateway: "Cash on Delivery (COD)"}))
	}
	r.carried()
	if got := s.effects(); got != fmt.Sprintf("fulfillment_instruction/order %d", orders) {
		t.Fatalf("when they were placed: %s", got)
	}
	for _, id := range ids {
		r.postAll("hk", must(r.shop.Fulfill(id, 0, "SF1"))...)
	}
	r.settled()
	r.clock.forward(14 * 24 * time.Hour)
	var batch []sandbox.Notification
	for _, id := range ids {
		batch = append(batch, must(r.shop.Pay(id))...)
	}
	shuffled(told{"hk": batch}, 2*len(batch), func(slug string, n sandbox.Notification) { r.postAll(slug, n) })
	r.carried()
	want := strings.ReplaceAll(allOnce, " 1", fmt.Sprint(" ", orders))
	if got := s.effects(); got != want || s.count() != 3*orders {
		t.Errorf("%d calls: %s", s.count(), got)
	}
	for _, id := range ids {
		if o, _ := r.order(gid(id)); len(o.Actions) != 3 || o.Verification.State != string(models.Verified) {
			t.Errorf("%s: %+v, %+v", o.Number, o.Actions, o.Verification)
		}
	}
}
