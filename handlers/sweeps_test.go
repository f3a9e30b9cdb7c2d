package handlers

import (
	"time"

	"counterfoil/models"
	"counterfoil/views"
)

// sweptConnection is a connection with a comparison in each state.
func sweptConnection(actor models.Actor) views.SweepsModel {
	f := models.SweepFile{Slug: "hk-main", Platform: models.Shopify, HasAPI: true, Every: 10 * time.Minute, Imported: actor.Role != models.Auditor,
		Points: []models.SweepPoint{{Kind: "order", At: before(12 * time.Minute), Swept: before(10 * time.Minute), Next: moment}}}
	f.Off = []models.OffTime{{Since: before(30 * time.Hour), Until: before(24 * time.Hour)}, {Since: before(5 * time.Minute), Until: before(time.Minute)}}
	for i, s := range models.SweepStates {
		f.Sweeps = append(f.Sweeps, models.Sweep{ID: int64(i + 1), Kind: models.SweepKinds[i], Reason: models.SweepReasons[i], Until: before(time.Minute), Pages: i, Seen: 1200,
			Missed: 2, Different: 1, Failed: 1, State: s, Error: "status 503", Started: before(time.Hour), Updated: before(time.Minute)})
	}
	m, _ := sweepsModel(f, actor)
	return m
}
