package handlers

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"counterfoil/models"
	"counterfoil/views"
	"counterfoil/views/locale"
)

// casesIn is everything that the list of exceptions is worked out from.
type casesIn struct {
	page   models.Page[models.CaseRow]
	query  models.CaseQuery
	state  string
	values url.Values
	count  models.CaseCount
	shops  []models.ShopName
	slugs  []string
	actor  models.Actor
	now    time.Time
}

// caseViews are the saved views of the list.
var caseViews = []struct {
	key    string
	values url.Values
}{
	{"cases.view.all", url.Values{}}, {"cases.view.mine", url.Values{"owner": {"me"}}}, {"cases.view.nobodys", url.Values{"owner": {"none"}}},
	{"cases.view.holds", url.Values{"policy": {"hold"}}}, {"cases.view.tell", url.Values{"tell": {"true"}}},
}

func exceptionsModel(in casesIn) views.ExceptionsModel {
	q, v := in.query, caseValues(in.values)
	m := views.ExceptionsModel{
		State: in.values.Get("state"), Kind: q.Kind, Connection: q.Connection, Shop: q.Shop, Urgency: q.Urgency, Policy: q.Policy, Owner: in.values.Get("owner"), Tell: q.Tell, Query: q.Text,
		Shops: in.shops, Connections: in.slugs, Older: listPath("/exceptions", v, in.page.Next), Back: casesPath(v), Empty: "cases.empty." + in.state, Folded: q.Folded,
		Filtered: len(caseValues(in.values, "state")) > 0, Title: locale.Say("cases.tab." + in.state),
	}
	if q.Cursor != "" {
		m.Newer = casesPath(v)
	}
	rest := caseValues(in.values, "state", "group", "order", "asked")
	for _, tab := range []struct {
		state string
		count string
	}{{caseNeeds, strconv.Itoa(in.count.Needs)}, {caseSettling, strconv.Itoa(in.count.Settling)}, {caseClosed, ""}} {
		to := url.Values{"state": {tab.state}}
		if tab.state == caseNeeds {
			to = url.Values{}
		}
		for name, values := range rest {
			to[name] = values
		}
		m.Tabs = append(m.Tabs, views.TabModel{Label: locale.Say("cases.tab." + tab.state), Href: casesPath(to), Current: in.state == tab.state, Count: tab.count})
	}
	for _, view := range caseViews {
		to := url.Values{}
		if s := in.values.Get("state"); s != "" && q.Asked.IsZero() {
			to.Set("state", s)
		}
		for name, values := range view.values {
			to[name] = values
		}
		m.Views = append(m.Views, chip("/exceptions", view.key, to, v))
	}
	switch {
	case in.state == caseNeeds && in.count.Needs > 0:
		m.Note = locale.Say("cases.oldest", locale.Ago{Time: in.count.Oldest})
	case in.state == caseSettling:
		m.Note = locale.Say("cases.settling.is")
	}
	switch {
	case !q.Asked.IsZero():
		m.Head, m.HeadHref, m.HeadLink = locale.Say("cases.asked", q.Asked), casesPath(v), locale.Say("cases.look_again")
	case q.Group != 0:
		m.Head, m.HeadHref, m.HeadLink = locale.Say("cases.members"), "/exceptions", locale.Say("cases.all")
	case q.Order != 0:
		m.Head, m.HeadHref, m.HeadLink = locale.Say("cases.of_order"), "/exceptions", locale.Say("cases.all")
	}
	for _, r := range in.page.Items {
		m.Rows = append(m.Rows, exceptionLine(r, in.actor, in.now))
	}
	if q.State == "open" {
		m.Many = manyOffer(v, in.actor)
	}
	return m
}

func manyOffer(v url.Values, actor models.Actor) views.OfferModel {
	o := views.OfferModel{Label: locale.Say("cases.many_all"), Icon: "sync", Page: "/exceptions/resync", Note: locale.Say("cases.many.is", actor.ResyncMany())}
	if len(v) > 0 {
		o.Page += "?" + v.Encode()
	}
	if actor.ResyncMany() == 0 {
		o.Refused = locale.Say("may.refused.role", locale.Say("role."+string(actor.Role)), roleList(models.OrdersResync))
	}
	return o
}

