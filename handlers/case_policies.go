package handlers

import (
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/gin-gonic/gin"

	"counterfoil/models"
	"counterfoil/models/casework"
	"counterfoil/views"
	"counterfoil/views/locale"
	"counterfoil/web"
)

func casePolicyPage(slug, rule string) string {
	return "/policies/" + slug + "/case?" + url.Values{"rule": {rule}}.Encode()
}

// casePolicyLine is a row of the policies of exceptions.
func casePolicyLine(slug string, p models.CasePolicy) views.CasePolicyLine {
	l := views.CasePolicyLine{Key: p.Key, Kind: p.Kind, Policy: p.Now, Tell: p.NowTell, Grace: graceOf(p), Urgency: p.Urgency, Desk: p.Desk, Page: casePolicyPage(slug, p.Key)}
	if p.Differs() {
		l.Default = policyText(p.Policy, p.Tell)
	}
	if !p.Changed.IsZero() {
		l.Changed = locale.Say("case_policy.changed", p.ChangedBy, p.Changed)
	}
	if p.Asked != nil {
		l.Asked, l.AskedAt = locale.Say("case_policy.waits", policyText(p.Wanted.Policy, p.Wanted.Tell)), views.RequestPath(p.Asked.ID)
	}
	return l
}

func policyText(p models.Policy, tell bool) locale.Text {
	word := locale.Say("policy." + string(p))
	if tell {
		return locale.Say("case_policy.changed", word, locale.Say("case_policy.tell"))
	}
	return word
}

// graceOf says how long an exception may settle by itself, as the rule is in force.
func graceOf(p models.CasePolicy) locale.Text {
	r := p.Decided(p.Now, p.NowTell)
	grace := spanOf(r.Grace)
	switch {
	case r.Policy == models.PolicyHold && r.Heals:
		return locale.Say("case_policy.read_once")
	case r.Ends > 0:
		return locale.Say("case_policy.ends", spanOf(r.Ends))
	case r.Policy == models.PolicyWait && r.Grace == 0:
		grace = locale.Say("case_policy.connection", spanOf(models.HealAfter))
	case r.Grace == 0:
		return locale.Say("case_policy.none")
	}
	if r.Heals {
		return locale.Say("case_policy.changed", grace, locale.Say("case_policy.read"))
	}
	return grace
}

func spanOf(d time.Duration) locale.Text {
	if d >= 48*time.Hour && d%(24*time.Hour) == 0 {
		return locale.Say("case_policy.days", int(d/(24*time.Hour)))
	}
	return waits(d)
}

// casePolicy is the row of a shop's policies that a request is about.
func (h Policies) casePolicy(c *gin.Context, rule string) (models.PolicyFile, models.CasePolicy, error) {
	f, err := h.Book.File(c.Request.Context(), web.Actor(c), c.Param("slug"))
	if err != nil {
		return f, models.CasePolicy{}, err
	}
	i := slices.IndexFunc(f.Cases, func(p models.CasePolicy) bool { return p.Key == rule })
	if i < 0 {
		return f, models.CasePolicy{}, models.Fail(models.NotFound, "error.policy_unknown")
	}
	return f, f.Cases[i], nil
}

func (h Policies) caseForm(c *gin.Context) error {
	f, p, err := h.casePolicy(c, c.Query("rule"))
	if err != nil {
		return err
	}
	return h.showCaseForm(c, http.StatusOK, f, p, typedPolicy{policy: string(p.Now), tell: p.NowTell})
}

// A typedPolicy is a change of a policy as somebody typed it, with what is wrong.
type typedPolicy struct {
	policy, reason string
	tell           bool
	errors         views.FieldErrors
	wrong          locale.Text
}

func (h Policies) showCaseForm(c *gin.Context, status int, f models.PolicyFile, p models.CasePolicy, t typedPolicy) error {
	tell := "false"
	if t.tell {
		tell = "true"
	}
	policy := views.FieldModel{Name: "policy", Label: locale.Say("case_policy.policy"), Radio: true, Required: true, Value: t.policy}
	for _, x := range models.Policies {
		policy.Choices = append(policy.Choices, views.ChoiceModel{Value: string(x), Label: locale.Say("policy." + string(x))})
	}
	form := views.ActFormModel{Name: "case", Title: locale.Say("case_policy.change"), Post: "/policies/" + f.Slug + "/case", Do: locale.Say("case_policy.save"), Icon: "tick",
		Says: []locale.Text{locale.Say("case_policy.second")}, Errors: t.errors, Wrong: t.wrong,
		Fields: []views.FieldModel{policy, {Name: "tell", Label: locale.Say("case_policy.tell_field"), Check: true, Value: tell},
			{Name: "reason", Label: locale.Say("case_policy.reason"), Value: t.reason, Max: longestReason},
			{Name: "rule", Value: p.Key, Hidden: true}, {Name: "seen", Value: p.Seen(), Hidden: true}}}
	if p.Asked != nil {
		form.Refused = locale.Say("action.open_request")
	}
	m := views.CasePolicyForm{Shop: f.ShopName, Line: casePolicyLine(f.Slug, p), Now: locale.Say("case_policy.now", policyText(p.Now, p.NowTell), policyText(p.Policy, p.Tell)),
		Back: policiesPath(f.Slug) + "#cases", Form: form}
	return web.Render(c, status, views.CasePolicy(web.Page(c, locale.From(c.Request.Context()).Text(ruleTitle(p.CaseRule)), "policies"), m))
}

// setCase changes what happens while an exception of a kind is open.
func (h Policies) setCase(c *gin.Context) error {
	var in struct {
		Rule   string `form:"rule"`
		Policy string `form:"policy"`
		Tell   bool   `form:"tell"`
		Reason string `form:"reason"`
		Seen   string `form:"seen"`
	}
	if err := c.ShouldBind(&in); err != nil {
		return models.Fail(models.Invalid, "error.invalid").Because(err)
	}
	f, p, err := h.casePolicy(c, in.Rule)
	if err != nil {
		return err
	}
	asked, err := h.Book.SetCasePolicy(c.Request.Context(), web.Actor(c), f.Slug, casework.PolicyChange{Seen: in.Seen, Reason: in.Reason,
		PolicyTerms: models.PolicyTerms{Rule: in.Rule, Policy: models.Policy(in.Policy), Tell: in.Tell}})
	if t, ok := refused(err, "case", 0, act{Reason: in.Reason}); ok {
		return h.showCaseForm(c, t.status, f, p, typedPolicy{policy: in.Policy, tell: in.Tell, reason: in.Reason, errors: t.errors, wrong: t.wrong})
	}
	if models.CodeOf(err) == models.Conflict {
		if f, p, err = h.casePolicy(c, in.Rule); err != nil {
			return err
		}
		return h.showCaseForm(c, http.StatusConflict, f, p, typedPolicy{policy: in.Policy, tell: in.Tell, reason: in.Reason, wrong: locale.Say("error.rules_saved_meanwhile")})
	}
	said := "case_policy.saved"
	if asked != 0 {
		said = "case_policy.proposed"
	}
	if err := flashed(c, err, said); err != nil {
		return err
	}
	return web.SeeOther(c, policiesPath(f.Slug)+"#rule-"+in.Rule)
}
