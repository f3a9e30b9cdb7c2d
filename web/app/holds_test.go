package app

import (
	"context"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"testing"
	"time"

	"counterfoil/models"
	"counterfoil/models/casework"
	"counterfoil/models/platform/sandbox"
	"counterfoil/models/staff"
)

// as lets a person of a role ask the API with a token of their own.
func (r *rig) as(name string, role models.Role) *rig {
	r.t.Helper()
	email := name + "@shop.example"
	if _, err := r.app.staff.AddAccount(context.Background(), commandLine, staff.NewAccount{Email: email, Name: name, Role: role, Password: "a-long-password"}); err != nil {
		r.t.Fatal(err)
	}
	token, _, err := r.app.staff.AddToken(context.Background(), commandLine, staff.NewToken{Name: name, User: email})
	if err != nil {
		r.t.Fatal(err)
	}
	other := *r
	other.token = token
	return &other
}

type heldOrder struct {
	seenOrder
	Holds []struct {
		Scope, Reason, By string
		Since             time.Time
		Until             *time.Time
	}
}

func TestHoldsThroughTheAPI(t *testing.T) {
	t.Parallel()
	r := start(t).withShopify(nil)
	id, ns, err := r.shop.CreateOrder(sandbox.ShopifyOrder{Total: "100.00"})
	if err != nil {
		t.Fatal(err)
	}
	r.postAll("hk", ns...)
	r.settled()
	o, _ := r.order(gid(id))
	hold, release := "/api/v1/orders/"+o.ID+"/hold", "/api/v1/orders/"+o.ID+"/release"
	if code := r.callWith(http.MethodPost, hold, `{"reason": "x"}`, nil); code != http.StatusForbidden {
		t.Errorf("a service pauses: %d", code)
	}
	wing, ho, ng := r.as("Wing", models.Support), r.as("Ho", models.Support), r.as("Ng", models.Manager)
	if code := wing.callWith(http.MethodPost, hold, `{"until": "2020-01-01T00:00:00Z"}`, nil); code != http.StatusUnprocessableEntity {
		t.Errorf("without a reason, until the past: %d", code)
	}
	var held heldOrder
	until := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
	if code := wing.callWith(http.MethodPost, hold, `{"reason": "two refunds", "until": "`+until.Format(time.RFC3339)+`"}`, &held); code != http.StatusOK {
		t.Fatalf("answered %d", code)
	}
	if held.ID != o.ID || len(held.Holds) != 1 || held.Holds[0].Reason != "two refunds" || held.Holds[0].By != "Wing" || held.Holds[0].Scope != "order" ||
		held.Holds[0].Since.IsZero() || held.Holds[0].Until == nil || !held.Holds[0].Until.Equal(until) {
		t.Errorf("%+v", held)
	}
	if code := ng.callWith(http.MethodPost, hold, `{"reason": "again"}`, nil); code != http.StatusConflict {
		t.Errorf("held twice: %d", code)
	}
	var list struct{ Items []heldOrder }
	if r.call(http.MethodGet, "/api/v1/orders", &list); len(list.Items) != 1 || len(list.Items[0].Holds) != 1 {
		t.Errorf("list %+v", list)
	}
	if code := ho.callWith(http.MethodPost, release, "", nil); code != http.StatusForbidden {
		t.Errorf("support resumes another's pause: %d", code)
	}
	var free heldOrder
	if code := wing.callWith(http.MethodPost, release, "", &free); code != http.StatusOK || free.ID != o.ID || len(free.Holds) != 0 {
		t.Errorf("%d %+v", code, free)
	}
	if code := ng.callWith(http.MethodPost, release, "", nil); code != http.StatusConflict {
		t.Errorf("released twice: %d", code)
	}
}