// caseTitle is what people call an exception: its kind, and on which axis or in which
// case.
func caseTitle(x models.Exception) locale.Text {
	kind := locale.Say("exception." + string(x.Kind))
	switch x.Kind {
	case models.Contradiction, models.Overdue, models.Unmatched, models.ActionFailedKind, models.ActionUnclearKind:
		if r, ok := models.CaseRuleOf(x.Rule); ok && r.Key != string(r.Kind) && r.Key != otherContradiction {
			return locale.Say("exception.title", kind, locale.Say("case_rule."+r.Key))
		}
	}
	return exceptionTitle(x)
}

// otherContradiction is the row of the policies that says nothing of its case.
const otherContradiction = "contradiction/other"

// caseIs is the one sentence that says what an exception means.
func caseIs(x models.Exception) locale.Text {
	about := any(orDash(x.Detail, x.PlatformState))
	switch {
	case x.Kind == models.Contradiction:
		if r, ok := models.CaseRuleOf(x.Rule); ok && r.Key != otherContradiction {
			about = locale.Say("case_rule." + r.Key)
		}
	case x.Kind == models.SubscriptionMissing && x.Topic != "":
		about = x.Topic
	}
	if x.Kind == models.MissedNotification && x.Topic != "" {
		return locale.Say("exception.missed_notification.topic", x.Topic)
	}
	return locale.Say("exception."+string(x.Kind)+".is", about)
}

// sides are what both sides say, as it was seen last.
func sides(x models.Exception) (theirs, ours locale.Text, mark views.Mark) {
	side := func(v any) locale.Text {
		if s, ok := v.(string); ok && s == "" {
			return locale.Text{}
		}
		return locale.Say("value", v)
	}
	theirs, ours = side(sideOf(x, x.PlatformState, x.Currency)), side(localState(x, x.Currency))
	if strings.HasPrefix(x.Subject, "action:") && slices.Contains(models.ActionStates, models.ActionState(x.LocalState)) {
		ours = locale.Say("action.state." + x.LocalState)
	}
	switch {
	case x.Kind == models.UnknownStatus || theirs.Empty() || ours.Empty():
		mark = views.Unknown
	case x.PlatformState == x.LocalState:
		mark = views.Agrees
	default:
		mark = views.Differ
	}
	return theirs, ours, mark
}

func exceptionLine(r models.CaseRow, actor models.Actor, now time.Time) views.ExceptionLine {
	x := r.Exception
	l := views.ExceptionLine{ID: x.ID, Href: views.ExceptionPath(x.ID), Title: caseTitle(x), Is: caseIs(x), Urgency: x.Urgency, Members: r.Members, OrderID: x.OrderID,
		Number: orDash(x.Number, strconv.FormatInt(x.OrderID, 10)), Where: x.Connection, Shop: x.Shop, Ref: x.Ref, Count: x.Count, Step: caseStep(x, actor), Next: locale.Say("exception." + string(x.Kind) + ".next"), Policy: x.Policy, Settles: settles(x, now),
		Tell: x.Tell, Told: !x.Told.IsZero(), Since: x.First, Owner: x.OwnedBy, Reading: r.Reading, Needs: x.Needs && x.State == "open", Version: x.Version, Closed: x.Closed}
	l.Theirs, l.Ours, l.Mark = sides(x)
	if x.State != "open" {
		l.How = closedHow(x)
	}
	if r.Members > 1 {
		l.Group = casesPath(url.Values{"group": {strconv.FormatInt(x.Group, 10)}})
		l.Href = l.Group
		l.Step = views.OfferModel{Label: locale.Say("cases.group_step"), Page: "/exceptions/resync?" + url.Values{"group": {strconv.FormatInt(x.Group, 10)}}.Encode()}
		if actor.ResyncMany() == 0 {
			l.Step.Page = l.Group
		}
		return l
	}
	if ok, _ := actor.MayTake(x); ok && x.State == "open" && x.Owner == 0 {
		l.Take = l.Href + "/take"
	}
	return l
}

