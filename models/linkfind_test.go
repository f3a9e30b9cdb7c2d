package models

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

func TestWhichFieldNamesOrders(t *testing.T) {
	t.Parallel()
	day := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	// What a value names is written at its beginning: 1 one order, 2 several, 0 none.
	match := func(p Labelled, value string) LinkMatch {
		return map[byte]LinkMatch{'1': MatchesOne, '2': MatchesSeveral}[value[0]]
	}
	pay := func(days int, labels ...string) Labelled {
		p := Labelled{Created: day.AddDate(0, 0, days), Labels: map[string]string{}}
		for i := 0; i+1 < len(labels); i += 2 {
			p.Labels[labels[i]] = labels[i+1]
		}
		return p
	}
	for name, c := range map[string]struct {
		payments []Labelled
		set      string
		proposed string
		best     string // of the list: name payments matches several
		today    string
	}{
		"nothing":        {nil, "order_id", "", "", "order_id 0 0 0"},
		"no fields":      {[]Labelled{pay(0), pay(1)}, "order_id", "", "", "order_id 0 0 0"},
		"none matches":   {[]Labelled{pay(0, "a", "0"), pay(1, "a", "0")}, "order_id", "", "a 2 0 0", "order_id 0 0 0"},
		"several is no":  {[]Labelled{pay(0, "a", "2")}, "a", "", "a 1 0 1", "a 1 0 1"},
		"one":            {[]Labelled{pay(0, "a", "1", "b", "0"), pay(1, "a", "1")}, "order_id", "a", "a 2 2 0", "order_id 0 0 0"},
		"most matches":   {[]Labelled{pay(0, "a", "1", "b", "1"), pay(1, "b", "1"), pay(2, "b", "0")}, "a", "b", "b 3 2 0", "a 1 1 0"},
		"fewest misses":  {[]Labelled{pay(0, "a", "1", "b", "1"), pay(1, "a", "0")}, "a", "b", "b 1 1 0", "a 2 1 0"},
		"several misses": {[]Labelled{pay(0, "a", "1", "b", "1"), pay(1, "a", "2")}, "a", "b", "b 1 1 0", "a 2 1 1"},
		"today's":        {[]Labelled{pay(0, "a", "1", "b", "1")}, "b", "b", "b 1 1 0", "b 1 1 0"},
		"by name":        {[]Labelled{pay(0, "b", "1", "a", "1")}, "order_id", "a", "a 1 1 0", "order_id 0 0 0"},
	} {
		spaced := func(k LinkKey) string { return fmt.Sprint(k.Name, " ", k.Payments, " ", k.Matches, " ", k.Several) }
		f := FindLink(c.payments, c.set, match)
		best := ""
		if len(f.Keys) > 0 {
			best = spaced(f.Keys[0])
		}
		if f.Proposed != c.proposed || best != c.best || spaced(f.Set) != c.today || f.Read != len(c.payments) {
			t.Errorf("%s: proposed %q, best %q, today %q of %d", name, f.Proposed, best, spaced(f.Set), f.Read)
		}
	}

	f := FindLink([]Labelled{pay(9, "a", "1042"), pay(3, "a", "1042"), pay(5, "a", "1043-HK-77"), pay(1, "a", "1999"), {Created: day, Foreign: true, Labels: map[string]string{"b": "1"}}, pay(7)}, "a", match)
	if f.Foreign != 1 || f.Bare != 1 || len(f.Keys) != 1 || !f.First.Equal(day) || !f.Last.Equal(day.AddDate(0, 0, 9)) {
		t.Errorf("%+v", f)
	}
	if k := f.Keys[0]; !k.First.Equal(day.AddDate(0, 0, 1)) || !k.Last.Equal(day.AddDate(0, 0, 9)) || !slices.Equal(k.Examples, []string{"1••2", "10••••••77"}) {
		t.Errorf("%+v", k)
	}

	var many []Labelled
	for i := range maxLinkKeys + 7 {
		many = append(many, pay(0, fmt.Sprintf("k%02d", i), "0"))
	}
	if f := FindLink(many, "k56", match); len(f.Keys) != maxLinkKeys || f.Left != 7 || f.Set.Payments != 1 {
		t.Errorf("%d listed, %d left, %+v", len(f.Keys), f.Left, f.Set)
	}
}

func TestMaskedReferences(t *testing.T) {
	t.Parallel()
	for ref, want := range map[string]string{"": "", "7": "•", "104": "•••", "#1042": "#•••2", "820982911946154001": "820••••••001", "訂單一二三四五六": "訂單••••五六"} {
		if got := MaskRef(ref); got != want {
			t.Errorf("%q is shown as %q, want %q", ref, got, want)
		}
	}
}
