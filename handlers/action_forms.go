package handlers

import (
	"slices"

	"counterfoil/models"
	"counterfoil/models/actions"
	"counterfoil/views"
	"counterfoil/views/locale"
)

// actionForms are what the person may do with an action, or may not and why.
func actionForms(in actionIn) []views.ActFormModel {
	f, path := in.file, views.ActionPath(in.file.ID)
	var forms []views.ActFormModel
	add := func(m views.ActFormModel, refused locale.Text) {
		m.Post, m.Refused = path+"/"+m.Name, refused
		m.Plain = len(forms) > 0
		forms = append(forms, fill(m, in.typed, f.ID))
	}
	switch f.State {
	case models.ActionManual:
		add(tickForm(), without(in.actor, models.ActionsReceipt))
	case models.ActionUnclear, models.ActionSending, models.ActionFailed:
		add(settleForm(f.State), unsettled(in.actor, f.State))
	}
	asked := openRequest(in.requests)
	switch {
	case f.State == models.ActionFailed:
		if f.Kind.HighRisk() && f.Error == models.ReportedFailed {
			add(releaseForm(in), releaseRefused(in, asked))
			break
		}
		add(views.ActFormModel{Name: "retry", Title: locale.Say("action.retry.title"), Says: []locale.Text{locale.Say("action.retry.is")}, Fields: []views.FieldModel{reasonField()},
			Do: locale.Say("action.retry.title"), Icon: "sync"}, without(in.actor, models.ActionsRetry))
	case f.State == models.ActionWaiting || f.State == models.ActionPlanned:
		add(releaseForm(in), releaseRefused(in, asked))
	case f.State == models.ActionWithdrawn && f.Sent.IsZero():
		add(backForm(), backRefused(in, asked))
	case f.State == models.ActionDone && f.Kind == models.CustomerMessage:
		add(views.ActFormModel{Name: "again", Title: locale.Say("action.again.title"), Says: []locale.Text{locale.Say("action.again.is")}, Fields: askFields(),
			Do: locale.Say("action.again.title"), Icon: "send"}, askRefused(in.actor, asked))
	}
	return forms
}

// fill gives a form back what was typed into it, with what is wrong.
func fill(m views.ActFormModel, t typed, about int64) views.ActFormModel {
	if t.form == "" || t.form != m.Name || t.id != about {
		return m
	}
	m.Wrong, m.Errors = t.wrong, t.errors
	named := map[string]bool{}
	for i, field := range m.Fields {
		named[field.Name] = true
		m.Fields[i].Value = t.value(field.Name)
	}
	for field, text := range t.errors {
		if !named[field] && m.Wrong.Empty() {
			m.Wrong = text
		}
	}
	return m
}

// longest are the longest texts that fields take.
const (
	longestReceipt = 200
	longestReason  = 500
)

func receiptField(required bool) views.FieldModel {
	label := locale.Say("action.receipt_field_done")
	if required {
		label = locale.Say("action.receipt_field")
	}
	return views.FieldModel{Name: "receipt", Label: label, Required: required, Max: longestReceipt}
}

func reasonField() views.FieldModel {
	return views.FieldModel{Name: "reason", Label: locale.Say("action.reason_field"), Required: true, Max: longestReason}
}

// askFields are those of every request: a code, and a sentence beside it.
func askFields() []views.FieldModel {
	code := views.FieldModel{Name: "code", Label: locale.Say("action.code_field"), Value: "other"}
	for _, c := range models.ReasonCodes {
		code.Choices = append(code.Choices, views.ChoiceModel{Value: string(c), Label: locale.Say("reason_code." + string(c))})
	}
	return []views.FieldModel{code, reasonField()}
}

func outcomeField(value string, choices ...views.ChoiceModel) views.FieldModel {
	return views.FieldModel{Name: "outcome", Label: locale.Say("action.settle.outcome"), Radio: true, Required: true, Value: value, Choices: choices}
}