// settles says how an exception goes on by itself.
func settles(x models.Exception, now time.Time) locale.Text {
	switch {
	case x.State != "open" || x.Needs:
		return locale.Text{}
	case !x.HealAt.IsZero() && x.HealAt.After(now):
		return locale.Say("cases.read_at", locale.Ago{Time: x.HealAt})
	case !x.HealAt.IsZero():
		return locale.Say("cases.read_soon")
	case !x.NeedsAt.IsZero() && x.NeedsAt.After(now):
		return locale.Say("cases.settles_until", locale.Ago{Time: x.NeedsAt})
	case !x.NeedsAt.IsZero():
		return locale.Say("cases.stands_still")
	}
	return locale.Say("cases.settles")
}

// hows are the ways in which exceptions end.
var hows = []string{"resync", "sweep", "late", "reading", "correction", "accepted", "dismissed", "solved", "link", "order appeared", "ended", "done"}

func closedHow(x models.Exception) locale.Text {
	how := x.How
	if !slices.Contains(hows, how) {
		return locale.Say("value", orDash(how))
	}
	return locale.Say("case_how." + strings.ReplaceAll(how, " ", "_"))
}

// caseStep is the suggested next step about an exception, or why the person can't.
func caseStep(x models.Exception, actor models.Actor) views.OfferModel {
	to := func(what, icon, page string) views.OfferModel {
		return views.OfferModel{Label: locale.Say("case_step." + what), Icon: icon, Page: page, Note: locale.Say("case_step." + what + ".is")}
	}
	about, id, _ := strings.Cut(x.Subject, ":")
	n, err := strconv.ParseInt(id, 10, 64)
	numbered := err == nil && n > 0
	switch {
	case about == "action" && numbered:
		return to("action", "review", views.ActionPath(n))
	case about == "event" && numbered:
		return to("event", "in", eventPath(n))
	}
	switch x.Kind {
	case models.Contradiction, models.PaidTwice, models.ShippedTwice, models.ActionDiffers, models.Overdue:
		if x.OrderID != 0 {
			return to("order", "row", orderPath(x.OrderID))
		}
	case models.SubscriptionMissing, models.SignatureFailures, models.Silence, models.AccessEnding, models.SchemaChanged, models.OutsideWindowKind:
		if x.Connection != "" {
			return to("connection", "out", "/connections#"+x.Connection)
		}
	}
	if x.Mendable() {
		o := views.OfferModel{Label: locale.Say("case_step.resync"), Icon: "sync", Primary: true, Post: views.ExceptionPath(x.ID) + "/resync", Note: locale.Say("case_step.resync.is")}
		if !actor.May(models.OrdersResync) {
			o.Refused = locale.Say("may.refused.role", locale.Say("role."+string(actor.Role)), roleList(models.OrdersResync))
		}
		return o
	}
	if x.OrderID != 0 {
		return to("order", "row", orderPath(x.OrderID))
	}
	if x.Connection != "" {
		return to("connection", "out", "/connections#"+x.Connection)
	}
	return views.OfferModel{Label: locale.Say("exception." + string(x.Kind) + ".next")}
}

func manyModel(kinds []models.KindCount, v url.Values, actor models.Actor) views.ResyncManyModel {
	m := views.ResyncManyModel{Filters: v.Encode(), Back: casesPath(v)}
	n := 0
	for _, k := range kinds {
		n += k.N
		m.Kinds = append(m.Kinds, views.KindLine{Kind: k.Kind, Connection: orDash(k.Connection), N: k.N})
	}
	most := actor.ResyncMany()
	m.Facts = []locale.Text{locale.Say("cases.many_found", n)}
	if n > most && most > 0 {
		m.Facts = append(m.Facts, locale.Say("cases.many_limit", most))
	}
	m.Facts = append(m.Facts, locale.Say("cases.many_how"))
	m.Form = views.ActFormModel{Name: "many", Title: locale.Say("cases.many"), Post: "/exceptions/resync", Do: locale.Say("cases.many_do", min(n, max(most, 0))), Icon: "sync",
		Fields: []views.FieldModel{{Name: "filters", Value: m.Filters, Hidden: true}}}
	switch {
	case most == 0:
		m.Form.Refused = locale.Say("may.refused.role", locale.Say("role."+string(actor.Role)), roleList(models.OrdersResync))
	case n == 0:
		m.Form.Refused = locale.Say("error.cases_none")
	}
	return m
}
