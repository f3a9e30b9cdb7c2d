package handlers

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"counterfoil/models"
	"counterfoil/views"
	"counterfoil/views/locale"
)

// holdModels works out the banners of pauses on a page about platform. How far a pause
// reaches is said once.
func holdModels(holds []models.Hold, platform models.Platform, deep []views.DeepLink, now time.Time) []views.HoldModel {
	var list []views.HoldModel
	for _, h := range holds {
		list = append(list, views.HoldModel{Said: views.HoldSaid(h), Next: views.HoldNext(h, now)})
	}
	if len(list) > 0 {
		list[0].Reach = locale.Say("hold.reach", platform)
		if i := slices.IndexFunc(deep, func(d views.DeepLink) bool { return d.Platform == platform }); i >= 0 {
			list[0].Deep = &deep[i]
			if platform == models.Shopify {
				list[0].How = locale.Say("hold.how.shopify")
			}
		}
	}
	return list
}

// holdSteps are the pauses that have reached an order, with their ends. One of a
// connection or a shop that is older than the order reached it from its beginning on.
func holdSteps(f models.OrderFile, viewer models.Actor) []views.StepModel {
	var steps []views.StepModel
	for _, h := range f.Paused {
		by, reason := cmp.Or(h.ByName, h.By), strings.TrimRight(h.Reason, " .。")
		set := views.StepModel{At: h.Since, Icon: "held", Kind: "hold", Warn: h.Released.IsZero(), Text: locale.Say("flow.hold.set", by, reason)}
		end := views.StepModel{At: h.Released, Icon: "send", Kind: "hold", Text: locale.Say("flow.hold.ended"), Cause: locale.Say("flow.hold.since", h.Since)}
		if h.Scope != models.HoldOrder {
			set.Text, end.Text = locale.Say("flow.hold.set_all", by, reason, h.Name), locale.Say("flow.hold.ended_all", h.Name)
		}
		switch {
		case h.Until.IsZero():
			set.Cause = locale.Say("flow.hold.open")
		case h.Resumes:
			set.Cause = locale.Say("flow.hold.resumes", h.Until)
		default:
			set.Cause = locale.Say("flow.hold.asks", h.Until)
		}
		if h.Scope != models.HoldOrder && h.Since.Before(f.Created) {
			set.At, set.Cause = f.Created, locale.Say("flow.hold.before", h.Since)
		}
		steps = append(steps, set)
		if h.Released.IsZero() {
			continue
		}
		if end.Actor = cmp.Or(h.ReleasedName, actorText(h.ReleasedBy, viewer)); end.Actor == "" {
			end.Cause = locale.Say("flow.hold.by_itself", h.Since)
		}
		steps = append(steps, end)
	}
	return steps
}

func holdsScope(holds []models.Hold, s models.HoldScope) bool {
	return slices.ContainsFunc(holds, func(h models.Hold) bool { return h.Scope == s })
}

// ownHolds are the pauses of the order itself.
func ownHolds(f models.OrderFile) []models.Hold { return scoped(f.Holds, models.HoldOrder) }

func scoped(holds []models.Hold, s models.HoldScope) []models.Hold {
	var own []models.Hold
	for _, h := range holds {
		if h.Scope == s {
			own = append(own, h)
		}
	}
	return own
}

// shipper is the platform on which others could ship the order.
func shipper(o models.Order) models.Platform {
	return cmp.Or(o.Axes[models.Fulfillment].Platform, o.Platform)
}

// orderHolds are the banners of an order. Those of a whole connection or shop lead there.
func orderHolds(f models.OrderFile, deep []views.DeepLink, now time.Time) []views.HoldModel {
	list := holdModels(f.Holds, shipper(f.Order), deep, now)
	for i, h := range f.Holds {
		switch h.Scope {
		case models.HoldConnection:
			list[i].Page = "/connections#" + h.Name
		case models.HoldShop:
			list[i].Page = "/connections#" + f.Connection
		}
	}
	return list
}

// holdOffer lets a person pause or resume something, or says why not and who can.
// held are its own pauses.
func holdOffer(s stop, held []models.Hold, actor models.Actor, now time.Time) views.OfferModel {
	needs, resumes := models.OrdersHold, models.OrdersRelease
	pause, resume, ask := locale.Say("may.pause"), locale.Say("may.resume"), locale.Say("may.resume.ask", s.name)
	if s.scope != models.HoldOrder {
		needs, resumes = models.ConnectionsHold, models.ConnectionsRelease
		pause, resume, ask = locale.Say("may.pause_all", s.name), locale.Say("may.resume_all", s.name), locale.Say("may.resume_all.ask", s.name)
	}
	role := locale.Say("role." + string(actor.Role))
	if len(held) == 0 {
		o := views.OfferModel{Label: pause, Icon: "held", Page: s.path + "/hold", Note: locale.Say("may.pause.is")}
		if !actor.MayHold(s.scope) {
			o.Refused = locale.Say("may.refused.role", role, roleList(needs))
		}
		return o
	}
	o := views.OfferModel{Label: resume, Icon: "send", Post: s.path + "/release", Confirm: ask, Note: locale.Say("may.resume.is")}
	switch {
	case !actor.May(resumes):
		o.Refused = locale.Say("may.refused.role", role, releasers(s.scope))
	case slices.ContainsFunc(held, func(h models.Hold) bool { return !actor.MayRelease(h, now) }):
		o.Refused = locale.Say("may.refused.pause", releasers(s.scope))
	}
	return o
}

// releasers are whoever may end any pause of a scope.
func releasers(s models.HoldScope) locale.List {
	if s == models.HoldOrder {
		return locale.List{locale.Say("role.lead"), locale.Say("role.manager")}
	}
	return locale.List{locale.Say("role.manager")}
}
