package handlers

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/gin-gonic/gin"

	"counterfoil/models"
	"counterfoil/views"
	"counterfoil/views/locale"
	"counterfoil/web"
)

// asking is the request that a page is about, where the person sees it.
func (h Actions) asking(c *gin.Context) (models.Request, error) {
	id, err := idParam(c)
	if err != nil {
		return models.Request{}, err
	}
	return h.Casework.Find(c.Request.Context(), web.Actor(c), id)
}

func (h Actions) request(c *gin.Context) error {
	r, err := h.asking(c)
	if err != nil {
		return err
	}
	return h.showRequest(c, r, typed{status: http.StatusOK})
}

// over is the catalogue key of the limit by amount that keeps the person from saying
// yes to a request; empty where none does. A no has no limit.
func (h Actions) over(ctx context.Context, actor models.Actor, r models.Request) (string, error) {
	if ok, _ := actor.MayReject(r); !ok {
		return "", nil
	}
	stake, err := h.Casework.Stake(ctx, actor, r)
	if err != nil {
		return "", err
	}
	if ok, why := actor.MayDecide(r, stake); !ok && why != "error.approved_already" {
		return why, nil
	}
	return "", nil
}

// overOpen is over for the one of some requests that waits for a decision.
func (h Actions) overOpen(ctx context.Context, actor models.Actor, requests []models.Request) (string, error) {
	for _, r := range requests {
		if r.State == models.RequestProposed {
			return h.over(ctx, actor, r)
		}
	}
	return "", nil
}

func (h Actions) showRequest(c *gin.Context, r models.Request, t typed) error {
	over, err := h.over(c.Request.Context(), web.Actor(c), r)
	if err != nil {
		return err
	}
	m := requestModel(r, web.Actor(c), over, web.Now(c), t)
	m.About, m.Href = requestAbout(r), requestSubject(r)
	p := web.Page(c, locale.T(c.Request.Context(), "request.title", strconv.FormatInt(r.ID, 10)), "actions")
	return web.Render(c, t.status, views.RequestFile(p, m))
}

// decide approves or rejects a request.
func (h Actions) decide(yes bool) web.HandlerFunc {
	return func(c *gin.Context) error {
		return h.end(c, "decide", func(ctx context.Context, actor models.Actor, r models.Request, note string) (string, error) {
			after, err := h.Casework.Decide(ctx, actor, r.ID, yes, note)
			if after.State == models.RequestProposed {
				return "request.done.approved", err
			}
			return "request.done." + string(after.State), err
		})
	}
}

// withdraw takes back what the person proposed.
func (h Actions) withdraw(c *gin.Context) error {
	return h.end(c, "withdraw", func(ctx context.Context, actor models.Actor, r models.Request, _ string) (string, error) {
		return "request.done.withdrawn", h.Casework.Withdraw(ctx, actor, r.ID)
	})
}

func (h Actions) end(c *gin.Context, form string, how func(context.Context, models.Actor, models.Request, string) (string, error)) error {
	r, err := h.asking(c)
	if err != nil {
		return err
	}
	in, err := readAct(c)
	if err != nil {
		return err
	}
	said, err := how(c.Request.Context(), web.Actor(c), r, in.Note)
	if t, ok := refused(err, form, r.ID, in); ok {
		return h.showRequest(c, r, t)
	}
	if err := flashed(c, err, said); err != nil {
		return err
	}
	return web.SeeOther(c, requestSubject(r))
}

func (h Actions) replacementForm(c *gin.Context) error {
	f, err := h.ordered(c)
	if err != nil {
		return err
	}
	return h.showReplacement(c, f, typed{status: http.StatusOK})
}

// ordered is the order that a replacement is for, where the person sees it.
func (h Actions) ordered(c *gin.Context) (models.OrderFile, error) {
	id, err := idParam(c)
	if err != nil {
		return models.OrderFile{}, err
	}
	f, err := h.Orders.OrderFile(c.Request.Context(), id)
	if err == nil && !web.Actor(c).Sees(f.ShopID) {
		err = models.Fail(models.NotFound, "error.not_found")
	}
	return f, err
}

func (h Actions) showReplacement(c *gin.Context, f models.OrderFile, t typed) error {
	ctx, actor := c.Request.Context(), web.Actor(c)
	page, err := h.Casework.List(ctx, models.RequestQuery{Order: f.ID, Kind: models.RequestReplacement, State: models.RequestProposed})
	if err != nil {
		return err
	}
	over, err := h.overOpen(ctx, actor, page.Items)
	if err != nil {
		return err
	}
	m := replacementModel(f, page.Items, actor, over, web.Now(c), t)
	return web.Render(c, t.status, views.Replacement(web.Page(c, locale.T(ctx, "may.replacement"), "orders"), m))
}

