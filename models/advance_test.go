package models

import (
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

// known is an order whose axes rest, but for the given ones.
func known(a Amounts, states map[Axis]State) Order {
	o := Order{ID: 7, Store: true, Amounts: a, Axes: map[Axis]AxisRecord{}}
	for _, axis := range Axes {
		s := Resting[axis]
		if given, ok := states[axis]; ok {
			s = given
		}
		o.Axes[axis] = AxisRecord{State: s, Check: Verified, Connection: 1, Platform: Shopify}
	}
	return o
}

func hkd(total, received, refunded int64) Amounts {
	return Amounts{Currency: "HKD", Total: total, Received: received, Refunded: refunded}
}

// says is a target in which one platform states axes on one basis.
func says(basis Basis, a *Amounts, states map[Axis]State) Target {
	t := Target{Axes: map[Axis]Want{}, Amounts: a}
	by := ObjectView{Connection: 1, Platform: Shopify, Ref: ObjectRef{Account: "hk", Kind: "order", ID: "1"}}
	if basis == Official {
		by.Official = &Observation{Read: noon}
	}
	for axis, s := range states {
		t.Axes[axis] = Want{Statement: Statement{State: s, Word: "W:" + string(s)}, Basis: basis, By: by}
	}
	return t
}

func kinds(ps []Problem) []string {
	var out []string
	for _, p := range ps {
		name := string(p.Kind)
		if p.Case != "" {
			name += "/" + p.Case
		}
		out = append(out, name)
	}
	return out
}

func TestAdvance(t *testing.T) {
	t.Parallel()
	type want struct {
		state    State
		check    Check
		doubt    Doubt
		moves    int
		problems []string
		amounts  Amounts
	}
	paid := hkd(100, 100, 0)
	for name, c := range map[string]struct {
		axis          Axis
		from, to      State
		basis         Basis
		before, after Amounts
		want          want
	}{
		"an edit raised the total": {Payment, PaymentPaid, PaymentPartiallyPaid, Official, paid, hkd(120, 100, 0),
			want{PaymentPartiallyPaid, Verified, NoDoubt, 1, nil, hkd(120, 100, 0)}},
		"received more, asked for even more": {Payment, PaymentPaid, PaymentPartiallyPaid, Official, paid, hkd(150, 110, 0),
			want{PaymentPartiallyPaid, Verified, NoDoubt, 1, nil, hkd(150, 110, 0)}},
		"money that was received is gone": {Payment, PaymentPaid, PaymentPartiallyPaid, Official, paid, hkd(100, 60, 0),
			want{PaymentPaid, Unverified, Differs, 0, []string{"move_refused"}, paid}},
		"a payload says that the total was raised": {Payment, PaymentPaid, PaymentPartiallyPaid, Reported, paid, hkd(120, 100, 0),
			want{PaymentPaid, Unverified, Differs, 0, []string{"move_refused"}, paid}},
		"paid can't become pending": {Payment, PaymentPaid, PaymentPending, Official, paid, hkd(100, 0, 0),
			want{PaymentPaid, Unverified, Differs, 0, []string{"move_refused"}, paid}},
		"refunded in full, then paid more": {Refund, RefundFull, RefundPartial, Official, hkd(100, 100, 100), hkd(150, 150, 100),
			want{RefundPartial, Verified, NoDoubt, 2, nil, hkd(150, 150, 100)}},
		"a refund failed afterwards": {Refund, RefundFull, RefundPartial, Official, hkd(100, 100, 100), hkd(100, 100, 40),
			want{RefundPartial, Verified, NoDoubt, 1, []string{"state_differs/moved_back"}, hkd(100, 100, 40)}},
		"the only refund failed": {Refund, RefundPartial, RefundNone, Official, hkd(100, 100, 40), paid,
			want{RefundNone, Verified, NoDoubt, 1, []string{"state_differs/moved_back"}, paid}},
		"a payload takes a refund back": {Refund, RefundFull, RefundNone, Reported, hkd(100, 100, 100), paid,
			want{RefundFull, Unverified, Differs, 0, []string{"move_refused"}, hkd(100, 100, 100)}},
		"a payload moves forward": {Payment, PaymentPending, PaymentPaid, Reported, hkd(100, 0, 0), paid,
			want{PaymentPaid, Unverified, ReportedOnly, 1, nil, paid}},
		"a payload takes an authorization back": {Payment, PaymentAuthorized, PaymentPending, Reported, hkd(100, 0, 0), hkd(100, 0, 0),
			want{PaymentAuthorized, Unverified, Differs, 0, []string{"move_refused"}, hkd(100, 0, 0)}},
		"an authorization ran out": {Payment, PaymentAuthorized, PaymentPending, Official, hkd(100, 0, 0), hkd(100, 0, 0),
			want{PaymentPending, Verified, NoDoubt, 1, nil, hkd(100, 0, 0)}},
		"out of review by a reading": {Payment, Review, PaymentPaid, Official, paid, paid,
			want{PaymentPaid, Verified, NoDoubt, 1, nil, paid}},
		"not out of review by a payload": {Payment, Review, PaymentPaid, Reported, paid, paid,
			want{Review, Unverified, Differs, 0, []string{"move_refused"}, paid}},
		"the same again": {Payment, PaymentPaid, PaymentPaid, Official, paid, paid,
			want{PaymentPaid, Verified, NoDoubt, 0, nil, paid}},
		"another amount": {Payment, PaymentPartiallyPaid, PaymentPartiallyPaid, Official, hkd(100, 40, 0), hkd(100, 60, 0),
			want{PaymentPartiallyPaid, Verified, NoDoubt, 1, nil, hkd(100, 60, 0)}},
		"refunded more than received": {Refund, RefundPartial, RefundFull, Official, hkd(100, 100, 40), hkd(100, 100, 120),
			want{RefundFull, Verified, NoDoubt, 1, []string{"amount_differs/refunded_more"}, hkd(100, 100, 120)}},
		"refunded, though nothing came": {Refund, RefundNone, RefundFull, Official, hkd(100, 0, 0), hkd(100, 0, 50),
			want{RefundFull, Verified, NoDoubt, 1, []string{"amount_differs/refunded_more"}, hkd(100, 0, 50)}},
		"another currency": {Payment, PaymentPending, PaymentPaid, Official, hkd(100, 0, 0), Amounts{Currency: "USD", Total: 100, Received: 100},
			want{PaymentPending, ToReview, Differs, 0, []string{"amount_differs/currency"}, hkd(100, 0, 0)}},
		"won turns to lost": {Dispute, DisputeWon, DisputeLost, Official, paid, paid,
			want{DisputeLost, Verified, NoDoubt, 1, []string{"state_differs/moved_back"}, paid}},
		"cancelled stays so": {Cancellation, CancellationCancelled, CancellationActive, Official, paid, paid,
			want{CancellationCancelled, Unverified, Differs, 0, []string{"move_refused"}, paid}},
		"a return was received and none is left": {Return, ReturnReceived, ReturnNone, Official, paid, paid,
			want{ReturnNone, Verified, NoDoubt, 1, []string{"state_differs/moved_back"}, paid}},
		"a shipment was cancelled": {Fulfillment, FulfillmentFulfilled, FulfillmentPartial, Official, paid, paid,
			want{FulfillmentPartial, Verified, NoDoubt, 1, nil, paid}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := known(c.before, map[Axis]State{c.axis: c.from})
			target := says(c.basis, &c.after, map[Axis]State{c.axis: c.to})
			step := Advance(o, target, noon)
			rec := step.Order.Axes[c.axis]
			got := want{rec.State, rec.Check, rec.Doubt, len(step.Moves), kinds(step.Problems), step.Order.Amounts}
			if !reflect.DeepEqual(got, c.want) {
				t.Errorf("\n got %+v\nwant %+v", got, c.want)
			}
			for _, m := range step.Moves {
				if m.Before != c.before || m.After != step.Order.Amounts {
					t.Errorf("move %+v doesn't hold the sums", m)
				}
			}
			if o.Axes[c.axis].State != c.from {
				t.Error("the order that was given changed")
			}
			// What was judged once is judged the same way again.
			again := Advance(step.Order, target, noon)
			if len(again.Moves) != 0 || again.Order.State(c.axis) != rec.State || again.Order.Amounts != step.Order.Amounts {
				t.Errorf("a second look moved: %+v", again.Moves)
			}
			if refused := slices.Contains(kinds(again.Problems), "move_refused"); refused != slices.Contains(c.want.problems, "move_refused") {
				t.Errorf("a second look finds %v", kinds(again.Problems))
			}
		})
	}
}

