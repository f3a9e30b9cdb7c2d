package models

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"
)

// A Labelled is a recent payment of a platform with the fields that its merchant named.
type Labelled struct {
	Created time.Time
	Test    bool // of the other mode than the connection's
	Foreign bool // another system's on the same account
	Labels  map[string]string
}

// A LinkMatch says whether a value names an order.
type LinkMatch int

const (
	MatchesNone LinkMatch = iota
	MatchesOne
	MatchesSeveral // and so decides nothing
)

// A LinkKey is how the values of one field of recent payments name orders.
type LinkKey struct {
	Name        string
	Payments    int // that have the field
	Matches     int
	Several     int
	First, Last time.Time // of the payments that have it
	Examples    []string  // of values that match an order, masked
}

// Misses are the payments whose value names no order by itself.
func (k LinkKey) Misses() int { return k.Payments - k.Matches }

// A LinkFinding is what a connection's recent payments say about the field that links
// them to orders.
type LinkFinding struct {
	Read        int       // payments looked at
	Foreign     int       // of them another system's, which aren't counted below
	Bare        int       // of them without any field
	First, Last time.Time // of the payments looked at
	More        bool      // there are older ones
	Keys        []LinkKey // the best first
	Left        int       // fields that aren't listed
	Set         LinkKey   // the field that links today; its counts are 0 where no payment has it
	Chosen      bool      // an admin set it; otherwise it is the default
	Proposed    string    // the field that names most orders; empty: none names any
	NoStore     bool      // no store is connected to the shop whose orders could be named
}

const (
	maxLinkKeys     = 50
	maxLinkExamples = 2
)

// FindLink counts how the fields of recent payments name orders and proposes the one
// that names most; among equals the one with fewest misses, then the one set today.
func FindLink(payments []Labelled, set string, match func(p Labelled, value string) LinkMatch) LinkFinding {
	f := LinkFinding{Set: LinkKey{Name: set}}
	keys := map[string]*LinkKey{}
	for _, p := range payments {
		f.Read++
		f.First, f.Last = spanning(f.First, f.Last, p.Created)
		switch {
		case p.Foreign:
			f.Foreign++
			continue
		case len(p.Labels) == 0:
			f.Bare++
		}
		for name, value := range p.Labels {
			k := keys[name]
			if k == nil {
				k = &LinkKey{Name: name}
				keys[name] = k
			}
			k.Payments++
			k.First, k.Last = spanning(k.First, k.Last, p.Created)
			switch match(p, value) {
			case MatchesOne:
				k.Matches++
				if example := MaskRef(value); len(k.Examples) < maxLinkExamples && !slices.Contains(k.Examples, example) {
					k.Examples = append(k.Examples, example)
				}
			case MatchesSeveral:
				k.Several++
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(keys)) {
		f.Keys = append(f.Keys, *keys[name])
	}
	slices.SortStableFunc(f.Keys, func(a, b LinkKey) int {
		return cmp.Or(cmp.Compare(b.Matches, a.Matches), cmp.Compare(a.Misses(), b.Misses()), today(a, set)-today(b, set))
	})
	if len(f.Keys) > 0 && f.Keys[0].Matches > 0 {
		f.Proposed = f.Keys[0].Name
	}
	if k := keys[set]; k != nil {
		f.Set = *k
	}
	if len(f.Keys) > maxLinkKeys {
		f.Left, f.Keys = len(f.Keys)-maxLinkKeys, f.Keys[:maxLinkKeys]
	}
	return f
}

// today orders the field that is set before the others.
func today(k LinkKey, set string) int {
	if k.Name == set {
		return 0
	}
	return 1
}

func spanning(first, last, at time.Time) (time.Time, time.Time) {
	if at.IsZero() {
		return first, last
	}
	if first.IsZero() || at.Before(first) {
		first = at
	}
	if at.After(last) {
		last = at
	}
	return first, last
}

// MaskRef shows the ends of a reference, so that people recognise its form.
func MaskRef(ref string) string {
	runes := []rune(strings.TrimSpace(ref))
	shown := min(len(runes)/4, 3)
	hidden := min(len(runes)-2*shown, 6)
	return string(runes[:shown]) + strings.Repeat("•", hidden) + string(runes[len(runes)-shown:])
}