func TestShippedWhilePausedIsACase(t *testing.T) {
	t.Parallel()
	r := start(t).withShopify(nil)
	made := func(pieces int) int64 {
		id, ns, err := r.shop.CreateOrder(sandbox.ShopifyOrder{Total: "100.00", Pieces: pieces})
		if err != nil {
			t.Fatal(err)
		}
		r.postAll("hk", append(ns, must(r.shop.Pay(id))...)...)
		return id
	}
	paused, free := made(2), made(2)
	r.settled()
	hold := func(scope models.HoldScope, subject int64) {
		t.Helper()
		actor := models.Actor{StaffID: 1, Name: "Ng", Role: models.Manager}
		if _, err := r.app.holds.Hold(context.Background(), actor, casework.Pause{Scope: scope, Subject: subject, Reason: "stock"}); err != nil {
			t.Fatal(err)
		}
	}
	var order int64
	r.scan(&order, `SELECT id FROM orders WHERE platform_ref = $1`, gid(paused))
	hold(models.HoldOrder, order)
	r.clock.forward(time.Minute)
	for _, id := range []int64{paused, free} {
		r.postAll("hk", must(r.shop.Fulfill(id, 1, "SF1"))...)
	}
	r.settled()
	cases := func() (n, open int) {
		r.scan(&n, `SELECT count(*) FROM exceptions WHERE kind = 'contradiction' AND case_name = 'shipped_while_paused' AND axis = 'fulfillment' AND policy = 'ask'`)
		r.scan(&open, `SELECT count(*) FROM exceptions WHERE state = 'open' AND order_id = $1`, order)
		return n, open
	}
	if n, open := cases(); n != 1 || open != 1 {
		t.Fatalf("%d cases, %d open of the paused order", n, open)
	}
	// It is a person's to close: a later reading, which finds nothing new, doesn't.
	r.postAll("hk", must(r.shop.Touch(paused))...)
	r.settled()
	if n, open := cases(); n != 1 || open != 1 {
		t.Errorf("after another reading %d cases, %d open", n, open)
	}
	// A shop's pause reaches all of its orders, and every further parcel counts.
	var shop int64
	r.scan(&shop, `SELECT id FROM shops WHERE slug = 'hk'`)
	hold(models.HoldShop, shop)
	r.clock.forward(time.Minute)
	r.postAll("hk", must(r.shop.Fulfill(free, 1, "SF2"))...)
	r.settled()
	if n, _ := cases(); n != 2 {
		t.Errorf("%d cases", n)
	}
}

func TestAPauseEndsByItselfWhereThatWasChosen(t *testing.T) {
	t.Parallel()
	r := start(t).withShopify(nil)
	actor := models.Actor{StaffID: 1, Name: "Ng", Role: models.Manager}
	soon := time.Now().Add(500 * time.Millisecond)
	for _, c := range r.app.book.All() {
		if _, err := r.app.holds.Hold(context.Background(), actor, casework.Pause{Scope: models.HoldConnection, Subject: c.ID, Reason: "stock", Until: soon, Resumes: true}); err != nil {
			t.Fatal(err)
		}
		if _, err := r.app.holds.Hold(context.Background(), actor, casework.Pause{Scope: models.HoldShop, Subject: c.ShopID, Reason: "stock", Until: soon}); err != nil {
			t.Fatal(err)
		}
	}
	r.wait("the connection is resumed", func() bool {
		var n int
		r.scan(&n, `SELECT count(*) FROM holds WHERE scope = 'connection' AND released_by = 'console'`)
		return n == 1
	})
	var open int
	r.scan(&open, `SELECT count(*) FROM holds WHERE scope = 'shop' AND released_at IS NULL AND until < now()`)
	if open != 1 {
		t.Error("a pause that only asks ended by itself")
	}
}

// A pause of a whole shop or connection stands on every page of whoever sees the shop.
func TestEveryPageSaysWhatIsPaused(t *testing.T) {
	t.Parallel()
	r := start(t).withShopify(nil).withReceipts(true)
	ctx := context.Background()
	for name, shop := range map[string]string{"hk": "hk", "till": "till"} {
		if _, err := r.app.staff.AddAccount(ctx, commandLine, staff.NewAccount{Email: name + "@shop.example", Name: name, Role: models.Support, Password: "a-long-password", Shops: []string{shop}}); err != nil {
			t.Fatal(err)
		}
	}
	conn, err := r.app.book.Slug(ctx, "hk")
	if err != nil {
		t.Fatal(err)
	}
	boss := models.Actor{StaffID: 1, Role: models.Manager, Name: "Ng"}
	for _, p := range []casework.Pause{{Scope: models.HoldShop, Subject: conn.ShopID, Reason: "the cellar is flooded"},
		{Scope: models.HoldConnection, Subject: conn.ID, Reason: "two of everything"}} {
		if _, err := r.app.holds.Hold(ctx, boss, p); err != nil {
			t.Fatal(err)
		}
	}
	for name, told := range map[string]int{"hk": 1, "till": 0} {
		jar, err := cookiejar.New(nil)
		if err != nil {
			t.Fatal(err)
		}
		client := &http.Client{Jar: jar}
		page := func(res *http.Response, err error) string {
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			b, err := io.ReadAll(res.Body)
			if err != nil || res.StatusCode != http.StatusOK {
				t.Fatalf("%s: %d %v", res.Request.URL.Path, res.StatusCode, err)
			}
			return string(b)
		}
		first := page(client.PostForm(r.base+"/login", url.Values{"email": {name + "@shop.example"}, "password": {"a-long-password"}}))
		pages := map[string]string{"/orders": first}
		for _, path := range []string{"/events", "/rules", "/connections"} {
			pages[path] = page(client.Get(r.base + path))
		}
		for path, text := range pages {
			for _, reason := range []string{"the cellar is flooded", "two of everything"} {
				if got := strings.Count(text, reason); (got > 0) != (told > 0) || path != "/connections" && got != told {
					t.Errorf("%s on %s reads %d times that %s", name, path, got, reason)
				}
			}
		}
	}
}
