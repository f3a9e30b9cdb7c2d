package inbox

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"counterfoil/models"
	"counterfoil/models/store"
)

// own lets payments make orders of their own although a store is connected.
var own = map[string]string{"creates_orders": "true"}

// causes lists an order's entries on an axis, the oldest first.
func causes(o models.OrderFile, axis models.Axis) string {
	var out []string
	for _, e := range slices.Backward(o.Ledger) {
		if e.Axis == axis {
			out = append(out, fmt.Sprintf("%s>%s by %s", e.From, e.To, e.Cause.Kind))
		}
	}
	return strings.Join(out, ", ")
}

// one tells that exactly one order is left and that everything leads to it.
func (b *bench) one(refs ...string) models.OrderFile {
	b.t.Helper()
	o := b.order(refs[0])
	for _, ref := range refs {
		if same := b.order(ref); same.ID != o.ID {
			b.t.Errorf("%s leads to order %d, not to %d", ref, same.ID, o.ID)
		}
	}
	page, err := b.store.Orders(b.ctx, store.OrderFilter{})
	if err != nil || len(page.Items) != 1 {
		b.t.Errorf("%d orders in the list, %v", len(page.Items), err)
	}
	if n := scan[int](b, `SELECT count(*) FROM events WHERE order_id IN (SELECT id FROM orders WHERE merged_into IS NOT NULL)`); n != 0 {
		b.t.Errorf("%d events stay with the shell", n)
	}
	if n := scan[int](b, `SELECT count(*) FROM object_links`); n != 0 {
		b.t.Errorf("%d links are still looked for", n)
	}
	return o
}

// A payment made its own order first, then the shop's order appears.
func TestShopsOrderTakesThePaymentsIn(t *testing.T) {
	t.Parallel()
	b := newBench(t, own)
	paid := b.event("pay", "payment_intent.succeeded", payRef("pi_1"))
	b.see("pay", intentSays("pi_1", models.PaymentPaid, hkd(10000, 10000, 0), byMetadata("1001")), paid)
	// A second attempt under the same number, left open.
	b.see("pay", intentSays("pi_2", models.PaymentPending, hkd(10000, 0, 0), byMetadata("#1001")), b.event("pay", "payment_intent.created", payRef("pi_2")))
	shell := b.order("pi_1")
	if shell.State(models.Payment) != models.PaymentPaid || shell.Number != "1001" {
		t.Fatalf("shell %+v", shell.Order)
	}
	created := b.event("hk", "orders/create", shopRef(1001))
	b.see("hk", shopSays(1001, models.PaymentPending, hkd(10000, 0, 0)), created)

	o := b.one("1001", "#1001", "pi_1", "pi_2", "gid://shopify/Order/1001")
	if b.states(o) != "paid none 100.00 0.00" || len(o.Objects) != 3 || o.Connection != "hk" {
		t.Errorf("order %s with %d objects of %s", b.states(o), len(o.Objects), o.Connection)
	}
	if got := causes(o, models.Payment); got != ">pending by event, pending>paid by link" {
		t.Errorf("payment: %s", got)
	}
	for _, e := range o.Ledger {
		if e.Cause.Kind == models.CauseLink && e.Cause.ID != fmt.Sprint(shell.ID) {
			t.Errorf("the link names %s, not the shell %d", e.Cause.ID, shell.ID)
		}
	}
	if n := scan[int](b, `SELECT count(*) FROM ledger WHERE order_id = $1`, shell.ID); n != len(shell.Ledger) {
		t.Errorf("the shell's ledger has %d entries, it had %d", n, len(shell.Ledger))
	}
	if s := scan[string](b, `SELECT state FROM events WHERE id = $1`, created.ID); s != "applied" {
		t.Errorf("the event is %s", s)
	}
	// The same again changes nothing.
	version := o.Version
	b.see("hk", shopSays(1001, models.PaymentPending, hkd(10000, 0, 0)))
	b.see("pay", intentSays("pi_1", models.PaymentPaid, hkd(10000, 10000, 0), byMetadata("1001")))
	if again := b.one("1001", "pi_1"); len(again.Ledger) != len(o.Ledger) || again.Version < version {
		t.Errorf("%d entries more", len(again.Ledger)-len(o.Ledger))
	}
}

