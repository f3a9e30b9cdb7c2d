package app

import (
	"fmt"
	"testing"
	"time"

	"counterfoil/models"
	"counterfoil/models/platform/sandbox"
	"counterfoil/models/store"
)

// unannounced opens what a sweep opens that found a change nobody was told of: it names the
// object, and perhaps no order.
func (r *rig) unannounced(order int64, axis models.Axis) (exception int64) {
	r.t.Helper()
	ref := models.ObjectRef{Account: r.app.book.All()[0].Account, Kind: "order", ID: gid(order)}
	conn := r.app.book.All()[0].ID
	if err := r.app.store.Tx(r.t.Context(), func(tx *store.Tx) error { return tx.EnsureObject(r.t.Context(), conn, ref) }); err != nil {
		r.t.Fatal(err)
	}
	var object int64
	r.scan(&object, `SELECT id FROM platform_objects WHERE ref = $1`, ref.ID)
	if err := r.app.store.Tx(r.t.Context(), func(tx *store.Tx) error {
		return tx.OpenCase(r.t.Context(), store.Case{ConnectionID: conn, Subject: fmt.Sprint("object:", object), Ref: ref.ID, ObjectID: object, Topic: "orders/paid",
			Problem: models.Problem{Kind: models.MissedNotification, Axis: axis, PlatformState: "PAID"}})
	}); err != nil {
		r.t.Fatal(err)
	}
	r.exec(`UPDATE exceptions SET heal_at = $1 WHERE state = 'open'`, r.clock.now())
	r.scan(&exception, `SELECT max(id) FROM exceptions`)
	return exception
}

func (r *rig) exception(id int64) (state string) {
	r.t.Helper()
	r.scan(&state, `SELECT concat_ws(' ', state, NULLIF(closed_how, ''), CASE WHEN needs AND state = 'open' THEN 'needs' END) FROM exceptions WHERE id = $1`, id)
	return state
}

// What nobody told is read again by policy and applied under the normal rules, with
// everything that follows from it, once.
func TestAMissedNotificationHealsItself(t *testing.T) {
	t.Parallel()
	for name, known := range map[string]bool{"of an order that is known": true, "of one that isn't": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := start(t).withShopify(nil)
			s := newSink(t)
			r.live("hk", s, true, models.FulfillmentInstruction)
			var order int64
			if known {
				order = r.placed(sandbox.ShopifyOrder{})
			} else {
				var err error
				if order, _, err = r.shop.CreateOrder(sandbox.ShopifyOrder{Total: "100.00"}); err != nil {
					t.Fatal(err)
				}
			}
			must(r.shop.Pay(order)) // nobody tells us
			id := r.unannounced(order, models.Payment)
			r.wait("it is settled by reading again", func() bool { return r.exception(id) == "closed resync" })
			o, ok := r.order(gid(order))
			if !ok || o.Payment == nil || *o.Payment != string(models.PaymentPaid) {
				t.Errorf("the order is %+v", o)
			}
			r.becomes(models.ActionDone, "")
			if s.count() != 1 {
				t.Errorf("%d instructions", s.count())
			}
			var audited string
			r.scan(&audited, `SELECT actor || ' ' || before || ' ' || after FROM audit WHERE verb = 'resync.policy' AND subject = $1`, fmt.Sprint("exception:", id))
			if audited != "console wait closed" {
				t.Errorf("audited as %q", audited)
			}
			var causes string
			r.scan(&causes, `SELECT string_agg(DISTINCT cause_kind || ' ' || actor, ', ') FROM ledger WHERE axis = 'payment' AND to_state = 'paid'`)
			if causes != "resync console" {
				t.Errorf("caused by %q", causes)
			}
		})
	}
}

