package handlers

import (
	"testing"
	"time"

	"counterfoil/models"
	"counterfoil/views/locale"
)

func TestPausesInTheTimeline(t *testing.T) {
	t.Parallel()
	f := models.OrderFile{Order: models.Order{Created: before(3 * time.Hour)}, Paused: []models.Hold{
		{Scope: models.HoldOrder, Reason: "two refunds.", ByName: "Wing", Since: before(time.Hour), Until: before(-time.Hour)},
		{Scope: models.HoldShop, Name: "Harbour", Reason: "flood", ByName: "Ka", Since: before(5 * time.Hour), Released: before(2 * time.Hour), ReleasedBy: "staff:3", ReleasedName: "Ng"},
		{Scope: models.HoldConnection, Name: "hk-main", Reason: "stock", By: "staff:7", Since: before(100 * time.Minute), Until: before(90 * time.Minute), Resumes: true,
			Released: before(90 * time.Minute), ReleasedBy: "console"},
	}}
	p := locale.New(locale.English, hongKong, moment)
	want := []struct {
		ago               time.Duration
		text, cause, name string
		warn              bool
	}{
		{time.Hour, "Shipping paused by Wing: two refunds", "Review at 23:31", "", true},
		{90 * time.Minute, "Shipping of hk-main resumed", "Paused since 20:51; it ended by itself, as was chosen then", "", false},
		{100 * time.Minute, "All shipping of hk-main paused by staff:7: stock", "Ends by itself at 21:01", "", false},
		{2 * time.Hour, "Shipping of Harbour resumed", "Paused since 17:31", "Ng", false},
		{3 * time.Hour, "All shipping of Harbour paused by Ka: flood", "Paused since 17:31, before this order was known", "", false},
	}
	steps := orderFlow(f, supporter)
	if len(steps) != len(want) {
		t.Fatalf("%d steps", len(steps))
	}
	for i, w := range want {
		s := steps[i]
		if !s.At.Equal(before(w.ago)) || p.Text(s.Text) != w.text || p.Text(s.Cause) != w.cause || s.Actor != w.name || s.Warn != w.warn {
			t.Errorf("step %d: %s %q %q by %q, warn %t", i, s.At, p.Text(s.Text), p.Text(s.Cause), s.Actor, s.Warn)
		}
	}
}