// The order is there; the payment that made its own names it only later.
func TestPaymentNamesItsOrderLater(t *testing.T) {
	t.Parallel()
	b := newBench(t, own)
	b.see("pay", intentSays("pi_1", models.PaymentPaid, hkd(10000, 10000, 0)), b.event("pay", "payment_intent.succeeded", payRef("pi_1")))
	b.see("hk", shopSays(1001, models.PaymentPending, hkd(10000, 0, 0)), b.event("hk", "orders/create", shopRef(1001)))
	if b.order("pi_1").ID == b.order("1001").ID {
		t.Fatal("nothing names the order yet")
	}
	told := b.event("pay", "charge.updated", payRef("pi_1"))
	b.see("pay", intentSays("pi_1", models.PaymentPaid, hkd(10000, 10000, 0), byMetadata("1001")), told)
	o := b.one("1001", "pi_1")
	if b.states(o) != "paid none 100.00 0.00" || causes(o, models.Payment) != ">pending by event, pending>paid by link" {
		t.Errorf("order %s: %s", b.states(o), causes(o, models.Payment))
	}
	if s := scan[string](b, `SELECT state FROM events WHERE id = $1`, told.ID); s != "applied" {
		t.Errorf("the event is %s", s)
	}
	if n := scan[string](b, `SELECT cause->>'event_id' FROM ledger WHERE cause_kind = 'link' LIMIT 1`); n != told.EventID {
		t.Errorf("the link was told by %s", n)
	}
}

// An announced order has no record yet; it takes payments in once it was read.
func TestAnnouncedOrderWaitsForItsReading(t *testing.T) {
	t.Parallel()
	b := newBench(t, own)
	b.see("pay", intentSays("pi_1", models.PaymentPaid, hkd(10000, 10000, 0), byMetadata("1001")), b.event("pay", "payment_intent.succeeded", payRef("pi_1")))
	e := b.event("hk", "orders/create", shopRef(1001))
	said := shopSays(1001, models.PaymentPaid, hkd(10000, 10000, 0))
	e.Said = &said
	if err := b.postpone(b.ctx, b.conn("hk"), []store.Claim{{Ref: shopRef(1001), Events: []store.DueEvent{e}}}, outage, time.Second); err != nil {
		t.Fatal(err)
	}
	if o := b.order("1001"); !o.Announced || o.ID == b.order("pi_1").ID {
		t.Fatalf("announced %t", o.Announced)
	}
	b.see("hk", shopSays(1001, models.PaymentPaid, hkd(10000, 10000, 0)), e)
	if o := b.one("1001", "pi_1"); b.states(o) != "paid none 100.00 0.00" {
		t.Errorf("order %s", b.states(o))
	}
}

func TestOrdersThatStayApart(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		payment models.Observation
		orders  []int
	}{
		"another number":              {intentSays("pi_1", models.PaymentPaid, hkd(10000, 10000, 0), byMetadata("7")), []int{1001}},
		"a typed name of another sum": {intentSays("pi_1", models.PaymentPaid, hkd(100, 100, 0), typed("1001")), []int{1001}},
		"test money": {func() models.Observation {
			o := intentSays("pi_1", models.PaymentPaid, hkd(10000, 10000, 0), byMetadata("1001"))
			o.Test = true
			return o
		}(), []int{1001}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, own)
			b.see("pay", c.payment)
			for _, n := range c.orders {
				b.see("hk", shopSays(n, models.PaymentPending, hkd(10000, 0, 0)))
			}
			b.see("pay", c.payment)
			if o := b.order("1001"); o.ID == b.order("pi_1").ID || b.states(o) != "pending none 0.00 0.00" {
				t.Errorf("order %s", b.states(o))
			}
			if n := scan[int](b, `SELECT count(*) FROM orders WHERE merged_into IS NOT NULL`); n != 0 {
				t.Error("merged")
			}
		})
	}
}

// For each kind and stage the action that was sent stays, the other names it.
func TestActionsOfTwoOrdersBecomeOne(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		shell, order models.ActionState // of the instruction; empty: there is none
		stays        string             // whose
		twice        bool
	}{
		"only the shell's":       {models.ActionPlanned, "", "shell", false},
		"neither sent":           {models.ActionWaiting, models.ActionPlanned, "order", false},
		"the shell's sent":       {models.ActionDone, models.ActionWaiting, "shell", false},
		"the shell's being sent": {models.ActionSending, models.ActionPlanned, "shell", false},
		"the order's sent":       {models.ActionPlanned, models.ActionDone, "order", false},
		"both sent":              {models.ActionDone, models.ActionDone, "order", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, own)
			b.see("pay", intentSays("pi_1", models.PaymentPaid, hkd(10000, 10000, 0)))
			b.see("hk", shopSays(1001, models.PaymentPaid, hkd(10000, 10000, 0)))
			shell, order := b.order("pi_1").ID, b.order("1001").ID
			b.exec(`DELETE FROM actions WHERE kind <> 'fulfillment_instruction'`)
			ids := map[string]int64{}
			for whose, row := range map[string]struct {
				order int64
				state models.ActionState
			}{"shell": {shell, c.shell}, "order": {order, c.order}} {
				if row.state == "" {
					b.exec(`DELETE FROM actions WHERE order_id = $1`, row.order)
					continue
				}
				b.exec(`UPDATE actions SET state = $1, sent_at = CASE WHEN $1 IN ('done', 'sending') THEN now() END WHERE order_id = $2`, row.state, row.order)
				ids[whose] = scan[int64](b, `SELECT id FROM actions WHERE order_id = $1`, row.order)
			}
			b.see("pay", intentSays("pi_1", models.PaymentPaid, hkd(10000, 10000, 0), byMetadata("1001")))
			b.one("1001", "pi_1")
			if got := scan[int64](b, `SELECT id FROM actions WHERE order_id = $1 AND kind = 'fulfillment_instruction'`, order); got != ids[c.stays] {
				t.Errorf("action %d stays of %v", got, ids)
			}
			if n := scan[int](b, `SELECT count(*) FROM actions WHERE kind = 'fulfillment_instruction' AND id <> $1 AND NOT (instead_id = $1 AND (why = 'merged' AND state = 'not_needed') <> $2)`, ids[c.stays], c.twice); n != 0 {
				t.Error("the other doesn't name the one that stays")
			}
			if n := scan[int](b, `SELECT count(*) FROM exceptions WHERE kind = 'shipped_twice' AND order_id = $1 AND state = 'open'`, order); (n == 1) != c.twice {
				t.Errorf("%d cases of two instructions", n)
			}
		})
	}
}

