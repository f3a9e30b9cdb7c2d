package handlers

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gin-gonic/gin"

	"counterfoil/models"
	"counterfoil/web"
)

// A shelf holds what the pages read, in memory.
type shelf struct {
	orders map[int64]models.OrderFile
	rows   []models.OrderRow
	events map[int64]models.EventFile
	conns  []models.ConnectionFile
	asked  models.OrderQuery
	result string
	failed error
}

func (s *shelf) Orders(_ context.Context, q models.OrderQuery) (models.Page[models.OrderRow], error) {
	s.asked = q
	return models.Page[models.OrderRow]{Items: s.rows}, s.failed
}

func (s *shelf) OrderFile(_ context.Context, id int64) (models.OrderFile, error) {
	f, ok := s.orders[id]
	if !ok {
		return f, models.Fail(models.NotFound, "error.order_unknown")
	}
	return f, nil
}

func (s *shelf) Opened(context.Context, models.OrderFile) (bool, error) { return false, nil }

func (s *shelf) Find(context.Context, models.Actor, string, string) (string, int64, error) {
	return s.result, 0, s.failed
}

func (s *shelf) Askable(models.Actor) []string { return []string{"hk-main"} }

func (s *shelf) Events(context.Context, models.EventQuery) (models.Page[models.Event], error) {
	return models.Page[models.Event]{}, s.failed
}

func (s *shelf) EventFile(_ context.Context, id int64) (models.EventFile, error) {
	f, ok := s.events[id]
	if !ok {
		return f, models.Fail(models.NotFound, "error.not_found")
	}
	return f, nil
}

func (s *shelf) Slugs(shops []int64) []string {
	var out []string
	for _, c := range s.conns {
		if len(shops) == 0 || slices.Contains(shops, c.ShopID) {
			out = append(out, c.Slug)
		}
	}
	return out
}

func (s *shelf) Connections(_ context.Context, shops []int64) ([]models.ConnectionFile, error) {
	var seen []models.ConnectionFile
	for _, c := range s.conns {
		if len(shops) == 0 || slices.Contains(shops, c.ShopID) {
			seen = append(seen, c)
		}
	}
	return seen, s.failed
}

func (s *shelf) Resync(context.Context, models.Actor, int64) (string, error) {
	return s.result, s.failed
}

// one is a house with one person in it.
type one models.Actor

func (o one) Session(context.Context, string) (models.Actor, error) { return models.Actor(o), nil }
func (o one) Token(context.Context, string) (models.Actor, error)   { return models.Actor(o), nil }

// visit gives a browser in which the actor is signed in.
func visit(t *testing.T, s *shelf, actor models.Actor) func(method, path string) (int, string, string) {
	t.Helper()
	e, err := web.New(web.Options{Log: slog.New(slog.NewTextHandler(io.Discard, nil)), Now: func() time.Time { return moment }, Zone: hongKong,
		People: one(actor), Keys: [][]byte{[]byte(strings.Repeat("s", 32)), []byte(strings.Repeat("e", 32))}, Loopback: true})
	if err != nil {
		t.Fatal(err)
	}
	d := Doors{Orders: Orders{Book: s, Connections: s, Reconcile: s}, Events: Events{Book: s, Connections: s}, Connections: Connections{Book: s}, Rules: Rules{Words: testWords()}}
	mount(e, d.pages(), nil, nil)
	e.Page(http.MethodGet, "/come-in", models.Public, func(c *gin.Context) error { return web.SignIn(c, "token", time.Hour) })
	jar := map[string]*http.Cookie{}
	open := func(method, path string) (int, string, string) {
		r := httptest.NewRequest(method, path, nil)
		for _, c := range jar {
			r.AddCookie(c)
		}
		w := httptest.NewRecorder()
		e.ServeHTTP(w, r)
		for _, c := range w.Result().Cookies() {
			jar[c.Name] = c
			if c.MaxAge < 0 {
				delete(jar, c.Name)
			}
		}
		return w.Code, w.Header().Get("Location"), w.Body.String()
	}
	open(http.MethodGet, "/come-in")
	return open
}

func fullShelf() *shelf {
	merged := downOrder()
	merged.ID = 10428 // asked for as 9, the shell that became part of it
	other := downOrder()
	other.ID, other.ShopID = 8, 2
	event := waitingEvent()
	return &shelf{
		orders: map[int64]models.OrderFile{10428: downOrder(), 9: merged, 8: other}, rows: orderRows(),
		events: map[int64]models.EventFile{501: event}, conns: []models.ConnectionFile{{Slug: "hk-main", ShopID: 1}, {Slug: "tw-main", ShopID: 2}},
	}
}

