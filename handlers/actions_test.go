package handlers

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"counterfoil/models"
	"counterfoil/views"
	"counterfoil/views/locale"
)

// A panel of people who ask and decide, as pages hear of it.
type askers struct {
	requests []models.Request
	asked    []models.Ask
	said     []string
	fails    error
}

func (a *askers) Propose(_ context.Context, actor models.Actor, ask models.Ask) (models.Request, error) {
	if a.fails != nil {
		return models.Request{}, a.fails
	}
	a.asked = append(a.asked, ask)
	r := models.Request{ID: int64(len(a.requests) + 1), Kind: ask.Kind, State: models.RequestProposed, ShopID: 1, Shop: "hk", OrderID: ask.Order, OrderName: "#HK-1",
		ActionID: ask.Action, ActionKind: models.FulfillmentInstruction, Code: ask.Code, Reason: ask.Reason, Needs: 1, By: actor.ID(), ByName: actor.Name, ByRole: actor.Role,
		At: time.Now(), Expires: time.Now().Add(4 * time.Hour)}
	a.requests = append(a.requests, r)
	return r, nil
}

func (a *askers) Decide(_ context.Context, actor models.Actor, id int64, yes bool, note string) (models.Request, error) {
	if a.fails != nil {
		return models.Request{}, a.fails
	}
	r := &a.requests[id-1]
	if r.By == actor.ID() {
		return *r, models.Fail(models.Forbidden, "request.own")
	}
	if !yes && note == "" {
		return *r, &models.Error{Code: models.Invalid, Key: "error.invalid", Fields: map[string]string{"note": "error.reason_text"}}
	}
	r.State, r.Decider, r.Decided, r.Note = models.RequestRejected, actor.Name, time.Now(), note
	if yes {
		r.State = models.RequestApplied
	}
	return *r, nil
}

func (a *askers) Withdraw(_ context.Context, _ models.Actor, id int64) error {
	a.requests[id-1].State = models.RequestWithdrawn
	return nil
}

func (a *askers) Retry(_ context.Context, _ models.Actor, action int64, reason string) (models.Action, error) {
	a.said = append(a.said, fmt.Sprintf("retry %d %s", action, reason))
	return models.Action{}, a.fails
}

func (a *askers) List(_ context.Context, q models.RequestQuery) (models.Page[models.Request], error) {
	var page models.Page[models.Request]
	for _, r := range slices.Backward(a.requests) {
		if (q.State == "" || q.State == r.State) && (q.Kind == "" || q.Kind == r.Kind) && (q.Order == 0 || q.Order == r.OrderID) && (q.Action == 0 || q.Action == r.ActionID) {
			page.Items = append(page.Items, r)
		}
	}
	return page, nil
}

// askedFor is the list of actions with what the askers were asked for.
type askedFor struct {
	actionReader
	*askers
}

func (a askedFor) AskedFor(_ context.Context, q models.ActionListQuery, _ int) ([]models.Request, bool, error) {
	var open []models.Request
	for _, r := range slices.Backward(a.requests) {
		if r.State == models.RequestProposed && (q.Shop == "" || q.Shop == r.Shop) && (q.Kind == "" || q.Kind == r.ActionKind) && (q.Order == 0 || q.Order == r.OrderID) {
			open = append(open, r)
		}
	}
	return open, false, nil
}

func (a *askers) Stake(context.Context, models.Actor, models.Request) (models.Stake, error) {
	return models.Stake{Amount: 128000, Currency: "HKD"}, nil
}

func (a *askers) Find(_ context.Context, actor models.Actor, id int64) (models.Request, error) {
	if id > int64(len(a.requests)) || !actor.Sees(a.requests[id-1].ShopID) {
		return models.Request{}, models.Fail(models.NotFound, "error.not_found")
	}
	return a.requests[id-1], nil
}

// A counter is a desk where follow-ups are looked at, also by an administrator.
type counter struct{ *desk }

func newCounter(t *testing.T) *counter {
	t.Helper()
	d := newDesk(t)
	return &counter{d}
}

