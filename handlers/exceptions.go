package handlers

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"counterfoil/models"
	"counterfoil/models/casework"
	"counterfoil/models/reconcile"
	"counterfoil/views"
	"counterfoil/views/locale"
	"counterfoil/web"
)

type caseReader interface {
	Exceptions(ctx context.Context, q models.CaseQuery) (models.Page[models.CaseRow], error)
	ExceptionFile(ctx context.Context, id int64) (models.ExceptionFile, error)
	CaseCount(ctx context.Context, q models.CaseQuery) (models.CaseCount, error)
}

type caseLister interface {
	CaseKinds(ctx context.Context, q models.CaseQuery) ([]models.KindCount, error)
	Colleagues(ctx context.Context, shop int64) ([]models.Colleague, error)
	ShopNames(ctx context.Context, shops []int64) ([]models.ShopName, error)
}

// A caseworker has exceptions in people's hands.
type caseworker interface {
	Find(ctx context.Context, actor models.Actor, id int64) (models.Exception, error)
	Take(ctx context.Context, actor models.Actor, id, version int64) error
	Assign(ctx context.Context, actor models.Actor, id, version, to int64) error
	GiveBack(ctx context.Context, actor models.Actor, id, version int64) error
	Note(ctx context.Context, actor models.Actor, id int64, body string) error
	Tell(ctx context.Context, actor models.Actor, id, version int64) error
	Solve(ctx context.Context, actor models.Actor, id int64, c casework.Closing) error
	Dismiss(ctx context.Context, actor models.Actor, id int64, c casework.Closing) error
}

// An accepter asks another person to let a difference stay.
type accepter interface {
	ProposeCase(ctx context.Context, actor models.Actor, id, version int64, how, reason string) (models.Request, error)
}

// A caseResyncer reads what exceptions are about again.
type caseResyncer interface {
	Case(ctx context.Context, actor models.Actor, id int64) (result string, order int64, err error)
	Cases(ctx context.Context, actor models.Actor, q models.CaseQuery) (reconcile.Bulk, error)
}

// Exceptions has the pages of exceptions.
type Exceptions struct {
	Book        caseReader
	Lists       caseLister
	Connections connectionNamer
	Casework    caseworker
	Requests    accepter
	Reconcile   caseResyncer
}

// States of the list beside open and closed.
const (
	caseNeeds    = "needs"
	caseSettling = "settling"
	caseOpen     = "open"
	caseClosed   = "closed"
	caseAll      = "all"
)

// caseQuery reads the filters of the list's address.
func caseQuery(v url.Values, actor models.Actor) (models.CaseQuery, string, error) {
	q := models.CaseQuery{Shops: actor.Shops, Kind: models.ExceptionKind(v.Get("kind")), Connection: v.Get("connection"), Shop: v.Get("shop"), Urgency: models.Urgency(v.Get("urgency")),
		Policy: models.Policy(v.Get("policy")), Tell: v.Get("tell") == "true", Text: strings.TrimSpace(models.Half(v.Get("q"))), Cursor: v.Get("cursor")}
	if err := readable(v); err != nil {
		return q, "", err
	}
	wrong := func(word string) (models.CaseQuery, string, error) {
		return q, "", models.Fail(models.Invalid, "error.filter", word)
	}
	switch {
	case q.Kind != "" && !slices.Contains(models.ExceptionKinds, q.Kind):
		return wrong(string(q.Kind))
	case q.Urgency != "" && !slices.Contains(models.Urgencies, q.Urgency):
		return wrong(string(q.Urgency))
	case q.Policy != "" && !slices.Contains(models.Policies, q.Policy):
		return wrong(string(q.Policy))
	}
	for name, into := range map[string]*int64{"group": &q.Group, "order": &q.Order} {
		text := v.Get(name)
		if text == "" {
			continue
		}
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n <= 0 {
			return wrong(text)
		}
		*into = n
	}
	switch owner := v.Get("owner"); owner {
	case "":
	case "me":
		q.Owner = actor.StaffID
	case "none":
		q.Free = true
	default:
		return wrong(owner)
	}
	state := v.Get("state")
	if text := v.Get("asked"); text != "" {
		micros, err := strconv.ParseInt(text, 10, 64)
		if err != nil || micros <= 0 {
			return wrong(text)
		}
		q.Asked = time.UnixMicro(micros).UTC()
		state = caseAll
	}
	if state == "" {
		state = caseNeeds
		if q.Group != 0 || q.Order != 0 || q.Text != "" {
			state = caseOpen
		}
	}
	yes, no := true, false
	switch state {
	case caseNeeds:
		q.State, q.Needs = "open", &yes
	case caseSettling:
		q.State, q.Needs = "open", &no
	case caseOpen, caseClosed:
		q.State = state
	case caseAll:
	default:
		return wrong(state)
	}
	q.Folded = q.State == "open" && q.Group == 0
	return q, state, nil
}