func TestPagesAnswer(t *testing.T) {
	t.Parallel()
	mine, theirs := supporter, supporter
	mine.Shops, theirs.Shops = []int64{1}, []int64{2}
	for _, c := range []struct {
		actor  models.Actor
		path   string
		status int
		to     string
		says   string
	}{
		{supporter, "/orders", 200, "", "#HK-10428"},
		{supporter, "/orders?payment=refunded", 422, "", "no state that a list can be filtered by"},
		{supporter, "/orders?verification=maybe", 422, "", "maybe"},
		{supporter, "/orders/10428", 200, "", "Shopify can’t be asked since"},
		{mine, "/orders/10428", 200, "", "3 of 6 verified"},
		{theirs, "/orders/10428", 404, "", "belongs to a shop that isn’t yours"},
		{mine, "/orders/8", 404, "", ""},
		{supporter, "/orders/9", 303, "/orders/10428", ""},
		{supporter, "/orders/77", 404, "", ""},
		{supporter, "/orders/x", 404, "", ""},
		{supporter, "/orders/-1", 404, "", ""},
		{supporter, "/events", 200, "", "No events yet"},
		{supporter, "/events?state=failed", 200, "", "No event fits"},
		{supporter, "/events?state=lost", 422, "", ""},
		{supporter, "/events?state=%zz", 422, "", ""},
		{supporter, "/orders?q=a;b", 422, "", ""},
		{supporter, "/events?order=x", 422, "", ""},
		{supporter, "/events/501", 200, "", "Is it genuine?"},
		{mine, "/events/501", 200, "", "stay sealed"},
		{theirs, "/events/501", 404, "", ""},
		{supporter, "/rules", 200, "", "Words of Shopify"},
		{theirs, "/connections", 200, "", "/hooks/tw-main"},
	} {
		status, to, page := visit(t, fullShelf(), c.actor)(http.MethodGet, c.path)
		if status != c.status || to != c.to || !strings.Contains(page, c.says) {
			t.Errorf("%s for shops %v: %d %q, want %d %q with %q", c.path, c.actor.Shops, status, to, c.status, c.to, c.says)
		}
	}
}

func TestASearchWithOneAnswerLeadsThere(t *testing.T) {
	t.Parallel()
	s := fullShelf()
	s.rows = s.rows[3:]
	open := visit(t, s, supporter)
	if status, to, _ := open(http.MethodGet, "/orders?q="+url.QueryEscape("＃１０４２８")); status != 303 || to != "/orders/10428" || s.asked.Text != "#10428" {
		t.Errorf("%d %q, asked for %q", status, to, s.asked.Text)
	}
	if status, _, _ := open(http.MethodGet, "/orders?q=10428&payment=paid"); status != 200 {
		t.Errorf("a list with filters stays a list: %d", status)
	}
}

func TestResyncSaysWhatItFound(t *testing.T) {
	t.Parallel()
	for result, says := range map[string]string{"same": "already says what the platforms say", "moved": "brought up to date", "exception": "the rules don’t allow the move", "unavailable": "can’t be asked now"} {
		s := fullShelf()
		s.result = result
		open := visit(t, s, supporter)
		status, to, _ := open(http.MethodPost, "/orders/10428/resync")
		if status != 303 || to != "/orders/10428" {
			t.Errorf("%s: %d %q", result, status, to)
		}
		if _, _, page := open(http.MethodGet, to); !strings.Contains(page, says) {
			t.Errorf("%s isn't told", result)
		}
		if _, _, page := open(http.MethodGet, to); strings.Contains(page, says) {
			t.Errorf("%s is told twice", result)
		}
	}
	if status, _, _ := visit(t, fullShelf(), auditor)(http.MethodPost, "/orders/10428/resync"); status != 403 {
		t.Errorf("an auditor resyncs: %d", status)
	}
}

func TestOrderQuery(t *testing.T) {
	t.Parallel()
	v := url.Values{"q": {" ＃１０４２ "}, "payment": {"paid"}, "return": {"received"}, "verification": {"review"}, "connection": {"hk-main"}, "unresolved": {"true"}, "test": {"true"}, "cursor": {"abc"}}
	q, err := orderQuery(v)
	if err != nil {
		t.Fatal(err)
	}
	if q.Text != "#1042" || q.States[models.Payment] != models.PaymentPaid || q.States[models.Return] != models.ReturnReceived || q.Verification != models.ToReview ||
		q.Connection != "hk-main" || !q.Unresolved || !q.Test || q.Announced || q.Cursor != "abc" {
		t.Errorf("%+v", q)
	}
	back := orderValues(q)
	v.Del("cursor")
	v.Set("q", "#1042")
	if back.Encode() != v.Encode() {
		t.Errorf("%s, want %s", back.Encode(), v.Encode())
	}
	if got := listPath("/orders", back, "abc"); !strings.HasPrefix(got, "/orders?") || !strings.Contains(got, "cursor=abc") || !strings.Contains(got, "payment=paid") {
		t.Error(got)
	}
	if listPath("/orders", back, "") != "" {
		t.Error("a page that isn't there has an address")
	}
}

func TestOrdersModel(t *testing.T) {
	t.Parallel()
	q, err := orderQuery(url.Values{"payment": {"paid"}, "fulfillment": {"unfulfilled"}})
	if err != nil {
		t.Fatal(err)
	}
	m := ordersModel(models.Page[models.OrderRow]{Items: orderRows(), Next: "n"}, q, nil)
	for _, v := range m.Views {
		if v.Current != (v.Label.Key == "orders.view.to_ship") {
			t.Errorf("%s: current %v", v.Label.Key, v.Current)
		}
	}
	if m.Older == "" || m.Newer != "" || !m.Filtered {
		t.Errorf("%+v", m)
	}
	said, quiet, trouble := m.Rows[0], m.Rows[1], m.Rows[2]
	if !said.Announced || said.Payment != models.PaymentPaid || said.Amounts.Total != 196000 {
		t.Errorf("announced: %+v", said)
	}
	if len(quiet.Others) != 1 || quiet.Others[0].State != models.ReturnReceived || quiet.Unresolved != 0 {
		t.Errorf("quiet: %+v", quiet)
	}
	if len(trouble.Others) != 4 || trouble.Others[0].Axis != models.Dispute || !trouble.Urgent || trouble.Unresolved != 25 {
		t.Errorf("trouble: %+v", trouble)
	}
}