func (c *counter) exec(query string, args ...any) {
	c.t.Helper()
	if _, err := c.store.SQL().ExecContext(c.t.Context(), query, args...); err != nil {
		c.t.Fatal(query, err)
	}
}

// action adds one to the order, in a state.
func (c *counter) action(kind models.ActionKind, stage string, state models.ActionState, more string) int64 {
	c.t.Helper()
	set := ""
	if more != "" {
		set = ", " + more
	}
	var id int64
	err := c.store.SQL().QueryRowContext(c.t.Context(), `
INSERT INTO actions (order_id, shop_id, kind, stage, state, official, planned_at)
SELECT id, shop_id, $2, $3, $4, true, now() - interval '5 minutes' FROM orders WHERE id = $1 RETURNING id`, c.order, kind, stage, state).Scan(&id)
	if err != nil {
		c.t.Fatal(err)
	}
	c.exec(fmt.Sprintf("UPDATE actions SET stage = stage%s WHERE id = %d", set, id))
	return id
}

func (c *counter) never(who, path string, all ...string) {
	c.t.Helper()
	_, _, page := c.send(who, get, path, nil)
	for _, text := range all {
		if strings.Contains(page, text) {
			c.t.Errorf("%s on %s is told %q", who, path, text)
		}
	}
}

func TestTheListOfFollowUps(t *testing.T) {
	t.Parallel()
	c := newCounter(t)
	c.says("wing", "/actions", "Nothing to do here.", "Follow-ups")
	c.says("wing", "/actions?state=watched&lang=en", "Nothing is only watched.", `href="/policies"`)
	c.says("wing", "/actions?kind=invoice", "No follow-up fits.")
	for _, s := range models.ActionStates {
		c.action(models.Invoice, "more:"+string(s), s, "")
	}
	c.action(models.FulfillmentInstruction, "more:1", models.ActionWaiting, "person = true, why = 'verified'")
	c.action(models.FulfillmentInstruction, "order", models.ActionWaiting, "why = 'no_hold'")
	c.action(models.CustomerMessage, "refund:18000", models.ActionNotNeeded, "why = 'test'")
	c.exec("UPDATE orders SET number = $1", `#HK-1<b>"x"`)
	for path, want := range map[string]int{"/actions": 4, "/actions?state=waiting": 3, "/actions?state=moving": 2, "/actions?state=watched": 1, "/actions?state=done": 1,
		"/actions?state=withdrawn": 1, "/actions?state=not_needed": 2, "/actions?state=all": 13, "/actions?state=all&kind=invoice": 10, "/actions?state=manual": 1,
		"/actions?order=" + strconv.FormatInt(c.order, 10): 13, "/actions?state=all&shop=hk": 13} {
		_, _, page := c.send("wing", get, path, nil)
		_, rows, _ := strings.Cut(page, "<tbody")
		if n := strings.Count(rows, "<tr>"); n != want {
			t.Errorf("%s has %d rows, want %d", path, n, want)
		}
		if strings.Contains(page, "<b>\"x\"") || !strings.Contains(page, "#HK-1&lt;b&gt;") {
			t.Errorf("%s shows markup of an order's number", path)
		}
	}
	c.says("wing", "/actions", "Watched only: Invoice is planned here and not sent.", "High risk", `<span class="count">4</span>`)
	c.says("wing", "/actions?state=waiting", "Shipping is paused: whoever may resume it decides.")
	c.says("wing", "/actions?state=not_needed&lang=zh-Hant", "測試訂單：不會發出。", "無須執行")
	for _, path := range []string{"/actions?state=nonsense", "/actions?kind=x", "/actions?order=x", "/actions?shop=peak", "/actions?cursor=x", "/actions?state=%00"} {
		if status, _, _ := c.send("wing", get, path, nil); status != http.StatusUnprocessableEntity {
			t.Errorf("%s: %d", path, status)
		}
	}
	c.says("au", "/actions?lang=en", "These can: Support, Manager, Administrator.")
	c.never("au", "/actions", `name="receipt"`)
}

