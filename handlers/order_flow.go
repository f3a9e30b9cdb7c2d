package handlers

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"counterfoil/models"
	"counterfoil/views"
	"counterfoil/views/locale"
	"counterfoil/views/ui"
)

// orderWork lists what is unresolved: exceptions and events, the most urgent first,
// the oldest of them first.
func orderWork(f models.OrderFile, viewer models.Actor) []views.CaseModel {
	var work []views.CaseModel
	for _, e := range f.Exceptions {
		if e.State == "open" {
			c := exceptionCase(e, f.Currency)
			if e.ID != 0 {
				c.Href, c.Step = views.ExceptionPath(e.ID), orderStep(e, f, viewer)
			}
			work = append(work, c)
		}
	}
	for _, e := range f.Waiting {
		work = append(work, eventCase(e))
	}
	rank := map[string]int{"now": 0, "today": 1, "later": 2, "": 3}
	slices.SortStableFunc(work, func(a, b views.CaseModel) int {
		if d := rank[a.Urgency] - rank[b.Urgency]; d != 0 {
			return d
		}
		return a.Since.Compare(b.Since)
	})
	return work
}

// orderStep is the suggested next step about an exception of an order, on that order's
// page; none where the person can't, or is there already.
func orderStep(e models.Exception, f models.OrderFile, viewer models.Actor) views.OfferModel {
	step := caseStep(e, viewer)
	if !step.Refused.Empty() || step.Page == orderPath(f.ID) || step.Post != "" && !canAsk(f) {
		return views.OfferModel{}
	}
	return step
}

func exceptionTitle(e models.Exception) locale.Text {
	kind := locale.Say("exception." + string(e.Kind))
	if e.Axis == "" {
		return kind
	}
	return locale.Say("exception.title", kind, locale.Say("axis."+string(e.Axis)))
}

func exceptionCase(e models.Exception, currency string) views.CaseModel {
	handling, about := handlingOf(e.Kind, e.Axis), any(orDash(e.Detail, e.PlatformState))
	if e.Rule != "" { // as the shop's policies were when it opened
		handling.urgency, handling.who = string(e.Urgency), []string{string(e.FirstTo)}
	}
	if e.Case == models.CaseShippedWhilePaused {
		handling, about = nowManager, locale.Say("contradiction.shipped_while_paused")
	}
	if e.Kind == models.Contradiction && e.Case != "" && e.Case != models.CaseShippedWhilePaused {
		about = locale.Say("contradiction." + e.Case)
	}
	c := views.CaseModel{
		Icon: "review", Urgency: handling.urgency, Title: exceptionTitle(e), Who: handling.who,
		Why:  locale.Say("exception."+string(e.Kind)+".is", about),
		Next: locale.Say("exception." + string(e.Kind) + ".next"), Since: e.First, Count: e.Count,
	}
	switch {
	case e.Case == "":
	case e.Kind == models.Overdue:
		c.Why = locale.Say("overdue." + e.Case)
	case e.Kind == models.ActionDiffers:
		c.Why = locale.Say("action_differs." + e.Case)
	}
	if e.Policy == models.PolicyHold {
		c.Icon = "alert"
	}
	if e.PlatformState != "" && e.LocalState != "" {
		key := "work.sides"
		switch {
		case e.Case == "moved_back": // the record has moved since, with the platform
			key = "work.sides_was"
		case e.Kind == models.PlatformsDisagree || e.Kind == models.AmountDiffers:
			key = "work.sides_two" // two platforms' words, or a payment and the order's sum
		}
		c.Sides = locale.Say(key, sideOf(e, e.PlatformState, currency), localState(e, currency))
	}
	return c
}

// localState is our side of an exception: a state by its word, a sum as money.
func localState(e models.Exception, currency string) any {
	if e.Axis.Has(models.State(e.LocalState)) {
		return locale.Say("state." + string(e.Axis) + "." + e.LocalState)
	}
	return sideOf(e, e.LocalState, currency)
}

// sideOf is a side as it stands, but a sum of an exception about amounts as money.
func sideOf(e models.Exception, side, currency string) any {
	if minor, err := models.Minor(side, currency); err == nil && e.Kind == models.AmountDiffers && currency != "" {
		return locale.Money{Minor: minor, Currency: currency}
	}
	return side
}

