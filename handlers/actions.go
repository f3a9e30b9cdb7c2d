package handlers

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/gin-gonic/gin"

	"counterfoil/models"
	"counterfoil/models/actions"
	"counterfoil/views"
	"counterfoil/views/locale"
	"counterfoil/web"
)

type actionReader interface {
	ActionList(ctx context.Context, q models.ActionListQuery) (models.Page[models.ActionRow], error)
	ActionCounts(ctx context.Context, q models.ActionListQuery, limit int) (map[models.ActionTab]models.ActionCount, error)
	WatchedKinds(ctx context.Context, q models.ActionListQuery) (map[models.ActionKind][]string, error)
	AskedFor(ctx context.Context, q models.ActionListQuery, limit int) (requests []models.Request, more bool, err error)
	ShopNames(ctx context.Context, shops []int64) ([]models.ShopName, error)
	ActionFile(ctx context.Context, id int64) (models.ActionFile, error)
}

// A settler says what an action waits for, and takes how it ended.
type settler interface {
	Conditions(ctx context.Context, id int64) ([]models.Condition, error)
	Settle(ctx context.Context, actor models.Actor, id int64, r actions.Receipt) (models.Action, error)
}

// A requester takes what one person asks for and another one decides.
type requester interface {
	Propose(ctx context.Context, actor models.Actor, a models.Ask) (models.Request, error)
	Decide(ctx context.Context, actor models.Actor, id int64, yes bool, note string) (models.Request, error)
	Withdraw(ctx context.Context, actor models.Actor, id int64) error
	Retry(ctx context.Context, actor models.Actor, action int64, reason string) (models.Action, error)
	List(ctx context.Context, q models.RequestQuery) (models.Page[models.Request], error)
	Find(ctx context.Context, actor models.Actor, id int64) (models.Request, error)
	Stake(ctx context.Context, actor models.Actor, q models.Request) (models.Stake, error)
}

// Actions has the pages of follow-ups and of what people ask for and decide about them.
type Actions struct {
	Book     actionReader
	Orders   orderReader
	Actions  settler
	Casework requester
}

const (
	// counted is how far a tab is counted.
	counted = 999
	// asked is how many open requests the list shows above the actions.
	asked = 20
)

func (h Actions) list(c *gin.Context) error {
	v, err := query(c)
	if err != nil {
		return err
	}
	return h.showList(c, v, typed{status: http.StatusOK})
}

// showList draws the list that an address asks for; tick is what was typed on one of
// its lines and couldn't be used.
func (h Actions) showList(c *gin.Context, v url.Values, tick typed) error {
	ctx, actor := c.Request.Context(), web.Actor(c)
	q, err := actionQuery(v)
	if err != nil {
		return err
	}
	q.Shops = actor.Shops
	in := actionsIn{query: q, actor: actor, now: web.Now(c), tick: tick}
	if in.shops, err = h.Book.ShopNames(ctx, actor.Shops); err != nil {
		return err
	}
	if q.Shop != "" && !slices.ContainsFunc(in.shops, func(s models.ShopName) bool { return s.Slug == q.Shop }) {
		return models.Fail(models.Invalid, "error.filter", q.Shop)
	}
	if in.page, err = h.Book.ActionList(ctx, q); err != nil {
		return err
	}
	if in.counts, err = h.Book.ActionCounts(ctx, q, counted); err != nil {
		return err
	}
	if in.watched, err = h.Book.WatchedKinds(ctx, q); err != nil {
		return err
	}
	if q.Tab == models.TabNeeds && q.Cursor == "" {
		if in.requests, in.moreAsked, err = h.Book.AskedFor(ctx, q, asked); err != nil {
			return err
		}
	}
	p := web.Page(c, locale.T(ctx, "nav.actions"), "actions")
	in.focus = p.Flash != nil && p.Flash.Text.Key == "actions.ticked"
	return web.Render(c, tick.status, views.Actions(p, actionsModel(in)))
}