func TestTickingOffInTheList(t *testing.T) {
	t.Parallel()
	c := newCounter(t)
	id := c.action(models.FulfillmentInstruction, "order", models.ActionManual, "")
	c.action(models.Invoice, "order", models.ActionManual, "")
	path := views.ActionPath(id) + "/receipt"
	c.says("wing", "/actions", `action="`+path+`"`, `name="back" value="/actions"`)
	back := "/actions?kind=fulfillment_instruction&state=manual"
	_, page := c.posts("wing", path, url.Values{"outcome": {"done"}, "receipt": {" "}, "back": {back}}, http.StatusUnprocessableEntity)
	if !strings.Contains(page, `aria-invalid="true"`) || !strings.Contains(page, "Give the number of the parcel") || !strings.Contains(page, "<h1>Follow-ups</h1>") {
		t.Error("the list doesn't say what is wrong")
	}
	c.posts("au", path, url.Values{"receipt": {"SF1"}}, http.StatusForbidden)
	if to, _ := c.posts("wing", path, url.Values{"outcome": {"done"}, "receipt": {"SF1"}, "back": {"/actions"}}, http.StatusSeeOther); to != "/actions" {
		t.Errorf("leads to %q", to)
	}
	c.says("wing", "/actions", "Ticked off: #HK-1.", "autofocus")
	c.says("wing", views.ActionPath(id), "SF1", "Done", "Follow-ups")
	if to, _ := c.posts("wing", path, url.Values{"outcome": {"done"}, "receipt": {"SF2"}, "back": {"//evil.example"}}, http.StatusSeeOther); to != views.ActionPath(id) {
		t.Errorf("leads to %q", to)
	}
	c.says("wing", views.ActionPath(id), "Another receipt was recorded")
}

func TestWhoMayDoWhatAboutAFollowUp(t *testing.T) {
	t.Parallel()
	c := newCounter(t)
	in := map[models.ActionState]int64{}
	for _, s := range models.ActionStates {
		in[s] = c.action(models.CustomerMessage, "again:"+string(s), s, "")
	}
	c.exec("UPDATE actions SET person = true, why = 'released' WHERE state = 'waiting'")
	for _, x := range []struct {
		state models.ActionState
		form  string
		may   string // who sees the form open
		can   string // what the others are told
	}{
		{models.ActionManual, "receipt", "wing ka ng ad", "These can: Support, Manager, Administrator."},
		{models.ActionUnclear, "receipt", "ka ng", "These can: Shift lead, Manager."},
		{models.ActionFailed, "receipt", "ka ng", "These can: Shift lead, Manager."},
		{models.ActionFailed, "retry", "ka ng", "These can: Shift lead, Manager."},
		{models.ActionWaiting, "release", "wing ka ng", "These can: Support, Manager."},
		{models.ActionWithdrawn, "release", "wing ka ng", "These can: Support, Manager."},
		{models.ActionDone, "again", "wing ka ng", "These can: Support, Manager."},
	} {
		path := views.ActionPath(in[x.state])
		for _, who := range []string{"wing", "ka", "ng", "ad", "au"} {
			_, _, page := c.send(who, get, path, nil)
			_, form, found := strings.Cut(page, `action="`+path+"/"+x.form+`"`)
			form, _, _ = strings.Cut(form, "</form>")
			open := strings.Contains(form, `type="submit"`)
			if !found || open != strings.Contains(x.may, who) || !open && !strings.Contains(form, x.can) {
				t.Errorf("%s on %s of an action that is %s: open %t: %s", who, x.form, x.state, open, form)
			}
		}
	}
	for _, s := range []models.ActionState{models.ActionPlanned, models.ActionSending, models.ActionNotNeeded, models.ActionWatched} {
		c.says("wing", views.ActionPath(in[s]), "What you may do")
	}
	for who, path := range map[string]string{"wing": "/retry", "au": "/release", "ad": "/again"} {
		c.posts(who, views.ActionPath(in[models.ActionFailed])+path, url.Values{"reason": {"x"}}, http.StatusForbidden)
	}
	c.posts("wing", views.ActionPath(in[models.ActionUnclear])+"/receipt", url.Values{"outcome": {"done"}}, http.StatusForbidden)
	c.posts("ka", views.ActionPath(in[models.ActionUnclear])+"/receipt", url.Values{"outcome": {"failed"}}, http.StatusSeeOther)
	c.says("ka", views.ActionPath(in[models.ActionUnclear]), "Recorded: it did not happen.", "It was reported that this didn’t happen.")
	c.posts("ka", views.ActionPath(in[models.ActionFailed])+"/retry", url.Values{"reason": {"the warehouse is back"}}, http.StatusSeeOther)
	c.says("ka", views.ActionPath(in[models.ActionFailed]), "It is tried again.")
	if len(c.askers.said) != 1 || !strings.HasSuffix(c.askers.said[0], "the warehouse is back") {
		t.Errorf("%q", c.askers.said)
	}
}

