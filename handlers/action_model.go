package handlers

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"counterfoil/models"
	"counterfoil/views"
	"counterfoil/views/locale"
)

// An actionsIn is what the list of actions is worked out from.
type actionsIn struct {
	query     models.ActionListQuery
	page      models.Page[models.ActionRow]
	counts    map[models.ActionTab]models.ActionCount
	watched   map[models.ActionKind][]string
	shops     []models.ShopName
	requests  []models.Request
	moreAsked bool // there are more than those
	actor     models.Actor
	now       time.Time
	tick      typed
	focus     bool // the first line that can be ticked off gets the keyboard
}

// actionsModel works out the list of actions.
func actionsModel(in actionsIn) views.ActionsModel {
	q := in.query
	v := actionValues(q)
	m := views.ActionsModel{
		State: v.Get("state"), Shops: in.shops, Shop: q.Shop, Kind: q.Kind, Order: q.Order, Watched: watchedSaid(in.watched, len(in.shops) > 1),
		MoreAsked: in.moreAsked, Filtered: q.Kind != "" || q.Shop != "" || q.Order != 0 || q.State != "" || q.Cursor != "",
		Empty: string(q.Tab), Newer: listPath("/actions", v, in.page.Prev), Older: listPath("/actions", v, in.page.Next), Back: "/actions",
	}
	if len(v) > 0 {
		m.Back += "?" + v.Encode()
	}
	m.Tabs = actionTabs(q, in.counts)
	if q.Order != 0 {
		without := q
		without.Order = 0
		m.AllOrders, m.OrderName = "/actions?"+actionValues(without).Encode(), strconv.FormatInt(q.Order, 10)
		if len(in.page.Items) > 0 {
			m.OrderName = in.page.Items[0].OrderName
		}
	}
	for _, r := range in.requests {
		m.Approvals = append(m.Approvals, views.RequestLine{ID: r.ID, Kind: r.Kind, Action: r.ActionKind, Subject: r.OrderName, Shop: r.Shop,
			By: orDash(r.ByName, r.By), Role: r.ByRole, Since: r.At, Expires: r.Expires})
	}
	focus := in.focus
	for _, row := range in.page.Items {
		l := actionLine(row, in.now)
		l.Tick = row.State == models.ActionManual && in.actor.May(models.ActionsReceipt)
		if row.State == models.ActionManual && !l.Tick {
			m.NoTick = locale.Say("actions.no_tick", locale.Say("role."+string(in.actor.Role)), roleList(models.ActionsReceipt))
		}
		if in.tick.form != "" && in.tick.id == row.ID {
			l.Receipt, l.Errors, l.Focus = in.tick.in.Receipt, in.tick.errors, true
		}
		if l.Tick && focus {
			l.Focus, focus = true, false
		}
		m.Rows = append(m.Rows, l)
	}
	return m
}

// actionTabs leads to the other parts of the list under the same filters.
func actionTabs(q models.ActionListQuery, counts map[models.ActionTab]models.ActionCount) []views.TabModel {
	var tabs []views.TabModel
	for _, tab := range models.ActionTabs {
		to := q
		to.Tab, to.State = tab, ""
		t := views.TabModel{Label: locale.Say("actions.tab." + string(tab)), Href: "/actions", Current: q.State == "" && q.Tab == tab}
		if v := actionValues(to); len(v) > 0 {
			t.Href += "?" + v.Encode()
		}
		if n, known := counts[tab]; known {
			t.Count = views.AtLeast(n.N, n.More)
		}
		tabs = append(tabs, t)
	}
	return tabs
}

// watchedSaid says which kinds are planned and not sent; of shops where there are several.
func watchedSaid(watched map[models.ActionKind][]string, several bool) []locale.Text {
	together := map[string]locale.List{}
	var shops []string
	for _, k := range models.ActionKinds {
		if slugs, ok := watched[k]; ok {
			at := strings.Join(slugs, ", ")
			if together[at] == nil {
				shops = append(shops, at)
			}
			together[at] = append(together[at], locale.Say("action."+string(k)))
		}
	}
	var said []locale.Text
	for _, at := range shops {
		one, many := "actions.watched", "actions.watched_many"
		if several {
			one, many = "actions.watched_shops", "actions.watched_shops_many"
		}
		if len(together[at]) > 1 {
			one = many
		}
		said = append(said, locale.Say(one, together[at], at))
	}
	return said
}

func actionLine(r models.ActionRow, now time.Time) views.ActionLine {
	return views.ActionLine{ID: r.ID, Kind: r.Kind, Stage: stageText(r.Stage, r.Currency), State: r.State, OrderID: r.OrderID, OrderName: r.OrderName,
		ShopName: r.ShopName, Why: actionWhy(r.Action, now), Since: latest(r.Planned, r.Sent, r.Done), Tries: r.Tries}
}

func latest(times ...time.Time) time.Time {
	return slices.MaxFunc(times, time.Time.Compare)
}

