package handlers

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"counterfoil/models"
	"counterfoil/models/casework"
	"counterfoil/models/connect"
	"counterfoil/models/reconcile"
	"counterfoil/models/staff"
	"counterfoil/models/store"
	"counterfoil/views/locale"
)

// reread stands for whoever reads platforms again.
type reread struct {
	result string
	cases  []int64
	many   []models.CaseQuery
}

func (r *reread) Case(_ context.Context, _ models.Actor, id int64) (string, int64, error) {
	r.cases = append(r.cases, id)
	if r.result == "" {
		return "", 0, models.Fail(models.Invalid, "error.case_nothing_to_read")
	}
	return r.result, 0, nil
}

func (r *reread) Cases(_ context.Context, _ models.Actor, q models.CaseQuery) (reconcile.Bulk, error) {
	r.many = append(r.many, q)
	return reconcile.Bulk{Cases: 3, Objects: 4, At: time.UnixMicro(1764554400000000)}, nil
}

func exceptionsOf(s *store.Store, reads connect.Reads, d *desk) Exceptions {
	return Exceptions{Book: reads, Lists: s, Connections: reads, Casework: &casework.Cases{Store: s}, Requests: &casework.Requests{Store: s}, Reconcile: d.reread}
}

// opens opens an exception of the desk's connection.
func (d *desk) opens(c store.Case) int64 {
	d.t.Helper()
	var id int64
	err := d.store.Tx(d.t.Context(), func(tx *store.Tx) error {
		if c.ConnectionID == 0 {
			c.ConnectionID = 1
		}
		return tx.OpenCase(d.t.Context(), c)
	})
	if err == nil {
		err = d.store.SQL().QueryRowContext(d.t.Context(), `SELECT max(id) FROM exceptions`).Scan(&id)
	}
	if err != nil {
		d.t.Fatal(err)
	}
	return id
}

func (d *desk) run(query string) {
	d.t.Helper()
	if _, err := d.store.SQL().ExecContext(d.t.Context(), query); err != nil {
		d.t.Fatal(query, err)
	}
}

// aboutOrder is a problem of the desk's order.
func (d *desk) aboutOrder(p models.Problem) store.Case {
	return store.Case{Subject: fmt.Sprintf("order:%d", d.order), OrderID: d.order, Ref: "1", Problem: p}
}

var (
	refusedPay  = models.Problem{Kind: models.MoveRefused, Axis: models.Payment, PlatformState: "PENDING", LocalState: "paid"}
	settlesSelf = models.Problem{Kind: models.StateDiffers, Axis: models.Return, PlatformState: "CLOSED", LocalState: "in_progress"}
	tellAll     = models.Problem{Kind: models.PaidTwice, Detail: "2 payments"}
)

func TestTheListOfExceptions(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.says("wing", "/exceptions", "Nothing to do here.")
	d.says("wing", "/exceptions?state=settling", "Nothing is settling by itself")
	d.says("wing", "/exceptions?state=closed", "No exception was closed yet")
	hold, wait := d.opens(d.aboutOrder(refusedPay)), d.opens(d.aboutOrder(settlesSelf))
	d.says("wing", "/exceptions", "Change refused, Payment", "Today", "#HK-1", "PENDING", "Pause fulfillment now", fmt.Sprintf(`action="/exceptions/%d/resync"`, hold),
		fmt.Sprintf(`action="/exceptions/%d/take"`, hold), "reports a change that the rules don’t allow")
	_, _, page := d.send("wing", get, "/exceptions", nil)
	if strings.Contains(page, "State differs, Return") {
		t.Error("what settles by itself stands among what needs people")
	}
	d.says("wing", "/exceptions?state=settling", "State differs, Return", "Is read again <time")
	// Filters: what isn't one is refused, never left out.
	d.says("wing", "/exceptions?policy=wait", "No exception fits")
	d.says("wing", "/exceptions?state=open&kind=state_differs", fmt.Sprintf("/exceptions/%d", wait))
	d.says("wing", "/exceptions?q=%EF%BC%83HK-1", fmt.Sprintf("/exceptions/%d", hold))
	for _, bad := range []string{"kind=nonsense", "urgency=soon", "policy=maybe", "owner=7", "state=gone", "group=x", "asked=-1", "q=%00"} {
		if status, _, _ := d.send("wing", get, "/exceptions?"+bad, nil); status != http.StatusUnprocessableEntity {
			t.Errorf("%s answers %d", bad, status)
		}
	}
	d.says("wing", "/exceptions?lang=zh-Hant", "須處理", "變更不符規則，付款", "立即暫停出貨", "接手")
}

