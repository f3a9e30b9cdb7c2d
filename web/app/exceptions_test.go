package app

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"counterfoil/models"
	"counterfoil/models/platform/sandbox"
	"counterfoil/models/staff"
	"counterfoil/models/store"
)

type seenException struct {
	ID, Kind, Case, State, Policy, Suggestion, Connection, How, Topic string
	Axis                                                              *string
	OrderID                                                           *string `json:"order_id"`
	PlatformRef                                                       string  `json:"platform_ref"`
	PlatformState                                                     string  `json:"platform_state"`
	LocalState                                                        string  `json:"local_state"`
	Group, Owner                                                      *string
	Count                                                             int64
	FirstSeen                                                         string `json:"first_seen"`
	LastSeen                                                          string `json:"last_seen"`
	Needs                                                             bool
}

type seenResync struct {
	Result string
	Order  *seenOrder
	Error  struct{ Code string }
}

func (r *rig) exceptions(filter string) []seenException {
	r.t.Helper()
	var list struct{ Items []seenException }
	if code := r.call(http.MethodGet, "/api/v1/exceptions?"+filter, &list); code != http.StatusOK {
		r.t.Fatalf("exceptions?%s answered %d", filter, code)
	}
	return list.Items
}

// opens opens an exception of a connection, and answers its id.
func (r *rig) opens(slug string, c store.Case) string {
	r.t.Helper()
	r.scan(&c.ConnectionID, `SELECT id FROM connections WHERE slug = $1`, slug)
	if err := r.app.store.Tx(context.Background(), func(tx *store.Tx) error { return tx.OpenCase(context.Background(), c) }); err != nil {
		r.t.Fatal(err)
	}
	var id string
	r.scan(&id, `SELECT max(id)::text FROM exceptions`)
	return id
}

// missed is a paid order of the shop of which no notification came, as a sweep finds it:
// its object is known, its order isn't.
func (r *rig) missed() (order int64, exception string) {
	r.t.Helper()
	order, _, err := r.shop.CreateOrder(sandbox.ShopifyOrder{Total: "100.00"})
	if err == nil {
		_, err = r.shop.Pay(order)
	}
	if err != nil {
		r.t.Fatal(err)
	}
	var object int64
	r.scan(&object, `INSERT INTO platform_objects (connection_id, account, kind, ref) SELECT id, account, 'order', $1 FROM connections WHERE slug = 'hk' RETURNING id`, gid(order))
	return order, r.opens("hk", store.Case{Subject: fmt.Sprintf("object:%d", object), ObjectID: object, Ref: gid(order), Topic: "orders/create",
		Problem: models.Problem{Kind: models.MissedNotification, Axis: models.Payment, PlatformState: "PAID"}})
}

func TestAMissedOrderIsReadThroughItsException(t *testing.T) {
	t.Parallel()
	r := start(t).withShopify(nil)
	order, id := r.missed()
	list := r.exceptions("state=open&kind=missed_notification&connection=hk")
	if len(list) != 1 {
		t.Fatalf("%+v", list)
	}
	if x := list[0]; x.ID != id || x.Suggestion != "resync" || x.PlatformRef != gid(order) || x.PlatformState != "PAID" || x.Policy != "wait" || x.Needs || x.Topic != "orders/create" || x.OrderID != nil ||
		*x.Axis != "payment" || x.Count != 1 || x.Group != nil || x.Owner != nil || x.FirstSeen == "" || x.LastSeen == "" {
		t.Errorf("%+v", x)
	}
	var got seenResync
	if code := r.call(http.MethodPost, "/api/v1/exceptions/"+id+"/resync", &got); code != http.StatusOK || got.Result != "moved" || got.Order == nil || *got.Order.Payment != "paid" {
		t.Fatalf("%d %+v", code, got)
	}
	if got.Order.Ledger[0].Cause.Kind != "resync" {
		t.Errorf("caused by %+v", got.Order.Ledger[0].Cause)
	}
	n := len(r.actions())
	if n == 0 {
		t.Error("nothing was planned")
	}
	// Once more: the order is known by now, and nothing is doubled.
	if code := r.call(http.MethodPost, "/api/v1/exceptions/"+id+"/resync", &got); code != http.StatusOK || got.Result != "same" || got.Order == nil {
		t.Errorf("%d %+v", code, got)
	}
	if len(r.actions()) != n {
		t.Error("something was planned twice")
	}
}