func orDash(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return "–"
}

func eventCase(e models.Event) views.CaseModel {
	state := string(e.State)
	c := views.CaseModel{
		Icon: ui.EventMark(e.State).Icon, Title: locale.Say("work.event."+state, eventTopic(e)), Href: eventPath(e.ID),
		Why: locale.Say("work.event."+state+".is", e.Platform, e.Received, why(e.Error)), Next: locale.Say("work.event." + state + ".next"), Since: e.Received,
	}
	switch e.State {
	case models.EventWaiting:
		if strings.HasPrefix(e.Error, "note.") { // the platform answers; this object is the trouble
			c.Why = locale.Say("work.event.waiting.up", e.Platform, e.Received, why(e.Error))
		}
	case models.EventFailed:
		c.Urgency, c.Who = "today", []string{"lead", string(models.Admin)}
	case models.EventReview:
		c.Urgency, c.Who = "today", []string{"lead"}
	}
	return c
}

// eventTopic is what an event is called.
func eventTopic(e models.Event) any {
	if e.Topic == "" {
		return locale.Say("events.no_topic")
	}
	return e.Topic
}

// A handling says how urgent an exception is and who looks at it first.
type handling struct {
	urgency string
	who     []string
}

var (
	nowAdmin     = handling{"now", []string{"manager", "admin"}}
	nowLead      = handling{"now", []string{"lead"}}
	nowManager   = handling{"now", []string{"manager"}}
	todayLead    = handling{"today", []string{"lead"}}
	todayTech    = handling{"today", []string{"lead", "admin"}}
	todayAdmin   = handling{"today", []string{"admin"}}
	todaySupport = handling{"today", []string{"support"}}
	laterSupport = handling{"later", []string{"support"}}
	laterAdmin   = handling{"later", []string{"admin"}}
)

var handlings = map[models.ExceptionKind]handling{
	models.AmountDiffers: todayLead, models.SchemaChanged: nowAdmin, models.PayloadConflict: todayTech, models.Unmatched: todaySupport,
	models.EventFailedKind: todayTech, models.ActionFailedKind: todayLead, models.ActionUnclearKind: nowLead, models.ActionDiffers: todayLead,
	models.Contradiction: todayLead, models.PaidTwice: todaySupport, models.ShippedTwice: nowLead, models.SubscriptionMissing: nowAdmin,
	models.SignatureFailures: laterAdmin, models.Silence: nowAdmin, models.GoneOnPlatform: todayLead, models.OutsideWindowKind: laterAdmin,
	models.AccessEnding: laterAdmin, models.Overdue: todaySupport, models.DrillFailed: laterAdmin,
}

// handlingOf is the default urgency of a kind on an axis, and its first reader.
func handlingOf(kind models.ExceptionKind, a models.Axis) handling {
	if h, ok := handlings[kind]; ok {
		return h
	}
	switch kind {
	case models.MissedNotification:
		if a == models.Refund || a == models.Dispute || a == models.Cancellation {
			return todaySupport
		}
		return laterSupport
	case models.StateDiffers:
		switch a {
		case models.Payment:
			return nowLead
		case models.Dispute:
			return nowManager
		case models.Fulfillment:
			return todaySupport
		case models.Return:
			return laterSupport
		}
		return todayLead
	case models.PlatformsDisagree:
		switch a {
		case models.Payment, models.Cancellation:
			return todayLead
		case models.Refund:
			return todaySupport
		}
		return laterSupport
	case models.UnknownStatus:
		if a.Money() || a == models.Cancellation {
			return nowAdmin
		}
		return todayAdmin
	}
	switch a {
	case models.Fulfillment:
		return todaySupport
	case models.Return:
		return laterSupport
	}
	return todayLead
}

// orderFlow is the one timeline of an order: ledger, events, exceptions, actions,
// newest first.
func orderFlow(f models.OrderFile, actor models.Actor) []views.StepModel {
	steps := ledgerSteps(f.Ledger, actor)
	for _, e := range f.Events {
		steps = append(steps, eventStep(e))
	}
	for _, e := range f.Exceptions {
		steps = append(steps, views.StepModel{
			At: e.First, Icon: "alert", Kind: "case", Warn: e.State == "open", Text: locale.Say("flow.exception", exceptionTitle(e)),
			Cause: locale.Say("flow.exception." + e.State),
		})
	}
	steps = append(steps, holdSteps(f, actor)...)
	steps = append(steps, actionSteps(f)...)
	slices.SortStableFunc(steps, func(a, b views.StepModel) int { return b.At.Compare(a.At) })
	return steps
}

