package handlers

import (
	"net/url"
	"slices"
	"strconv"
	"time"

	"counterfoil/models"
	"counterfoil/models/casework"
	"counterfoil/views"
	"counterfoil/views/locale"
)

func policiesPath(slug string) string { return "/policies?shop=" + url.QueryEscape(slug) }

func kindPath(slug string, k models.ActionKind) string { return policiesPath(slug) + "#" + string(k) }

func livePath(slug string, k models.ActionKind) string {
	return "/policies/" + slug + "/live/" + string(k)
}

// policiesModel works out the page of a shop's policies.
func policiesModel(f models.PolicyFile, actor models.Actor) views.PoliciesModel {
	m := views.PoliciesModel{Shop: f.ShopName, Shops: f.Shops, Version: f.Rules.Version(), Differs: len(f.Rules.Changed()) > 0, Saved: locale.Say("policies.saved_never")}
	if !f.Saved.IsZero() {
		m.Saved = locale.Say("policies.saved_by", f.SavedBy, f.Saved)
	}
	if !actor.May(models.PoliciesEdit) {
		m.Refused = locale.Say("may.refused.role", locale.Say("role."+string(actor.Role)), roleList(models.PoliciesEdit))
	}
	for _, o := range models.Occasions {
		group := views.RuleGroup{Occasion: o}
		for _, r := range f.Rules {
			if r.Occasion == o {
				group.Rules = append(group.Rules, ruleModel(r, f.Changes))
			}
		}
		m.Groups = append(m.Groups, group)
	}
	for _, k := range f.Kinds {
		m.Kinds = append(m.Kinds, kindModel(f, k, actor))
	}
	for _, p := range f.Cases {
		m.Cases = append(m.Cases, casePolicyLine(f.Slug, p))
	}
	return m
}

func ruleModel(r models.ActionRule, changes []models.RuleChange) views.RuleModel {
	row := views.RuleModel{Field: casework.RuleField(r), Kind: r.Kind, Says: locale.Say("policies.plans." + string(r.Occasion) + "." + string(r.Kind)), Stage: r.Stage(),
		Active: r.Active, Waits: waits(r.Wait), Default: inForce(r.Default())}
	row.Wait, row.Unit = written(r.Wait)
	if i := slices.IndexFunc(changes, func(c models.RuleChange) bool { return r.Same(c.ActionRule) }); i >= 0 {
		row.Changed = locale.Say("policies.changed", changes[i].Name, changes[i].At)
	}
	return row
}

// waits says how long a rule lets its actions wait.
func waits(d time.Duration) locale.Text {
	n, unit := written(d)
	switch {
	case d == 0:
		return locale.Say("policies.at_once")
	case unit == "h":
		return locale.Say("time.h", n)
	}
	return locale.Say("time.min", n)
}

// written is a waiting time as it stands in its field.
func written(d time.Duration) (wait, unit string) {
	if d > 0 && d%time.Hour == 0 {
		return strconv.Itoa(int(d / time.Hour)), "h"
	}
	return strconv.Itoa(int(d / time.Minute)), "min"
}

// inForce says what a rule decides.
func inForce(r models.ActionRule) locale.Text {
	switch {
	case !r.Active:
		return locale.Say("policies.off")
	case r.Wait == 0:
		return locale.Say("policies.on")
	}
	return locale.Say("policies.on_after", waits(r.Wait))
}

// retype puts what was typed into the page, with what is wrong with it and, after
// somebody else saved, with what is in force now. Nothing typed leaves the page as it is.
func retype(m *views.PoliciesModel, rules models.ActionRules, typed map[string]typedRule, bad map[string]string, meanwhile bool) {
	if typed == nil {
		return
	}
	for _, g := range m.Groups {
		for i := range g.Rules {
			row := &g.Rules[i]
			t := typed[row.Field]
			row.Active, row.Wait, row.Unit = t.active, t.wait, t.unit
			if key := bad[row.Field]; key != "" {
				row.Meanwhile = locale.Say(key)
				continue
			}
			now := rules[slices.IndexFunc(rules, func(r models.ActionRule) bool { return casework.RuleField(r) == row.Field })]
			if wait, ok := typedWait(t); meanwhile && ok && (now.Active != t.active || now.Wait != wait) {
				row.Meanwhile = locale.Say("policies.meanwhile", inForce(now))
			}
		}
	}
}

func kindModel(f models.PolicyFile, k models.KindFile, actor models.Actor) views.KindModel {
	m := views.KindModel{KindFile: k, Page: livePath(f.Slug, k.Kind),
		List: "/actions?" + url.Values{"shop": {f.Slug}, "kind": {string(k.Kind)}, "state": {string(models.ActionWatched)}}.Encode()}
	kind := locale.Say("action." + string(k.Kind))
	change := views.OfferModel{Label: locale.Say("policies.make_live", kind), Icon: "send", Page: m.Page, Note: locale.Say("policies.make_live.is")}
	if k.Mode != models.Watch {
		change.Label, change.Note = locale.Say("policies.change_live", kind), locale.Say("policies.change_live.is")
	}
	stop := views.OfferModel{Label: locale.Say("policies.stop"), Icon: "stop", Post: m.Page + "/stop", Confirm: locale.Say("policies.stop.ask", kind, f.Name),
		Note: locale.Say("policies.stop.is")}
	if !actor.May(models.ActionsLive) {
		refused := locale.Say("may.refused.role", locale.Say("role."+string(actor.Role)), roleList(models.ActionsLive))
		change.Refused, stop.Refused = refused, refused
	}
	if l := k.Last; l != nil {
		m.Last = locale.Say("policies.last."+string(l.State), l.ByName, l.At, l.Decider, l.Decided, l.Note)
	}
	if k.Open == nil {
		m.Offers = append(m.Offers, change)
	} else {
		m.Open = liveModel(*k.Open, m.Page, actor)
	}
	if k.Mode != models.Watch {
		m.Offers = append(m.Offers, stop)
	}
	return m
}

func liveModel(l models.Live, path string, actor models.Actor) *views.LiveModel {
	m := &views.LiveModel{Live: l, Path: path, Own: l.By == actor.ID() && actor.May(models.ActionsLive), Decides: l.Agrees(actor)}
	other := locale.Say("role." + string(l.OtherSide()))
	switch {
	case m.Own:
		m.Refused = locale.Say("policies.own", other)
	case !m.Decides:
		m.Refused = locale.Say("may.refused.role", locale.Say("role."+string(actor.Role)), locale.List{other})
	}
	return m
}
