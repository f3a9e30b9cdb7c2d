package locale

import (
	"encoding/json"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"counterfoil/models"
)

func TestCataloguesAreWellFormed(t *testing.T) {
	t.Parallel()
	hole := regexp.MustCompile(`\{\d+\}`)
	holes := func(s string) []string {
		found := hole.FindAllString(s, -1)
		slices.Sort(found)
		return slices.Compact(found)
	}
	for lang, words := range catalogues {
		b, err := files.ReadFile(lang + ".json")
		if err != nil {
			t.Fatal(err)
		}
		var raw map[string]message
		if err := json.Unmarshal(b, &raw); err != nil || len(raw) == 0 {
			t.Fatalf("%s: %v", lang, err)
		}
		var keys []string
		for _, m := range regexp.MustCompile(`(?m)^  "([^"]+)": `).FindAllStringSubmatch(string(b), -1) {
			keys = append(keys, m[1])
		}
		if !slices.IsSorted(keys) || len(keys) != len(raw) {
			t.Errorf("%s: keys aren't sorted, or one stands twice", lang)
		}
		for key, m := range words {
			english, ok := catalogues[English][key]
			if !ok {
				t.Errorf("%s: %s isn't in the English catalogue", lang, key)
			}
			if _, ok := catalogues[Chinese][key]; !ok {
				t.Errorf("%s: %s isn't in the Chinese catalogue", lang, key)
			}
			if m.Other == "" {
				t.Errorf("%s: %s is empty", lang, key)
			}
			if !slices.Equal(holes(m.Other), holes(english.Other)) {
				t.Errorf("%s: %s has other values than the English sentence", lang, key)
			}
			if strings.Contains(m.One+m.Other, "'") {
				t.Errorf("%s: %s has a typewriter's apostrophe", lang, key)
			}
		}
	}
}

// A few characters that only Simplified Chinese has.
func TestChineseIsTraditional(t *testing.T) {
	t.Parallel()
	for key, m := range catalogues[Chinese] {
		if hit := simplified.FindString(m.Other); hit != "" {
			t.Errorf("%s: %s in %s", key, hit, m.Other)
		}
	}
}

var simplified = regexp.MustCompile(`[们这为时对说数单发关账读联网页设请问题样让应从电话码额订还过进动务员经级组织图书长门开东车马鸟鱼证钟币认确实际处]`)

// Codes that models lists are said in words, with a sentence where people may ask.
func TestEveryCodeHasItsWords(t *testing.T) {
	t.Parallel()
	var keys []string
	both := func(key string) { keys = append(keys, key, key+".is") }
	for _, a := range models.Axes {
		keys = append(keys, "axis."+string(a), "parts."+string(a))
		for _, s := range models.States[a] {
			both("state." + string(a) + "." + string(s))
		}
	}
	for _, s := range models.EventStates {
		k := "event." + string(s)
		keys = append(keys, k, k+".who", "work."+k, "work."+k+".is", "work."+k+".next")
		if s.Open() || s == models.EventReview || s == models.EventFailed {
			keys = append(keys, "event_page.waits."+string(s))
		}
	}
	for _, c := range models.Checks {
		both("check." + string(c))
	}
	for _, d := range models.Doubts {
		keys = append(keys, "doubt."+string(d))
	}
	for _, k := range models.ExceptionKinds {
		both("exception." + string(k))
		keys = append(keys, "exception."+string(k)+".next")
	}
	for _, c := range models.CauseKinds {
		keys = append(keys, "cause."+string(c))
	}
	for _, s := range models.APIStates {
		both("api." + string(s))
	}
	for _, r := range models.Roles {
		keys = append(keys, "role."+string(r))
	}
	for _, k := range models.ActionKinds {
		keys = append(keys, "action."+string(k))
	}
	for _, m := range models.DestinationModes {
		both("policies.mode." + string(m))
	}
	for _, s := range models.RequestStates {
		if s != models.RequestProposed {
			keys = append(keys, "policies.last."+string(s))
		}
	}
	for _, o := range models.Occasions {
		keys = append(keys, "policies.on."+string(o))
	}
	for _, r := range models.RulesOf(nil) {
		keys = append(keys, "policies.plans."+string(r.Occasion)+"."+string(r.Kind))
	}
	for _, p := range models.Platforms {
		keys = append(keys, "platform."+string(p), "connections.rotation."+string(p))
	}
	for _, k := range models.ActionKinds {
		keys = append(keys, "action."+string(k))
	}
	for _, s := range models.ActionStates {
		both("action.state." + string(s))
	}
	for _, tab := range models.ActionTabs {
		keys = append(keys, "actions.tab."+string(tab))
		both("actions.empty." + string(tab))
	}
	for _, n := range models.NotNeededs {
		keys = append(keys, "why.not_needed."+string(n))
	}
	for _, k := range models.ConditionKeys {
		keys = append(keys, "condition."+k, "condition."+k+".no")
	}
	for _, k := range models.RequestKinds {
		keys = append(keys, "request.kind."+string(k))
		if k != models.RequestLive { // that is decided where policies are
			keys = append(keys, "request.decide."+string(k), "request.approve."+string(k))
		}
	}
	for _, s := range models.RequestStates {
		keys = append(keys, "request.state."+string(s), "request.done."+string(s))
	}
	for _, c := range models.ReasonCodes {
		keys = append(keys, "reason_code."+string(c))
	}
	for _, a := range []models.Absence{models.Gone, models.OutsideWindow, models.Unreadable, models.AdminTest} {
		keys = append(keys, "absence."+string(a))
	}
	for _, l := range []models.LinkHow{models.LinkMetadata, models.LinkReference, models.LinkIntent} {
		keys = append(keys, "link."+string(l))
	}
	for _, r := range models.Rules {
		both("rules.class." + string(r.Class))
		if r.Guard != models.Always {
			keys = append(keys, "rules.guard."+string(r.Guard))
		}
	}
	for _, c := range []models.Code{models.Invalid, models.Unauthenticated, models.Forbidden, models.NotFound, models.Conflict, models.Unavailable, models.Internal} {
		keys = append(keys, "error."+string(c))
	}
	for _, f := range models.Findings {
		keys = append(keys, "outcome.found."+string(f))
	}
	for _, v := range models.Verdicts {
		both("outcome.verdict." + string(v))
		keys = append(keys, "outcome.all."+string(v))
	}
	for _, g := range models.OutcomeGroups {
		keys = append(keys, "outcome.group."+string(g))
	}
	for _, c := range models.ReasonCodes {
		keys = append(keys, "reason_code."+string(c))
	}
	for _, k := range models.SweepKinds {
		keys = append(keys, "sweeps.kind."+k)
	}
	for _, r := range models.SweepReasons {
		keys = append(keys, "sweeps.reason."+string(r))
	}
	for _, s := range models.SweepStates {
		keys = append(keys, "sweeps.state."+string(s))
	}
	for _, s := range models.Standings {
		keys = append(keys, "outcome.standing."+string(s))
	}
	for _, k := range keys {
		if _, ok := catalogues[English][k]; !ok {
			t.Errorf("%s has no words", k)
		}
	}
}