// stageText says which of an order's actions of a kind one is.
func stageText(stage, currency string) locale.Text {
	name, rest, counted := strings.Cut(stage, ":")
	n, err := strconv.ParseInt(rest, 10, 64)
	switch name {
	case models.WholeOrder, "payment_received", "shipped", "cancelled":
		if !counted {
			return locale.Say("action.stage." + name)
		}
	case "refund":
		if err == nil && currency != "" {
			return locale.Say("action.stage."+name, locale.Money{Minor: n, Currency: currency})
		}
	case "more", "replacement", "again":
		if err == nil {
			return locale.Say("action.stage."+name, n)
		}
	}
	return locale.Say("value", stage)
}

// actionWhy says why an action is where it is, and what moves it on.
func actionWhy(a models.Action, now time.Time) locale.Text {
	switch a.State {
	case models.ActionWaiting:
		switch {
		case slices.Contains(models.ConditionKeys, a.Why):
			if a.Why == "not_before" {
				return locale.Say("condition.detail.not_before", a.NotBefore)
			}
			return locale.Say("condition." + a.Why + ".no")
		case a.Error != "":
			return tryAgain(a)
		}
	case models.ActionPlanned:
		if a.NotBefore.After(now) {
			return locale.Say("condition.detail.not_before", a.NotBefore)
		}
		return locale.Say("why.planned")
	case models.ActionSending:
		if a.Error != "" && a.Due.After(now) {
			return tryAgain(a)
		}
		return locale.Say("why.sending", a.Tries)
	case models.ActionManual:
		return locale.Say("why.manual")
	case models.ActionFailed, models.ActionUnclear:
		return locale.Say("value", why(firstLine(a.Error)))
	case models.ActionWithdrawn:
		if models.Axis(a.Why) == models.Cancellation || models.Axis(a.Why) == models.Refund || models.Axis(a.Why) == models.Dispute {
			return locale.Say("why.withdrawn." + a.Why)
		}
	case models.ActionNotNeeded:
		if slices.Contains(models.NotNeededs, models.NotNeeded(a.Why)) {
			return locale.Say("why.not_needed." + a.Why)
		}
	case models.ActionDone:
		if a.Receipt != "" {
			return locale.Say("why.done", a.Receipt)
		}
	}
	return locale.Text{}
}

func tryAgain(a models.Action) locale.Text {
	return locale.Say("why.again", a.Tries, why(firstLine(a.Error)), locale.Ago{Time: a.Due})
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

// orderActions are the lines of an order's page, and what it says of watched kinds.
func orderActions(f models.OrderFile, now time.Time) (lines []views.ActionLine, watched []locale.Text) {
	kinds := map[models.ActionKind][]string{}
	for _, a := range f.Actions {
		lines = append(lines, actionLine(models.ActionRow{Action: a, ShopName: f.ShopName, Currency: f.Currency}, now))
		if a.State == models.ActionWatched {
			kinds[a.Kind] = []string{f.Shop}
		}
	}
	return lines, watchedSaid(kinds, false)
}

// actionSteps are the times of an order's actions in its timeline.
func actionSteps(f models.OrderFile) []views.StepModel {
	var steps []views.StepModel
	for _, a := range f.Actions {
		step := func(at time.Time, key string, warn bool) {
			cause := actionCause(a)
			if key == "flow.action.planned" && a.State != models.ActionWatched {
				cause = locale.Text{} // how it went stands at its own time
			}
			steps = append(steps, views.StepModel{At: at, Icon: "send", Kind: "action", Warn: warn, Text: locale.Say(key), Href: views.ActionPath(a.ID),
				Name: locale.Say("action.ref", locale.Say("action."+string(a.Kind)), stageText(a.Stage, f.Currency)), Cause: cause})
		}
		if a.State == models.ActionNotNeeded && a.Done.IsZero() {
			step(a.Planned, "flow.action.not_needed", false)
			continue
		}
		step(a.Planned, "flow.action.planned", false)
		if !a.Released.IsZero() {
			step(a.Released, "flow.action.release", false)
		}
		if !a.Sent.IsZero() && (a.Done.IsZero() || a.Done.Sub(a.Sent) > time.Minute) {
			step(a.Sent, "flow.action.sent", a.State == models.ActionUnclear || a.State == models.ActionFailed)
		}
		if a.Done.IsZero() {
			continue
		}
		switch a.State {
		case models.ActionDone:
			step(a.Done, "flow.action.done", false)
		case models.ActionWithdrawn:
			step(a.Done, "flow.action.withdrawn", false)
		case models.ActionNotNeeded:
			step(a.Done, "flow.action.not_needed", false)
		}
	}
	return steps
}

// actionCause is what stands below a step of an action.
func actionCause(a models.Action) locale.Text {
	switch a.State {
	case models.ActionWatched:
		return locale.Say("flow.action.watched")
	case models.ActionWithdrawn, models.ActionNotNeeded:
		return actionWhy(a, time.Time{})
	}
	return locale.Say("action.state." + string(a.State))
}