func TestAGroupIsOneLine(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.run(`INSERT INTO case_groups (connection_id, kind, first_seen, last_seen) VALUES (1, 'move_refused', now(), now())`)
	for i := range 3 {
		c := d.aboutOrder(refusedPay)
		c.Subject = fmt.Sprintf("object:%d", 900+i)
		d.opens(c)
	}
	d.run(`UPDATE exceptions SET group_id = 1`)
	alone := d.opens(d.aboutOrder(refusedPay))
	_, _, page := d.send("wing", get, "/exceptions", nil)
	if n := strings.Count(page, "<tr"); n != 3 { // its head, the group, the one beside it
		t.Errorf("%d rows", n)
	}
	d.says("wing", "/exceptions", "Group of 3", "/exceptions?group=1", fmt.Sprintf("/exceptions/%d", alone))
	_, _, page = d.send("wing", get, "/exceptions?group=1", nil)
	if n := strings.Count(page, "<tr"); n != 4 {
		t.Errorf("%d rows of the members", n)
	}
	d.says("wing", "/exceptions/1", "Group of 3")
}

func TestAnExceptionsPage(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	id := d.opens(d.aboutOrder(refusedPay))
	path := fmt.Sprintf("/exceptions/%d", id)
	d.says("ka", path, "Change refused, Payment", "Platform, when last seen", "PENDING", `action="`+path+`/resync"`, `action="`+path+`/assign"`, "Accept this difference", `name="version"`)
	// Whoever may not reads why, and who can; the server refuses it anyway.
	d.says("wing", path, "a shift lead or a manager closes it", "a manager dismisses it", "A shift lead or a manager assigns cases")
	for form, who := range map[string][]string{"close": {"wing", "ad", "au"}, "dismiss": {"wing", "ka", "ad", "au"}, "assign": {"wing", "ad", "au"}, "take": {"ad", "au"}, "accept": {"ad", "au"}, "note": {"au"}, "resync": {"au"}} {
		for _, name := range who {
			d.posts(name, path+"/"+form, url.Values{"reason": {"x"}, "note": {"x"}, "to": {"1"}}, http.StatusForbidden)
		}
	}
	// What was typed stays where something is wrong with it.
	_, page := d.posts("ka", path+"/close", url.Values{"reason": {"  "}}, http.StatusUnprocessableEntity)
	if !strings.Contains(page, "reason-error") {
		t.Error("the field isn't named")
	}
	d.posts("wing", path+"/take", url.Values{"version": {"1"}}, http.StatusSeeOther)
	d.says("wing", path, "The case is yours.", "Somebody, since")
	d.posts("ka", path+"/close", url.Values{"version": {"1"}, "reason": {"mended"}}, http.StatusSeeOther)
	d.says("ka", path, "was changed since you opened the page")
	d.posts("wing", path+"/note", url.Values{"note": {"rang <them>\ntwice"}}, http.StatusSeeOther)
	d.says("wing", path, "rang &lt;them&gt;\ntwice")
	if to, _ := d.posts("wing", path+"/resync", url.Values{"back": {"//evil.example"}}, http.StatusSeeOther); to != path {
		t.Errorf("leads to %q", to)
	}
	d.says("wing", path, "the platform still says the same")
	d.reread.result = ""
	d.posts("wing", path+"/resync", nil, http.StatusSeeOther)
	d.says("wing", path, "names nothing that a platform can be asked for")
	d.posts("ka", path+"/close", url.Values{"reason": {"mended at the platform"}}, http.StatusSeeOther)
	d.says("ka", path, "Closed as solved", "mended at the platform")
	d.says("ka", "/exceptions?state=closed", "Closed as solved")
	d.says("ka", path+"?lang=zh-Hant", "已解決並結案", "已知資料")
	for _, other := range []string{"/exceptions/999", "/exceptions/x", "/exceptions/-1"} {
		if status, _, _ := d.send("ka", get, other, nil); status != http.StatusNotFound {
			t.Errorf("%s: %d", other, status)
		}
	}
}

