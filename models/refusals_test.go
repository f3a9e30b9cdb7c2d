package models

import (
	"testing"
	"time"
)

func TestRefusing(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	for name, c := range map[string]struct {
		open       string
		recent     int64
		last, good time.Time
		want       string
		over       bool
	}{
		"a stranger's tries":               {"", 19, now, ago(time.Minute), "", false},
		"many among good ones":             {"", 20, now, ago(time.Minute), CaseGoodOnes, false},
		"many and no good one":             {"", 20, now, ago(16 * time.Minute), CaseAlone, false},
		"many and never a good one":        {"", 20, now, time.Time{}, CaseAlone, false},
		"fewer, and open":                  {CaseGoodOnes, 2, now, ago(time.Minute), CaseGoodOnes, false},
		"the good ones stop":               {CaseGoodOnes, 5, now, ago(20 * time.Minute), CaseAlone, false},
		"the first good one":               {CaseAlone, 20, ago(time.Minute), now, "", true},
		"an hour of quiet":                 {CaseGoodOnes, 0, ago(61 * time.Minute), now, "", true},
		"an hour of quiet, and no one":     {CaseAlone, 0, ago(61 * time.Minute), ago(time.Hour * 5), "", true},
		"half an hour of quiet":            {CaseGoodOnes, 0, ago(30 * time.Minute), now, CaseGoodOnes, false},
		"a good one before the last false": {CaseAlone, 3, now, ago(time.Hour), CaseAlone, false},
	} {
		if got, over := Refusing(c.open, c.recent, c.last, c.good, now); got != c.want || over != c.over {
			t.Errorf("%s: %q, over %v; want %q, %v", name, got, over, c.want, c.over)
		}
	}
}
