package app

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"testing"

	"counterfoil/models"
	"counterfoil/models/actions"
	"counterfoil/models/casework"
	"counterfoil/models/connect"
	"counterfoil/models/platform"
	"counterfoil/models/platform/sandbox"
	"counterfoil/models/store"
)

// TestEverybodyAtOnceOnTenOrders runs all kinds of work on the same few orders and
// finds that nobody ever waited for somebody who waited for him.
func TestEverybodyAtOnceOnTenOrders(t *testing.T) {
	t.Parallel()
	r := start(t).withShopify(map[string]string{"down_after": "0s"}).withStripe("hk", nil)
	const orders, rounds = 10, 25
	var ids []int64
	var intents []string
	for i := range orders {
		id, ns, err := r.shop.CreateOrder(sandbox.ShopifyOrder{Total: "100.00", Pieces: 3})
		if err != nil {
			t.Fatal(err)
		}
		pi, paid := r.stripe.CreateIntent(10000, "hkd", sandbox.StripeIntent{Metadata: map[string]string{"order_id": fmt.Sprint(id)}})
		ids, intents = append(ids, id), append(intents, pi)
		// Half of the payments come before their orders.
		if i%2 == 0 {
			r.postAll("pay", paid...)
			r.postAll("hk", ns...)
		} else {
			r.postAll("hk", ns...)
			r.postAll("pay", paid...)
		}
	}
	r.settled()
	r.destination(actions.Setup{Shop: "hk", Kind: models.FulfillmentInstruction, Mode: models.ByHand})
	boss := models.Actor{StaffID: 1, Name: "Ng", Role: models.Manager}
	support := models.Actor{StaffID: 2, Name: "Wing", Role: models.Support}
	// conflicts are answers here: everything moves all the time.
	decided := func(err error) {
		if c := models.CodeOf(err); err != nil && c != models.Conflict && c != models.Invalid && c != models.NotFound {
			t.Error(err)
		}
	}
	work := []func(round, i int){
		func(_, i int) { r.postAll("hk", must(r.shop.Touch(ids[i]))...) },
		func(round, i int) {
			if ns, err := r.shop.Fulfill(ids[i], 1, fmt.Sprint(round)); err == nil {
				r.postAll("hk", ns...)
			}
		},
		func(_, i int) {
			if ns, err := r.stripe.Succeed(intents[i]); err == nil {
				r.postAll("pay", ns...)
			}
		},
		func(_, i int) {
			if _, ns, err := r.stripe.Refund(intents[i], 100, "succeeded"); err == nil {
				r.postAll("pay", ns...)
			}
		},
		func(_, i int) {
			o, _ := r.order(gid(ids[i]))
			r.call(http.MethodPost, "/api/v1/orders/"+o.ID+"/resync", nil)
		},
		func(_, i int) { r.call(http.MethodGet, "/api/v1/orders?verification=unverified&unresolved=true", nil) },
		func(round, i int) {
			if i != 0 {
				return
			}
			// The platform comes and goes.
			c := r.app.book.All()[0]
			if _, _, err := r.app.book.Failed(context.Background(), c, &platform.Outage{Detail: "test"}); err != nil {
				t.Error(err)
			}
			if err := r.app.book.Answered(context.Background(), c); err != nil {
				t.Error(err)
			}
		},
		func(round, i int) {
			// Everything is paused and resumed: orders, their connections, their shop.
			o, _ := r.order(gid(ids[i]))
			subject, _ := strconv.ParseInt(o.ID, 10, 64)
			scope := models.HoldScopes[round%len(models.HoldScopes)]
			if c := r.app.book.All()[i%2]; scope == models.HoldConnection {
				subject = c.ID
			} else if scope == models.HoldShop {
				subject = c.ShopID
			}
			if _, err := r.app.holds.Hold(context.Background(), boss, casework.Pause{Scope: scope, Subject: subject, Reason: "test"}); err != nil {
				t.Error(err)
			}
			if err := r.app.holds.Release(context.Background(), boss, scope, subject); err != nil {
				t.Error(err)
			}
		},
		func(round, i int) {
			// An administrator changes the connections, with their shop and without, and
			// with that what waits for its order.
			in := connect.Setup{Slug: []string{"pay", "hk"}[i%2], Set: map[string]string{"order_key": []string{"order_id", "cart"}[round%2]}}
			if round%3 > 0 {
				in.Shop = "hk"
			}
			if err := r.app.book.Add(context.Background(), "console", in); err != nil {
				t.Error(err)
			}
		},
		func(round, i int) {
			// People ask for releases and replacements, decide, and try again.
			o, _ := r.order(gid(ids[i]))
			order, _ := strconv.ParseInt(o.ID, 10, 64)
			ask := casework.Ask{Kind: models.RequestReplacement, Order: order, Reason: "test"}
			for _, a := range o.Actions {
				if id, _ := strconv.ParseInt(a.ID, 10, 64); a.Kind == string(models.FulfillmentInstruction) && round%2 == 0 {
					ask = casework.Ask{Kind: models.RequestRelease, Action: id, Reason: "test"}
					_, err := r.app.asked.Retry(context.Background(), boss, id, "test")
					decided(err)
				}
			}
			q, err := r.app.asked.Propose(context.Background(), support, ask)
			decided(err)
			if err == nil {
				_, err = r.app.asked.Decide(context.Background(), boss, q.ID, round%3 != 0, "test")
				decided(err)
			}
			if err := r.app.asked.Expire(context.Background()); err != nil {
				t.Error(err)
			}
		},
		func(round, i int) {
			// Goods come on top, and parcels are called back.
			if ns, err := r.shop.Edit(ids[i], "0.00", 1); err == nil {
				r.postAll("hk", ns...)
			}
			if ns, err := r.shop.CancelFulfillment(ids[i]); err == nil && round%3 == 0 {
				r.postAll("hk", ns...)
			}
		},
		func(_, i int) {
			err := r.app.store.Tx(context.Background(), func(tx *store.Tx) error { return tx.PayloadWeeks(context.Background()) })
			if err != nil && !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		},
	}
	var wg sync.WaitGroup
	for _, do := range work {
		wg.Go(func() {
			for round := range rounds {
				for i := range orders {
					do(round, (i*7+round)%orders)
				}
			}
		})
	}
	wg.Wait()
	r.settled()
	var deadlocks int
	r.scan(&deadlocks, `SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()`)
	if deadlocks != 0 {
		t.Errorf("%d deadlocks", deadlocks)
	}
	for i, id := range ids {
		o, _ := r.order(gid(id))
		if same, _ := r.order(intents[i]); same.ID != o.ID {
			t.Errorf("payment %s belongs to order %s, not to %s", intents[i], same.ID, o.ID)
		}
	}
	var failed int
	r.scan(&failed, `SELECT count(*) FROM events WHERE state = 'failed' OR tries > 0`)
	if failed != 0 {
		t.Errorf("%d events needed a second try of ours", failed)
	}
}
