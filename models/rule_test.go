package models

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// told writes plans the way tests compare them.
func told(plans []Plan) string {
	var out []string
	for _, p := range plans {
		text := string(p.Kind) + "/" + p.Stage
		if p.Not != Needed {
			text += "=" + string(p.Not)
		}
		if p.Person {
			text += "?"
		}
		if p.Wait > 0 {
			text += "+" + p.Wait.String()
		}
		out = append(out, text)
	}
	return strings.Join(out, " ")
}

// only are rules of which just the given ones are active.
func only(rules ...ActionRule) ActionRules {
	all := RulesOf(nil)
	for i := range all {
		all[i].Active = false
		for _, r := range rules {
			if r.Same(all[i]) {
				all[i] = r
			}
		}
	}
	return all
}

func on(o Occasion, k ActionKind) ActionRule { return ActionRule{Occasion: o, Kind: k, Active: true} }

// fixedPlans is what steps planned before shops could decide.
func fixedPlans(before, after Order, moves []Move, quiet bool) []Plan {
	var plans []Plan
	first := before.Announced || len(before.Axes) == 0
	add := func(k ActionKind, stage string) {
		not := Needed
		switch high := k == FulfillmentInstruction; {
		case after.Test:
			not = IsTest
		case quiet:
			not = ImportedQuietly
		case high && after.Platform == ReceiptRoller:
			not = IsReceipt
		case high && strings.EqualFold(after.Channel, "pos"):
			not = PointOfSale
		case high && after.Shipped():
			not = ShippedAlready
		}
		plans = append(plans, Plan{Kind: k, Stage: stage, Not: not, Person: first && !after.Placed.IsZero() && midday.Sub(after.Placed) > 14*24*time.Hour})
	}
	for _, m := range moves {
		switch {
		case m.Axis == Payment && m.To == PaymentPaid && m.From != PaymentPaid:
			if !after.PaysOnDelivery() || first {
				add(FulfillmentInstruction, "order")
			}
			add(Invoice, "order")
			add(CustomerMessage, "payment_received")
		case m.Axis == Payment && first && m.To == PaymentPending && after.PaysOnDelivery():
			add(FulfillmentInstruction, "order")
		case m.Axis == Refund && m.After.Refunded > m.Before.Refunded:
			add(CustomerMessage, "refund:"+strconv.FormatInt(m.After.Refunded, 10))
		}
	}
	return plans
}

func TestTheDefaultRulesPlanWhatWasFixed(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		after := paidOrder(func(o *Order) {
			for _, a := range Axes {
				o.set(a, rapid.SampledFrom(States[a]).Draw(t, "state of "+string(a)))
			}
			if rapid.Bool().Draw(t, "reported") {
				o.doubt(Fulfillment, Unverified, ReportedOnly)
			}
			o.Test = rapid.Bool().Draw(t, "test")
			o.Platform = rapid.SampledFrom(Platforms).Draw(t, "platform")
			o.Method = rapid.SampledFrom([]string{"card", "COD"}).Draw(t, "method")
			o.Channel = rapid.SampledFrom([]string{"web", "pos"}).Draw(t, "channel")
			o.Placed = midday.Add(-time.Duration(rapid.IntRange(0, 30).Draw(t, "days")) * 24 * time.Hour)
		})
		before := Order{Announced: rapid.Bool().Draw(t, "announced")}
		if rapid.Bool().Draw(t, "known") {
			before.Axes = map[Axis]AxisRecord{Payment: {State: PaymentPending}}
		}
		var moves []Move
		for _, a := range Axes {
			if !rapid.Bool().Draw(t, "moves "+string(a)) {
				continue
			}
			from := State("")
			if len(before.Axes) > 0 {
				from = rapid.SampledFrom(States[a]).Draw(t, "from")
			}
			moves = append(moves, Move{Axis: a, From: from, To: after.State(a), Before: Amounts{Refunded: rapid.Int64Range(0, 2).Draw(t, "was refunded")},
				After: Amounts{Refunded: rapid.Int64Range(0, 2).Draw(t, "is refunded")}})
		}
		quiet := rapid.Bool().Draw(t, "quiet")
		want := fixedPlans(before, after, moves, quiet)
		got := RulesOf(nil).Plan(before, after, moves, quiet, midday)
		if told(got) != told(want) {
			t.Fatalf("plans\n%s\nwant\n%s", told(got), told(want))
		}
		if len(got) > 0 && !Plans(before, after, moves) {
			t.Fatal("nothing of it could plan anything")
		}
	})
}

