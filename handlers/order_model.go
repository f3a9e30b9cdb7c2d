package handlers

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"counterfoil/models"
	"counterfoil/views"
	"counterfoil/views/locale"
	"counterfoil/views/ui"
)

// orderModel works out everything that the page of an order shows at one moment.
func orderModel(f models.OrderFile, actor models.Actor, now time.Time) views.OrderModel {
	m := views.OrderModel{
		Order: f.Order, Name: orderName(f.Order), Connection: f.Connection, ShopName: f.ShopName,
		Work: orderWork(f, actor), Flow: orderFlow(f, actor), Parts: orderParts(f.Objects), Files: orderObjects(f.Objects),
	}
	for _, o := range f.Objects {
		if o.Deep != "" && !slices.ContainsFunc(m.Deep, func(d views.DeepLink) bool { return d.Platform == o.Platform }) {
			m.Deep = append(m.Deep, views.DeepLink{Platform: o.Platform, Href: o.Deep})
		}
	}
	m.Holds = orderHolds(f, m.Deep, now)
	m.Offer = append(orderOffers(f, actor, m.Deep, now), replacementOffers(f, actor)...)
	m.Actions, m.Watched = orderActions(f, now)
	if f.Announced {
		m.Said = orderSaid(f.Said)
		m.Amounts = announcedAmounts(f.Order)
		return m
	}
	m.Truth = truthRows(f, objectSayings(f.Objects), false)
	m.Outcome = outcomeModel(f, actor, now)
	orderAxes(&m, f, now)
	return m
}

// orderName is how people call an order.
func orderName(o models.Order) string {
	return cmp.Or(o.Number, o.Ref, strconv.FormatInt(o.ID, 10))
}

// announcedAmounts are the sums that a notification stated.
func announcedAmounts(o models.Order) models.Amounts {
	if o.Announced && o.Said != nil && o.Said.Amounts != nil {
		return *o.Said.Amounts
	}
	return o.Amounts
}

// orderAxes fills the strip of axes, what it adds up to, and the banner's doubts.
func orderAxes(m *views.OrderModel, f models.OrderFile, now time.Time) {
	for _, a := range models.Axes {
		shown := f.Show(a, f.Health, now)
		m.Axes = append(m.Axes, views.AxisModel{
			Axis: a, State: f.State(a), Shown: shown, Stub: axisStub(f, a), Old: shown.Check == models.Unverified && lastKnown[shown.Doubt],
		})
		if shown.Platform == "" {
			continue
		}
		m.Stated++
		m.Checking = m.Checking || shown.Checking
		if shown.Check == models.Verified {
			m.Verified++
			m.Checked = older(m.Checked, shown.At)
			continue
		}
		m.Unsure = older(m.Unsure, shown.At)
		addDoubt(m, a, shown)
	}
}

// lastKnown are the doubts under which a state may have become old meanwhile.
var lastKnown = map[models.Doubt]bool{
	models.APIDown: true, models.Throttled: true, models.EventWaits: true, models.ReadingOverdue: true, models.TooOld: true, models.Missing: true,
}

