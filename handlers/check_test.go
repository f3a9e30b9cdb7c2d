package handlers

import (
	"strings"
	"testing"
	"time"

	"counterfoil/models"
	"counterfoil/views"
	"counterfoil/views/locale"
)

// checkedConnection is a connection whose check found this and that.
func checkedConnection() views.CheckModel {
	ref := models.ObjectRef{Kind: "order", ID: "gid://shopify/Order/820982911946154508"}
	m, _ := checkModel(views.CheckModel{Slug: "hk-main", Now: moment, Ref: "#9", Errors: views.FieldErrors{"ref": locale.Say("error.canary_absent")}}, models.CheckFile{
		Versions: true,
		Checks: []models.ConnectionCheck{
			{ID: 3, By: "staff:1", Started: before(time.Minute), Ended: before(time.Minute), Wrong: 3, Steps: []models.CheckStep{
				{State: models.StepFine, Key: "probe.works.access"},
				{State: models.StepWrong, Key: "note.shopify.scope_missing", Args: []string{"read_returns"}, Do: "probe.access.do"},
				{State: models.StepFine, Key: "note.shopify.window", Args: []string{"60"}},
				{State: models.StepFine, Key: "probe.works.list", Args: []string{"order"}},
				{State: models.StepWrong, Key: "probe.denied.list", Args: []string{"return", "ACCESS_DENIED"}, Do: "probe.let_in"},
				{State: models.StepWrong, Key: "probe.shape_lost", Args: []string{ref.ID, "returns, disputes, transactions[].amountSet (object → text)"}, Do: "probe.shape_lost.do"},
				{State: models.StepUnknown, Key: "probe.never_matched", Do: "probe.never_matched.do"},
				{State: models.StepFine, Key: "note.shopify.points", Args: []string{"1860", "2000", "100"}},
			}},
			{ID: 2, By: "console", Started: before(26 * time.Hour)},
		},
		Canaries: []models.Canary{
			{ID: 1, Ref: ref, Shape: models.Shape{"id": "text"}, Shaped: before(9 * 24 * time.Hour), Added: before(9 * 24 * time.Hour), Awaiting: before(time.Minute)},
			{ID: 2, Ref: models.ObjectRef{Kind: "order", ID: "gid://shopify/Order/820982911946154509"}, Added: before(time.Hour), Awaiting: before(time.Hour), Came: before(50 * time.Minute), CameEvent: 7, CameTopic: "orders/updated"},
		},
	})
	return m
}

// subscribedConnection is one whose platform deleted a subscription.
func subscribedConnection() views.SubscriptionsModel {
	return views.SubscriptionsModel{Slug: "hk-main", Target: "https://console.harbourpine.example/hooks/hk-main", SubscriptionFile: models.SubscriptionFile{
		Way: models.WayAPI, Address: "https://console.harbourpine.example/hooks/hk-main", Registered: before(90 * 24 * time.Hour), Looked: before(20 * time.Minute),
		Topics: []models.SubscriptionTopic{{Topic: "orders/create"}, {Topic: "orders/updated", Fault: models.SubscriptionAbsent, Since: before(80 * time.Minute)},
			{Topic: "refunds/create", Fault: models.SubscriptionElsewhere, Since: before(20 * time.Minute)}},
	}}
}

// Every fault has its word, and every way its reason.
func TestSubscriptionsAreSaidInWords(t *testing.T) {
	t.Parallel()
	for _, lang := range []string{locale.English, locale.Chinese} {
		for _, fault := range models.SubscriptionFaults {
			m := subscribedConnection()
			m.Topics[0].Fault = fault
			if html := draw(t, views.Subscriptions(page("x", "connections", supporter), m), lang); strings.Contains(html, "subscriptions.") {
				t.Errorf("%s in %s: a key without words", fault, lang)
			}
		}
		for _, way := range []models.SubscriptionWay{models.WayAPI, models.WayAdmin, models.WayConfig} {
			m := subscribedConnection()
			m.Way = way
			html := draw(t, views.Subscriptions(page("x", "connections", supporter), m), lang)
			if strings.Contains(html, "subscriptions.") || way != models.WayAPI && strings.Contains(html, locale.T(locale.With(t.Context(), locale.New(lang, hongKong, moment)), "subscriptions.fault.absent")) {
				t.Errorf("%s in %s", way, lang)
			}
		}
	}
}
