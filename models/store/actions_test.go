package store_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"counterfoil/models"
	"counterfoil/models/store"
)

// actions tells an order's actions, in the order of their ids.
func (b *bench) actions(order int64) string {
	b.t.Helper()
	list, err := b.ActionsOf(b.t.Context(), order)
	if err != nil {
		b.t.Fatal(err)
	}
	var out []string
	for i := len(list) - 1; i >= 0; i-- {
		a := list[i]
		text := string(a.Kind) + "/" + a.Stage + " " + string(a.State)
		if a.Why != "" {
			text += " " + a.Why
		}
		if a.Instead != 0 {
			text += " instead"
		}
		out = append(out, text)
	}
	return strings.Join(out, ", ")
}

// inTx runs a transaction that has to commit.
func (b *bench) inTx(do func(tx *store.Tx) error) {
	b.t.Helper()
	if err := b.Tx(b.t.Context(), do); err != nil {
		b.t.Fatal(err)
	}
}

// plan plans kinds for an order, and gives the ids of those that are due.
func (b *bench) plan(order int64, plans ...models.Plan) []int64 {
	b.t.Helper()
	var due []int64
	b.inTx(func(tx *store.Tx) error {
		o, err := tx.LockOrder(b.t.Context(), order)
		if err != nil {
			return err
		}
		entry := one[int64](b, `SELECT max(id) FROM ledger WHERE order_id = $1 AND axis = 'payment'`, order)
		var list []store.Planned
		for _, p := range plans {
			list = append(list, store.Planned{Plan: p, Entry: entry, Official: true})
		}
		due, err = tx.PlanActions(b.t.Context(), o, list)
		return err
	})
	return due
}

func (b *bench) destination(kind models.ActionKind, mode models.DestinationMode) {
	b.t.Helper()
	b.inTx(func(tx *store.Tx) error {
		return tx.SetDestination(b.t.Context(), b.shop, store.DestinationRow{Destination: models.Destination{Kind: kind, Mode: mode, URL: "https://x.example", Hosts: []string{"a", "b"}}})
	})
}

var instruction = models.Plan{Kind: models.FulfillmentInstruction, Stage: models.WholeOrder}

func TestActionsArePlannedOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.destination(models.FulfillmentInstruction, models.ByHTTP)
	b.destination(models.Invoice, models.ByHand)
	b.destination(models.CreditNote, models.Watch)
	order := b.order("o-1")
	plans := []models.Plan{instruction, {Kind: models.Invoice, Stage: "order", Wait: time.Hour}, {Kind: models.CreditNote, Stage: "order"},
		{Kind: models.CustomerMessage, Stage: "payment_received"}, {Kind: models.StockDeduction, Stage: "order", Not: models.PointOfSale}}
	if due := b.plan(order, plans...); len(due) != 1 {
		t.Errorf("due are %v", due)
	}
	if due := b.plan(order, plans...); len(due) != 0 {
		t.Errorf("due again are %v", due)
	}
	want := "fulfillment_instruction/order planned, invoice/order planned, credit_note/order watched, customer_message/payment_received watched, stock_deduction/order not_needed point_of_sale"
	if got := b.actions(order); got != want {
		t.Errorf("planned\n%s\nwant\n%s", got, want)
	}
	if n := one[int](b, `SELECT count(*) FROM actions WHERE due_at > now() + interval '59 minutes' AND not_before IS NOT NULL`); n != 1 {
		t.Errorf("%d wait for their time", n)
	}
	d, err := b.Destination(t.Context(), b.shop, models.FulfillmentInstruction)
	if err != nil || d.Mode != models.ByHTTP || strings.Join(d.Hosts, " ") != "a b" {
		t.Errorf("%+v %v", d, err)
	}
}

func TestWhatAStepDoesToActions(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	order := b.order("o-1")
	all := []models.ActionState{models.ActionPlanned, models.ActionWaiting, models.ActionSending, models.ActionManual, models.ActionDone, models.ActionFailed,
		models.ActionUnclear, models.ActionWithdrawn, models.ActionNotNeeded, models.ActionWatched}
	reset := func() {
		b.must(`DELETE FROM actions`)
		for i, s := range all {
			for _, kind := range []models.ActionKind{models.FulfillmentInstruction, models.Invoice} {
				b.must(fmt.Sprintf(`INSERT INTO actions (order_id, shop_id, kind, stage, state, official, planned_at, entry_id)
					SELECT %d, %d, '%s', '%d', '%s', false, now(), min(id) FROM ledger WHERE axis = 'payment'`, order, b.shop, kind, i, s))
			}
		}
	}
	changed := func(kind models.ActionKind, column, value string) string {
		return one[string](b, fmt.Sprintf(`SELECT COALESCE(string_agg(stage, ' ' ORDER BY id), '') FROM actions WHERE kind = '%s' AND %s = %s`, kind, column, value))
	}
	o, err := b.Order(t.Context(), order)
	if err != nil {
		t.Fatal(err)
	}

	reset()
	b.inTx(func(tx *store.Tx) error { return tx.WithdrawActions(t.Context(), order, models.Cancellation) })
	if got := changed(models.FulfillmentInstruction, "why", "'cancellation'"); got != "0 1 3" || changed(models.Invoice, "why", "'cancellation'") != "" {
		t.Errorf("withdrawn were %s and %s", got, changed(models.Invoice, "why", "'cancellation'"))
	}
	if n := one[int](b, `SELECT count(*) FROM actions a JOIN ledger l ON l.id = a.withdrew_id WHERE l.axis = 'cancellation' AND a.state = 'withdrawn'`); n != 3 {
		t.Errorf("%d name a ledger entry", n)
	}

	reset()
	b.inTx(func(tx *store.Tx) error { return tx.ConfirmActions(t.Context(), o, models.Payment) })
	if n := one[int](b, `SELECT count(*) FROM actions WHERE official`); n != 2*len(all) {
		t.Errorf("%d were confirmed", n)
	}
	if got := changed(models.Invoice, "due_at IS NOT NULL", "true"); got != "0 1" {
		t.Errorf("due were %s", got)
	}

	for _, moved := range []bool{true, false} {
		reset()
		want := map[bool]string{true: "0 1 3", false: "0 1"}[moved]
		b.inTx(func(tx *store.Tx) error { _, err := tx.WakeActions(t.Context(), order, moved); return err })
		if got := changed(models.FulfillmentInstruction, "due_at IS NOT NULL", "true"); got != want {
			t.Errorf("moved %t: woken were %s", moved, got)
		}
	}
	if ids, err := b.DueActions(t.Context(), 100); err != nil || len(ids) != 4 {
		t.Errorf("due are %v %v", ids, err)
	}
	b.must(`UPDATE actions SET stage = 'order' WHERE kind = 'fulfillment_instruction' AND state = 'manual'`)
	b.inTx(func(tx *store.Tx) error { return tx.ShippedActions(t.Context(), order) })
	if got := changed(models.FulfillmentInstruction, "why", "'shipped_already'"); got != "order" {
		t.Errorf("needless are %s", got)
	}
}