func TestChangedAmountIsAnEntryWithoutAMove(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		after Amounts
		axes  []Axis
	}{
		"received": {hkd(100, 60, 10), []Axis{Payment}},
		"total":    {hkd(120, 50, 10), []Axis{Payment}},
		"refunded": {hkd(100, 50, 20), []Axis{Refund}},
		"both":     {hkd(100, 60, 20), []Axis{Payment, Refund}},
		"nothing":  {hkd(100, 50, 10), nil},
	} {
		o := known(hkd(100, 50, 10), map[Axis]State{Payment: PaymentPartiallyPaid, Refund: RefundPartial})
		step := Advance(o, says(Official, &c.after, map[Axis]State{Payment: PaymentPartiallyPaid, Refund: RefundPartial}), noon)
		var axes []Axis
		for _, m := range step.Moves {
			axes = append(axes, m.Axis)
			if m.From != m.To || m.From != o.State(m.Axis) {
				t.Errorf("%s: %s went from %s to %s", name, m.Axis, m.From, m.To)
			}
		}
		if !slices.Equal(axes, c.axes) {
			t.Errorf("%s: entries on %v, want %v", name, axes, c.axes)
		}
	}
}

func TestFirstReadingSetsEveryAxis(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]Order{"new": {}, "announced": {Announced: true, Said: &Observation{Number: "#1"}}} {
		step := Advance(o, says(Official, new(hkd(100, 100, 0)), map[Axis]State{Payment: PaymentPaid, Fulfillment: FulfillmentHeld}), noon)
		want := maps.Clone(Resting)
		want[Payment], want[Fulfillment] = PaymentPaid, FulfillmentHeld
		if len(step.Moves) != len(Axes) {
			t.Errorf("%s: %d moves", name, len(step.Moves))
		}
		for i, m := range step.Moves {
			if m.Axis != Axes[i] || m.From != "" || m.To != want[m.Axis] {
				t.Errorf("%s: %s from %q to %q", name, m.Axis, m.From, m.To)
			}
		}
		if step.Order.Announced || step.Order.Said != nil || step.Order.Amounts != hkd(100, 100, 0) || len(step.Problems) != 0 {
			t.Errorf("%s: %+v, %v", name, step.Order, step.Problems)
		}
		if rec := step.Order.Axes[Dispute]; rec.Check != Verified || rec.Connection != 0 {
			t.Errorf("%s: nobody states disputes: %+v", name, rec)
		}
		if rec := step.Order.Axes[Payment]; !rec.CheckedAt.Equal(noon) || !rec.Since.Equal(noon) || rec.Word != "W:paid" {
			t.Errorf("%s: payment %+v", name, rec)
		}
	}
}

