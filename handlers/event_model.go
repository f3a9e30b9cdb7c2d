package handlers

import (
	"slices"
	"strings"

	"counterfoil/models"
	"counterfoil/views"
	"counterfoil/views/locale"
	"counterfoil/views/ui"
)

// eventModel works out everything that the page of an event shows. order is nil where
// the event belongs to none.
func eventModel(f models.EventFile, order *models.OrderFile) views.EventModel {
	m := views.EventModel{EventFile: f, Moves: ledgerMoves(f.Moves), Path: eventSteps(f), Effect: eventEffect(f), Done: effectMark(f)}
	switch f.State {
	case models.EventApplied, models.EventSuperseded, models.EventNotApplied:
	default:
		m.Waits = locale.Say("event_page.waits."+string(f.State), f.Platform)
	}
	if f.Said == nil {
		return m
	}
	if order == nil {
		order = &models.OrderFile{Order: models.Order{Announced: true}}
	}
	m.Truth = truthRows(*order, []saying{{by: f.Platform, obs: f.Said, at: f.Received}}, true)
	if order.Announced {
		noRecord(m.Truth)
	}
	return m
}

// noRecord leaves our side of the rows empty: there is no order, or none that anybody
// could be asked about, to compare with.
func noRecord(rows []views.TruthRow) {
	for i, r := range rows {
		r.Mark = views.Unknown
		r.Ours = views.Claim{Text: locale.Say("truth.no_record")}
		for j := range r.Said {
			r.Said[j].Differs = false
		}
		rows[i] = r
	}
}

// ledgerMoves are an event's entries, one line each.
func ledgerMoves(entries []models.Entry) []views.StepModel {
	var steps []views.StepModel
	for _, e := range entries {
		steps = append(steps, views.StepModel{At: e.At, Axis: e.Axis, From: e.From, To: e.To, Sums: entrySums(e)})
	}
	return steps
}

// eventEffect is what an event did, in one line.
func eventEffect(f models.EventFile) locale.Text {
	switch {
	case len(f.Moves) > 0:
		return locale.Say("event_page.effect.moved", len(f.Moves))
	case f.State == models.EventApplied:
		return locale.Say("event_page.effect.applied")
	case f.State == models.EventSuperseded || f.State == models.EventNotApplied:
		return locale.Say("event_page.effect." + string(f.State))
	}
	return locale.Say("event_page.effect.nothing_yet")
}

func effectMark(f models.EventFile) ui.Mark {
	if len(f.Moves) > 0 || f.State == models.EventApplied {
		return ui.Mark{Icon: "done", Tone: ui.OK}
	}
	if f.State == models.EventFailed || f.State == models.EventReview {
		return ui.EventMark(f.State)
	}
	return ui.Mark{Icon: "none", Tone: ui.Quiet}
}

// eventSteps is an event's way through the console: its arrivals and each try, oldest first.
func eventSteps(f models.EventFile) []views.StepModel {
	var steps []views.StepModel
	arrivals := f.Arrivals
	if len(arrivals) == 0 {
		arrivals = []models.Delivery{{At: f.Received, Same: true, RequestID: f.RequestID}}
	}
	for i, d := range arrivals {
		s := views.StepModel{At: d.At, Icon: "in", Kind: "event", Text: locale.Say("event_page.step.again"), Cause: locale.Say("event_page.step.request", d.RequestID)}
		switch {
		case i == 0:
			s.Text = locale.Say("event_page.step.received")
		case !d.Same:
			s.Text, s.Icon, s.Warn = locale.Say("event_page.step.other"), "alert", true
		}
		steps = append(steps, s)
	}
	for _, t := range f.Attempts {
		s := views.StepModel{At: t.At, Icon: ui.EventMark(models.EventState(t.Outcome)).Icon, Kind: "event", Text: locale.Say("event_page.step.try", tryOutcome(t))}
		if t.Error != "" {
			s.Warn, s.Cause = true, locale.Say("event_page.step.error", why(t.Error))
		}
		steps = append(steps, s)
	}
	slices.SortStableFunc(steps, func(a, b views.StepModel) int { return a.At.Compare(b.At) })
	return steps
}

// why is what is told of an event: a sentence of ours, or the platform's own words.
func why(told string) any {
	if strings.HasPrefix(told, "note.") {
		return locale.Say(told)
	}
	return orDash(told)
}

// tryOutcome is the word for how a try ended.
func tryOutcome(t models.Try) any {
	if slices.Contains(models.EventStates, models.EventState(t.Outcome)) {
		return locale.Say("event." + t.Outcome)
	}
	return t.Outcome
}