// What a person has to see goes over with the shell; what readings judge ends.
func TestExceptionsGoOver(t *testing.T) {
	t.Parallel()
	b := newBench(t, own)
	b.see("pay", intentSays("pi_1", models.PaymentPaid, hkd(10000, 10000, 0)))
	b.see("hk", shopSays(1001, models.PaymentPaid, hkd(10000, 10000, 0)))
	shell, order := b.order("pi_1").Order, b.order("1001").ID
	err := b.store.Tx(b.ctx, func(tx *store.Tx) error {
		for _, p := range []models.Problem{{Kind: models.StateDiffers, Case: "moved_back", Axis: models.Refund}, {Kind: models.MoveRefused, Axis: models.Payment}} {
			if err := tx.OpenCase(b.ctx, store.Case{ConnectionID: shell.ConnectionID, Subject: fmt.Sprint("order:", shell.ID), OrderID: shell.ID, Problem: p}); err != nil {
				return err
			}
		}
		return tx.OpenCase(b.ctx, store.Case{ConnectionID: shell.ConnectionID, Subject: "event:7", OrderID: shell.ID, Problem: models.Problem{Kind: models.PayloadConflict}})
	})
	if err != nil {
		t.Fatal(err)
	}
	b.see("pay", intentSays("pi_1", models.PaymentPaid, hkd(10000, 10000, 0), byMetadata("1001")))
	got := scan[string](b, `SELECT string_agg(kind, ' ' ORDER BY kind) FROM exceptions WHERE state = 'open' AND order_id = $1`, order)
	if got != "payload_conflict state_differs" {
		t.Errorf("open: %s", got)
	}
	if n := scan[int](b, `SELECT count(*) FROM exceptions WHERE state = 'open' AND order_id = $1`, shell.ID); n != 0 {
		t.Errorf("%d stay open at the shell", n)
	}
}

// pairs is how many payments and orders meet.
const pairs = 5000

// TestEveryPairMeets: a payment and its order appear at the same moment; of two who
// look for each other one always sees the other.
func TestEveryPairMeets(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		set   map[string]string
		pairs int
		two   bool // the payment comes to one process, its order to another
	}{
		"the payment waits":                              {nil, pairs, false},
		"the payment waits, two processes":               {nil, pairs / 5, true},
		"the payment makes its own order":                {own, pairs / 20, false},
		"the payment makes its own order, two processes": {own, pairs / 20, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, c.set)
			other := b
			if c.two {
				other = b.beside()
			}
			var shopRefs, payRefs []models.ObjectRef
			for i := range c.pairs {
				shopRefs, payRefs = append(shopRefs, shopRef(i)), append(payRefs, payRef(fmt.Sprint("pi_", i)))
			}
			created := byRef(b.events("hk", "orders/create", shopRefs))
			paid := byRef(b.events("pay", "payment_intent.succeeded", payRefs))
			b.together(c.pairs, func(i int) { b.pair(other, i, paid[payRefs[i]], created[shopRefs[i]]) })
			if c.set == nil {
				// Whoever waits was called by the order: nobody else made it due.
				if alone := scan[int](b, `SELECT count(*) FROM events WHERE state = 'unmatched' AND due_at > now()`); alone != 0 {
					t.Errorf("%d of %d events wait although their order is there", alone, c.pairs)
				}
			}
			waiting := b.unmatchedEvents()
			b.together(len(waiting), func(i int) {
				if err := b.trySee("pay", pairedPayment(waiting[i].ObjRef), waiting[i]); err != nil {
					t.Error(err)
				}
			})
			if met := scan[int](b, `SELECT count(*) FROM platform_objects p JOIN orders o ON o.id = p.order_id WHERE p.kind = 'payment_intent' AND o.store AND o.payment = 'paid' AND o.merged_into IS NULL`); met != c.pairs {
				t.Errorf("%d of %d payments have their order", met, c.pairs)
			}
			if left := scan[int](b, `SELECT count(*) FROM orders WHERE merged_into IS NULL`); left != c.pairs {
				t.Errorf("%d orders for %d pairs", left, c.pairs)
			}
			if d := b.deadlocks(); d != 0 {
				t.Errorf("%d deadlocks", d)
			}
			t.Logf("%d of %d payments came first", len(waiting), c.pairs)
		})
	}
}

