package stripe

import (
	"net/http/httptest"
	"testing"
	"time"

	"counterfoil/models/platform"
	"counterfoil/models/platform/sandbox"
)

// The log tells which events no endpoint took, page by page, with what they are about.
func TestEventsOfTheLog(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 12, 1, 3, 0, 0, 0, time.UTC)
	p := sandbox.NewStripe("acct_own", "sk_test_x", "whsec_x", func() time.Time { return now })
	server := httptest.NewServer(p.Handler())
	t.Cleanup(server.Close)
	a, err := New(platform.Config{Account: "acct_own", APIURL: server.URL, APIToken: "sk_test_x", Settings: map[string]string{"rate": "10000"}, Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	for range 130 {
		p.CreateIntent(100, "hkd", sandbox.StripeIntent{})
	}
	read := func(undelivered bool) (all []platform.LoggedEvent, calls int64) {
		before, cursor := p.Calls(), ""
		for {
			page, next, err := a.Events(t.Context(), now.Add(-time.Hour), now, undelivered, cursor)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, page...)
			if cursor = next; next == "" {
				return all, p.Calls() - before
			}
		}
	}
	all, calls := read(false)
	if len(all) != 130 || calls != 2 || all[0].Object.Kind != "payment_intent" || all[0].Topic != "payment_intent.created" || all[0].Pending {
		t.Fatalf("%d events in %d calls, the first %+v", len(all), calls, all[0])
	}
	p.Undelivered(all[5].ID, true)
	lost, _ := read(true)
	if len(lost) != 1 || lost[0].ID != all[5].ID || !lost[0].Pending {
		t.Errorf("undelivered: %+v", lost)
	}
}