func TestARequestIsProposedAndDecided(t *testing.T) {
	t.Parallel()
	c := newCounter(t)
	id := c.action(models.FulfillmentInstruction, "order", models.ActionWaiting, "person = true, why = 'released'")
	path := views.ActionPath(id)
	c.says("wing", path, "Nothing is sent until another person approves.", "A release doesn’t replace facts.", "Data verified")
	c.askers.fails = &models.Error{Code: models.Invalid, Key: "error.invalid", Fields: map[string]string{"reason": "error.reason_text"}}
	_, page := c.posts("wing", path+"/release", url.Values{"code": {"goodwill"}, "reason": {"<i>\x00"}}, http.StatusUnprocessableEntity)
	if !strings.Contains(page, "&lt;i&gt;") || !strings.Contains(page, `value="goodwill" selected`) || !strings.Contains(page, `id="reason-error"`) {
		t.Error("what was typed is lost, or nobody says what is wrong")
	}
	c.askers.fails = models.Fail(models.Unavailable, "error.unavailable")
	if _, page = c.posts("wing", path+"/release", url.Values{"code": {"other"}, "reason": {"typed long"}}, http.StatusServiceUnavailable); !strings.Contains(page, "typed long") {
		t.Error("what was typed is lost")
	}
	c.askers.fails = models.Fail(models.Conflict, "error.action_not_waiting")
	c.posts("wing", path+"/release", url.Values{"code": {"other"}, "reason": {"x"}}, http.StatusSeeOther)
	c.says("wing", path, "This follow-up isn’t waiting any more.")
	c.askers.fails = nil

	if to, _ := c.posts("wing", path+"/release", url.Values{"code": {"goodwill"}, "reason": {"a <b>regular</b> customer"}}, http.StatusSeeOther); to != path {
		t.Errorf("leads to %q", to)
	}
	if a := c.askers.asked[0]; a.Kind != models.RequestRelease || a.Action != id || a.Order != c.order || a.Code != "goodwill" {
		t.Errorf("%+v", a)
	}
	c.says("wing", path, "Proposed. Nothing happens until", "You proposed this; another person must approve it.", "a &lt;b&gt;regular&lt;/b&gt; customer", "A request is open already", `action="/requests/1/withdraw"`)
	c.says("ng", "/actions", "Waiting for approval", `href="/requests/1"`)
	c.says("ng", "/requests/1", "Approve: release", "A release replaces no facts.")
	c.says("ng", path, "Approve: release")
	c.says("au", path, "These can: Shift lead, Manager.")
	c.never("ng", path, `action="/requests/1/withdraw"`)
	c.posts("au", "/requests/1/approve", nil, http.StatusForbidden)
	if _, page = c.posts("ng", "/requests/1/reject", url.Values{"note": {""}}, http.StatusUnprocessableEntity); !strings.Contains(page, `id="note-error"`) {
		t.Error("a rejection without a note is taken")
	}
	c.posts("ng", "/requests/1/approve", url.Values{"note": {"looked at it"}}, http.StatusSeeOther)
	c.says("ng", path, "Approved and applied.", "Decided by Somebody", "looked at it", "Goodwill")
	c.says("ng", path+"?lang=zh-Hant", "已批准並生效", "善意補償")

	c.posts("ka", path+"/release", url.Values{"code": {"other"}, "reason": {"once more"}}, http.StatusSeeOther)
	c.posts("ka", "/requests/2/approve", nil, http.StatusForbidden)
	c.posts("ka", "/requests/2/withdraw", nil, http.StatusSeeOther)
	c.says("ka", path+"?lang=en", "Withdrawn. Nothing was changed.")
}

