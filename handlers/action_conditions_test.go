package handlers

import (
	"slices"
	"strings"
	"testing"
	"time"

	"counterfoil/models"
	"counterfoil/views/locale"
)

// conditionWords are a page's conditions as people read them, and what its forms say.
func conditionWords(p locale.Printer, in actionIn) (lines, rest []string) {
	for _, m := range conditionModels(in) {
		lines = append(lines, p.Text(m.Text))
		for _, d := range m.Details {
			rest = append(rest, p.Text(d.Text), p.Text(d.Link))
		}
	}
	for _, f := range actionForms(in) {
		rest = append(rest, p.Text(f.Refused))
		for _, s := range f.Says {
			rest = append(rest, p.Text(s))
		}
	}
	rest = append(rest, p.Value(unmet(in.conditions, true)), p.Value(unmet(in.conditions, false)))
	return lines, rest
}

// No sentence about a condition is left with a place where its value should stand, and
// what an action doesn't have isn't called met.
func TestConditionsAreSaidWithTheirValues(t *testing.T) {
	t.Parallel()
	for _, lang := range []string{locale.English, locale.Chinese} {
		p := locale.New(lang, hongKong, moment)
		for _, kind := range []models.ActionKind{models.FulfillmentInstruction, models.Invoice} {
			for _, notBefore := range []time.Time{{}, before(5 * time.Minute), moment.Add(time.Hour)} {
				for _, person := range []bool{false, true} {
					in := heldAction(supporter)
					a := &in.file.Action
					a.Kind, a.NotBefore, a.Person = kind, notBefore, person
					in.conditions = models.Gate{Order: in.order.Order, Now: moment}.Conditions(*a)
					lines, rest := conditionWords(p, in)
					for _, said := range slices.Concat(lines, rest) {
						if strings.Contains(said, "{") {
							t.Errorf("%s, %s: %q", lang, kind, said)
						}
					}
					want := len(in.conditions)
					if !person {
						want--
					}
					if notBefore.IsZero() {
						want--
					}
					if len(lines) != want {
						t.Errorf("%s of a person: %v, not before %v: %q", kind, person, notBefore, lines)
					}
					if met := p.T("condition.not_before", notBefore); !notBefore.IsZero() && notBefore.Before(moment) && !slices.Contains(lines, met) {
						t.Errorf("%q isn't among %q", met, lines)
					}
				}
			}
		}
		for _, k := range models.ConditionKeys {
			if why := p.Text(actionWhy(models.Action{State: models.ActionWaiting, Why: k, NotBefore: moment}, moment)); strings.Contains(why, "{") {
				t.Errorf("%s: %q", lang, why)
			}
		}
	}
}

// An order's outcome names stages and reasons as the follow-ups' own pages do.
func TestTheOutcomeUsesTheWordsOfFollowUps(t *testing.T) {
	t.Parallel()
	f := quietOrder()
	for _, n := range models.NotNeededs {
		l := outcomeLine(f, models.OutcomeLine{Stage: models.WholeOrder, Found: models.FoundNotNeeded, Verdict: models.VerdictGood, Not: n}, supporter)
		row := models.Action{Stage: models.WholeOrder, State: models.ActionNotNeeded, Why: string(n)}
		p := locale.New(locale.English, hongKong, moment)
		if said, why := p.Text(l.Found), p.Text(actionWhy(row, moment)); why == "" || !strings.HasSuffix(said, why) || p.Text(l.Name) != p.Text(stageText(row.Stage, "")) {
			t.Errorf("%s: %q, %q", n, said, why)
		}
	}
	if l := outcomeLine(f, models.OutcomeLine{Found: models.FoundNotNeeded, Verdict: models.VerdictGood, Not: "else"}, supporter); l.Found.Key != "action.state.not_needed.is" {
		t.Errorf("%v", l.Found)
	}
}