// replace asks for a second shipment of an order.
func (h Actions) replace(c *gin.Context) error {
	f, err := h.ordered(c)
	if err != nil {
		return err
	}
	in, err := readAct(c)
	if err != nil {
		return err
	}
	r, err := h.Casework.Propose(c.Request.Context(), web.Actor(c), models.Ask{Kind: models.RequestReplacement, Order: f.ID, Code: models.ReasonCode(in.Code), Reason: in.Reason})
	if t, ok := refused(err, "replacement", f.ID, in); ok {
		return h.showReplacement(c, f, t)
	}
	if err := flashed(c, err, "request.done."+string(r.State)); err != nil {
		return err
	}
	return web.SeeOther(c, orderPath(f.ID))
}

// requestSubject is the page of what a request is about.
func requestSubject(r models.Request) string {
	switch {
	case r.Exception != 0:
		return views.ExceptionPath(r.Exception)
	case r.ActionID != 0:
		return views.ActionPath(r.ActionID)
	case r.OrderID != 0:
		return orderPath(r.OrderID)
	case r.ActionKind != "": // where it is made live
		return kindPath(r.Shop, r.ActionKind)
	}
	return policiesPath(r.Shop)
}

func requestAbout(r models.Request) locale.Text {
	kind := locale.Say("action." + string(r.ActionKind))
	switch {
	case r.Exception != 0:
		return locale.Say("cases.ref", strconv.FormatInt(r.Exception, 10))
	case r.Kind == models.RequestPolicy:
		return policyAsked(r)
	case r.ActionID != 0 && r.ActionKind != "":
		return locale.Say("action.ref", kind, orDash(r.OrderName))
	case r.OrderID != 0:
		return locale.Say("action.ref", locale.Say("nav.orders"), orDash(r.OrderName))
	case r.ActionKind != "":
		return locale.Say("action.ref", kind, r.Shop)
	}
	return locale.Say("value", r.Shop)
}

// requestModel is a request as it stands, with what the person may decide about it.
// over is the catalogue key of the limit that stands in the way of the person's yes.
func requestModel(r models.Request, actor models.Actor, over string, now time.Time, t typed) views.RequestModel {
	m := views.RequestModel{ID: r.ID, Kind: asks(r), State: r.State, Code: string(r.Code), Reason: r.Reason, Note: r.Note,
		Facts: []locale.Text{locale.Say("request.by", orDash(r.ByName, r.By), locale.Say("role."+string(r.ByRole)), r.At)}}
	say := func(key string, args ...any) { m.Facts = append(m.Facts, locale.Say(key, args...)) }
	for _, a := range r.Approvals {
		say("request.approved_by", orDash(a.Name, a.By), locale.Say("role."+string(a.Role)), a.At)
	}
	switch {
	case r.State == models.RequestProposed:
		if r.Needs > 1 {
			say("request.needs", len(r.Approvals), r.Needs)
		}
		say("request.expires", locale.Ago{Time: r.Expires})
		if r.Kind != models.RequestLive {
			m.Forms = requestForms(r, actor, over, t)
		}
	case r.Decider != "":
		say("request.decided", r.Decider, r.Decided)
	case !r.Decided.IsZero():
		say("request.ended", r.Decided)
	}
	if r.Made != 0 && r.Made != r.ActionID {
		m.Made = views.ActionPath(r.Made)
	}
	return m
}