func TestMakingLiveIsDecidedWherePoliciesAre(t *testing.T) {
	t.Parallel()
	c := newCounter(t)
	c.askers.requests = []models.Request{{ID: 1, Kind: models.RequestLive, State: models.RequestProposed, ShopID: 1, Shop: "hk", ActionKind: models.Invoice, Code: "other", Reason: "a week was watched",
		ByName: "Ng", ByRole: models.Manager, At: time.Now(), Expires: time.Now().Add(time.Hour)}}
	c.says("ad", "/actions", "Make live: Invoice", `href="/requests/1"`)
	c.says("ad", "/actions?kind=invoice&shop=hk", "Make live: Invoice")
	c.never("ad", "/actions?kind=credit_note", "Make live: Invoice")
	c.says("ad", "/requests/1", `href="/policies?shop=hk#invoice"`, "a week was watched")
	c.never("ng", "/requests/1", `action="/requests/1/approve"`)
}

func TestAReplacementIsAskedFor(t *testing.T) {
	t.Parallel()
	c := newCounter(t)
	path := orderPath(c.order) + "/replacement"
	c.action(models.FulfillmentInstruction, "order", models.ActionDone, "sent_at = now(), done_at = now()")
	c.says("wing", path, "Nothing of this order has left yet", "1 instruction of this order was given already.") // it is only announced
	c.askers.fails = &models.Error{Code: models.Invalid, Key: "error.invalid", Fields: map[string]string{"reason": "error.reason_text"}}
	c.posts("wing", path, url.Values{"code": {"lost_parcel"}}, http.StatusUnprocessableEntity)
	c.askers.fails = nil
	if to, _ := c.posts("wing", path, url.Values{"code": {"lost_parcel"}, "reason": {"never came"}}, http.StatusSeeOther); to != orderPath(c.order) {
		t.Errorf("leads to %q", to)
	}
	c.says("wing", path, "You proposed this", "A request is open already")
	if to, _ := c.posts("ng", "/requests/1/approve", nil, http.StatusSeeOther); to != orderPath(c.order) {
		t.Errorf("leads to %q", to)
	}
	if status, _, _ := c.send("au", get, path, nil); status != http.StatusForbidden {
		t.Errorf("an auditor asks for a replacement: %d", status)
	}
}

// The page offers what the service takes, and the form says why it takes nothing else.
func TestAReplacementIsOfferedWhereSomethingLeft(t *testing.T) {
	t.Parallel()
	with := func(change func(f *models.OrderFile)) models.OrderFile {
		f := quietOrder()
		f.Axes = maps.Clone(f.Axes)
		change(&f)
		return f
	}
	unshipped := func(f *models.OrderFile, a ...models.Action) {
		f.Axes[models.Fulfillment], f.Items.Shipped, f.Actions = models.AxisRecord{State: models.FulfillmentUnfulfilled}, 0, a
	}
	for name, c := range map[string]struct {
		file models.OrderFile
		want string
	}{
		"shipped":        {quietOrder(), ""},
		"nothing left":   {with(func(f *models.OrderFile) { unshipped(f) }), "error.nothing_to_replace"},
		"only announced": {announcedOrder(), "error.nothing_to_replace"},
		"a test order":   {with(func(f *models.OrderFile) { f.Test = true }), "error.nothing_to_replace"},
		"watched": {with(func(f *models.OrderFile) {
			unshipped(f, models.Action{Kind: models.FulfillmentInstruction, Stage: models.WholeOrder, State: models.ActionWatched})
		}), ""},
		"cancelled": {with(func(f *models.OrderFile) {
			f.Axes[models.Cancellation] = models.AxisRecord{State: models.CancellationCancelled}
		}), "error.still_ended.cancellation"},
	} {
		offered := slices.ContainsFunc(orderModel(c.file, supporter, moment).Offer, func(o views.OfferModel) bool { return strings.HasSuffix(o.Page, "/replacement") })
		form := replacementModel(c.file, nil, supporter, "", moment, typed{}).Form
		if offered != (c.want == "") || form.Refused.Key != c.want {
			t.Errorf("%s: offered %t, the form says %q, want %q", name, offered, form.Refused.Key, c.want)
		}
	}
}

