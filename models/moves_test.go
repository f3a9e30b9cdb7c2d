package models

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden compares with a file in testdata, or writes it.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := "testdata/" + name
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got == string(want) {
		return
	}
	have, should := strings.Split(got, "\n"), strings.Split(string(want), "\n")
	for _, line := range have {
		if !slices.Contains(should, line) {
			t.Errorf("%s: unexpected: %s", name, line)
		}
	}
	for _, line := range should {
		if !slices.Contains(have, line) {
			t.Errorf("%s: missing: %s", name, line)
		}
	}
	if !t.Failed() {
		t.Errorf("%s: the order of lines changed", name)
	}
}

func TestMovesTable(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	last := Axis("")
	for _, r := range Rules {
		if r.Axis != last {
			fmt.Fprintf(&b, "%s: %s\n", r.Axis, strings.Join(words(States[r.Axis]), ", "))
			last = r.Axis
		}
		fmt.Fprintf(&b, "  %-14s → %-14s %-8s", r.From, r.To, r.Class)
		if r.Guard != Always {
			fmt.Fprintf(&b, " if %s", r.Guard)
		}
		if r.Eyes {
			b.WriteString(" eyes")
		}
		if r.Skips {
			b.WriteString(" skips")
		}
		b.WriteString("\n")
	}
	lines := strings.Split(b.String(), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	golden(t, "moves.golden", strings.Join(lines, "\n"))
}

func words(states []State) []string {
	var out []string
	for _, s := range states {
		out = append(out, string(s))
	}
	return out
}

// The table as the rules were agreed. In a list of moves each one is FROM→TO, with
// commas for several on either side and ↔ for both ways; "if" names a guard and "!"
// asks for eyes. Moves from and to review, and what skips steps, follow from rules of
// their own.
var agreed = map[Axis]map[MoveClass]string{
	Payment: {
		ByReport: `pending→authorized,partially_paid,paid,failed,voided · authorized→partially_paid,paid,failed,voided · partially_paid→paid ·
			failed→pending,authorized,partially_paid,paid,voided`,
		ByReading:  `authorized→pending · voided→pending,authorized,partially_paid,paid,failed · paid→partially_paid if received_kept`,
		ByApproval: `paid,partially_paid→pending,authorized,failed,voided`,
	},
	Refund: {
		ByReport:  `none→pending,partial,full · pending→partial,full · partial→full`,
		ByReading: `pending→none · full→partial if received_grew · full→partial if received_steady ! · full,partial→none,pending !`,
	},
	Dispute: {
		ByReport:  `none→open,won,lost · open→won,lost`,
		ByReading: `open→none · won↔lost ! · won,lost→open !`,
	},
	Fulfillment: {
		ByReport: `unfulfilled→in_progress,partial,fulfilled · in_progress→partial,fulfilled · partial→fulfilled`,
		ByReading: `fulfilled→partial,in_progress,unfulfilled · partial→in_progress,unfulfilled · in_progress→unfulfilled ·
			unfulfilled,in_progress,partial↔held · held→fulfilled · fulfilled→held !`,
	},
	Cancellation: {
		ByReport:   `active→requested,cancelled · requested→cancelled`,
		ByReading:  `requested→active`,
		ByApproval: `cancelled→active`,
	},
	Return: {
		ByReport: `none→requested,in_progress,received,declined · requested→in_progress,received,declined · in_progress→received`,
		// requested↔in_progress: the way there is a forward move already.
		ByReading: `in_progress→requested · requested,in_progress→none · in_progress→declined ·
			received,declined→requested,in_progress · declined→received · received→none !`,
		ByApproval: `declined→none`,
	},
}

// expand reads one list of moves.
func expand(t *testing.T, axis Axis, class MoveClass, text string) []Rule {
	t.Helper()
	var rules []Rule
	for _, item := range strings.Split(text, "·") {
		item = strings.TrimSpace(item)
		item, eyes := strings.CutSuffix(item, " !")
		item, guard, _ := strings.Cut(item, " if ")
		from, to, forth := strings.Cut(item, "→")
		both := false
		if !forth {
			from, to, both = strings.Cut(item, "↔")
		}
		if !forth && !both {
			t.Fatalf("%q is no move", item)
		}
		for _, f := range strings.Split(from, ",") {
			for _, g := range strings.Split(to, ",") {
				if f == g {
					continue
				}
				rules = append(rules, Rule{Axis: axis, From: State(f), To: State(g), Class: class, Guard: Guard(guard), Eyes: eyes})
				if both {
					rules = append(rules, Rule{Axis: axis, From: State(g), To: State(f), Class: class, Guard: Guard(guard), Eyes: eyes})
				}
			}
		}
	}
	return rules
}

// The agreed table row by row: nothing is missing, and nothing is there beyond it but
// review and what skips steps.
func TestRulesAreTheAgreedOnes(t *testing.T) {
	t.Parallel()
	want := map[Rule]bool{}
	for axis, classes := range agreed {
		for class, text := range classes {
			for _, r := range expand(t, axis, class, text) {
				if want[r] {
					t.Errorf("agreed twice: %+v", r)
				}
				want[r] = true
			}
		}
	}
	for _, axis := range []Axis{Payment, Refund} {
		for _, s := range States[axis] {
			if s != Review {
				want[Rule{Axis: axis, From: s, To: Review, Class: ByReport, Eyes: true}] = true
				want[Rule{Axis: axis, From: Review, To: s, Class: ByReading}] = true
			}
		}
	}
	have := map[Rule]bool{}
	for _, r := range Rules {
		if have[r] {
			t.Errorf("twice in the table: %+v", r)
		}
		have[r] = true
		if !r.Skips && !want[r] {
			t.Errorf("not agreed: %+v", r)
		}
		if !r.Axis.Has(r.From) || !r.Axis.Has(r.To) || r.From == r.To {
			t.Errorf("no move of %s: %+v", r.Axis, r)
		}
	}
	for r := range want {
		if !have[r] {
			t.Errorf("agreed but missing: %+v", r)
		}
	}
}

// What can be reached in two official steps is allowed in one, unless only approval
// leads there; and nothing skips steps that couldn't be taken one by one.
func TestOfficialMovesAreClosed(t *testing.T) {
	t.Parallel()
	type pair struct{ from, to State }
	for _, axis := range Axes {
		official, approval, quiet := map[pair]bool{}, map[pair]bool{}, map[pair]bool{}
		for _, r := range Rules {
			if r.Axis != axis || r.From == Review || r.To == Review {
				continue
			}
			p := pair{r.From, r.To}
			switch {
			case r.Class == ByApproval:
				approval[p] = true
			case r.Guard == Always:
				official[p] = true
				quiet[p] = quiet[p] || !r.Eyes
			}
		}
		for _, a := range States[axis] {
			for _, c := range States[axis] {
				direct := RulesFor(axis, a, c)
				reachable, calm := false, false
				for _, b := range States[axis] {
					if official[pair{a, b}] && official[pair{b, c}] {
						reachable = true
						calm = calm || quiet[pair{a, b}] && quiet[pair{b, c}]
					}
				}
				switch {
				case a == c || a == Review || c == Review:
				case reachable && len(direct) == 0:
					t.Errorf("%s: %s→%s is reachable in two steps and not in one", axis, a, c)
				case len(direct) == 1 && direct[0].Skips && !reachable:
					t.Errorf("%s: %s→%s skips steps that nobody can take", axis, a, c)
				case len(direct) == 1 && direct[0].Skips && direct[0].Eyes == calm:
					t.Errorf("%s: %s→%s asks for eyes: %t, though there is a quiet way: %t", axis, a, c, direct[0].Eyes, calm)
				}
				if approval[pair{a, c}] && official[pair{a, c}] {
					t.Errorf("%s: %s→%s needs approval and doesn't", axis, a, c)
				}
			}
		}
	}
}

func TestEveryStateIsNamedOnce(t *testing.T) {
	t.Parallel()
	if got, want := slices.Sorted(maps.Keys(States)), slices.Sorted(slices.Values(Axes)); !slices.Equal(got, want) {
		t.Errorf("States knows %v, Axes %v", got, want)
	}
	for _, axis := range Axes {
		states := slices.Clone(States[axis])
		slices.Sort(states)
		if len(slices.Compact(states)) != len(States[axis]) {
			t.Errorf("%s names a state twice: %v", axis, States[axis])
		}
		if !axis.Has(Resting[axis]) {
			t.Errorf("%s rests in %q, which it doesn't have", axis, Resting[axis])
		}
		if axis.Has(Review) != (axis == Payment || axis == Refund) {
			t.Errorf("review on %s", axis)
		}
		if axis.Has("") || axis.Has("gone") {
			t.Errorf("%s has states that it doesn't list", axis)
		}
		if axis.Money() != slices.Contains(MoneyAxes, axis) {
			t.Errorf("%s: Money and MoneyAxes differ", axis)
		}
		// From and to every state there is a way, if only by approval.
		for _, s := range States[axis] {
			leave, enter := false, false
			for _, r := range Rules {
				leave, enter = leave || r.Axis == axis && r.From == s, enter || r.Axis == axis && r.To == s
			}
			if !leave || !enter {
				t.Errorf("%s: %s can be left: %t, entered: %t", axis, s, leave, enter)
			}
		}
	}
}