func eventStep(e models.Event) views.StepModel {
	return views.StepModel{
		At: e.Received, Icon: "in", Kind: "event", Warn: e.State == models.EventFailed || e.State == models.EventReview,
		Text: locale.Say("flow.event"), Href: eventPath(e.ID), Link: orDash(e.Topic, e.EventID),
		Cause: locale.Say("flow.event.is", locale.Say("event."+string(e.State)), e.Deliveries, e.Connection),
	}
}

// ledgerSteps writes entries as steps. The entries of an order's first reading are one.
func ledgerSteps(entries []models.Entry, actor models.Actor) []views.StepModel {
	var steps []views.StepModel
	for i := 0; i < len(entries); i++ {
		e := entries[i]
		s := views.StepModel{At: e.At, Icon: "row", Kind: "ledger", Cause: causeText(e), Actor: actorText(e.Actor, actor)}
		s.CauseHref, s.CauseLink = causeLink(e.Cause)
		if e.From != "" {
			s.Axis, s.From, s.To, s.Sums = e.Axis, e.From, e.To, entrySums(e)
			steps = append(steps, s)
			continue
		}
		s.Text = locale.Say("flow.recorded")
		if e.After.Currency != "" {
			s.Sums = []views.SumChange{entrySum(totalSum, e.After, e.After)}
		}
		for ; i < len(entries) && firstTogether(e, entries[i]); i++ {
			s.Set = append(s.Set, views.AxisState{Axis: entries[i].Axis, State: entries[i].To})
		}
		i--
		slices.SortFunc(s.Set, func(a, b views.AxisState) int {
			return slices.Index(models.Axes, a.Axis) - slices.Index(models.Axes, b.Axis)
		})
		steps = append(steps, s)
	}
	return steps
}

func firstTogether(a, b models.Entry) bool {
	return b.From == "" && b.Cause.Kind == a.Cause.Kind && b.Cause.ID == a.Cause.ID && b.At.Sub(a.At).Abs() < time.Second
}

// entrySums are the sums that an entry changed on its own axis.
func entrySums(e models.Entry) []views.SumChange {
	var changes []views.SumChange
	for _, s := range sums {
		if (s.key == refundedSum.key) == (e.Axis == models.Refund) && (e.Axis == models.Refund || e.Axis == models.Payment) && s.of(e.Before) != s.of(e.After) {
			changes = append(changes, entrySum(s, e.Before, e.After))
		}
	}
	return changes
}

func entrySum(s sum, before, after models.Amounts) views.SumChange {
	return views.SumChange{
		Label:  locale.Say(s.key),
		Before: locale.Money{Minor: s.of(before), Currency: after.Currency}, After: locale.Money{Minor: s.of(after), Currency: after.Currency},
	}
}

func causeText(e models.Entry) locale.Text {
	cause := locale.Say("cause." + string(e.Cause.Kind))
	if e.Cause.Topic != "" {
		cause = locale.Say("cause.topic", cause, e.Cause.Topic)
	}
	switch e.Cause.Basis {
	case models.Official:
		return locale.Say("cause.official", cause)
	case models.Reported:
		return locale.Say("cause.reported", cause)
	}
	return locale.Say("cause.plain", cause)
}

// causeLink leads to the event that caused an entry.
func causeLink(c models.Cause) (href, text string) {
	if c.Kind != models.CauseEvent {
		return "", ""
	}
	if id, err := strconv.ParseInt(c.ID, 10, 64); err == nil {
		href = eventPath(id)
	}
	return href, orDash(c.EventID, c.ID)
}

// actorText names whoever moved something; the console itself isn't named.
func actorText(id string, viewer models.Actor) string {
	if id == "console" || id == "" {
		return ""
	}
	if id == viewer.ID() && viewer.Name != "" {
		return viewer.Name
	}
	return id
}