// actionQuery reads the filters of the list's address.
func actionQuery(v url.Values) (models.ActionListQuery, error) {
	if err := readable(v); err != nil {
		return models.ActionListQuery{}, err
	}
	q := models.ActionListQuery{Kind: models.ActionKind(v.Get("kind")), Shop: v.Get("shop"), Cursor: v.Get("cursor")}
	if q.Kind != "" && !slices.Contains(models.ActionKinds, q.Kind) {
		return q, models.Fail(models.Invalid, "error.filter", string(q.Kind))
	}
	if text := v.Get("order"); text != "" {
		id, err := strconv.ParseInt(text, 10, 64)
		if err != nil || id <= 0 {
			return q, models.Fail(models.Invalid, "error.filter", text)
		}
		q.Order = id
	}
	switch state := v.Get("state"); {
	case state == "" && q.Order != 0:
		q.Tab = models.TabAll
	case state == "":
		q.Tab = models.TabNeeds
	case slices.Contains(models.ActionTabs, models.ActionTab(state)):
		q.Tab = models.ActionTab(state)
	case slices.Contains(models.ActionStates, models.ActionState(state)):
		q.State = models.ActionState(state)
	default:
		return q, models.Fail(models.Invalid, "error.filter", state)
	}
	return q, nil
}

// actionValues is the address of a query, without its cursor.
func actionValues(q models.ActionListQuery) url.Values {
	v := url.Values{}
	switch {
	case q.State != "":
		v.Set("state", string(q.State))
	case q.Tab != models.TabNeeds || q.Order != 0:
		v.Set("state", string(q.Tab))
	}
	if q.Kind != "" {
		v.Set("kind", string(q.Kind))
	}
	if q.Shop != "" {
		v.Set("shop", q.Shop)
	}
	if q.Order != 0 {
		v.Set("order", strconv.FormatInt(q.Order, 10))
	}
	return v
}

func (h Actions) show(c *gin.Context) error {
	f, err := h.file(c)
	if err != nil {
		return err
	}
	return h.showFile(c, f, typed{status: http.StatusOK})
}

// file is the action that a request is about, where the person sees it.
func (h Actions) file(c *gin.Context) (models.ActionFile, error) {
	id, err := idParam(c)
	if err != nil {
		return models.ActionFile{}, err
	}
	f, err := h.Book.ActionFile(c.Request.Context(), id)
	if err == nil && !web.Actor(c).Sees(f.ShopID) {
		err = models.Fail(models.NotFound, "error.action_unknown")
	}
	return f, err
}

// showFile draws the page of an action with what was typed into one of its forms.
func (h Actions) showFile(c *gin.Context, f models.ActionFile, t typed) error {
	ctx := c.Request.Context()
	in := actionIn{file: f, actor: web.Actor(c), now: web.Now(c), typed: t}
	var err error
	if in.order, err = h.Orders.OrderFile(ctx, f.OrderID); err != nil {
		return err
	}
	if in.conditions, err = h.Actions.Conditions(ctx, f.ID); err != nil {
		return err
	}
	page, err := h.Casework.List(ctx, models.RequestQuery{Action: f.ID})
	if err != nil {
		return err
	}
	in.requests = page.Items
	if in.over, err = h.overOpen(ctx, in.actor, in.requests); err != nil {
		return err
	}
	p := web.Page(c, locale.T(ctx, "action.title", strconv.FormatInt(f.ID, 10)), "actions")
	return web.Render(c, t.status, views.ActionFile(p, actionModel(in)))
}

// An act is a form about an action, as it was sent.
type act struct {
	Outcome string `form:"outcome"`
	Receipt string `form:"receipt"`
	Code    string `form:"code"`
	Reason  string `form:"reason"`
	Note    string `form:"note"`
	Back    string `form:"back"`
}

func readAct(c *gin.Context) (act, error) {
	var in act
	if err := c.ShouldBind(&in); err != nil {
		return in, models.Fail(models.Invalid, "error.invalid").Because(err)
	}
	return in, nil
}

// A typed is what was typed into a form, with what is wrong.
type typed struct {
	status int
	form   string // empty: nothing was
	id     int64  // of what the form is about
	in     act
	errors views.FieldErrors
	wrong  locale.Text // with none of the fields
}

func (t typed) value(field string) string {
	switch field {
	case "outcome":
		return t.in.Outcome
	case "receipt":
		return t.in.Receipt
	case "code":
		return t.in.Code
	case "note":
		return t.in.Note
	}
	return t.in.Reason
}

