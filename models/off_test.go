package models

import (
	"testing"
	"time"
)

func TestWhatIsntSentAgain(t *testing.T) {
	t.Parallel()
	from := time.Date(2026, 11, 30, 1, 10, 0, 0, time.UTC)
	for _, c := range []struct {
		platform Platform
		off      time.Duration
		lost     time.Duration
	}{
		{Shopify, 3 * time.Hour, 0}, {Shopify, 4 * time.Hour, 0}, {Shopify, 5*time.Hour + 20*time.Minute, 80 * time.Minute},
		{Stripe, 71 * time.Hour, 0}, {Stripe, 80 * time.Hour, 8 * time.Hour},
		{ReceiptRoller, 30 * time.Hour, 0}, {ReceiptRoller, 33 * time.Hour, time.Hour},
	} {
		since, until, lost := (OffTime{Since: from, Until: from.Add(c.off)}).Lost(c.platform)
		if lost != (c.lost > 0) || lost && (!since.Equal(from) || until.Sub(since) != c.lost) {
			t.Errorf("%s off for %s: %v, %s", c.platform, c.off, lost, until.Sub(since))
		}
	}
}