func TestAResyncOfAnExceptionSaysWhatCameOfIt(t *testing.T) {
	t.Parallel()
	r := start(t).withShopify(nil).withStripe("hk", nil)
	_, missed := r.missed()
	nothing := r.opens("hk", store.Case{Subject: "topic:orders/paid", Problem: models.Problem{Kind: models.SubscriptionMissing}})
	gone := r.opens("hk", store.Case{Subject: "object:0", Ref: gid(7), Problem: models.Problem{Kind: models.GoneOnPlatform}})
	var got seenResync
	if code := r.call(http.MethodPost, "/api/v1/exceptions/"+nothing+"/resync", &got); code != http.StatusUnprocessableEntity {
		t.Errorf("nothing to read: %d %+v", code, got)
	}
	if code := r.call(http.MethodPost, "/api/v1/exceptions/"+gone+"/resync", &got); code != http.StatusOK || got.Result != "exception" || got.Order != nil {
		t.Errorf("the platform has no such order: %d %+v", code, got)
	}
	r.shop.Down.Store(true)
	if code := r.call(http.MethodPost, "/api/v1/exceptions/"+missed+"/resync", &got); code != http.StatusOK || got.Result != "unavailable" {
		t.Errorf("the platform is down: %d %+v", code, got)
	}
}

func TestExceptionsOfOtherShopsAreUnknown(t *testing.T) {
	t.Parallel()
	r := start(t).withShopify(nil).withReceipts(true)
	_, id := r.missed()
	r.person("Ng", models.Manager)
	only := r.holding(staff.NewToken{Name: "till", User: "Ng@shop.example", Shops: []string{"till"}, Scopes: []models.Scope{models.ScopeRead, models.ScopeWrite}})
	if list := only.exceptions(""); len(list) != 0 {
		t.Errorf("%+v", list)
	}
	for _, path := range []string{"", "/resync", "/close", "/dismiss", "/accept"} {
		method := http.MethodPost
		if path == "" {
			method = http.MethodGet
		}
		if code := only.callWith(method, "/api/v1/exceptions/"+id+path, `{"reason":"x"}`, nil); code != http.StatusNotFound {
			t.Errorf("%s %q: %d", method, path, code)
		}
	}
	for _, bad := range []string{"kind=x", "state=maybe", "order=x", "limit=0", "cursor=x", "needs=perhaps"} {
		if code := r.call(http.MethodGet, "/api/v1/exceptions?"+bad, nil); code != http.StatusUnprocessableEntity {
			t.Errorf("%s: %d", bad, code)
		}
	}
}

func TestProgramsListEveryExceptionPageByPage(t *testing.T) {
	t.Parallel()
	r := start(t).withShopify(nil)
	r.exec(`INSERT INTO case_groups (connection_id, kind, first_seen, last_seen, closed_at) SELECT id, 'move_refused', now(), now(), now() FROM connections`)
	for i := range 7 {
		r.opens("hk", store.Case{Subject: fmt.Sprintf("object:%d", 1000+i), Problem: models.Problem{Kind: models.MoveRefused, Axis: models.Payment}})
	}
	r.exec(`UPDATE exceptions SET group_id = 1 WHERE id > 2`)
	var page struct {
		Items []seenException
		Next  string
	}
	seen, cursor := map[string]bool{}, ""
	for range 4 {
		page.Items, page.Next = nil, ""
		r.call(http.MethodGet, "/api/v1/exceptions?limit=3&cursor="+cursor, &page)
		for _, x := range page.Items {
			if seen[x.ID] {
				t.Errorf("%s twice", x.ID)
			}
			seen[x.ID] = true
			if (x.Group != nil) != (x.ID > "2") {
				t.Errorf("%s is in group %v", x.ID, x.Group)
			}
		}
		if cursor = page.Next; cursor == "" {
			break
		}
	}
	if len(seen) != 7 {
		t.Errorf("%d of 7", len(seen))
	}
	if n := len(r.exceptions("group=1")); n != 5 {
		t.Errorf("%d members", n)
	}
}