func TestRulesPlan(t *testing.T) {
	t.Parallel()
	known := paidOrder(func(o *Order) { o.set(Payment, PaymentPending) })
	move := func(a Axis, from, to State) []Move { return []Move{{Axis: a, From: from, To: to}} }
	pay := move(Payment, PaymentPending, PaymentPaid)
	cod := func(s State) func(*Order) { return func(o *Order) { o.Method = "COD"; o.set(Payment, s) } }
	old := func(o *Order) { o.Placed = midday.Add(-15 * 24 * time.Hour) }
	refund := []Move{{Axis: Refund, From: RefundNone, To: RefundPartial, After: Amounts{Refunded: 500}}}
	for name, c := range map[string]struct {
		rules  ActionRules
		before Order
		after  func(*Order)
		moves  []Move
		want   string
	}{
		"nothing is on":                   {only(), known, nil, pay, ""},
		"a wait":                          {only(ActionRule{OnPaid, Invoice, true, 10 * time.Minute}), known, nil, pay, "invoice/order+10m0s"},
		"services and stock":              {only(on(OnPaid, ServiceActivation), on(OnPaid, StockDeduction)), known, nil, pay, "service_activation/order stock_deduction/order"},
		"the bank reserved the money":     {only(on(OnAuthorized, FulfillmentInstruction)), known, nil, move(Payment, PaymentPending, PaymentAuthorized), "fulfillment_instruction/order"},
		"it is reserved still":            {only(on(OnAuthorized, FulfillmentInstruction)), known, nil, move(Payment, PaymentAuthorized, PaymentAuthorized), ""},
		"reserved when it was first read": {only(on(OnAuthorized, FulfillmentInstruction)), Order{}, nil, move(Payment, "", PaymentAuthorized), "fulfillment_instruction/order"},
		"reserved, by default":            {RulesOf(nil), known, nil, move(Payment, PaymentPending, PaymentAuthorized), ""},
		"captured, where both plan it": {RulesOf([]ActionRule{on(OnAuthorized, FulfillmentInstruction)}), known, nil, pay,
			"fulfillment_instruction/order invoice/order customer_message/payment_received"},
		"pay on delivery, with services": {only(on(OnPayOnDelivery, ServiceActivation), on(OnPayOnDelivery, StockDeduction)), Order{}, cod(PaymentPending), move(Payment, "", PaymentPending),
			"service_activation/order stock_deduction/order"},
		"pay on delivery that appears as paid, by its own rule": {only(on(OnPayOnDelivery, FulfillmentInstruction)), Order{}, cod(PaymentPaid), move(Payment, "", PaymentPaid), "fulfillment_instruction/order"},
		"pay on delivery that is known":                         {only(on(OnPayOnDelivery, FulfillmentInstruction)), known, cod(PaymentPending), move(Payment, PaymentFailed, PaymentPending), ""},
		"pay on delivery is off, and money comes later":         {only(on(OnPaid, FulfillmentInstruction), on(OnPaid, StockDeduction), on(OnPaid, ServiceActivation)), known, cod(PaymentPaid), pay, "service_activation/order"},
		"credit notes":                   {only(on(OnRefunded, CreditNote)), known, nil, refund, "credit_note/refund:500"},
		"refunds, by default":            {RulesOf(nil), known, nil, refund, "customer_message/refund:500"},
		"shipped":                        {only(on(OnShipped, CustomerMessage)), known, nil, move(Fulfillment, FulfillmentPartial, FulfillmentFulfilled), "customer_message/shipped"},
		"a part is shipped":              {only(on(OnShipped, CustomerMessage)), known, nil, move(Fulfillment, FulfillmentUnfulfilled, FulfillmentPartial), ""},
		"shipped when it was first read": {only(on(OnShipped, CustomerMessage)), Order{}, nil, move(Fulfillment, "", FulfillmentFulfilled), "customer_message/shipped"},
		"shipped when it was first read, and was old": {only(on(OnShipped, CustomerMessage)), Order{}, old, move(Fulfillment, "", FulfillmentFulfilled), ""},
		"shipped late": {only(on(OnShipped, CustomerMessage)), known, old, move(Fulfillment, FulfillmentUnfulfilled, FulfillmentFulfilled), "customer_message/shipped"},
		"taken along": {only(on(OnShipped, CustomerMessage)), Order{}, func(o *Order) { o.Channel = "pos" }, move(Fulfillment, "", FulfillmentFulfilled),
			"customer_message/shipped=point_of_sale"},
		"cancelled":             {only(on(OnCancelled, CustomerMessage)), known, nil, move(Cancellation, CancellationRequested, CancellationCancelled), "customer_message/cancelled"},
		"cancelled when asked":  {only(on(OnCancelled, CustomerMessage)), known, nil, move(Cancellation, CancellationActive, CancellationRequested), ""},
		"cancelled, by default": {RulesOf(nil), known, nil, move(Cancellation, CancellationActive, CancellationCancelled), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := c.rules.Plan(c.before, paidOrder(c.after), c.moves, false, midday)
			if told(got) != c.want {
				t.Errorf("plans %q, want %q", told(got), c.want)
			}
			for _, p := range got {
				if p.Occasion == "" {
					t.Errorf("%s has no occasion", p.Kind)
				}
			}
		})
	}
}

