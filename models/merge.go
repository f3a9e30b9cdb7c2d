package models

import (
	"encoding/json"
	"slices"
	"strings"
	"time"
)

// MergeSaid adds a reported observation to what payloads said of an object before.
// Each axis, and each fact beside them, keeps its newest statement: by version where
// both state one, else by the platform's time. Equal time with different content
// makes an axis unclear. The result depends on what was said, never on how often or
// in which order it came.
func MergeSaid(old *Observation, said Observation) Observation {
	said = stamped(said)
	if old == nil {
		return said
	}
	was := stamped(*old)
	merged := newerRest(was, said)
	merged.Axes = make(map[Axis]Statement, len(Axes))
	for _, a := range Axes {
		x, one := was.Axes[a]
		y, two := said.Axes[a]
		switch {
		case one && two:
			merged.Axes[a] = newerStatement(a, x, y)
		case one:
			merged.Axes[a] = x
		case two:
			merged.Axes[a] = y
		}
	}
	merged.Stamps = map[string]Stamp{}
	newerFact(&merged, "amounts", was, said, func(o *Observation) **Amounts { return &o.Amounts })
	newerFact(&merged, "items", was, said, func(o *Observation) **Items { return &o.Items })
	newerFact(&merged, "number", was, said, func(o *Observation) *string { return &o.Number })
	newerFact(&merged, "placed", was, said, func(o *Observation) *time.Time { return &o.Placed })
	return merged
}

// stamped gives each statement of an observation the observation's own time and
// version where it has none of its own.
func stamped(o Observation) Observation {
	axes := make(map[Axis]Statement, len(o.Axes))
	for a, s := range o.Axes {
		if s.At.IsZero() {
			s.At = o.Changed
		}
		if s.Version == 0 {
			s.Version = o.Version
		}
		axes[a] = s
	}
	o.Axes = axes
	if o.Stamps == nil {
		s := Stamp{At: o.Changed, Version: o.Version}
		o.Stamps = map[string]Stamp{}
		for name, stated := range map[string]bool{"amounts": o.Amounts != nil, "items": o.Items != nil, "number": o.Number != "", "placed": !o.Placed.IsZero()} {
			if stated {
				o.Stamps[name] = s
			}
		}
	}
	return o
}

// newerStatement is the newer of two statements about an axis, or that they
// contradict each other.
func newerStatement(a Axis, x, y Statement) Statement {
	switch order := sayOrder(y.Version, x.Version, y.At, x.At); {
	case order > 0:
		return y
	case order < 0:
		return x
	}
	x.Version = max(x.Version, y.Version)
	if x.State == y.State && x.Word == y.Word {
		return x
	}
	x.Unclear, x.State, x.Word = true, "", joinWords(x.Word, y.Word)
	if a == Payment || a == Refund {
		x.State = Review
	}
	return x
}

// newerRest is the newer of two observations. Where none is, their content decides,
// so that it doesn't matter which came first.
func newerRest(x, y Observation) Observation {
	order := sayOrder(y.Version, x.Version, y.Changed, x.Changed)
	if order == 0 {
		order = strings.Compare(rest(y), rest(x))
	}
	if order > 0 {
		return y
	}
	return x
}

// rest is an observation without what is merged piece by piece.
func rest(o Observation) string {
	o.Axes, o.Stamps, o.Amounts, o.Items, o.Number, o.Placed = nil, nil, nil, nil, "", time.Time{}
	return text(o)
}

// newerFact takes the newer of two statements of one fact.
func newerFact[T any](merged *Observation, name string, x, y Observation, field func(*Observation) *T) {
	from := x
	sx, one := x.Stamps[name]
	sy, two := y.Stamps[name]
	switch {
	case one && two:
		order := sayOrder(sy.Version, sx.Version, sy.At, sx.At)
		if order > 0 || order == 0 && text(*field(&y)) > text(*field(&x)) {
			from = y
		}
	case two:
		from = y
	case !one:
		return
	}
	*field(merged) = *field(&from)
	merged.Stamps[name] = from.Stamps[name]
}

// text is what something says, to be compared.
func text(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic("models: an observation always marshals: " + err.Error())
	}
	return string(b)
}

// KeepSaid is MergeSaid for an object whose platform can be asked: on the axes that
// the API states, what was said is only shown, so the later arrival breaks a tie.
func KeepSaid(old *Observation, said Observation, reads map[Axis]bool) Observation {
	merged := MergeSaid(old, said)
	for a, s := range stamped(said).Axes {
		if m := merged.Axes[a]; reads[a] && m.Unclear && sayOrder(s.Version, m.Version, s.At, m.At) == 0 {
			merged.Axes[a] = s
		}
	}
	return merged
}

// joinWords shows words that contradict each other, each once and in one order
// whichever came first.
func joinWords(a, b string) string {
	const between = " / "
	words := append(strings.Split(a, between), strings.Split(b, between)...)
	slices.Sort(words)
	words = slices.DeleteFunc(slices.Compact(words), func(w string) bool { return w == "" })
	return strings.Join(words, between)
}

// sayOrder is 1 if the first statement is newer, -1 if older, 0 if nobody can say.
func sayOrder(v, w int64, t, u time.Time) int {
	switch {
	case v != 0 && w != 0 && v > w:
		return 1
	case v != 0 && w != 0 && v < w:
		return -1
	case t.After(u):
		return 1
	case t.Before(u):
		return -1
	}
	return 0
}
