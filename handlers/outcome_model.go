package handlers

import (
	"cmp"
	"net/url"
	"slices"
	"strconv"
	"time"

	"counterfoil/models"
	"counterfoil/views"
	"counterfoil/views/locale"
)

// outcomeModel works out the outcome check of an order at one moment.
func outcomeModel(f models.OrderFile, actor models.Actor, now time.Time) views.OutcomeModel {
	o := models.CheckOutcome(f, now)
	m := views.OutcomeModel{
		Sums:  outcomeSums(o),
		Check: views.OfferModel{Label: locale.Say("order.check_now"), Post: orderPath(f.ID) + "/resync"},
	}
	if !actor.May(models.OrdersResync) || !canAsk(f) {
		m.Check.Refused = locale.Say("may.refused.no_api")
	}
	holds := map[int64]bool{}
	for _, group := range models.OutcomeGroups {
		g := views.OutcomeGroupModel{Group: group}
		for _, l := range o.Lines {
			if l.Group == group {
				g.Lines = append(g.Lines, outcomeLine(f, l, actor))
			}
			if l.Explained != nil {
				holds[l.Explained.ID] = true
			}
		}
		if len(g.Lines) > 0 {
			m.Groups = append(m.Groups, g)
		}
	}
	for _, e := range slices.Backward(f.Outcome.Explained) {
		if !holds[e.ID] {
			m.Earlier = append(m.Earlier, toldModel(e))
		}
	}
	return m
}

// outcomeSums say what isn't good, the worst first.
func outcomeSums(o models.Outcome) []views.VerdictSum {
	var sums []views.VerdictSum
	for _, v := range slices.Backward(models.Verdicts) {
		if n := o.Count[v]; n > 0 && v != models.VerdictGood {
			sums = append(sums, views.VerdictSum{Verdict: v, Text: locale.Say("outcome.all."+string(v), n)})
		}
	}
	if len(sums) == 0 {
		sums = []views.VerdictSum{{Verdict: models.VerdictGood, Text: locale.Say("outcome.all.good")}}
	}
	return sums
}

func outcomeLine(f models.OrderFile, l models.OutcomeLine, actor models.Actor) views.OutcomeLineModel {
	m := views.OutcomeLineModel{Verdict: l.Verdict, Found: foundText(l)}
	if l.Stage != "" {
		m.Name = stageText(l.Stage, f.Currency)
	}
	for _, a := range l.Actions {
		m.Links = append(m.Links, views.EvidenceLink{Text: locale.Say("outcome.action", strconv.FormatInt(a.ID, 10)), Href: views.ActionPath(a.ID)})
		if a.Receipt != "" {
			m.Facts = append(m.Facts, locale.Say("outcome.receipt", a.Receipt))
		}
	}
	for _, e := range l.Entries {
		m.Facts = append(m.Facts, locale.Say("outcome.entry", strconv.FormatInt(e.ID, 10), e.At))
		if href, text := causeLink(e.Cause); href != "" {
			m.Links = append(m.Links, views.EvidenceLink{Text: locale.Say("outcome.event", text), Href: href})
		}
	}
	if l.Money != nil {
		moneyLine(&m, l)
	}
	if l.Explained != nil {
		t := toldModel(*l.Explained)
		m.Told = &t
	} else if l.Explain {
		if actor.May(models.OrdersExplain) {
			m.Explain = orderPath(f.ID) + "/explain?" + url.Values{"part": {l.Money.ID}}.Encode()
		} else {
			m.Refused = locale.Say("outcome.explain.refused", roleList(models.OrdersExplain))
		}
	}
	return m
}

// foundText is the sentence of a finding.
func foundText(l models.OutcomeLine) locale.Text {
	key := "outcome.found." + string(l.Found)
	switch l.Found {
	case models.FoundDone:
		return locale.Say(key, l.Actions[0].Done)
	case models.FoundSending:
		return locale.Say(key, l.Actions[0].Sent)
	case models.FoundFailed:
		return locale.Say(key, l.Actions[0].Tries)
	case models.FoundTwice:
		return locale.Say(key, len(l.Actions))
	case models.FoundNotNeeded:
		if !slices.Contains(models.NotNeededs, l.Not) {
			return locale.Say("action.state.not_needed.is")
		}
		return locale.Say(key, locale.Say("why.not_needed."+string(l.Not)))
	case models.FoundPieces, models.FoundTooMany, models.FoundMayBeMore:
		return locale.Say(key, l.Items.Shipped, l.Items.Ordered)
	}
	return locale.Say(key)
}

// moneyLine adds a movement's facts: what the platform calls it, why, and how fresh
// that is.
func moneyLine(m *views.OutcomeLineModel, l models.OutcomeLine) {
	t := l.Money.Telling
	if t.ID != "" {
		m.Sum, m.ID = &locale.Money{Minor: t.Amount, Currency: t.Currency}, t.ID
		word := locale.Say("value", cmp.Or(t.Word, "–"))
		if t.At.IsZero() {
			m.Facts = append(m.Facts, locale.Say("outcome.word", t.Platform, word))
		} else {
			m.Facts = append(m.Facts, locale.Say("outcome.word_at", t.Platform, word, t.At))
		}
		if t.Note != "" {
			m.Facts = append(m.Facts, locale.Say("value", t.Note))
		}
		if t.Axis == models.Refund || l.Explain {
			m.Facts = append(m.Facts, reasonText(t))
		}
	}
	switch {
	case t.Read.IsZero():
		m.Facts = append(m.Facts, locale.Say("outcome.read.never"))
	case l.Money.Fresh:
		m.Facts = append(m.Facts, locale.Say("outcome.read.fresh", locale.Ago{Time: t.Read}))
	default:
		m.Facts = append(m.Facts, locale.Say("outcome.read.old", locale.Ago{Time: t.Read}))
	}
	for _, other := range l.Money.Also {
		m.Facts = append(m.Facts, locale.Say("outcome.also", other.Platform, other.ID))
	}
	if t.Deep != "" {
		m.Links = append(m.Links, views.EvidenceLink{Text: locale.Say("may.open", t.Platform), Href: t.Deep, Out: true})
	}
}

// reasonWords are the platforms' words for reasons that the catalogue has.
var reasonWords = []string{"duplicate", "fraudulent", "requested_by_customer", "expired_uncaptured_charge"}

func reasonText(t models.Telling) locale.Text {
	switch {
	case t.Reason == "":
		return locale.Say("outcome.reason.none", t.Platform)
	case slices.Contains(reasonWords, t.Reason):
		return locale.Say("outcome.reason", t.Platform, locale.Say("outcome.reason."+t.Reason))
	}
	return locale.Say("outcome.reason", t.Platform, t.Reason)
}

func toldModel(e models.Explanation) views.ToldModel {
	return views.ToldModel{Part: e.Part, Sum: locale.Money{Minor: e.Amount, Currency: e.Currency}, State: e.Standing, Code: e.Code, Reason: e.Reason,
		By: cmp.Or(e.ByName, e.By), At: e.At}
}