func TestADifferenceIsAcceptedThroughTheAPI(t *testing.T) {
	t.Parallel()
	r := start(t).withShopify(nil)
	order := r.placed(sandbox.ShopifyOrder{})
	o, _ := r.order(gid(order))
	var n int64
	r.scan(&n, `SELECT id FROM orders`)
	id := r.opens("hk", store.Case{Subject: "order:" + o.ID, OrderID: n, Ref: gid(order), Problem: models.Problem{Kind: models.MoveRefused, Axis: models.Payment, PlatformState: "PENDING", LocalState: "paid"}})
	support, manager := r.person("Wing", models.Support), r.person("Ng", models.Manager)
	if code := support.callWith(http.MethodPost, "/api/v1/exceptions/"+id+"/close", `{"reason":"x"}`, nil); code != http.StatusForbidden {
		t.Errorf("support closes a hold: %d", code)
	}
	var asked seenRequest
	if code := support.callWith(http.MethodPost, "/api/v1/exceptions/"+id+"/accept", `{"reason":"paid in cash","version":1}`, &asked); code != http.StatusCreated || asked.Kind != "accept" {
		t.Fatalf("%d %+v", code, asked)
	}
	if code := support.callWith(http.MethodPost, "/api/v1/requests/"+asked.ID+"/approve", `{}`, nil); code != http.StatusForbidden {
		t.Errorf("the proposer approves: %d", code)
	}
	if code := manager.callWith(http.MethodPost, "/api/v1/requests/"+asked.ID+"/approve", `{}`, nil); code != http.StatusOK {
		t.Fatalf("a manager: %d", code)
	}
	if list := r.exceptions("state=closed&order=" + o.ID); len(list) != 1 || list[0].How != "accepted" {
		t.Errorf("%+v", list)
	}
	other := r.opens("hk", store.Case{Subject: "order:" + o.ID, OrderID: n, Ref: gid(order), Problem: models.Problem{Kind: models.StateDiffers, Axis: models.Return, PlatformState: "CLOSED", LocalState: "none"}})
	var after seenException
	if code := support.callWith(http.MethodPost, "/api/v1/exceptions/"+other+"/dismiss", `{"reason":"nothing","version":9}`, nil); code != http.StatusConflict {
		t.Errorf("an old version: %d", code)
	}
	if code := support.callWith(http.MethodPost, "/api/v1/exceptions/"+other+"/dismiss", `{"reason":"nothing"}`, &after); code != http.StatusOK || after.State != "closed" || after.How != "dismissed" {
		t.Errorf("%d %+v", code, after)
	}
	if code := r.holding(staff.NewToken{Role: models.Service, Scopes: []models.Scope{models.ScopeWrite}}).callWith(http.MethodPost, "/api/v1/exceptions/"+other+"/close", `{"reason":"x"}`, nil); code != http.StatusForbidden {
		t.Errorf("a program closes: %d", code)
	}
}