// refused tells how a form comes back after an error of its service. What the person
// can't mend by typing on comes back as the error.
func refused(err error, form string, id int64, in act) (typed, bool) {
	t := typed{form: form, id: id, in: in, errors: views.FieldErrors{}}
	wrong, ok := errors.AsType[*models.Error](err)
	if !ok {
		return t, false
	}
	switch wrong.Code {
	case models.Invalid:
		t.status = http.StatusUnprocessableEntity
	case models.Forbidden:
		t.status = http.StatusForbidden
	case models.Unavailable:
		t.status = http.StatusServiceUnavailable
	default:
		return t, false
	}
	for field, key := range wrong.Fields {
		t.errors[field] = locale.Say(key)
	}
	if len(wrong.Fields) == 0 {
		t.wrong = locale.Say(wrong.Key, wrong.Args...)
	}
	return t, true
}

// flashed says that something was done, or what changed meanwhile. It answers any other
// error.
func flashed(c *gin.Context, err error, said string) error {
	switch {
	case err == nil:
		web.Flash(c, said)
	case models.CodeOf(err) == models.Conflict:
		flashConflict(c, err)
	default:
		return err
	}
	return nil
}

// flashConflict says what changed meanwhile; the page that follows shows how it is now.
func flashConflict(c *gin.Context, err error) {
	wrong, ok := errors.AsType[*models.Error](err)
	plain := func(a any) bool {
		switch a.(type) {
		case string, int, int64:
			return true
		}
		return false
	}
	if !ok || slices.ContainsFunc(wrong.Args, func(a any) bool { return !plain(a) }) {
		web.FlashBad(c, "request.conflict")
		return
	}
	web.FlashBad(c, wrong.Key, wrong.Args...)
}

// receipt ticks an action off or says how it ended, on its page or in the list.
func (h Actions) receipt(c *gin.Context) error {
	f, err := h.file(c)
	if err != nil {
		return err
	}
	in, err := readAct(c)
	if err != nil {
		return err
	}
	in.Back = web.LocalPath(in.Back, views.ActionPath(f.ID))
	_, err = h.Actions.Settle(c.Request.Context(), web.Actor(c), f.ID, actions.Receipt{Outcome: in.Outcome, Receipt: in.Receipt})
	if t, ok := refused(err, "receipt", f.ID, in); ok {
		if list, listed := listValues(in.Back); listed && t.status == http.StatusUnprocessableEntity {
			return h.showList(c, list, t)
		}
		return h.showFile(c, f, t)
	}
	switch {
	case models.CodeOf(err) == models.Conflict:
		flashConflict(c, err)
	case err != nil:
		return err
	case in.Outcome == actions.Failed:
		web.Flash(c, "action.settled.failed")
	case f.State == models.ActionManual:
		web.Flash(c, "actions.ticked", f.OrderName)
	default:
		web.Flash(c, "action.settled.done")
	}
	return web.SeeOther(c, in.Back)
}

// listValues are the filters of an address of the list.
func listValues(path string) (url.Values, bool) {
	path, raw, _ := strings.Cut(path, "?")
	v, err := url.ParseQuery(raw)
	return v, path == "/actions" && err == nil
}

// retry has a failed action tried once more.
func (h Actions) retry(c *gin.Context) error {
	return h.do(c, "retry", func(ctx context.Context, actor models.Actor, f models.ActionFile, in act) (string, error) {
		_, err := h.Casework.Retry(ctx, actor, f.ID, in.Reason)
		return "action.retried", err
	})
}

// ask proposes something about an action.
func (h Actions) ask(kind models.RequestKind) web.HandlerFunc {
	return func(c *gin.Context) error {
		return h.do(c, string(kind), func(ctx context.Context, actor models.Actor, f models.ActionFile, in act) (string, error) {
			r, err := h.Casework.Propose(ctx, actor, models.Ask{Kind: kind, Order: f.OrderID, Action: f.ID, Code: models.ReasonCode(in.Code), Reason: in.Reason})
			return "request.done." + string(r.State), err
		})
	}
}

// do does what one of the forms of an action's page asks for, and says how that went.
func (h Actions) do(c *gin.Context, form string, what func(context.Context, models.Actor, models.ActionFile, act) (string, error)) error {
	f, err := h.file(c)
	if err != nil {
		return err
	}
	in, err := readAct(c)
	if err != nil {
		return err
	}
	said, err := what(c.Request.Context(), web.Actor(c), f, in)
	if t, ok := refused(err, form, f.ID, in); ok {
		return h.showFile(c, f, t)
	}
	if err := flashed(c, err, said); err != nil {
		return err
	}
	return web.SeeOther(c, views.ActionPath(f.ID))
}