func byRef(events []store.DueEvent) map[models.ObjectRef]store.DueEvent {
	out := make(map[models.ObjectRef]store.DueEvent, len(events))
	for _, e := range events {
		out[e.Object] = e
	}
	return out
}

// together does n things, several at once.
func (b *bench) together(n int, do func(i int)) {
	work := make(chan int)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := range work {
				do(i)
			}
		})
	}
	for i := range n {
		work <- i
	}
	close(work)
	wg.Wait()
}

func pairedPayment(id string) models.Observation {
	return intentSays(id, models.PaymentPaid, hkd(10000, 10000, 0), byMetadata(strings.TrimPrefix(id, "pi_")))
}

// pair lets a payment and its order appear at once, the order in another process.
func (b *bench) pair(other *bench, i int, paid, created store.DueEvent) {
	start := make(chan struct{})
	var both sync.WaitGroup
	both.Go(func() {
		<-start
		if err := b.trySee("pay", pairedPayment(paid.ObjRef), paid); err != nil {
			b.t.Error(err)
		}
	})
	both.Go(func() {
		<-start
		if err := other.trySee("hk", shopSays(i, models.PaymentPending, hkd(10000, 0, 0)), created); err != nil {
			b.t.Error(err)
		}
	})
	close(start)
	both.Wait()
}

func (b *bench) unmatchedEvents() []store.DueEvent {
	b.t.Helper()
	rows, err := b.store.SQL().QueryContext(b.ctx, `SELECT id, key, event_id, topic, object_ref, received_at FROM events WHERE state = 'unmatched' ORDER BY id`)
	if err != nil {
		b.t.Fatal(err)
	}
	defer rows.Close()
	var out []store.DueEvent
	for rows.Next() {
		e := store.DueEvent{State: models.EventUnmatched}
		if err := rows.Scan(&e.ID, &e.Key, &e.EventID, &e.Topic, &e.ObjRef, &e.Received); err != nil {
			b.t.Fatal(err)
		}
		e.Object = payRef(e.ObjRef)
		out = append(out, e)
	}
	return out
}

// TestShellIsMergedByManyAtOnce: everybody who may find that two orders are one does
// so at once, among others who only work on them.
func TestShellIsMergedByManyAtOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t, own)
	const orders = 12
	var wg sync.WaitGroup
	for n := range orders {
		shop := shopSays(n, models.PaymentPending, hkd(10000, 0, 0))
		intents := []models.Observation{intentSays(fmt.Sprint("pi_a", n), models.PaymentPaid, hkd(6000, 6000, 0)), intentSays(fmt.Sprint("pi_b", n), models.PaymentPaid, hkd(4000, 4000, 0))}
		for _, o := range intents {
			b.see("pay", o)
		}
		if n%2 == 0 { // half of the orders are there first
			b.see("hk", shop)
		}
		for i := range intents {
			named := intents[i]
			named.Links = []models.Link{byMetadata([]string{fmt.Sprint(n), fmt.Sprint("#", n)}[i])}
			for range 3 {
				wg.Go(func() {
					if err := b.trySee("pay", named); err != nil {
						t.Error(err)
					}
				})
			}
		}
		for range 3 {
			wg.Go(func() {
				if err := b.trySee("hk", shop); err != nil {
					t.Error(err)
				}
			})
		}
	}
	wg.Wait()
	for n := range orders {
		o := b.order(fmt.Sprint("#", n))
		if b.states(o) != "paid none 100.00 0.00" || len(o.Objects) != 3 {
			t.Errorf("order %d: %s with %d objects", n, b.states(o), len(o.Objects))
		}
	}
	if left := scan[int](b, `SELECT count(*) FROM orders WHERE merged_into IS NULL`); left != orders {
		t.Errorf("%d orders are left of %d", left, orders)
	}
	if d := b.deadlocks(); d != 0 {
		t.Errorf("%d deadlocks", d)
	}
}