func TestActionsOfOrdersThatBecomeOne(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ shell, into, wantShell, wantInto string }{
		{"planned", "", "", "planned"},
		{"done", "planned", "not_needed merged instead", "done"},
		{"sending", "watched", "not_needed merged instead", "sending"},
		{"planned", "done", "not_needed merged instead", "done"},
		{"waiting", "waiting", "not_needed merged instead", "waiting"},
		{"done", "done", "done instead", "done"},
		{"done", "withdrawn", "withdrawn instead", "done"},
	} {
		t.Run(c.shell+" "+c.into, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			shell, into := b.order("pi_1"), b.order("o-1")
			put := func(order int64, state string) {
				if state != "" {
					b.must(fmt.Sprintf(`INSERT INTO actions (order_id, shop_id, kind, stage, state, official, planned_at) VALUES (%d, %d, 'fulfillment_instruction', 'order', '%s', true, now())`, order, b.shop, state))
				}
			}
			put(shell, c.shell)
			put(into, c.into)
			b.inTx(func(tx *store.Tx) error { return tx.MergeActions(t.Context(), shell, into) })
			full := func(s string) string {
				if s == "" {
					return ""
				}
				return "fulfillment_instruction/order " + s
			}
			if got := b.actions(shell); got != full(c.wantShell) {
				t.Errorf("the shell has %q", got)
			}
			if got := b.actions(into); got != full(c.wantInto) {
				t.Errorf("the order has %q", got)
			}
		})
	}
}

// ask asks for the release of an action.
func (b *bench) ask(a models.Action, needs int) models.Request {
	b.t.Helper()
	var q models.Request
	b.inTx(func(tx *store.Tx) error {
		id, err := tx.AddRequest(b.t.Context(), models.Request{Kind: models.RequestRelease, Subject: store.ActionSubject(a.ID), ShopID: a.ShopID, OrderID: a.OrderID,
			ActionID: a.ID, ActionKind: a.Kind, Code: models.OtherReason, Reason: "checked", Needs: needs, By: "staff:1", ByName: "Wing", ByRole: models.Support,
			Expires: tx.Now.Add(time.Hour)})
		if err != nil {
			return err
		}
		q, err = tx.Request(b.t.Context(), id)
		return err
	})
	return q
}

func TestReleasingAnAction(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.destination(models.FulfillmentInstruction, models.ByHTTP)
	order := b.order("o-1")
	p := instruction
	p.Person = true
	id := b.plan(order, p)[0]
	a, err := b.Action(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	q := b.ask(a, 1)
	b.inTx(func(tx *store.Tx) error { return tx.ReleaseAction(t.Context(), id, q.ID) })
	newest := one[int64](b, `SELECT max(id) FROM ledger`)
	if a, err = b.Action(t.Context(), id); err != nil || !a.Person || a.Released.IsZero() || a.Request != q.ID || a.ReleasedEntry != newest {
		t.Errorf("%+v %v", a, err)
	}
	for state, want := range map[string]string{"planned": "planned", "waiting": "waiting", "manual": "waiting", "withdrawn": "planned", "failed": "waiting",
		"done": "", "unclear": "", "not_needed": "", "watched": "", "sending": ""} {
		b.must(fmt.Sprintf(`UPDATE actions SET state = '%s', why = '', tries = 3, round = 0`, state))
		err := b.Tx(t.Context(), func(tx *store.Tx) error { return tx.ReleaseAction(t.Context(), id, q.ID) })
		if want == "" && models.CodeOf(err) != models.Conflict || want != "" && err != nil {
			t.Errorf("released when it was %s: %v", state, err)
		}
		if got := one[string](b, `SELECT state FROM actions`); want != "" && got != want {
			t.Errorf("%s became %s", state, got)
		}
		if round := one[int](b, `SELECT round FROM actions`); (round == 3) != (state == "failed") {
			t.Errorf("%s has a round that begins at %d", state, round)
		}
	}
	if _, err := b.Action(t.Context(), 999); models.CodeOf(err) != models.NotFound {
		t.Errorf("an action that isn't there: %v", err)
	}
}