// An object that can't be read leaves its exception to people; a platform that can't be
// asked keeps the clock standing.
func TestWhatReadingAgainDoesntSettleIsPeoples(t *testing.T) {
	t.Parallel()
	r := start(t).withShopify(nil)
	order := r.placed(sandbox.ShopifyOrder{})
	r.exec(`UPDATE connections SET api_state = 'throttled'`)
	id := r.unannounced(order+1000, models.Payment)
	r.wait("the clock is put off", func() bool {
		var off bool
		r.scan(&off, `SELECT heal_at > $1 FROM exceptions WHERE id = $2`, r.clock.now(), id)
		return off
	})
	if got := r.exception(id); got != "open" {
		t.Errorf("while the platform can't be asked: %s", got)
	}
	r.exec(`UPDATE connections SET api_state = 'up'`)
	r.exec(`UPDATE exceptions SET heal_at = $1 WHERE id = $2`, r.clock.now(), id)
	r.wait("it is a person's", func() bool { return r.exception(id) == "open needs" })
}

func TestGoodsThatLeftUnpaidAreSeenTwiceFirst(t *testing.T) {
	t.Parallel()
	r := start(t).withShopify(nil)
	order := r.placed(sandbox.ShopifyOrder{Gateway: "manual"})
	r.postAll("hk", must(r.shop.Fulfill(order, 2, "SF1"))[0])
	r.settled()
	seen := func() (text string) {
		r.scan(&text, `SELECT COALESCE(string_agg(concat_ws(' ', case_name, policy, state, closed_how, 'needs ' || needs, 'x' || least(count, 2)), '; '), '') FROM exceptions`)
		return text
	}
	if got := seen(); got != "shipped_unpaid ask open  needs false x1" {
		t.Fatalf("at first: %s", got)
	}
	var again bool
	r.scan(&again, `SELECT reread_at BETWEEN now() AND now() + interval '1 minute' FROM platform_objects`)
	if !again {
		t.Error("nobody looks a second time")
	}
	r.exec(`UPDATE platform_objects SET reread_at = now()`)
	r.wait("it is seen a second time", func() bool { return seen() == "shipped_unpaid ask open  needs false x2" })
	r.clock.forward(61 * time.Minute)
	r.wait("its grace ends", func() bool { return seen() == "shipped_unpaid ask open  needs true x2" })
	r.postAll("hk", must(r.shop.Pay(order))...)
	r.wait("it is paid", func() bool { return seen() == "shipped_unpaid ask closed reading needs true x2" })
}

// An order is late when our instruction was done long ago, or the promised day is over;
// it is one case, and shipping ends it.
func TestLateOrdersAreTold(t *testing.T) {
	t.Parallel()
	r := start(t).withShopify(nil)
	s := newSink(t)
	r.live("hk", s, true, models.FulfillmentInstruction)
	order := r.paid()
	r.settled()
	r.becomes(models.ActionDone, "")
	open := func() (text string) {
		r.scan(&text, `SELECT COALESCE(string_agg(kind || '/' || case_name, ' ' ORDER BY id), '') FROM exceptions WHERE state = 'open'`)
		return text
	}
	look := func() {
		if err := r.app.cases.Overdue(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	look()
	r.clock.forward(25 * time.Hour)
	look()
	if got := open(); got != "" {
		t.Fatalf("too early: %s", got)
	}
	r.clock.forward(8 * 24 * time.Hour)
	for range 3 {
		look()
	}
	if got := open(); got != "overdue/unshipped" {
		t.Errorf("past the promise: %q", got)
	}
	r.postAll("hk", must(r.shop.Fulfill(order, 2, "SF1"))...)
	r.wait("shipping ends it", func() bool { return open() == "" })
	var due int
	r.scan(&due, `SELECT count(*) FROM orders WHERE overdue_at IS NOT NULL`)
	if due != 0 {
		t.Errorf("%d orders are looked at though nothing can be late", due)
	}
}

// Where nothing is live others ship, and nothing that isn't ours to ship is late.
func TestNothingIsLateThatWasNobodysToShip(t *testing.T) {
	t.Parallel()
	r := start(t).withShopify(nil)
	r.paid()
	r.settled()
	r.becomes(models.ActionWatched, "")
	r.clock.forward(9 * 24 * time.Hour)
	if err := r.app.cases.Overdue(t.Context()); err != nil {
		t.Fatal(err)
	}
	var open string
	if r.scan(&open, `SELECT COALESCE(string_agg(concat_ws(' ', kind, case_name, subject), ', '), '') FROM exceptions`); open != "" {
		t.Errorf("open: %s", open)
	}
}
