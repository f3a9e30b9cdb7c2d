package handlers

import (
	"net/url"
	"strconv"
	"strings"
	"time"

	"counterfoil/models"
	"counterfoil/views"
	"counterfoil/views/locale"
)

// An actionIn is what the page of an action is worked out from.
type actionIn struct {
	file       models.ActionFile
	order      models.OrderFile
	conditions []models.Condition
	requests   []models.Request // newest first
	over       string           // key of the limit that keeps the person from deciding the open one
	actor      models.Actor
	now        time.Time
	typed      typed
}

// actionModel works out everything that the page of an action shows at one moment.
func actionModel(in actionIn) views.ActionPageModel {
	f := in.file
	m := views.ActionPageModel{ActionLine: actionLine(f.ActionRow, in.now), Facts: actionFacts(f), Forms: actionForms(in)}
	if m.ShopName == "" {
		m.ShopName = in.order.ShopName
	}
	if judged[f.State] {
		m.Conditions = conditionModels(in)
		for _, c := range m.Conditions {
			if !c.Met {
				m.Unmet++
			}
		}
	}
	if f.State.Open() && f.State != models.ActionSending {
		m.Looks = locale.Say("action.looks_due")
		if f.Due.After(in.now) {
			m.Looks = locale.Say("action.looks", locale.Ago{Time: f.Due})
		}
	}
	for _, r := range in.requests {
		m.Requests = append(m.Requests, requestModel(r, in.actor, in.over, in.now, in.typed))
	}
	return m
}

// judged are the states in which the conditions of an action still matter.
var judged = map[models.ActionState]bool{
	models.ActionPlanned: true, models.ActionWaiting: true, models.ActionSending: true, models.ActionManual: true, models.ActionFailed: true,
	models.ActionWithdrawn: true, models.ActionWatched: true,
}

// actionFacts are where an action goes and what has come of it.
func actionFacts(f models.ActionFile) []views.FactModel {
	var list []views.FactModel
	say := func(key string, text locale.Text) {
		list = append(list, views.FactModel{Label: locale.Say("action.fact." + key), Text: text})
	}
	at := func(key string, t time.Time) {
		if !t.IsZero() {
			say(key, locale.Say("value", t))
		}
	}
	say("destination", destinationText(f.Destination))
	if f.Destination.Mode == models.ByHTTP {
		say("twice", twiceText(f.Destination.Idempotent))
	}
	if f.URL != "" && f.URL != f.Destination.URL {
		say("went", locale.Say("value", address(f.URL)))
	}
	if f.Pieces > 0 {
		say("pieces", locale.Say("action.pieces", f.Pieces))
	}
	list = append(list, views.FactModel{Label: locale.Say("action.fact.key"), ID: strconv.FormatInt(f.ID, 10)})
	list = append(list, entryFact("cause", f.PlannedBy, f.OrderID)...)
	at("planned", f.Planned)
	at("not_before", f.NotBefore)
	at("released", f.Released)
	at("sent", f.Sent)
	at("done", f.Done)
	if f.SettledBy != "" {
		say("settled", locale.Say("value", f.SettledBy))
	}
	if !f.Retried.IsZero() {
		say("retried", locale.Say("action.retried_by", f.Retried, f.RetriedBy, f.RetryReason))
	}
	if f.Tries > 0 {
		say("tries", locale.Say("value", f.Tries))
	}
	if f.Error != "" {
		told, more, _ := strings.Cut(f.Error, "\n")
		list = append(list, views.FactModel{Label: locale.Say("action.fact.error"), Told: told, More: more})
	}
	if f.Receipt != "" {
		list = append(list, views.FactModel{Label: locale.Say("action.fact.receipt"), ID: f.Receipt})
	}
	list = append(list, entryFact("withdrew", f.WithdrawnBy, f.OrderID)...)
	return append(list, relatives(f)...)
}

// relatives are the actions that one stands for, or that stand for it.
func relatives(f models.ActionFile) []views.FactModel {
	var list []views.FactModel
	add := func(key string, a models.Action) {
		list = append(list, views.FactModel{Label: locale.Say("action.fact." + key), Href: views.ActionPath(a.ID),
			Link: locale.Say("action.ref", locale.Say("action."+string(a.Kind)), stageText(a.Stage, f.Currency))})
	}
	if f.InsteadBy != nil {
		add("instead", *f.InsteadBy)
	}
	if f.RepeatOf != nil {
		add("repeats", *f.RepeatOf)
	}
	for _, a := range f.RepeatedBy {
		add("repeated", a)
	}
	return list
}

func destinationText(d models.Destination) locale.Text {
	switch d.Mode {
	case models.ByHand:
		return locale.Say("action.goes.manual")
	case models.ByHTTP:
		return locale.Say("action.goes.http", address(d.URL))
	}
	return locale.Say("action.goes.watch")
}

func twiceText(idempotent bool) locale.Text {
	if idempotent {
		return locale.Say("action.idempotent")
	}
	return locale.Say("action.not_idempotent")
}

// address is where a destination is. What an address carries in its query or as a user
// may be a secret.
func address(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return "–"
	}
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	return u.String()
}

// entryFact is a ledger entry as the reason of something.
func entryFact(key string, e *models.Entry, order int64) []views.FactModel {
	if e == nil {
		return nil
	}
	axis := "state." + string(e.Axis) + "."
	return []views.FactModel{{Label: locale.Say("action.fact." + key), Href: orderPath(order) + "#h-flow", Link: locale.Say("action.timeline"),
		Text: locale.Say("action.entry", locale.Say("axis."+string(e.Axis)), locale.Say(axis+string(e.To)), e.At)}}
}
