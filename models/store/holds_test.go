package store_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"counterfoil/models"
	"counterfoil/models/store"
)

// hold sets a hold of a target, by staff 7.
func (b *bench) hold(scope models.HoldScope, id int64) {
	b.t.Helper()
	err := b.Tx(b.t.Context(), func(tx *store.Tx) error {
		_, err := tx.SetHold(b.t.Context(), models.Hold{Scope: scope, Subject: id, Reason: "why", By: "staff:7", ByName: "Wing"})
		return err
	})
	if err != nil {
		b.t.Fatal(err)
	}
}

// action makes a fulfillment instruction of an order.
func (b *bench) action(order int64, stage, state string) int64 {
	b.t.Helper()
	return one[int64](b, `INSERT INTO actions (order_id, shop_id, kind, stage, state, official, planned_at)
VALUES ($1, $2, 'fulfillment_instruction', $3, $4, true, now()) RETURNING id`, order, b.shop, stage, state)
}

func TestOneOpenHoldPerTarget(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	order := b.order("1")
	set := func() error {
		return b.Tx(t.Context(), func(tx *store.Tx) error {
			_, err := tx.SetHold(t.Context(), models.Hold{Scope: models.HoldOrder, Subject: order, Reason: "why", By: "staff:7"})
			return err
		})
	}
	if err := set(); err != nil {
		t.Fatal(err)
	}
	if err := set(); models.CodeOf(err) != models.Conflict {
		t.Errorf("a second hold: %v", err)
	}
	holds, err := b.OpenHolds(t.Context(), store.HoldTarget{Scope: models.HoldOrder, ID: order})
	if err != nil || len(holds) != 1 || holds[0].Name != "1" {
		t.Fatalf("%+v, %v", holds, err)
	}
	end := func() error {
		return b.Tx(t.Context(), func(tx *store.Tx) error { return tx.ReleaseHold(t.Context(), holds[0].ID, "staff:8") })
	}
	if err := end(); err != nil {
		t.Fatal(err)
	}
	if err := end(); models.CodeOf(err) != models.Conflict {
		t.Errorf("released twice: %v", err)
	}
	if err := set(); err != nil {
		t.Errorf("held again: %v", err)
	}
	if err := b.run(`INSERT INTO holds (scope, subject, reason, actor, since, resumes) VALUES ('shop', 1, 'why', 'staff:7', now(), true)`); sqlState(err) != notAllowed {
		t.Errorf("a hold that ends by itself at no time: %v", err)
	}
}