func TestExceptionsOfAnotherShopAreUnknown(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	path := fmt.Sprintf("/exceptions/%d", d.opens(d.aboutOrder(refusedPay)))
	if err := d.store.Tx(t.Context(), func(tx *store.Tx) error { _, err := tx.EnsureShop(t.Context(), "tw", "Taipei"); return err }); err != nil {
		t.Fatal(err)
	}
	if _, err := d.house.staff.AddAccount(t.Context(), models.Actor{}, staff.NewAccount{Email: "tw@shop.example", Name: "Tw", Role: models.Manager, Shops: []string{"tw"}, Password: password}); err != nil {
		t.Fatal(err)
	}
	d.says("tw", "/exceptions", "Nothing to do here.")
	if status, _, _ := d.send("tw", get, path, nil); status != http.StatusNotFound {
		t.Errorf("the page answers %d", status)
	}
	for _, form := range []string{"take", "assign", "back", "note", "told", "close", "dismiss", "accept"} {
		d.posts("tw", path+"/"+form, url.Values{"reason": {"x"}, "note": {"x"}, "to": {"1"}}, http.StatusNotFound)
	}
}

func TestTheCustomerIsToldBeforeACaseCloses(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	path := fmt.Sprintf("/exceptions/%d", d.opens(d.aboutOrder(tellAll)))
	d.says("wing", "/exceptions?tell=true", "Possibly paid twice", "Tell the customer")
	d.says("wing", path, "The customer has to be told first", "Mark as told")
	d.posts("wing", path+"/close", url.Values{"reason": {"x"}}, http.StatusSeeOther)
	d.says("wing", path, "The customer has to be told first")
	d.posts("wing", path+"/told", nil, http.StatusSeeOther)
	d.says("wing", path, "Somebody told them")
	d.posts("wing", path+"/close", url.Values{"reason": {"one was refunded"}}, http.StatusSeeOther)
	d.says("wing", path, "Closed as solved")
}

func TestADifferenceIsAcceptedByAnotherPerson(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	path := fmt.Sprintf("/exceptions/%d", d.opens(d.aboutOrder(refusedPay)))
	d.posts("wing", path+"/accept", url.Values{"reason": {"paid by transfer"}}, http.StatusSeeOther)
	d.says("wing", path, "You proposed this; another person must approve it.", "paid by transfer", "Accept a difference")
	d.says("ng", path, `action="/requests/1/approve"`, "Approve: accept this difference")
	d.says("ka", path, "Not with the role Support. These can: Manager.")
	// What takes two managers is asked for, not done.
	other := fmt.Sprintf("/exceptions/%d", d.opens(d.aboutOrder(models.Problem{Kind: models.StateDiffers, Axis: models.Payment, PlatformState: "VOIDED", LocalState: "paid"})))
	d.says("ng", other, "a second manager has to agree")
	d.posts("ng", other+"/dismiss", url.Values{"reason": {"their fault"}}, http.StatusSeeOther)
	d.says("ng", other, "Nothing happens until another manager approves it", "Dismiss what pauses an order")
}

func TestManyExceptionsAreReadAgain(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.opens(d.aboutOrder(refusedPay))
	d.opens(d.aboutOrder(settlesSelf))
	d.says("wing", "/exceptions", `href="/exceptions/resync"`)
	d.says("wing", "/exceptions/resync?policy=hold", "1 open exception is on the list", "Resync 1", "hk-main", `value="policy=hold"`)
	d.says("au", "/exceptions/resync", "Not with the role Auditor")
	d.posts("au", "/exceptions/resync", url.Values{"filters": {""}}, http.StatusForbidden)
	d.posts("wing", "/exceptions/resync", url.Values{"filters": {"kind=nonsense"}}, http.StatusUnprocessableEntity)
	to, _ := d.posts("wing", "/exceptions/resync", url.Values{"filters": {"policy=hold"}}, http.StatusSeeOther)
	if to != "/exceptions?asked=1764554400000000" || len(d.reread.many) != 1 || d.reread.many[0].Policy != models.PolicyHold {
		t.Errorf("%q %+v", to, d.reread.many)
	}
	d.says("wing", to, "Asked for: 3 exceptions, 4 platform objects.", "read again together")
}

