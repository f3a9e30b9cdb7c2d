package handlers

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"counterfoil/models"
	"counterfoil/views"
	"counterfoil/views/locale"
)

// manyActions is a list with an action in every state, open requests and watched kinds.
func manyActions(actor models.Actor, tab models.ActionTab) actionsIn {
	in := actionsIn{query: models.ActionListQuery{Tab: tab}, actor: actor, now: moment,
		counts:  map[models.ActionTab]models.ActionCount{models.TabNeeds: {N: 4}, models.TabDone: {N: 999, More: true}},
		watched: map[models.ActionKind][]string{models.Invoice: {"hk", "tw"}, models.CustomerMessage: {"hk", "tw"}, models.StockDeduction: {"tw"}},
		shops:   []models.ShopName{{ID: 1, Slug: "hk", Name: "Harbour & Pine, Hong Kong"}, {ID: 2, Slug: "tw", Name: quietOrder().ShopName}},
		tick:    typed{form: "receipt", id: 104, in: act{Receipt: "<SF>"}, errors: views.FieldErrors{"receipt": locale.Say("error.receipt_missing")}}}
	in.page.Next = "100"
	stages := []string{"order", "payment_received", "refund:18000", "more:1", "replacement:1", "again:2"}
	for i, s := range models.ActionStates {
		a := models.Action{ID: int64(101 + i), OrderID: 10428, OrderName: "#HK-10428", ShopID: 1, Shop: "hk", Kind: models.ActionKinds[i%len(models.ActionKinds)], Stage: stages[i%len(stages)],
			State: s, Planned: before(50 * time.Minute), Tries: i % 4}
		switch s {
		case models.ActionFailed, models.ActionUnclear:
			a.Error, a.OrderName = "note.no_answer_stored", troubledOrder().Number
		case models.ActionWithdrawn:
			a.Why = "cancellation"
		case models.ActionNotNeeded:
			a.Why = string(models.PointOfSale)
		case models.ActionDone:
			a.Receipt = "SF-1029384756-HK-THE-LONG-NUMBER-OF-A-PARCEL-WITHOUT-A-BREAK"
		}
		in.page.Items = append(in.page.Items, models.ActionRow{Action: a, ShopName: in.shops[i%2].Name, Currency: "HKD"})
	}
	for _, key := range append(slices.Clone(models.ConditionKeys), "") {
		in.page.Items = append(in.page.Items, models.ActionRow{ShopName: "Harbour", Currency: "HKD", Action: models.Action{ID: 50, OrderID: 10428, OrderName: "#HK-10428", Kind: models.FulfillmentInstruction,
			Stage: "order", State: models.ActionWaiting, Why: key, NotBefore: moment.Add(time.Hour), Due: moment.Add(time.Minute), Error: "503 Service Unavailable\n<html>", Tries: 3, Planned: before(time.Hour)}})
	}
	in.requests, in.moreAsked = []models.Request{openAsk(), {ID: 9, Kind: models.RequestLive, State: models.RequestProposed, Shop: "tw", ActionKind: models.Invoice, ByName: "Ng", ByRole: models.Manager,
		At: before(time.Hour), Expires: moment.Add(time.Hour), Code: "other", Needs: 2}}, true
	return in
}

func openAsk() models.Request {
	return models.Request{ID: 8, Kind: models.RequestRelease, State: models.RequestProposed, ShopID: 1, Shop: "hk", OrderID: 10428, OrderName: "#HK-10428", ActionID: 77, ActionKind: models.FulfillmentInstruction,
		Code: "goodwill", Reason: "The customer waits since Friday; the <refund> was for the scarf only.", Needs: 2, By: "staff:3", ByName: "Wong Ka Yan 黃嘉欣", ByRole: models.Support,
		At: before(20 * time.Minute), Expires: moment.Add(3 * time.Hour), Approvals: []models.Approval{{By: "staff:4", Name: "Chan Chi Ming 陳志明", Role: models.Manager, At: before(5 * time.Minute)}}}
}

// heldAction waits for everything at once.
func heldAction(actor models.Actor) actionIn {
	o := heldOrder()
	o.DisagreeSince = before(time.Hour)
	o.Exceptions[0].Policy = models.PolicyHold
	entry := o.Ledger[0]
	in := actionIn{actor: actor, now: moment, order: o, file: models.ActionFile{ActionRow: models.ActionRow{ShopName: o.ShopName, Currency: "HKD", Action: models.Action{ID: 77, OrderID: o.ID, OrderName: o.Number, ShopID: 1,
		Kind: models.FulfillmentInstruction, Stage: "order", Pieces: 2, State: models.ActionWaiting, Why: "verified", Entry: entry.ID, Person: true, Planned: before(time.Hour), NotBefore: moment.Add(time.Hour), Due: moment.Add(40 * time.Second)}},
		Destination: models.Destination{Mode: models.ByHTTP, URL: "https://warehouse.example/instructions?token=secret"}, PlannedBy: &entry}}
	for _, k := range models.ConditionKeys {
		in.conditions = append(in.conditions, models.Condition{Key: k, Met: k == "paid" || k == "not_held"})
	}
	old := openAsk()
	old.ID, old.State, old.Decider, old.Decided, old.Note, old.Made = 5, models.RequestRejected, "Chan Chi Ming 陳志明", before(30*time.Minute), "Ask the customer first.", 91
	in.requests = []models.Request{openAsk(), old}
	return in
}