func TestUnknownWord(t *testing.T) {
	t.Parallel()
	o := known(hkd(100, 0, 0), nil)
	unclear := func(axis Axis, s State) Target {
		target := says(Official, nil, map[Axis]State{axis: s})
		w := target.Axes[axis]
		w.Word, w.Unclear = "TELEPORTED", true
		target.Axes[axis] = w
		return target
	}
	for _, c := range []struct {
		axis Axis
		says State
		want State
	}{{Payment, Review, Review}, {Refund, Review, Review}, {Fulfillment, "", FulfillmentUnfulfilled}, {Dispute, "", DisputeNone}, {Cancellation, "", CancellationActive}, {Return, "", ReturnNone}} {
		for _, first := range []bool{false, true} {
			start := o
			if first {
				start = Order{}
			}
			step := Advance(start, unclear(c.axis, c.says), noon)
			rec := step.Order.Axes[c.axis]
			if rec.State != c.want || rec.Check != ToReview || rec.Doubt != UnclearWord || rec.Word != "TELEPORTED" || rec.Connection != 1 {
				t.Errorf("%s: %+v", c.axis, rec)
			}
			if got := kinds(step.Problems); !slices.Equal(got, []string{"unknown_status"}) {
				t.Errorf("%s: %v", c.axis, got)
			}
			moves := 0
			if c.want == Review {
				moves = 1
			}
			if !first && len(step.Moves) != moves {
				t.Errorf("%s: moves %+v", c.axis, step.Moves)
			}
			// The next clear word settles it.
			clear := Advance(step.Order, says(Official, nil, map[Axis]State{c.axis: Resting[c.axis]}), noon)
			if rec := clear.Order.Axes[c.axis]; rec.State != Resting[c.axis] || rec.Check != Verified || len(clear.Problems) != 0 {
				t.Errorf("%s after a clear word: %+v, %v", c.axis, rec, clear.Problems)
			}
		}
	}
}