// caseValues are the filters of an address without its cursor, and without state where
// that is left out.
func caseValues(v url.Values, leave ...string) url.Values {
	out := url.Values{}
	for _, name := range []string{"state", "q", "kind", "shop", "connection", "urgency", "policy", "owner", "tell", "group", "order", "asked"} {
		if s := v.Get(name); s != "" && !slices.Contains(leave, name) {
			out.Set(name, s)
		}
	}
	return out
}

func casesPath(v url.Values) string {
	if len(v) == 0 {
		return "/exceptions"
	}
	return "/exceptions?" + v.Encode()
}

func (h Exceptions) list(c *gin.Context) error {
	ctx, actor := c.Request.Context(), web.Actor(c)
	v, err := query(c)
	if err != nil {
		return err
	}
	in := casesIn{values: v, actor: actor, now: web.Now(c), slugs: h.Connections.Slugs(actor.Shops)}
	if in.query, in.state, err = caseQuery(v, actor); err != nil {
		return err
	}
	if in.page, err = h.Book.Exceptions(ctx, in.query); err != nil {
		return err
	}
	if in.count, err = h.Book.CaseCount(ctx, models.CaseQuery{Shops: actor.Shops}); err != nil {
		return err
	}
	if in.shops, err = h.Lists.ShopNames(ctx, actor.Shops); err != nil {
		return err
	}
	return web.Render(c, http.StatusOK, views.Exceptions(web.Page(c, locale.T(ctx, "nav.exceptions"), "exceptions"), exceptionsModel(in)))
}

func (h Exceptions) show(c *gin.Context) error {
	f, err := h.file(c)
	if err != nil {
		return err
	}
	return h.showFile(c, f, typedCase{typed: typed{status: http.StatusOK}})
}

// file is the exception that a request is about, where the person sees it.
func (h Exceptions) file(c *gin.Context) (models.ExceptionFile, error) {
	id, err := idParam(c)
	if err != nil {
		return models.ExceptionFile{}, err
	}
	f, err := h.Book.ExceptionFile(c.Request.Context(), id)
	if err == nil && !web.Actor(c).SeesCase(f.Exception) {
		err = models.Fail(models.NotFound, "error.exception_unknown")
	}
	return f, err
}

// A typedCase is what was typed into one of the forms of an exception's page.
type typedCase struct {
	typed
	to string
}

func (h Exceptions) showFile(c *gin.Context, f models.ExceptionFile, t typedCase) error {
	ctx, actor := c.Request.Context(), web.Actor(c)
	in := caseIn{file: f, actor: actor, now: web.Now(c), typed: t}
	if ok, _ := actor.MayAssign(f.Exception); ok && f.State == "open" {
		var err error
		if in.people, err = h.Lists.Colleagues(ctx, f.ShopID); err != nil {
			return err
		}
	}
	m := exceptionModel(in)
	return web.Render(c, t.status, views.ExceptionFile(web.Page(c, locale.From(ctx).Text(m.Title), "exceptions"), m))
}

// A caseAct is a form about an exception, as it was sent.
type caseAct struct {
	Version int64  `form:"version"`
	To      int64  `form:"to"`
	Reason  string `form:"reason"`
	Note    string `form:"note"`
	Back    string `form:"back"`
}

// act does what one of the forms of an exception asks for, and says how that went.
func (h Exceptions) act(form, said string, what func(h Exceptions, ctx context.Context, actor models.Actor, id int64, in caseAct) (string, error)) web.HandlerFunc {
	return func(c *gin.Context) error {
		id, err := idParam(c)
		if err != nil {
			return err
		}
		var in caseAct
		if err := c.ShouldBind(&in); err != nil {
			return models.Fail(models.Invalid, "error.invalid").Because(err)
		}
		otherwise, err := what(h, c.Request.Context(), web.Actor(c), id, in)
		if t, ok := refused(err, form, id, act{Reason: in.Reason, Note: in.Note}); ok {
			f, err := h.file(c)
			if err != nil {
				return err
			}
			return h.showFile(c, f, typedCase{typed: t, to: strconv.FormatInt(in.To, 10)})
		}
		if err := flashed(c, err, cmp.Or(otherwise, said)); err != nil {
			return err
		}
		return web.SeeOther(c, web.LocalPath(in.Back, views.ExceptionPath(id)))
	}
}

func takeCase(h Exceptions, ctx context.Context, actor models.Actor, id int64, in caseAct) (string, error) {
	return "", h.Casework.Take(ctx, actor, id, in.Version)
}