// Reading many goes on in the background, and the list says how each came out.
func TestManyExceptionsAreReadInTheBackground(t *testing.T) {
	t.Parallel()
	r := start(t).withShopify(nil)
	var orders []int64
	for range 3 {
		o, _ := r.missed()
		orders = append(orders, o)
	}
	d := r.browserOf("ng", models.Manager, false)
	if page := d.get("/exceptions/resync?state=settling"); !strings.Contains(page, "3 open exceptions") {
		t.Error("the summary doesn't count them")
	}
	if code := d.post("/exceptions/resync", url.Values{"filters": {"state=settling"}}); code != http.StatusSeeOther {
		t.Fatal(code)
	}
	results := d.location
	r.wait("all of them are imported", func() bool {
		n := 0
		for _, o := range orders {
			if _, ok := r.order(gid(o)); ok {
				n++
			}
		}
		return n == len(orders)
	})
	page := d.get(results)
	for _, o := range orders {
		if !strings.Contains(page, gid(o)) && !strings.Contains(page, r.shop.Name(o)) {
			t.Errorf("the results leave %d out", o)
		}
	}
	var initiated int
	r.scan(&initiated, `SELECT count(*) FROM audit WHERE verb = 'resync.many' AND actor LIKE 'staff:%' AND after = 'cases 3 objects 3'`)
	if initiated != 1 {
		t.Error("nobody is named for it")
	}
}

func TestThePlatformIsAskedForWhatASearchDidNotFind(t *testing.T) {
	t.Parallel()
	r := start(t).withShopify(nil)
	order, _, err := r.shop.CreateOrder(sandbox.ShopifyOrder{Name: "#4242"})
	if err != nil {
		t.Fatal(err)
	}
	d := r.browserOf("wing", models.Support, false)
	if page := d.get("/orders?q=4242"); !strings.Contains(page, "Ask the platform") || !strings.Contains(page, `value="hk"`) {
		t.Error("it isn't offered")
	}
	if code := d.post("/orders/ask", url.Values{"connection": {"hk"}, "q": {"＃4242"}}); code != http.StatusSeeOther || !strings.HasPrefix(d.location, "/orders/") {
		t.Fatalf("%d %s", code, d.location)
	}
	if _, ok := r.order(gid(order)); !ok {
		t.Error("it wasn't taken in")
	}
	for typed, said := range map[string]string{"4243": "hk has nothing under “4243”.", "no number": "hk has nothing under “no number”.", gid(9): "has nothing under"} {
		d.post("/orders/ask", url.Values{"connection": {"hk"}, "q": {typed}})
		if page := d.get(d.location); !strings.Contains(page, said) {
			t.Errorf("%q isn't answered with %q", typed, said)
		}
	}
	if code := d.post("/orders/ask", url.Values{"connection": {"elsewhere"}, "q": {"1"}}); code != http.StatusNotFound {
		t.Errorf("a connection that isn't there: %d", code)
	}
}

// Every page counts what needs people, and an order's page leads to its exceptions.
func TestAnOrderLeadsToItsExceptions(t *testing.T) {
	t.Parallel()
	r := start(t).withShopify(nil)
	order := r.placed(sandbox.ShopifyOrder{})
	o, _ := r.order(gid(order))
	var n int64
	r.scan(&n, `SELECT id FROM orders`)
	d := r.browserOf("wing", models.Support, false)
	if page := d.get("/orders"); strings.Contains(page, "nav__n") {
		t.Error("nothing is counted as something")
	}
	id := r.opens("hk", store.Case{Subject: "order:" + o.ID, OrderID: n, Ref: gid(order), Problem: models.Problem{Kind: models.StateDiffers, Axis: models.Refund, PlatformState: "REFUNDED", LocalState: "none"}})
	r.opens("hk", store.Case{Subject: "order:" + o.ID, OrderID: n, Ref: gid(order), Problem: models.Problem{Kind: models.StateDiffers, Axis: models.Return, PlatformState: "CLOSED", LocalState: "none"}})
	if page := d.get("/orders"); !strings.Contains(page, `nav__n--now">1<span class="vh"> need you`) {
		t.Error("the navigation doesn't count the one that needs people")
	}
	page := d.get("/orders/" + o.ID)
	for _, want := range []string{`href="/exceptions/` + id + `"`, `action="/exceptions/` + id + `/resync"`} {
		if !strings.Contains(page, want) {
			t.Errorf("the order's page lacks %s", want)
		}
	}
	if code := d.post("/exceptions/"+id+"/resync", url.Values{"back": {"order"}}); code != http.StatusSeeOther || d.location != "/orders/"+o.ID {
		t.Errorf("%d %s", code, d.location)
	}
}