func TestDisputedIsNotVerified(t *testing.T) {
	t.Parallel()
	target := says(Official, nil, map[Axis]State{Payment: PaymentPaid})
	w := target.Axes[Payment]
	w.Disputed = true
	target.Axes[Payment] = w
	step := Advance(known(hkd(100, 0, 0), nil), target, noon)
	if rec := step.Order.Axes[Payment]; rec.State != PaymentPaid || rec.Check != Unverified || rec.Doubt != Differs {
		t.Errorf("%+v", rec)
	}
}

func TestNotStatedIsNeverNone(t *testing.T) {
	t.Parallel()
	o := known(hkd(100, 100, 100), map[Axis]State{Payment: PaymentPaid, Refund: RefundFull, Dispute: DisputeLost, Fulfillment: FulfillmentPartial})
	o.Items = Items{Ordered: 3}
	step := Advance(o, Target{}, noon)
	if !reflect.DeepEqual(step.Order, o) || step.Moves != nil || step.Problems != nil {
		t.Errorf("silence changed something: %+v", step)
	}
}

// anyAmounts are sums as platforms can state them.
func anyAmounts(t *rapid.T) *Amounts {
	if rapid.Bool().Draw(t, "no amounts") {
		return nil
	}
	n := rapid.Int64Range(0, 3)
	a := Amounts{Currency: rapid.SampledFrom([]string{"HKD", "HKD", "HKD", "USD"}).Draw(t, "currency"),
		Total: 100 * n.Draw(t, "total"), Received: 100 * n.Draw(t, "received"), Refunded: 100 * n.Draw(t, "refunded")}
	return &a
}

func anyAxes(t *rapid.T, known []Axis) map[Axis]Statement {
	axes := map[Axis]Statement{}
	for _, axis := range known {
		switch rapid.IntRange(0, 9).Draw(t, string(axis)) {
		case 0:
			s := Statement{Word: "?", Unclear: true}
			if axis == Payment || axis == Refund {
				s.State = Review
			}
			axes[axis] = s
		case 1:
		default:
			s := rapid.SampledFrom(States[axis]).Filter(func(s State) bool { return s != Review }).Draw(t, "state")
			axes[axis] = Statement{State: s, Word: "W:" + string(s)}
		}
	}
	return axes
}

