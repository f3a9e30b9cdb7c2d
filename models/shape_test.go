package models

import (
	"fmt"
	"testing"
	"time"
)

// A shape tells of paths and types alone, and only of what is there to be seen.
func TestShapes(t *testing.T) {
	t.Parallel()
	shape := func(raw string) Shape {
		s, err := ShapeOf([]byte(raw))
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	const first = `{"id":1,"name":"Wing","lines":[{"sku":"A","qty":2}],"refunds":[],"closed":null,"metadata":{"her name":"x"},"total":{"amount":"1.00"}}`
	kept := shape(first)
	for path := range kept {
		if path == "metadata.her name" {
			t.Error("the keys that people chose are kept")
		}
	}
	for name, c := range map[string]struct{ raw, want string }{
		"the same":                {first, "[]"},
		"another value":           {`{"id":9,"name":"Ho","lines":[],"refunds":[],"closed":null,"metadata":{},"total":{"amount":"2"}}`, "[]"},
		"null became a time":      {`{"id":1,"name":"a","lines":[],"refunds":[],"closed":"2026","metadata":{},"total":{"amount":"1"}}`, "[]"},
		"a first element":         {`{"id":1,"name":"a","lines":[],"refunds":[{"id":1}],"closed":null,"metadata":{},"total":null}`, "[]"},
		"gone":                    {`{"id":1,"lines":[],"refunds":[],"closed":null,"metadata":{},"total":{"amount":"1"}}`, "[{name text }]"},
		"an object gone is one":   {`{"id":1,"name":"a","lines":[],"refunds":[],"closed":null,"metadata":{}}`, "[{total object }]"},
		"another type":            {`{"id":"1","name":"a","lines":[],"refunds":[],"closed":null,"metadata":{},"total":{"amount":"1"}}`, "[{id number text}]"},
		"gone from each element":  {`{"id":1,"name":"a","lines":[{"sku":"A"}],"refunds":[],"closed":null,"metadata":{},"total":{"amount":"1"}}`, "[{lines[].qty number }]"},
		"new":                     {`{"id":1,"name":"a","lines":[],"refunds":[],"closed":null,"metadata":{},"total":{"amount":"1","tax":1}}`, "[{total.tax  number}]"},
		"a number became an item": {`{"id":1,"name":"a","lines":{},"refunds":[],"closed":null,"metadata":{},"total":{"amount":"1"}}`, "[{lines list object}]"},
	} {
		if got := fmt.Sprint(kept.Changes(shape(c.raw))); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

func TestUsuallyBusy(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		weeks []int64
		want  bool
	}{{nil, false}, {[]int64{5}, false}, {[]int64{5, 1}, true}, {[]int64{5, 0}, false}, {[]int64{1, 2, 0}, false}, {[]int64{1, 2, 0, 4}, true}, {[]int64{0, 0, 9, 9}, false}} {
		if got := UsuallyBusy(c.weeks); got != c.want {
			t.Errorf("%v: %v", c.weeks, got)
		}
	}
}

// A lean reading agrees only with a whole one of the same moment, words and sums.
func TestAgreesLean(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	whole := Observation{Ref: ObjectRef{Kind: "order", ID: "1"}, Changed: at, Amounts: &Amounts{Currency: "HKD", Total: 100, Received: 100, Refunded: 20},
		Axes:  map[Axis]Statement{Payment: {State: PaymentPaid, Word: "PAID"}, Fulfillment: {Word: "UNFULFILLED"}},
		Parts: []Part{{Axis: Refund, State: RefundPending, Amount: 5}}}
	lean := func(change func(*Observation)) Observation {
		o := Observation{Ref: whole.Ref, Changed: at, Lean: true, Amounts: &Amounts{Currency: "HKD", Total: 100, Received: 100, Refunded: 20},
			Axes: map[Axis]Statement{Payment: {Word: "PAID"}, Fulfillment: {Word: "UNFULFILLED"}}}
		change(&o)
		return o
	}
	for name, c := range map[string]struct {
		change func(*Observation)
		want   bool
	}{
		"the same":             {func(*Observation) {}, true},
		"a refund under way":   {func(o *Observation) { o.Amounts.Refunded = 25 }, true},
		"another refund":       {func(o *Observation) { o.Amounts.Refunded = 30 }, false},
		"later":                {func(o *Observation) { o.Changed = at.Add(time.Second) }, false},
		"another word":         {func(o *Observation) { o.Axes[Payment] = Statement{Word: "VOIDED"} }, false},
		"a word we don't have": {func(o *Observation) { o.Axes[Return] = Statement{Word: "IN_PROGRESS"} }, false},
		"another total":        {func(o *Observation) { o.Amounts.Total = 99 }, false},
		"no sums":              {func(o *Observation) { o.Amounts = nil }, false},
		"a fault":              {func(o *Observation) { o.Faults = []Fault{{Kind: UnknownStatus}} }, false},
		"gone":                 {func(o *Observation) { o.Absence = Gone }, false},
	} {
		if got := whole.AgreesLean(lean(c.change)); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
