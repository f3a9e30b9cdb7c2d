package models

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func merge(said ...Observation) Observation {
	var all *Observation
	for _, o := range said {
		merged := MergeSaid(all, o)
		all = &merged
	}
	return *all
}

func TestMergeSaid(t *testing.T) {
	t.Parallel()
	issued := Observation{Changed: noon, Axes: map[Axis]Statement{Payment: {State: PaymentPaid, Word: "1"}}, Amounts: new(hkd(100, 100, 0)), Number: "#7"}
	refunded := Observation{Changed: noon.Add(time.Hour), Axes: map[Axis]Statement{Refund: {State: RefundFull, Word: "2"}}}
	for name, all := range map[string]Observation{"in order": merge(issued, refunded), "late": merge(refunded, issued)} {
		if all.Axes[Payment].State != PaymentPaid || all.Axes[Refund].State != RefundFull || all.Amounts == nil || all.Number != "#7" {
			t.Errorf("%s: %+v", name, all)
		}
	}

	word := func(s State, w string, at time.Time, version int64) Observation {
		return Observation{Changed: at, Version: version, Axes: map[Axis]Statement{Payment: {State: s, Word: w}, Fulfillment: {State: FulfillmentPartial, Word: w}}}
	}
	for name, c := range map[string]struct {
		said    []Observation
		payment State
		word    string
		unclear bool
	}{
		"the later":              {[]Observation{word(PaymentPaid, "a", noon.Add(1), 0), word(PaymentPending, "b", noon, 0)}, PaymentPaid, "a", false},
		"the higher version":     {[]Observation{word(PaymentPaid, "a", noon, 2), word(PaymentPending, "b", noon.Add(1), 1)}, PaymentPaid, "a", false},
		"equal time":             {[]Observation{word(PaymentPaid, "a", noon, 0), word(PaymentVoided, "b", noon, 0)}, Review, "a / b", true},
		"equal time, three":      {[]Observation{word(PaymentPaid, "c", noon, 0), word(PaymentVoided, "b", noon, 0), word(PaymentPaid, "a", noon, 0)}, Review, "a / b / c", true},
		"no time at all":         {[]Observation{word(PaymentPaid, "a", time.Time{}, 0), word(PaymentVoided, "b", time.Time{}, 0)}, Review, "a / b", true},
		"equal time, same words": {[]Observation{word(PaymentPaid, "a", noon, 0), word(PaymentPaid, "a", noon, 0)}, PaymentPaid, "a", false},
		"settled by a later one": {[]Observation{word(PaymentPaid, "a", noon, 0), word(PaymentVoided, "b", noon, 0), word(PaymentVoided, "b", noon.Add(1), 0)}, PaymentVoided, "b", false},
	} {
		got := merge(c.said...)
		if s := got.Axes[Payment]; s.State != c.payment || s.Word != c.word || s.Unclear != c.unclear {
			t.Errorf("%s: %+v", name, s)
		}
		if s := got.Axes[Fulfillment]; s.Unclear && (s.State != "" || s.Word != c.word) {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

// What payloads said comes to the same in every order and however often it came. All
// statements of one object have a version, or none has.
func TestMergeSaidKnowsNoOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		versioned := rapid.Bool().Draw(t, "versioned")
		var said []Observation
		for range rapid.IntRange(1, 4).Draw(t, "payloads") {
			o := Observation{Basis: Reported, Ref: ObjectRef{Kind: "receipt", ID: "1"}, Amounts: anyAmounts(t), Axes: anyAxes(t, []Axis{Payment, Refund, Return}),
				Changed: noon.Add(time.Duration(rapid.IntRange(0, 2).Draw(t, "at")) * time.Second),
				Number:  rapid.SampledFrom([]string{"", "#1", "#2"}).Draw(t, "number"), Method: rapid.SampledFrom([]string{"", "card"}).Draw(t, "method")}
			if versioned {
				o.Version = rapid.Int64Range(1, 3).Draw(t, "version")
			}
			if rapid.Bool().Draw(t, "items") {
				o.Items = &Items{Ordered: rapid.IntRange(1, 2).Draw(t, "ordered")}
			}
			said = append(said, o)
		}
		want := merge(said...)
		again := append(slices.Clone(said), rapid.SliceOfN(rapid.SampledFrom(said), 0, 3).Draw(t, "copies")...)
		if got := merge(rapid.Permutation(again).Draw(t, "arrivals")...); text(got) != text(want) {
			t.Fatalf("\n got %s\nwant %s", text(got), text(want))
		}
	})
}

// On axes that the API states what was said is only shown: the last one to come
// breaks a tie. Elsewhere it decides, and a tie is unclear.
func TestKeepSaid(t *testing.T) {
	t.Parallel()
	say := func(s State, at time.Time) Observation {
		return Observation{Changed: at, Axes: map[Axis]Statement{Payment: {State: s, Word: string(s)}, Refund: {State: s, Word: string(s)}}}
	}
	reads := map[Axis]bool{Payment: true}
	old := KeepSaid(nil, say(PaymentPending, noon), reads)
	tie := KeepSaid(&old, say(PaymentPaid, noon), reads)
	if got := tie.Axes[Payment]; got.State != PaymentPaid || got.Unclear {
		t.Errorf("payment %+v", got)
	}
	if got := tie.Axes[Refund]; got.State != Review || !got.Unclear {
		t.Errorf("refund %+v", got)
	}
	unclear := MergeSaid(&old, say(PaymentPaid, noon))
	if got := KeepSaid(&unclear, say(PaymentVoided, noon.Add(-time.Hour)), reads).Axes[Payment]; got.State != Review {
		t.Errorf("an older word was shown: %+v", got)
	}
}