// Whatever platforms say in whatever order: every move is one of the table, the sums
// of the entries lead from one to the next, and no state is one that doesn't exist.
func TestAdvanceKeepsItsPromises(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		views := []ObjectView{
			{ID: 1, Connection: 1, Platform: Shopify, Ref: ObjectRef{Kind: "order", ID: "1"}, Reads: map[Axis]bool{Payment: true}},
			{ID: 2, Connection: 2, Platform: Stripe, Ref: ObjectRef{Kind: "payment_intent", ID: "pi_1"}, LinkedBy: LinkMetadata},
			{ID: 3, Connection: 2, Platform: Stripe, Ref: ObjectRef{Kind: "payment_intent", ID: "pi_2"}, LinkedBy: LinkReference},
		}
		var o Order
		for range rapid.IntRange(1, 8).Draw(t, "readings") {
			i := rapid.IntRange(0, 2).Draw(t, "object")
			axes := Axes
			if views[i].Platform == Stripe {
				axes = MoneyAxes
			}
			seen := &Observation{Ref: views[i].Ref, Read: noon, Amounts: anyAmounts(t), Axes: anyAxes(t, axes)}
			if rapid.Bool().Draw(t, "official") {
				seen.Basis = Official
				views[i].Official = seen
			} else {
				seen.Basis = Reported
				views[i].Said = seen
			}
			target := Compose(views)
			if len(target.Axes) == 0 {
				continue
			}
			before := o
			step := Advance(o, target, noon)
			o = step.Order
			for _, axis := range Axes {
				if !axis.Has(o.State(axis)) {
					t.Fatalf("%s is %q", axis, o.State(axis))
				}
				if check := o.Axes[axis].Check; !slices.Contains(Checks, check) {
					t.Fatalf("%s is checked %q", axis, check)
				}
			}
			if o.Total < 0 || o.Received < 0 || o.Refunded < 0 {
				t.Fatalf("sums %+v", o.Amounts)
			}
			moved := map[Axis]bool{}
			for _, m := range step.Moves {
				if moved[m.Axis] {
					t.Fatalf("two entries on %s", m.Axis)
				}
				moved[m.Axis] = true
				if m.Before != before.Amounts || m.After != o.Amounts || m.To != o.State(m.Axis) || m.From != before.State(m.Axis) {
					t.Fatalf("entry %+v leads from %+v to %+v", m, before, o)
				}
				if m.From == "" || m.From == m.To {
					continue
				}
				if !slices.ContainsFunc(RulesFor(m.Axis, m.From, m.To), func(r Rule) bool {
					return r.Class == ByReport || r.Class == ByReading && m.Basis == Official
				}) {
					t.Fatalf("no rule allows %+v", m)
				}
			}
			for _, axis := range Axes {
				if o.State(axis) != before.State(axis) && !moved[axis] {
					t.Fatalf("%s moved without an entry", axis)
				}
			}
			if (o.Total != before.Total || o.Received != before.Received || o.Refunded != before.Refunded) && len(step.Moves) == 0 {
				t.Fatalf("sums changed without an entry")
			}
			again := Advance(o, target, noon.Add(time.Hour))
			if len(again.Moves) != 0 {
				t.Fatalf("the same twice moved: %+v", again.Moves)
			}
		}
	})
}

// Readings of one object may be overtaken and come again: the order ends where the
// last reading is, and nothing is refused on the way, provided that the table knows a
// way from each reading to each later one.
func TestEndsWhereTheLastReadingIs(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var story []Observation
		for n := range rapid.IntRange(1, 6).Draw(t, "readings") {
			next := Observation{Basis: Official, Version: int64(n + 1), Read: noon.Add(time.Duration(n) * time.Minute), Store: true,
				Amounts: new(hkd(100, rapid.Int64Range(0, 2).Draw(t, "received")*50, 0)), Axes: map[Axis]Statement{}}
			for _, axis := range Axes {
				var fits []State
				for _, s := range States[axis] {
					if s == Review {
						continue
					}
					ok := true
					for _, was := range story {
						_, allowed := allowed(axis, was.Axes[axis].State, Want{Statement: Statement{State: s}, Basis: Official}, *was.Amounts, *next.Amounts)
						ok = ok && (allowed || was.Axes[axis].State == s)
					}
					if ok {
						fits = append(fits, s)
					}
				}
				if len(fits) == 0 { // a story that the platform's buttons can't tell
					t.SkipNow()
				}
				next.Axes[axis] = Statement{State: rapid.SampledFrom(fits).Draw(t, string(axis))}
			}
			story = append(story, next)
		}
		arrivals := make([]int, 0, 2*len(story))
		for i := range story {
			for range rapid.IntRange(1, 3).Draw(t, "copies") {
				arrivals = append(arrivals, i)
			}
		}
		arrivals = rapid.Permutation(arrivals).Draw(t, "arrivals")
		var o Order
		v := ObjectView{ID: 1, Connection: 1, Platform: Shopify, Ref: ObjectRef{Kind: "order", ID: "1"}}
		for _, i := range arrivals {
			if v.Official != nil && story[i].Version < v.Official.Version {
				continue // an older observation changes nothing
			}
			v.Official = &story[i]
			step := Advance(o, Compose([]ObjectView{v}), noon)
			for _, p := range step.Problems {
				if p.Kind == MoveRefused {
					t.Fatalf("refused: %+v", p)
				}
			}
			o = step.Order
		}
		last := story[len(story)-1]
		for _, axis := range Axes {
			if rec := o.Axes[axis]; rec.State != last.Axes[axis].State || rec.Check != Verified {
				t.Fatalf("%s ends as %+v, the last reading says %s", axis, rec, last.Axes[axis].State)
			}
		}
		if o.Amounts != *last.Amounts {
			t.Fatalf("sums end as %+v, the last reading says %+v", o.Amounts, *last.Amounts)
		}
	})
}