func assignCase(h Exceptions, ctx context.Context, actor models.Actor, id int64, in caseAct) (string, error) {
	return "", h.Casework.Assign(ctx, actor, id, in.Version, in.To)
}

func giveCaseBack(h Exceptions, ctx context.Context, actor models.Actor, id int64, in caseAct) (string, error) {
	return "", h.Casework.GiveBack(ctx, actor, id, in.Version)
}

func noteCase(h Exceptions, ctx context.Context, actor models.Actor, id int64, in caseAct) (string, error) {
	return "", h.Casework.Note(ctx, actor, id, in.Note)
}

func tellCase(h Exceptions, ctx context.Context, actor models.Actor, id int64, in caseAct) (string, error) {
	return "", h.Casework.Tell(ctx, actor, id, in.Version)
}

func solveCase(h Exceptions, ctx context.Context, actor models.Actor, id int64, in caseAct) (string, error) {
	return "", h.Casework.Solve(ctx, actor, id, casework.Closing{Version: in.Version, Reason: in.Reason})
}

// dismissCase dismisses an exception, or asks a second manager to where it takes two.
func dismissCase(h Exceptions, ctx context.Context, actor models.Actor, id int64, in caseAct) (string, error) {
	x, err := h.Casework.Find(ctx, actor, id)
	if err != nil {
		return "", err
	}
	if actor.Together(x) {
		_, err := h.Requests.ProposeCase(ctx, actor, id, in.Version, models.HowDismissed, in.Reason)
		return "case_done.accept", err
	}
	return "", h.Casework.Dismiss(ctx, actor, id, casework.Closing{Version: in.Version, Reason: in.Reason})
}

func acceptCase(h Exceptions, ctx context.Context, actor models.Actor, id int64, in caseAct) (string, error) {
	_, err := h.Requests.ProposeCase(ctx, actor, id, in.Version, models.HowAccepted, in.Reason)
	return "", err
}

// resync reads what an exception is about again.
func (h Exceptions) resync(c *gin.Context) error {
	id, err := idParam(c)
	if err != nil {
		return err
	}
	result, order, err := h.Reconcile.Case(c.Request.Context(), web.Actor(c), id)
	if wrong, ok := errors.AsType[*models.Error](err); ok && wrong.Code == models.Invalid {
		web.FlashBad(c, wrong.Key, wrong.Args...)
		return web.SeeOther(c, views.ExceptionPath(id))
	}
	if err != nil {
		return err
	}
	switch result {
	case reconcile.Same, reconcile.Moved:
		web.Flash(c, "case.resync."+result)
	default:
		web.FlashBad(c, "case.resync."+result)
	}
	if c.PostForm("back") == "order" && order != 0 { // where the button stood
		return web.SeeOther(c, orderPath(order))
	}
	return web.SeeOther(c, web.LocalPath(c.PostForm("back"), views.ExceptionPath(id)))
}

// many is the page on which all that a list shows is read again.
func (h Exceptions) many(c *gin.Context) error {
	v, err := query(c)
	if err != nil {
		return err
	}
	return h.showMany(c, http.StatusOK, v, locale.Text{})
}

func (h Exceptions) showMany(c *gin.Context, status int, v url.Values, wrong locale.Text) error {
	ctx, actor := c.Request.Context(), web.Actor(c)
	q, _, err := caseQuery(v, actor)
	if err != nil {
		return err
	}
	q.State, q.Cursor = "open", ""
	kinds, err := h.Lists.CaseKinds(ctx, q)
	if err != nil {
		return err
	}
	m := manyModel(kinds, caseValues(v), actor)
	m.Form.Wrong = wrong
	return web.Render(c, status, views.ResyncMany(web.Page(c, locale.T(ctx, "cases.many"), "exceptions"), m))
}

// resyncMany has all that a list shows read again, in the background.
func (h Exceptions) resyncMany(c *gin.Context) error {
	v, err := url.ParseQuery(c.PostForm("filters"))
	if err != nil {
		return models.Fail(models.Invalid, "error.query")
	}
	actor := web.Actor(c)
	q, _, err := caseQuery(v, actor)
	if err != nil {
		return err
	}
	did, err := h.Reconcile.Cases(c.Request.Context(), actor, q)
	if models.CodeOf(err) == models.Conflict {
		return h.showMany(c, http.StatusConflict, v, locale.Say("error.cases_none"))
	}
	if err != nil {
		return err
	}
	web.Flash(c, "cases.many_asked", did.Cases, did.Objects)
	return web.SeeOther(c, "/exceptions?asked="+strconv.FormatInt(did.At.UnixMicro(), 10))
}
