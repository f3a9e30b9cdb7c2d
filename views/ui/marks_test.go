package ui

import (
	"testing"
	"time"

	"counterfoil/models"
)

func TestEveryStateHasItsMark(t *testing.T) {
	t.Parallel()
	for _, a := range models.Axes {
		for _, s := range models.States[a] {
			if _, ok := stateMarks[a][s]; !ok {
				t.Errorf("%s %s has no mark", a, s)
			}
		}
	}
	for _, s := range models.EventStates {
		if _, ok := eventMarks[s]; !ok {
			t.Errorf("event %s has no mark", s)
		}
	}
	for _, s := range models.APIStates {
		if _, ok := apiMarks[s]; !ok {
			t.Errorf("api %s has no mark", s)
		}
	}
	if m := StateMark(models.Payment, "new word"); m.Icon != "review" {
		t.Error("an unknown state needs a person's eye")
	}
}

func TestVerificationAsShown(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 30, 22, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		shown models.Shown
		word  string
		doubt string
	}{
		{models.Shown{Check: models.Verified}, "verified", ""},
		{models.Shown{Check: models.Verified, Settled: true}, "settled", ""},
		{models.Shown{Check: models.Verified, Settled: true, Checking: true}, "checking", ""},
		{models.Shown{Check: models.Unverified, Settled: true, Doubt: models.APIDown, Since: now}, "unverified", "doubt.api_down"},
		{models.Shown{Check: models.Unverified, Doubt: models.APIDown}, "unverified", "doubt_now.api_down"},
		{models.Shown{Check: models.Unverified, Doubt: models.EventWaits, Since: now}, "unverified", "doubt.event_waiting"},
		{models.Shown{Check: models.Unverified, Doubt: models.ReadingOverdue}, "unverified", "doubt_now.reading_overdue"},
		{models.Shown{Check: models.ToReview, Doubt: models.UnclearWord, Checking: true}, "review", "doubt.unclear_word"},
	} {
		if got := VerifyKey(c.shown); got != c.word {
			t.Errorf("%+v is %s, want %s", c.shown, got, c.word)
		}
		if got := Doubt(c.shown).Key; got != c.doubt {
			t.Errorf("%+v: %s, want %s", c.shown, got, c.doubt)
		}
	}
}