// Facts that a release can't replace, and what moves a condition on, are said without
// values: whoever says them knows the key alone.
func TestConditionsNeedNoValue(t *testing.T) {
	t.Parallel()
	for lang, words := range catalogues {
		for _, k := range models.ConditionKeys {
			if !slices.Contains(models.ByPeople, k) && strings.Contains(words["condition."+k].Other, "{") || strings.Contains(words["condition."+k+".no"].Other, "{") {
				t.Errorf("%s: condition.%s has a value", lang, k)
			}
		}
	}
}

// sources reads every source of the program that can name a key.
func sources(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() && (strings.HasPrefix(name, ".") && path != root || name == "data" || name == "testdata") {
			return filepath.SkipDir
		}
		if strings.HasSuffix(name, "_test.go") || strings.HasSuffix(name, "_templ.go") || filepath.Ext(name) != ".go" && filepath.Ext(name) != ".templ" {
			return nil
		}
		b, err := os.ReadFile(path)
		all.Write(b)
		all.WriteByte('\n')
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}

// Keys that are said as they stand exist; keys built from a code begin like one that
// exists; and no sentence is kept that nobody says.
func TestKeysAndSourcesAgree(t *testing.T) {
	t.Parallel()
	code := sources(t)
	words := catalogues[English]
	said := regexp.MustCompile(`(?:\bT\(ctx, |\bT\(c\.Request\.Context\(\), |\.T\(|\bSay\(|\bFail\([\w.]+, |\bFlash(?:Bad)?\(c, |\bKey: )"([a-z0-9_]+\.(?:[a-z0-9_]+\.?)*)"(\s*\+)?`)
	keys := slices.Sorted(maps.Keys(words))
	for _, m := range said.FindAllStringSubmatch(code, -1) {
		at, exact := slices.BinarySearch(keys, m[1])
		begins := at < len(keys) && strings.HasPrefix(keys[at], m[1])
		if m[2] == "" && !exact || m[2] != "" && !begins {
			t.Errorf("%q is said and has no words", m[1])
		}
	}
	literals := map[string]bool{}
	for _, m := range regexp.MustCompile(`"([a-z0-9_]+(?:\.[A-Za-z0-9_]+)*\.?)"`).FindAllStringSubmatch(code, -1) {
		literals[m[1]] = true
	}
	for k := range words {
		if !literals[k] && !beginsWith(k, literals) {
			t.Errorf("nobody says %q", k)
		}
	}
}

// beginsWith tells whether a literal that ends in a dot is the beginning of a key.
func beginsWith(key string, literals map[string]bool) bool {
	for i, r := range key {
		if r == '.' && literals[key[:i+1]] {
			return true
		}
	}
	return false
}