func TestTheNavigationCountsWhatNeedsPeople(t *testing.T) {
	t.Parallel()
	p := exceptionsModel(casesIn{state: caseNeeds, values: url.Values{}, count: models.CaseCount{Needs: 6, Settling: 41}, actor: supporter, now: moment})
	if p.Tabs[0].Count != "6" || p.Tabs[1].Count != "41" || !p.Tabs[0].Current {
		t.Errorf("%+v", p.Tabs)
	}
}

func TestPoliciesOfExceptions(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.says("au", "/policies", "When something is wrong", "Contradiction", "shipped while paused", "Pause fulfillment now", "Not with the role Auditor. These can: Manager.")
	d.says("ng", "/policies", "/policies/hk/case?rule=move_refused%2Fmoney")
	const form = "/policies/hk/case?rule=move_refused%2Ffulfillment"
	d.says("ng", form, "Change refused: fulfillment", "Now: A person decides. Product’s default: A person decides.", `name="seen" value="ask"`)
	if status, _, _ := d.send("wing", get, form, nil); status != http.StatusForbidden {
		t.Errorf("support opens the form: %d", status)
	}
	if status, _, _ := d.send("ng", get, "/policies/hk/case?rule=x", nil); status != http.StatusNotFound {
		t.Errorf("an unknown rule: %d", status)
	}
	d.posts("wing", "/policies/hk/case", url.Values{"rule": {"move_refused/fulfillment"}, "policy": {"wait"}}, http.StatusForbidden)
	d.posts("ng", "/policies/hk/case", url.Values{"rule": {"move_refused/fulfillment"}, "policy": {"perhaps"}}, http.StatusUnprocessableEntity)
	d.posts("ng", "/policies/hk/case", url.Values{"rule": {"move_refused/fulfillment"}, "policy": {"wait"}, "tell": {"true"}, "seen": {"ask"}}, http.StatusSeeOther)
	d.says("ng", "/policies?shop=hk", "Saved. It holds for exceptions that open from now on.", "tell the customer", "Somebody, ")
	d.posts("ng", "/policies/hk/case", url.Values{"rule": {"move_refused/fulfillment"}, "policy": {"ask"}, "seen": {"ask"}}, http.StatusConflict)
	// A pause is taken away by two managers.
	_, page := d.posts("ng", "/policies/hk/case", url.Values{"rule": {"move_refused/money"}, "policy": {"ask"}, "seen": {"hold"}}, http.StatusUnprocessableEntity)
	if !strings.Contains(page, "reason-error") {
		t.Error("it isn't said that a reason is needed")
	}
	d.posts("ng", "/policies/hk/case", url.Values{"rule": {"move_refused/money"}, "policy": {"ask"}, "seen": {"hold"}, "reason": {"we look anyway"}}, http.StatusSeeOther)
	d.says("ng", "/policies?shop=hk", "It holds when a second manager has approved it", "Waits for a second manager: A person decides", `href="/requests/1"`)
}

// Every step leads somewhere, for every kind.
func TestEveryKindHasANextStep(t *testing.T) {
	t.Parallel()
	for _, k := range models.ExceptionKinds {
		x := models.Exception{ID: 1, Kind: k, OrderID: 7, Connection: "hk", Ref: "1", Platform: models.Shopify, State: "open"}
		if s := caseStep(x, supporter); s.Page == "" && s.Post == "" {
			t.Errorf("%s leads nowhere", k)
		}
		if s := caseStep(x, auditor); s.Post != "" && s.Refused.Empty() {
			t.Errorf("%s: an auditor may", k)
		}
	}
	for subject, page := range map[string]string{"action:5": "/actions/5", "event:3": "/events/3"} {
		if s := caseStep(models.Exception{Kind: models.ActionFailedKind, Subject: subject}, supporter); s.Page != page {
			t.Errorf("%s leads to %s", subject, s.Page)
		}
	}
}