func TestHoldsReachOrdersOfTheirShopAndConnections(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	pay := b.connection("pay")
	order, shell, other := b.order("1"), b.order("2"), b.order("3")
	b.must(fmt.Sprintf(`UPDATE orders SET money_by = %d, axes = '{"payment": {"check": "verified", "connection": %d}}' WHERE id = %d`, pay, pay, order),
		fmt.Sprintf(`UPDATE orders SET merged_into = %d WHERE id = %d`, order, shell))
	reach := func(id int64) string {
		o, err := b.Order(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		holds, err := b.HoldsReaching(t.Context(), o.ID, o.ShopID, o.Connections())
		if err != nil {
			t.Fatal(err)
		}
		text := ""
		for _, h := range holds {
			text += fmt.Sprintf("%s %s by %s; ", h.Scope, h.Name, h.ByName)
		}
		return text
	}
	if got := reach(order); got != "" {
		t.Errorf("nothing is held, but %q", got)
	}
	paused := func() string {
		page, err := b.Orders(t.Context(), store.OrderFilter{OrderQuery: models.OrderQuery{Paused: true}, Now: b.Now()})
		if err != nil {
			t.Fatal(err)
		}
		text := ""
		for _, row := range page.Items {
			text += row.Ref + " "
		}
		return text
	}
	if got := paused(); got != "" {
		t.Errorf("nothing is held, but %q are listed", got)
	}
	b.hold(models.HoldOrder, shell)
	if got := paused(); got != "1 " {
		t.Errorf("a shell's hold lists %q", got)
	}
	b.must(`UPDATE holds SET released_at = now()`)
	b.hold(models.HoldConnection, pay)
	if got := paused(); got != "1 " {
		t.Errorf("a connection's hold lists %q", got)
	}
	b.hold(models.HoldOrder, shell)
	if got := reach(order); got != "connection pay by Wing; order 2 by Wing; " {
		t.Errorf("reached by %q", got)
	}
	if got := reach(other); got != "" {
		t.Errorf("another order is reached by %q", got)
	}
	b.hold(models.HoldShop, b.shop)
	if got := reach(other); got != "shop Hong Kong by Wing; " {
		t.Errorf("the shop's hold: %q", got)
	}
	if got := paused(); got != "3 1 " {
		t.Errorf("a shop's hold lists %q", got)
	}
	page, err := b.Orders(t.Context(), store.OrderFilter{Now: b.Now()})
	if err != nil {
		t.Fatal(err)
	}
	seen := map[int64]int{}
	for _, row := range page.Items {
		seen[row.ID] = len(row.Holds)
	}
	if len(seen) != 2 || seen[order] != 3 || seen[other] != 1 {
		t.Errorf("the list marks %v", seen)
	}
	file, err := b.OrderFile(t.Context(), order)
	if err != nil || len(file.Holds) != 3 {
		t.Errorf("the order's page has %+v, %v", file.Holds, err)
	}
	// All that have reached it stand in its history; of a hold that ended before, nothing does.
	b.must(`UPDATE holds SET released_at = now() + interval '1 hour', released_by = 'staff:7' WHERE scope = 'shop'`,
		fmt.Sprintf(`INSERT INTO holds (scope, subject, reason, actor, since, released_at) VALUES ('shop', %d, 'old', 'staff:7', now() - interval '9 days', now() - interval '8 days')`, b.shop))
	if file, err = b.OrderFile(t.Context(), order); err != nil {
		t.Fatal(err)
	}
	history := ""
	for _, h := range file.Paused {
		history += fmt.Sprintf("%s %s %s %t; ", h.Scope, h.Reason, h.ReleasedBy, h.Released.IsZero())
	}
	if history != "shop why staff:7 false; order why  true; connection why  true; order why  false; " {
		t.Errorf("the history is %q", history)
	}
	b.must(`UPDATE holds SET released_at = NULL, released_by = '' WHERE scope = 'shop' AND reason = 'why'`)
	connections, err := b.ConnectionFiles(t.Context(), nil)
	if err != nil || len(connections) != 2 || len(connections[0].Holds) != 1 || len(connections[1].Holds) != 2 {
		t.Errorf("connections: %+v, %v", connections, err)
	}
}

// A hold and a claim at the same moment: either the claim sees the hold and doesn't
// send, or the hold's answer names what is being sent.
func TestAHoldAgainstAClaim(t *testing.T) {
	t.Parallel()
	for _, scope := range models.HoldScopes {
		t.Run(string(scope), func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			ctx := within(t, time.Minute)
			sent, held := 0, 0
			for round := range 60 {
				order := b.order(fmt.Sprint(round))
				action := b.action(order, "order", "planned")
				subject := map[models.HoldScope]int64{models.HoldOrder: order, models.HoldConnection: b.conn, models.HoldShop: b.shop}[scope]
				var claimed, named bool
				var both sync.WaitGroup
				start := make(chan struct{})
				both.Go(func() {
					<-start
					err := b.Tx(ctx, func(tx *store.Tx) error {
						claimed = false
						if _, err := tx.Rely(ctx, b.shop, []int64{b.conn}); err != nil {
							return err
						}
						o, err := tx.LockOrder(ctx, order)
						if err != nil {
							return err
						}
						holds, err := tx.HoldsReaching(ctx, o.ID, o.ShopID, o.Connections())
						if err != nil || len(holds) > 0 {
							return err
						}
						claimed = true
						_, err = tx.ClaimAction(ctx, action, []byte("{}"), models.Destination{Idempotent: true}, time.Minute)
						return err
					})
					if err != nil {
						t.Error(err)
					}
				})
				both.Go(func() {
					<-start
					err := b.Tx(ctx, func(tx *store.Tx) error {
						target, err := tx.LockHoldTarget(ctx, scope, subject)
						if err != nil {
							return err
						}
						if _, err := tx.SetHold(ctx, models.Hold{Scope: scope, Subject: target.ID, Reason: "why", By: "staff:7"}); err != nil {
							return err
						}
						sending, err := tx.BeingSent(ctx, target)
						named = len(sending) == 1 && sending[0].ID == action
						return err
					})
					if err != nil {
						t.Error(err)
					}
				})
				close(start)
				both.Wait()
				if claimed != named {
					t.Fatalf("round %d: claimed %t, named by the hold %t", round, claimed, named)
				}
				if claimed {
					sent++
				} else {
					held++
				}
				b.must(`UPDATE holds SET released_at = now()`, `UPDATE actions SET state = 'done'`)
			}
			t.Logf("%d sent, %d held", sent, held)
			if n := b.deadlocks(); n != 0 {
				t.Errorf("%d deadlocks", n)
			}
		})
	}
}

// What a hold kept here isn't sent all at once when it ends.
func TestResumeSendsAFewFirst(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for i := range 8 {
		b.action(b.order(fmt.Sprint(i)), "order", "waiting")
	}
	order := b.order("more")
	b.action(order, "order", "sending")
	b.action(order, "more:1", "waiting")
	b.must(`UPDATE actions SET person = true WHERE stage = 'more:1'`, `UPDATE actions SET planned_at = planned_at - make_interval(secs => id)`,
		`UPDATE actions SET not_before = now() + interval '1 hour' WHERE id = (SELECT max(id) FROM actions WHERE state = 'waiting' AND NOT person)`)
	target, err := b.HoldTarget(t.Context(), models.HoldShop, b.shop)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := b.Unsent(t.Context(), target); err != nil || n != 9 {
		t.Errorf("%d are kept here, %v", n, err)
	}
	if err := b.Tx(t.Context(), func(tx *store.Tx) error { return tx.Resume(t.Context(), target) }); err != nil {
		t.Fatal(err)
	}
	// The newest of the orders was planned first.
	got := one[string](b, `
SELECT string_agg(COALESCE(round(extract(epoch FROM due_at - (SELECT min(due_at) FROM actions)))::text, '-'), ' ' ORDER BY id) FROM actions`)
	if got != "3 2 1 0 0 0 0 3600 - -" {
		t.Errorf("due after %s seconds", got)
	}
}

func TestDueHoldsByTheDatabasesClock(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.must(fmt.Sprintf(`INSERT INTO holds (scope, subject, reason, actor, since, until, resumes) VALUES
    ('shop', %d, 'past', 'staff:7', now(), now() - interval '1 second', true),
    ('connection', %d, 'asks', 'staff:7', now(), now() - interval '1 second', false),
    ('order', %d, 'to come', 'staff:7', now(), now() + interval '1 hour', true)`, b.shop, b.conn, b.order("1")))
	due, err := b.DueHolds(t.Context())
	if err != nil || len(due) != 1 || due[0].Reason != "past" {
		t.Errorf("due are %+v, %v", due, err)
	}
}
