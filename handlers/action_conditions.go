package handlers

import (
	"time"

	"counterfoil/models"
	"counterfoil/views"
	"counterfoil/views/locale"
)

// conditionText names a condition, with its value where it has one.
func conditionText(c models.Condition) locale.Text {
	return locale.Say("condition."+c.Key, c.Args...)
}

// conditionModels are all conditions that the action has, with what stands behind those
// that aren't met.
func conditionModels(in actionIn) []views.ConditionModel {
	var list []views.ConditionModel
	for _, c := range in.conditions {
		m := views.ConditionModel{Met: c.Met, Text: conditionText(c)}
		switch ends := in.file.Expires(); {
		case !c.Met:
			m.Text, m.Details = locale.Say("condition."+c.Key+".no"), conditionDetails(in, c)
		case c.Key == "released" && !in.file.Person, c.Key == "not_before" && in.file.NotBefore.IsZero(), c.Key == "not_expired" && ends.IsZero():
			continue
		case c.Key == "not_expired":
			m.Text = locale.Say("condition.expires", ends)
		}
		list = append(list, m)
	}
	return list
}

// conditionDetails say what exactly isn't met, who moves it on, and where that is seen.
func conditionDetails(in actionIn, c models.Condition) []views.DetailModel {
	o, page := in.order, orderPath(in.order.ID)
	see := locale.Say("condition.see_order")
	state := func(axes ...models.Axis) []views.DetailModel {
		var list []views.DetailModel
		for _, a := range axes {
			if s := o.State(a); s != "" {
				list = append(list, views.DetailModel{Text: locale.Say("condition.detail.state", locale.Say("axis."+string(a)), locale.Say("state."+string(a)+"."+string(s)))})
			}
		}
		return list
	}
	switch c.Key {
	case "verified":
		return verifiedDetails(o, in.now)
	case "fresh":
		return eachConnection(o, in.now, func(s models.Shown, h models.Health) locale.Text {
			return locale.Say("condition.detail.read", s.Platform, locale.Ago{Time: s.At})
		})
	case "asked":
		return eachConnection(o, in.now, apiText)
	case "agree":
		return []views.DetailModel{{Text: locale.Say("condition.detail.disagree", o.DisagreeSince), Href: page + "#h-work", Link: see}}
	case "paid":
		return state(models.Payment)
	case "no_hold":
		var list []views.DetailModel
		for _, h := range o.Holds {
			d := views.DetailModel{Text: views.HoldSaid(h), Href: page, Link: locale.Say("condition.see_hold")}
			if h.Scope != models.HoldOrder {
				d.Href = "/connections#" + o.Connection
			}
			list = append(list, d, views.DetailModel{Text: locale.Say("condition.detail.hold_who", releasers(h.Scope))})
		}
		return list
	case "no_exception":
		var names locale.List
		for _, x := range o.Exceptions {
			if x.Policy == models.PolicyHold && x.State == "open" {
				names = append(names, exceptionTitle(x))
			}
		}
		return []views.DetailModel{{Text: locale.Say("condition.detail.exception", names), Href: page + "#h-work", Link: see}}
	case "not_ended":
		axis, _ := o.Withdraws()
		return state(axis)
	case "not_refunded_partly":
		return state(models.Refund)
	case "not_held", "not_shipped":
		return state(models.Fulfillment)
	case "not_before":
		return []views.DetailModel{{Text: locale.Say("condition.detail.not_before", in.file.NotBefore)}}
	case "official":
		if e := in.file.PlannedBy; e != nil {
			return state(e.Axis)
		}
	}
	return nil
}

// verifiedDetails name each axis that isn't verified, with its reason.
func verifiedDetails(o models.OrderFile, now time.Time) []views.DetailModel {
	if o.Announced {
		return []views.DetailModel{{Text: locale.Say("condition.detail.announced", o.Platform)}}
	}
	page := orderPath(o.ID)
	var list []views.DetailModel
	var m views.OrderModel
	orderAxes(&m, o, now)
	for _, d := range m.Doubts {
		detail := views.DetailModel{Text: locale.Say("condition.detail.reading", axisList(d.Axes), d.Reason, d.Platform)}
		if d.Review {
			detail = views.DetailModel{Text: locale.Say("condition.detail.axis", axisList(d.Axes), d.Reason), Href: page + "#h-work", Link: locale.Say("condition.detail.review")}
		}
		list = append(list, detail)
	}
	if m.Checking || len(o.Waiting) > 0 && len(list) == 0 {
		list = append(list, views.DetailModel{Text: locale.Say("condition.detail.checking"), Href: page + "#h-work", Link: locale.Say("condition.see_order")})
	}
	return list
}

func axisList(axes []models.Axis) locale.List {
	var list locale.List
	for _, a := range axes {
		list = append(list, locale.Say("axis."+string(a)))
	}
	return list
}

// eachConnection says something once of each connection that decides about the order.
func eachConnection(o models.OrderFile, now time.Time, what func(models.Shown, models.Health) locale.Text) []views.DetailModel {
	var list []views.DetailModel
	seen := map[int64]bool{}
	for _, a := range models.Axes {
		id := o.Axes[a].Connection
		if id == 0 || seen[id] {
			continue
		}
		seen[id] = true
		if text := what(o.Show(a, o.Health, now), o.Health[id]); !text.Empty() {
			list = append(list, views.DetailModel{Text: text})
		}
	}
	return list
}

func apiText(s models.Shown, h models.Health) locale.Text {
	switch h.State {
	case models.APIDownState:
		return locale.Say("condition.detail.down", s.Platform, h.Since)
	case models.APIThrottled:
		return locale.Say("condition.detail.throttled", s.Platform, h.Since)
	case models.APINone:
		return locale.Say("condition.detail.none", s.Platform)
	}
	return locale.Text{}
}
