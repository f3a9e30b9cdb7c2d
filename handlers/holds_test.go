package handlers

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"counterfoil/models"
	"counterfoil/models/actions"
	"counterfoil/models/casework"
	"counterfoil/models/connect"
	"counterfoil/models/platform"
	"counterfoil/models/seal"
	"counterfoil/models/staff"
	"counterfoil/models/store"
	"counterfoil/views/locale"
	"counterfoil/web"
)

// A desk is a console with a shop, a connection, an order and the pages about holds.
type desk struct {
	house
	t     *testing.T
	order int64
	// reread are the exceptions that somebody had read again.
	reread *reread
	// askers stand for those who keep what people ask for.
	askers *askers
	jars   map[string]map[string]*http.Cookie
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	h := newHouse(t, func(o *web.Options) { o.Zone = hongKong })
	d := &desk{house: h, t: t, askers: &askers{}, reread: &reread{result: "same"}, jars: map[string]map[string]*http.Cookie{}}
	err := h.store.Tx(t.Context(), func(tx *store.Tx) error {
		shop, err := tx.EnsureShop(t.Context(), "hk", "Harbour")
		if err != nil {
			return err
		}
		conn, err := tx.SaveConnection(t.Context(), store.ConnectionRow{Slug: "hk-main", Platform: models.Shopify, Account: "hk", ShopID: shop, Settings: "{}", APIState: models.APIUp})
		if err != nil {
			return err
		}
		d.order, err = tx.AnnounceOrder(t.Context(), models.Order{ShopID: shop, ConnectionID: conn, Platform: models.Shopify, Account: "hk", Ref: "1", Number: "#HK-1"})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	book := connect.New(h.store, seal.Keys{}, map[models.Platform]platform.Maker{}, nil, h.store.Now)
	if err := book.Look(t.Context()); err != nil {
		t.Fatal(err)
	}
	reads := connect.Reads{Store: h.store, Book: book}
	holds := &casework.Holds{Store: h.store, Log: slog.New(slog.DiscardHandler)}
	mount(h.engine, Doors{Login: Login{h.staff}, Orders: Orders{Book: reads, Connections: reads, Reconcile: &shelf{}}, Connections: Connections{Book: reads},
		Holds:      Holds{Book: reads, Connections: reads, Casework: holds},
		Exceptions: exceptionsOf(h.store, reads, d),
		Policies:   policiesOf(t, h.store),
		Actions:    Actions{Book: askedFor{h.store, d.askers}, Orders: reads, Casework: d.askers, Actions: actions.New(actions.Actions{Store: h.store, Book: book})}}.pages(), nil, nil)
	for name, role := range map[string]models.Role{"wing": models.Support, "ng": models.Manager, "au": models.Auditor, "ad": models.Admin} {
		h.add(t, name+"@shop.example", role)
	}
	if _, err := h.staff.AddAccount(t.Context(), models.Actor{}, staff.NewAccount{Email: "ka@shop.example", Name: "Ka", Role: models.Support, Lead: true, Password: password}); err != nil {
		t.Fatal(err)
	}
	return d
}

// send makes a request as somebody, in a browser without scripts.
func (d *desk) send(who, method, path string, values url.Values) (int, string, string) {
	d.t.Helper()
	jar, known := d.jars[who]
	if !known {
		jar = map[string]*http.Cookie{}
		for _, c := range d.signIn(d.t, who+"@shop.example") {
			jar[c.Name] = c
		}
		d.jars[who] = jar
	}
	r := httptest.NewRequest(method, path, nil)
	if method == http.MethodPost {
		r = form(path, values)
	}
	for _, c := range jar {
		r.AddCookie(c)
	}
	res := d.do(r)
	for _, c := range res.Cookies() {
		jar[c.Name] = c
		if c.MaxAge < 0 {
			delete(jar, c.Name)
		}
	}
	return res.StatusCode, res.Header.Get("Location"), body(d.t, res)
}

// says opens a page, which has to say everything.
func (d *desk) says(who, path string, all ...string) {
	d.t.Helper()
	status, _, page := d.send(who, get, path, nil)
	if status != http.StatusOK {
		d.t.Fatalf("%s opens %s: %d", who, path, status)
	}
	for _, text := range all {
		if !strings.Contains(page, text) {
			d.t.Errorf("%s on %s isn't told %q", who, path, text)
		}
	}
}

// post sends a form that has to end with a status, and gives where it leads and what it shows.
func (d *desk) posts(who, path string, values url.Values, status int) (string, string) {
	d.t.Helper()
	got, to, page := d.send(who, post, path, values)
	if got != status {
		d.t.Fatalf("%s posts %s: %d, want %d", who, path, got, status)
	}
	return to, page
}

func TestSupportPausesAnOrderAndResumesIt(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	order := orderPath(d.order)
	d.says("wing", order, `href="`+order+`/hold"`, "Pause shipping")
	d.says("wing", order+"/hold", `name="reason"`, `name="until"`, "doesn’t stop anyone who ships in Shopify itself")
	until := time.Now().Add(48 * time.Hour).In(hongKong)
	_, page := d.posts("wing", order+"/hold", url.Values{"reason": {" "}, "until": {until.Format("2006-01-02T15:04")}}, http.StatusUnprocessableEntity)
	if !strings.Contains(page, `aria-describedby="reason-error"`) || !strings.Contains(page, until.Format("2006-01-02T15:04")) {
		t.Error("the form forgets what was typed, or doesn't say what is wrong")
	}
	_, page = d.posts("wing", order+"/hold", url.Values{"reason": {"x"}, "until": {"tomorrow"}}, http.StatusUnprocessableEntity)
	if !strings.Contains(page, `id="until-error"`) || !strings.Contains(page, `value="tomorrow"`) {
		t.Error("an unreadable time isn't named")
	}
	if to, _ := d.posts("wing", order+"/hold", url.Values{"reason": {"<two> refunds"}, "until": {until.Format("2006-01-02T15:04")}}, http.StatusSeeOther); to != order {
		t.Errorf("leads to %q", to)
	}
	d.says("wing", order, "Shipping is paused.", "Shipping paused by Somebody since", "&lt;two&gt; refunds.", "Review at", locale.New(locale.English, hongKong, time.Now()).Short(until), "Resume shipping")
	d.says("wing", "/orders", "Shipping paused</span>")
	d.says("wing", order+"?lang=zh-Hant", "暫停出貨，原因：&lt;two&gt; refunds", "再檢視", "不能阻止直接在 Shopify 出貨", "恢復出貨")
	d.says("au", order, "Shipping paused by", "Not with the role Auditor. These can: Shift lead, Manager.")

	// A second pause leads to the first one.
	d.posts("ng", order+"/hold", url.Values{"reason": {"me too"}}, http.StatusSeeOther)
	d.says("ng", order, "It was paused already")
	if status, to, _ := d.send("ng", get, order+"/hold", nil); status != http.StatusSeeOther || to != order {
		t.Errorf("the form of a paused order: %d %q", status, to)
	}

	d.posts("au", order+"/release", nil, http.StatusForbidden)
	d.posts("wing", order+"/release", nil, http.StatusSeeOther)
	d.says("wing", order+"?lang=en", "Shipping is resumed", "Pause shipping")
	d.posts("wing", order+"/release", nil, http.StatusSeeOther)
	d.says("wing", order, "It wasn’t paused any more.")

	// Somebody else's pause stays, and says who can end it.
	d.posts("ng", order+"/hold", url.Values{"reason": {"stock"}}, http.StatusSeeOther)
	d.says("wing", order, "These can now: Shift lead, Manager.")
	_, page = d.posts("wing", order+"/release", nil, http.StatusForbidden)
	if !strings.Contains(page, "a shift lead or a manager can resume") {
		t.Error("the refusal doesn't say who can")
	}
	d.posts("ka", order+"/release", nil, http.StatusSeeOther)
}

func TestAPauseOfAWholeConnectionOrShop(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	order := orderPath(d.order)
	d.says("wing", "/connections", "Pause all shipping of hk-main", "Not with the role Support. These can: Shift lead, Manager, Administrator.")
	for _, path := range []string{"/connections/hk-main", "/shops/hk"} {
		d.posts("wing", path+"/hold", url.Values{"reason": {"x"}}, http.StatusForbidden)
		if status, _, _ := d.send("wing", get, path+"/hold", nil); status != http.StatusForbidden {
			t.Errorf("support opens %s: %d", path, status)
		}
		d.says("ka", "/connections", `href="`+path+`/hold"`)
		if _, page := d.posts("ka", path+"/hold", url.Values{"reason": {"x"}}, http.StatusUnprocessableEntity); !strings.Contains(page, "within 4 hours") || strings.Contains(page, `name="resumes"`) {
			t.Error("a lead isn't told the limit, or is offered what only a manager may")
		}
		soon := time.Now().Add(3 * time.Hour).In(hongKong).Format("2006-01-02T15:04")
		if to, _ := d.posts("ka", path+"/hold", url.Values{"reason": {"the warehouse is flooded"}, "until": {soon}}, http.StatusSeeOther); to != "/connections#hk-main" {
			t.Errorf("leads to %q", to)
		}
		d.says("ka", "/connections", "paused by Ka since", "These can: Manager.")
		d.says("wing", order, "All shipping of", "paused by Ka since", "the warehouse is flooded", `href="/connections#hk-main"`, "Pause shipping")
		d.posts("ka", path+"/release", nil, http.StatusForbidden)
		d.says("ng", "/connections", `action="`+path+`/release"`, "data-confirm=")
		d.posts("ng", path+"/release", nil, http.StatusSeeOther)
		d.says("ng", "/connections", "Shipping is resumed")
	}
	if status, _, _ := d.send("ng", get, "/connections/none/hold", nil); status != http.StatusNotFound {
		t.Errorf("a connection that isn't there: %d", status)
	}
}

func TestAPauseThatComesTooLateSaysSo(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	order := orderPath(d.order)
	if _, err := d.store.SQL().ExecContext(t.Context(), fmt.Sprintf(`INSERT INTO actions (order_id, shop_id, kind, stage, state, official, planned_at)
SELECT id, shop_id, 'fulfillment_instruction', 'order', 'sending', true, now() FROM orders WHERE id = %d`, d.order)); err != nil {
		t.Fatal(err)
	}
	d.says("wing", order+"/hold", "1 follow-up is being sent at this moment")
	d.posts("wing", order+"/hold", url.Values{"reason": {"x"}}, http.StatusSeeOther)
	d.says("wing", order, "1 follow-up was being sent already: #HK-1.")
}

func TestBannersOfHolds(t *testing.T) {
	t.Parallel()
	m := orderModel(heldOrder(), supporter, moment)
	if len(m.Holds) != 3 || m.Holds[0].Next.Key != "hold.review" || m.Holds[1].Next.Key != "hold.due" || m.Holds[2].Next.Key != "hold.resumes" {
		t.Fatalf("%+v", m.Holds)
	}
	if h := m.Holds[0]; h.Said.Args[2] != "two refunds for one parcel" || h.Deep == nil || h.Deep.Platform != models.Shopify || h.How.Key != "hold.how.shopify" || h.Page != "" {
		t.Errorf("%+v", h)
	}
	if h := m.Holds[2]; h.Said.Key != "hold.by_all" || h.Page != "/connections#hk-main" {
		t.Errorf("%+v", h)
	}
	// Stripe's own page isn't where goods are shipped.
	f := heldOrder()
	f.Objects = f.Objects[1:]
	if h := orderModel(f, supporter, moment).Holds[0]; h.Deep != nil {
		t.Errorf("%+v", h.Deep)
	}
	for _, c := range []struct {
		actor   models.Actor
		refused string
	}{
		{supporter, ""}, {auditor, "may.refused.role"}, {models.Actor{StaffID: 8, Role: models.Support}, "may.refused.pause"}, {models.Actor{StaffID: 9, Role: models.Admin}, "may.refused.role"},
	} {
		if o := orderModel(heldOrder(), c.actor, moment).Offer[1]; o.Refused.Key != c.refused || o.Post != "/orders/10428/release" {
			t.Errorf("%s: %+v", c.actor.Role, o)
		}
	}
}

func TestAShipmentWhilePausedIsTheManagersCase(t *testing.T) {
	t.Parallel()
	c := exceptionCase(models.Exception{Kind: models.Contradiction, Case: "shipped_while_paused", Axis: models.Fulfillment, State: "open"}, "HKD")
	if c.Urgency != "now" || len(c.Who) != 1 || c.Who[0] != "manager" || locale.New(locale.English, hongKong, moment).Text(c.Why) != "The states don’t fit together: shipped while paused." {
		t.Errorf("%+v", c)
	}
}