// Where somebody asked already, the order's page says so instead of offering it again.
func TestAnOpenReplacementStandsWhereTheOfferDoes(t *testing.T) {
	t.Parallel()
	f := quietOrder()
	f.Asked = []models.Request{{ID: 7, Kind: models.RequestRelease, State: models.RequestProposed}, {ID: 6, Kind: models.RequestReplacement, State: models.RequestProposed, ByName: "Wing", ByRole: models.Support}}
	offers := orderModel(f, supporter, moment).Offer
	if o := offers[len(offers)-1]; o.Page != "/requests/6" || o.Note.Key != "may.replacement.asked" || o.Note.Args[0] != "Wing" {
		t.Errorf("%+v", o)
	}
	f.Asked = f.Asked[:1]
	if offers = orderModel(f, supporter, moment).Offer; offers[len(offers)-1].Page != orderPath(f.ID)+"/replacement" {
		t.Errorf("%+v", offers[len(offers)-1])
	}
}

func TestFollowUpsOfOthersArentThere(t *testing.T) {
	t.Parallel()
	c := newCounter(t)
	id := c.action(models.Invoice, "order", models.ActionManual, "")
	c.askers.requests = []models.Request{{ID: 1, Kind: models.RequestReplacement, State: models.RequestProposed, ShopID: 1, OrderID: c.order}}
	var shop int64
	if err := c.store.SQL().QueryRowContext(t.Context(), "INSERT INTO shops (slug, name) VALUES ('peak', 'Peak') RETURNING id").Scan(&shop); err != nil {
		t.Fatal(err)
	}
	c.signIn(t, "wing@shop.example")
	c.exec("INSERT INTO staff_shops (staff_id, shop_id) SELECT id, $1 FROM staff WHERE name = 'Somebody' AND role = 'support'", shop)
	for _, path := range []string{views.ActionPath(id), "/requests/1", orderPath(c.order) + "/replacement", "/actions/999999", "/requests/99", "/actions/x"} {
		if status, _, _ := c.send("wing", get, path, nil); status != http.StatusNotFound {
			t.Errorf("%s: %d", path, status)
		}
	}
	for _, path := range []string{views.ActionPath(id) + "/receipt", views.ActionPath(id) + "/release", views.ActionPath(id) + "/again", "/requests/1/withdraw", orderPath(c.order) + "/replacement"} {
		c.posts("wing", path, url.Values{"receipt": {"x"}, "reason": {"x"}}, http.StatusNotFound)
	}
	c.never("wing", "/actions?state=all", "#HK-1", "hk-main")
	if status, _, _ := c.send("wing", get, "/actions?shop=hk", nil); status != http.StatusUnprocessableEntity {
		t.Errorf("another shop's filter: %d", status)
	}
}

func TestStagesInWords(t *testing.T) {
	t.Parallel()
	p := locale.New(locale.English, hongKong, moment)
	for stage, want := range map[string]string{
		"order": "whole order", "payment_received": "payment received", "refund:18000": "HK$180.00 refunded", "more:2": "more goods, no. 2", "replacement:1": "replacement 1",
		"again:3": "once more, no. 3", "refund:x": "refund:x", "order:1": "order:1", "else": "else",
	} {
		if got := p.Text(stageText(stage, "HKD")); got != want {
			t.Errorf("%s is said as %q, not %q", stage, got, want)
		}
	}
}

func TestAnAddressKeepsItsSecrets(t *testing.T) {
	t.Parallel()
	if got := address("https://me:secret@warehouse.example/x?token=1#y"); got != "https://warehouse.example/x" {
		t.Error(got)
	}
}