// older is the earlier of two times that are known.
func older(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// addDoubt joins axes that one reason explains.
func addDoubt(m *views.OrderModel, a models.Axis, s models.Shown) {
	reason := ui.Doubt(s)
	if reason.Empty() {
		reason = locale.Say("check." + string(s.Check) + ".is")
	}
	review := s.Check == models.ToReview
	for i, d := range m.Doubts {
		if d.Reason.Key == reason.Key && d.Review == review && d.Platform == s.Platform {
			m.Doubts[i].Axes = append(d.Axes, a)
			m.Doubts[i].At = older(d.At, s.At)
			return
		}
	}
	m.Doubts = append(m.Doubts, views.DoubtModel{Axes: []models.Axis{a}, Reason: reason, Platform: s.Platform, At: s.At, Review: review})
}

// axisStub is the sum or the count that belongs beside a state.
func axisStub(f models.OrderFile, a models.Axis) locale.Text {
	money := func(minor int64) locale.Money { return locale.Money{Minor: minor, Currency: f.Currency} }
	switch a {
	case models.Payment:
		if f.Received > 0 && f.Received < f.Total {
			return locale.Say("order.of", money(f.Received), money(f.Total))
		}
		if f.Received > 0 {
			return locale.Say("order.sum", money(f.Received))
		}
	case models.Refund:
		if f.Refunded > 0 {
			return locale.Say("order.sum", money(f.Refunded))
		}
	case models.Dispute:
		for _, o := range f.Objects {
			for _, p := range partsOf(o) {
				if p.Axis == models.Dispute && p.State == f.State(models.Dispute) && p.Currency != "" {
					return locale.Say("order.sum", locale.Money{Minor: p.Amount, Currency: p.Currency})
				}
			}
		}
	case models.Fulfillment:
		if f.Items.Ordered > 0 {
			return locale.Say("order.shipped", f.Items.Shipped, f.Items.Ordered)
		}
	case models.Return:
		if f.Items.InReturned > 0 {
			return locale.Say("order.came_back", f.Items.CameBack, f.Items.InReturned)
		}
	}
	return locale.Text{}
}

// reading is what stands for an object: its official reading, else what was said.
func reading(o models.Object) *models.Observation {
	if o.Official != nil && o.Official.Absence == models.Present {
		return o.Official
	}
	return o.Said
}

func partsOf(o models.Object) []models.Part {
	if r := reading(o); r != nil {
		return r.Parts
	}
	return nil
}

func orderParts(objects []models.Object) []views.PartGroup {
	var groups []views.PartGroup
	for _, a := range models.Axes {
		g := views.PartGroup{Axis: a}
		for _, o := range objects {
			for _, p := range partsOf(o) {
				if p.Axis == a {
					g.Parts = append(g.Parts, views.PartModel{Part: p, Platform: o.Platform, Official: reading(o) == o.Official})
				}
			}
		}
		if len(g.Parts) > 0 {
			groups = append(groups, g)
		}
	}
	return groups
}

func orderObjects(objects []models.Object) []views.ObjectModel {
	var list []views.ObjectModel
	for _, o := range objects {
		v := views.ObjectModel{
			Platform: o.Platform, Connection: o.Slug, Kind: o.Ref.Kind, ID: o.Ref.ID, Href: o.Deep, LinkedBy: o.LinkedBy,
			Fetched: o.Fetched, Reported: o.Reported,
		}
		if o.Official != nil {
			v.Absence, v.Detail = o.Official.Absence, o.Official.Detail
		}
		list = append(list, v)
	}
	return list
}

// orderSaid lists what a notification stated of an order that nobody could ask about.
func orderSaid(said *models.Observation) []views.SaidModel {
	if said == nil {
		return nil
	}
	var list []views.SaidModel
	for _, a := range models.Axes {
		if s, ok := said.Axes[a]; ok {
			list = append(list, views.SaidModel{Label: locale.Say("axis." + string(a)), Claim: stateClaim(a, s)})
		}
	}
	if said.Amounts != nil {
		for _, sum := range sums {
			list = append(list, views.SaidModel{Label: locale.Say(sum.key), Claim: sumClaim(sum.of(*said.Amounts), said.Amounts.Currency)})
		}
	}
	return list
}

// orderOffers lists what the person may do with the order, or why not and who can.
func orderOffers(f models.OrderFile, actor models.Actor, deep []views.DeepLink, now time.Time) []views.OfferModel {
	resync := views.OfferModel{
		Label: locale.Say("may.resync"), Icon: "sync", Primary: true, Post: "/orders/" + strconv.FormatInt(f.ID, 10) + "/resync",
		Note: resyncNote(f),
	}
	switch {
	case !actor.May(models.OrdersResync):
		resync.Refused = locale.Say("may.refused.role", locale.Say("role."+string(actor.Role)), roleList(models.OrdersResync))
	case !canAsk(f):
		resync.Refused = locale.Say("may.refused.no_api")
	}
	held := stop{scope: models.HoldOrder, name: orderName(f.Order), path: orderPath(f.ID)}
	offers := []views.OfferModel{resync, holdOffer(held, ownHolds(f), actor, now)}
	for _, d := range deep {
		offers = append(offers, views.OfferModel{Label: locale.Say("may.open", d.Platform), Icon: "out", Href: d.Href, Note: locale.Say("may.open.is", d.Platform)})
	}
	return offers
}

// roleList names the people who have a permission.
func roleList(p models.Permission) locale.List {
	var list locale.List
	for _, r := range models.Granted(p) {
		switch {
		case r == models.Support && models.ForLeads(p):
			list = append(list, locale.Say("role.lead"))
		case r != models.Service:
			list = append(list, locale.Say("role."+string(r)))
		}
	}
	return list
}

// canAsk tells whether any platform of the order has an API at all. An order without
// objects is asked about where it came from.
func canAsk(f models.OrderFile) bool {
	if len(f.Objects) == 0 {
		return f.Health[f.ConnectionID].State != models.APINone
	}
	return slices.ContainsFunc(f.Objects, func(o models.Object) bool { return hasAPI(f, o) })
}

func hasAPI(f models.OrderFile, o models.Object) bool {
	return f.Health[o.Connection].State != models.APINone
}

// resyncNote says what a resync will ask, and what it can't.
func resyncNote(f models.OrderFile) locale.Text {
	var reads, tries locale.List
	seen := map[models.Platform]bool{}
	for _, o := range f.Objects {
		if seen[o.Platform] || !hasAPI(f, o) {
			continue
		}
		seen[o.Platform] = true
		name := locale.Say("platform." + string(o.Platform))
		if f.Health[o.Connection].State == models.APIDownState {
			tries = append(tries, name)
		} else {
			reads = append(reads, name)
		}
	}
	switch {
	case len(reads) > 0 && len(tries) > 0:
		return locale.Say("may.resync.both", reads, tries)
	case len(tries) > 0:
		return locale.Say("may.resync.tries", tries)
	case len(reads) > 0:
		return locale.Say("may.resync.reads", reads)
	}
	return locale.Say("may.resync.first")
}