func requestForms(r models.Request, actor models.Actor, over string, t typed) []views.ActFormModel {
	path := views.RequestPath(r.ID)
	decide := views.ActFormModel{Name: "decide", Title: locale.Say("request.decide"), Post: path + "/approve", Do: locale.Say("request.approve." + string(asks(r))), Icon: "tick",
		Says: []locale.Text{locale.Say("request.decide." + string(asks(r)))}, Other: path + "/reject", OtherDo: locale.Say("request.reject"),
		Fields: []views.FieldModel{{Name: "note", Label: locale.Say("request.note_field"), Max: longestReason}}}
	if more := r.Needs - len(r.Approvals); more > 1 {
		decide.Says = append(decide.Says, locale.Say("request.decide.two", more))
	}
	if over != "" {
		decide.Says = append(decide.Says, locale.Say(over))
	}
	own := r.By == actor.ID()
	switch {
	case own:
		decide.Refused = locale.Say("request.own")
	case slices.ContainsFunc(r.Approvals, func(a models.Approval) bool { return a.By == actor.ID() }):
		decide.Refused = locale.Say("request.approved_already")
	default:
		decide.Refused = without(actor, r.Kind.Decides())
	}
	forms := []views.ActFormModel{fill(decide, t, r.ID)}
	if own {
		forms = append(forms, fill(views.ActFormModel{Name: "withdraw", Title: locale.Say("request.withdraw"), Post: path + "/withdraw", Do: locale.Say("request.withdraw"), Icon: "x",
			Says: []locale.Text{locale.Say("request.withdraw.is")}, Plain: true}, t, r.ID))
	}
	return forms
}

// given are the instructions to ship that somebody outside may have heard of.
func given(f models.OrderFile) int {
	n := 0
	for _, a := range f.Actions {
		if a.Kind == models.FulfillmentInstruction && a.Heard() {
			n++
		}
	}
	return n
}

// replacementOffers lets a person ask for a second shipment, where there was a first,
// or leads to what somebody asked for already.
func replacementOffers(f models.OrderFile, actor models.Actor) []views.OfferModel {
	if i := slices.IndexFunc(f.Asked, func(r models.Request) bool { return r.Kind == models.RequestReplacement }); i >= 0 {
		r := f.Asked[i]
		return []views.OfferModel{{Label: locale.Say("may.replacement.see"), Icon: "review", Page: views.RequestPath(r.ID),
			Note: locale.Say("may.replacement.asked", orDash(r.ByName, r.By), locale.Say("role."+string(r.ByRole)), locale.Ago{Time: r.Expires})}}
	}
	if f.Unreplaceable(f.Actions) != "" {
		return nil
	}
	return []views.OfferModel{{Label: locale.Say("may.replacement"), Icon: "send", Page: orderPath(f.ID) + "/replacement", Note: locale.Say("may.replacement.is"),
		Refused: without(actor, models.ActionsRequest)}}
}

func replacementModel(f models.OrderFile, open []models.Request, actor models.Actor, over string, now time.Time, t typed) views.ReplacementModel {
	m := views.ReplacementModel{OrderID: f.ID, OrderName: orderName(f.Order), ShopName: f.ShopName}
	for _, r := range open {
		m.Requests = append(m.Requests, requestModel(r, actor, over, now, t))
	}
	form := views.ActFormModel{Name: "replacement", Title: locale.Say("may.replacement"), Post: orderPath(f.ID) + "/replacement", Do: locale.Say("may.replacement"), Icon: "send",
		Says: []locale.Text{locale.Say("replacement.is")}, Fields: askFields()}
	if n := given(f); n > 0 {
		form.Says = append(form.Says, locale.Say("replacement.count", n))
	}
	if why := f.Unreplaceable(f.Actions); why != "" {
		form.Refused = locale.Say(why)
	}
	if len(open) > 0 {
		form.Refused = locale.Say("action.open_request")
	}
	m.Form = fill(form, t, f.ID)
	return m
}

// dismissal is how pages call a request to dismiss an exception, which is kept as the
// acceptance of what it is about.
const dismissal models.RequestKind = "dismiss"

// asks is what a request asks for, as pages call it.
func asks(r models.Request) models.RequestKind {
	var terms models.AcceptTerms
	if r.Kind == models.RequestAccept && json.Unmarshal([]byte(r.Terms), &terms) == nil && terms.How == models.HowDismissed {
		return dismissal
	}
	return r.Kind
}

// policyAsked is a policy with what somebody wants of it.
func policyAsked(r models.Request) locale.Text {
	var terms models.PolicyTerms
	rule, ok := models.CaseRule{}, json.Unmarshal([]byte(r.Terms), &terms) == nil
	if ok {
		rule, ok = models.CaseRuleOf(terms.Rule)
	}
	if !ok {
		return locale.Say("value", r.Shop)
	}
	return locale.Say("case_policy.asked", ruleTitle(rule), locale.Say("policy."+string(terms.Policy)), r.Shop)
}

// ruleTitle is what a row of the policies is called.
func ruleTitle(r models.CaseRule) locale.Text {
	return locale.Say("request.of", locale.Say("exception."+string(r.Kind)), locale.Say("case_rule."+r.Key))
}