func TestMoneyHasToBeWhereTheOccasionWantsIt(t *testing.T) {
	t.Parallel()
	for _, s := range States[Payment] {
		for _, o := range append([]Occasion{""}, Occasions...) {
			for _, cod := range []bool{false, true} {
				want := s == PaymentPaid || s == PaymentAuthorized && o == OnAuthorized || s == PaymentPending && cod && (o == OnPayOnDelivery || o == "")
				order := paidOrder(func(x *Order) {
					x.set(Payment, s)
					if cod {
						x.Method = "貨到付款"
					}
				})
				got := Unmet(gateOf(order, nil).Conditions(Action{Kind: FulfillmentInstruction, Stage: WholeOrder, Official: true, Occasion: o}))
				if (got != "paid") != want {
					t.Errorf("%s, planned at %q, on delivery %t: waits for %q", s, o, cod, got)
				}
			}
		}
	}
}

func TestTheTableOfRules(t *testing.T) {
	t.Parallel()
	rules := RulesOf(nil)
	for i, r := range rules {
		if r.Stage() == "" || r != r.Default() || r.Wait != 0 {
			t.Errorf("%+v has no stage, or isn't its own default", r)
		}
		if !slices.Contains(Occasions, r.Occasion) || !slices.Contains(ActionKinds, r.Kind) {
			t.Errorf("%+v isn't of any list", r)
		}
		if slices.ContainsFunc(rules[:i], r.Same) {
			t.Errorf("%+v stands twice", r)
		}
	}
	if len(rules.Changed()) != 0 {
		t.Errorf("the defaults differ from the defaults: %v", rules.Changed())
	}
	// What isn't in the table can't be decided.
	odd := RulesOf([]ActionRule{on(OnCancelled, FulfillmentInstruction), {Occasion: OnPaid, Kind: Invoice, Wait: time.Hour}})
	if changed := odd.Changed(); len(changed) != 1 || changed[0].Kind != Invoice || len(odd) != len(rules) {
		t.Errorf("%+v", changed)
	}
	if r := on(OnCancelled, FulfillmentInstruction); r.Stage() != "" || r.Default().Active {
		t.Errorf("%+v", r.Default())
	}
	if odd.Version() == rules.Version() || odd.Version() != RulesOf(odd.Changed()).Version() {
		t.Error("a version is more or less than what the rules say")
	}
	if got := odd[3:4].String(); got != "paid/invoice=off,1h0m0s" {
		t.Errorf("the audit trail gets %q", got)
	}
}