var (
	itHappened = views.ChoiceModel{Value: actions.Happened, Label: locale.Text{Key: "action.settle.done"}}
	itDidNot   = views.ChoiceModel{Value: actions.Failed, Label: locale.Text{Key: "action.settle.failed"}}
)

func tickForm() views.ActFormModel {
	return views.ActFormModel{Name: "receipt", Title: locale.Say("action.tick.title"), Says: []locale.Text{locale.Say("action.tick.is")}, Do: locale.Say("action.settle.do"), Icon: "tick",
		Fields: []views.FieldModel{outcomeField(actions.Happened, itHappened, itDidNot), receiptField(false)}}
}

func settleForm(s models.ActionState) views.ActFormModel {
	m := views.ActFormModel{Name: "receipt", Title: locale.Say("action.settle.title"), Says: []locale.Text{locale.Say("action.settle.is")}, Do: locale.Say("action.settle.do"), Icon: "tick",
		Fields: []views.FieldModel{outcomeField("", itHappened, itDidNot), receiptField(false)}}
	if s == models.ActionFailed { // that it failed is known
		m.Fields[0] = outcomeField(actions.Happened, itHappened)
	}
	return m
}

func releaseForm(in actionIn) views.ActFormModel {
	m := views.ActFormModel{Name: "release", Title: locale.Say("action.release.title"), Says: []locale.Text{locale.Say("action.release.is")}, Fields: askFields(),
		Do: locale.Say("action.release.title"), Icon: "send"}
	if facts := unmet(in.conditions, false); len(facts) > 0 {
		m.Says = append(m.Says, locale.Say("action.release.facts", facts))
	}
	return m
}

func backForm() views.ActFormModel {
	return views.ActFormModel{Name: "release", Title: locale.Say("action.back.title"), Says: []locale.Text{locale.Say("action.back.is")}, Fields: askFields(),
		Do: locale.Say("action.back.title"), Icon: "send"}
}

// unmet names the unmet conditions that people decide, or those that only facts meet.
func unmet(conditions []models.Condition, byPeople bool) locale.List {
	var list locale.List
	for _, c := range conditions {
		if !c.Met && slices.Contains(models.ByPeople, c.Key) == byPeople {
			list = append(list, conditionText(c))
		}
	}
	return list
}

// without says why a person may not do something, where that is the role's fault.
func without(a models.Actor, p models.Permission) locale.Text {
	if a.May(p) {
		return locale.Text{}
	}
	return locale.Say("may.refused.role", locale.Say("role."+string(a.Role)), roleList(p))
}

// unsettled says why a person may not say how an action ended. Who reports on what is
// unclear decides about money and goods, so that it needs more than the permission.
func unsettled(a models.Actor, s models.ActionState) locale.Text {
	if s == models.ActionSending {
		return without(a, models.ActionsReceipt)
	}
	if a.Decides() {
		return locale.Text{}
	}
	return locale.Say("may.refused.role", locale.Say("role."+string(a.Role)), locale.List{locale.Say("role.lead"), locale.Say("role.manager")})
}

func openRequest(requests []models.Request) bool {
	return slices.ContainsFunc(requests, func(r models.Request) bool { return r.State == models.RequestProposed })
}

func askRefused(a models.Actor, open bool) locale.Text {
	if open {
		return locale.Say("action.open_request")
	}
	return without(a, models.ActionsRequest)
}

func releaseRefused(in actionIn, open bool) locale.Text {
	if no := askRefused(in.actor, open); !no.Empty() {
		return no
	}
	if in.file.State != models.ActionFailed && len(unmet(in.conditions, true)) == 0 {
		return locale.Say("action.release.no")
	}
	return locale.Text{}
}

// backRefused keeps what was called back where the reason for that still stands.
func backRefused(in actionIn, open bool) locale.Text {
	if no := askRefused(in.actor, open); !no.Empty() {
		return no
	}
	if axis, ended := in.order.Withdraws(); ended {
		return locale.Say("action.back.no", locale.Say("condition.detail.state", locale.Say("axis."+string(axis)), locale.Say("state."+string(axis)+"."+string(in.order.State(axis)))))
	}
	return locale.Text{}
}