// A receipt that nobody announced is sent again from the platform's portal, while it can be.
func TestAMissedReceiptIsRedelivered(t *testing.T) {
	t.Parallel()
	f := models.ExceptionFile{API: models.APINone, Exception: models.Exception{ID: 1, Kind: models.MissedNotification, Platform: models.ReceiptRoller, State: "open", ObjectID: 3, First: before(5*24*time.Hour + time.Hour)}}
	for want, change := range map[string]func(*models.ExceptionFile){
		"25 more days": func(*models.ExceptionFile) {},
		"12 more days": func(f *models.ExceptionFile) { f.Detail = moment.AddDate(0, 0, 12).UTC().Format(time.DateOnly) },
		"20 more days": func(f *models.ExceptionFile) {
			f.Found = &models.Sighting{Changed: before(10*24*time.Hour + time.Minute)}
		},
		"keeps deliveries for 30 days": func(f *models.ExceptionFile) { f.First = before(40 * 24 * time.Hour) },
	} {
		f := f
		change(&f)
		o := caseOffers(f, supporter, moment)
		if len(o) == 0 || o[0].Href == "" || !strings.Contains(locale.New(locale.English, hongKong, moment).Text(o[0].Note), want) {
			t.Errorf("%s: %+v", want, o)
		}
		if len(o) < 2 || o[1].Refused.Empty() {
			t.Errorf("a resync is offered although the platform can't be asked: %+v", o)
		}
	}
}

// What a sweep saw stands where the platform speaks, before anything was applied.
func TestWhatASweepSawIsThePlatformsSide(t *testing.T) {
	t.Parallel()
	order := downOrder()
	f := models.ExceptionFile{Exception: models.Exception{ID: 4, Kind: models.MissedNotification, Axis: models.Refund, OrderID: order.ID, ObjectID: 1}, File: &order,
		Found: &models.Sighting{Object: 1, Last: before(time.Minute), Seen: &models.Observation{Axes: map[models.Axis]models.Statement{models.Refund: {State: models.RefundFull, Word: "REFUNDED"}}}}}
	rows := caseTruth(f)
	if len(rows) != 1 || rows[0].Ours.State != models.RefundPartial {
		t.Fatalf("%+v", rows)
	}
	found := false
	for _, c := range rows[0].Now {
		found = found || c.Word == "REFUNDED" || c.Last != nil && c.Last.Word == "REFUNDED"
	}
	if !found {
		t.Errorf("%+v", rows[0].Now)
	}
	if order.Objects[0].Official.Axes[models.Refund].Word != "PAID" {
		t.Error("the order's own reading was changed")
	}
	// An object without an order has no record of ours.
	obj := order.Objects[1]
	lone := models.ExceptionFile{Exception: models.Exception{ID: 5, Kind: models.Unmatched, Platform: models.Stripe, ObjectID: 2}, Object: &obj, API: models.APIUp}
	for _, r := range caseTruth(lone) {
		if r.Ours.Text.Key != "truth.no_record" {
			t.Errorf("%+v", r)
		}
	}
	if len(caseTruth(lone)) == 0 {
		t.Error("nothing is shown of an object without an order")
	}
}

func TestASearchThatFindsNothingAsksThePlatform(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.says("wing", "/orders?q=%231042", "Ask the platform", `action="/orders/ask"`, `value="#1042"`, "Ask hk-main")
	d.says("au", "/orders?q=%231042", "Not with the role Auditor", `aria-disabled="true"`)
	d.posts("au", "/orders/ask", url.Values{"connection": {"hk-main"}, "q": {"1042"}}, http.StatusForbidden)
	to, _ := d.posts("wing", "/orders/ask", url.Values{"connection": {"hk-main"}, "q": {"1042"}}, http.StatusSeeOther)
	if to != "/orders?q=1042" {
		t.Errorf("leads to %q", to)
	}
	d.says("wing", to, "it belongs to no order yet")
}

func TestHowsAreSaidInWords(t *testing.T) {
	t.Parallel()
	p := locale.New(locale.English, hongKong, moment)
	for _, how := range hows {
		if said := p.Text(closedHow(models.Exception{How: how})); strings.Contains(said, "case_how") || said == how {
			t.Errorf("%s is said as %q", how, said)
		}
	}
}