// factsAction waits for facts alone, or for a reason that still stands.
func factsAction() actionIn {
	in := heldAction(supporter)
	in.requests, in.conditions = nil, []models.Condition{{Key: "verified"}, {Key: "released", Met: true}}
	in.file.Why, in.file.Destination = "verified", models.Destination{Mode: models.ByHand}
	return in
}

func unclearAction() actionIn {
	in := heldAction(supporter)
	in.requests, in.order.Holds = nil, nil
	f := &in.file
	f.State, f.Tries, f.Sent, f.Error, f.URL, f.Receipt = models.ActionUnclear, 2, before(20*time.Minute), "no answer within 10 s\n<p>maybe</p>", "https://old.example/x", "R-1"
	f.InsteadBy, f.RepeatOf, f.RepeatedBy = &models.Action{ID: 78, Kind: models.Invoice, Stage: "order"}, &models.Action{ID: 79, Kind: models.CustomerMessage, Stage: "again:1"}, []models.Action{{ID: 80, Kind: models.CustomerMessage, Stage: "refund:1"}}
	f.WithdrawnBy = f.PlannedBy
	in.typed = typed{form: "receipt", id: 77, status: http.StatusUnprocessableEntity, in: act{Outcome: "else", Receipt: `"><b>`}, errors: views.FieldErrors{"outcome": locale.Say("error.outcome"), "else": locale.Say("error.word")}, wrong: locale.Say("error.invalid")}
	return in
}

func wrongAsk() typed {
	return typed{form: "replacement", id: quietOrder().ID, in: act{Code: "lost_parcel", Reason: "x"}, errors: views.FieldErrors{"reason": locale.Say("error.reason_text")}}
}

func TestAnUnmetConditionSaysWhatMovesItOn(t *testing.T) {
	t.Parallel()
	p := locale.New(locale.English, hongKong, moment)
	in := heldAction(supporter)
	for _, c := range in.conditions {
		var said string
		for _, d := range conditionDetails(in, c) {
			said += p.Text(d.Text) + d.Href + "|"
		}
		want := map[string]string{
			"verified": "Shopify", "fresh": "Shopify: last read", "asked": "Shopify can’t be asked since 22:10.", "agree": "They have disagreed since", "paid": "Payment: Paid.",
			"no_hold": "These can resume it: Shift lead, Manager.", "no_exception": "Amount differs", "not_refunded_partly": "Refund: Partly refunded.", "not_shipped": "Fulfillment: Unfulfilled.",
			"not_before": "Not before 23:31.", "official": "Refund: Partly refunded.",
		}[c.Key]
		if !strings.Contains(said, want) {
			t.Errorf("%s: %q, want %q", c.Key, said, want)
		}
	}
}

func TestTheTimelineShowsFollowUps(t *testing.T) {
	t.Parallel()
	f := quietOrder()
	f.Actions = []models.Action{
		{ID: 1, Kind: models.Invoice, Stage: "order", State: models.ActionDone, Planned: before(time.Hour), Sent: before(50 * time.Minute), Done: before(40 * time.Minute)},
		{ID: 2, Kind: models.CustomerMessage, Stage: "payment_received", State: models.ActionDone, Planned: before(time.Hour), Sent: before(time.Hour), Done: before(time.Hour)},
		{ID: 3, Kind: models.FulfillmentInstruction, Stage: "order", State: models.ActionWithdrawn, Why: "refund", Planned: before(time.Hour), Done: before(time.Minute)},
		{ID: 4, Kind: models.StockDeduction, Stage: "order", State: models.ActionNotNeeded, Why: "test", Planned: before(time.Hour)},
		{ID: 5, Kind: models.CreditNote, Stage: "order", State: models.ActionWatched, Planned: before(time.Hour)},
	}
	var got []string
	for _, s := range orderFlow(f, supporter) {
		if s.Kind == "action" {
			got = append(got, s.Href+" "+s.Text.Key+" "+s.Cause.Key)
		}
	}
	slices.Sort(got)
	want := []string{
		"/actions/1 flow.action.done action.state.done", "/actions/1 flow.action.planned ", "/actions/1 flow.action.sent action.state.done",
		"/actions/2 flow.action.done action.state.done", "/actions/2 flow.action.planned ",
		"/actions/3 flow.action.planned ", "/actions/3 flow.action.withdrawn why.withdrawn.refund",
		"/actions/4 flow.action.not_needed why.not_needed.test", "/actions/5 flow.action.planned flow.action.watched",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}
