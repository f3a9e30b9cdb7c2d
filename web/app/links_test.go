package app

import (
	"bytes"
	"context"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"testing"
	"time"

	"counterfoil/models"
	"counterfoil/models/platform/sandbox"
	"counterfoil/models/staff"
)

// A seat is a person at a browser without scripts.
type seat struct {
	r      *rig
	client *http.Client
}

func (r *rig) seat(role models.Role) seat {
	r.t.Helper()
	const password = "correct horse battery"
	email := string(role) + "@shop.example"
	if _, err := r.app.staff.AddAccount(context.Background(), commandLine, staff.NewAccount{Email: email, Name: "Some" + string(role), Role: role, Password: password}); err != nil {
		r.t.Fatal(err)
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		r.t.Fatal(err)
	}
	s := seat{r, &http.Client{Jar: jar}}
	if status, _ := s.post("/login", url.Values{"email": {email}, "password": {password}}); status != http.StatusOK {
		r.t.Fatalf("%s signs in: %d", role, status)
	}
	return s
}

func (s seat) get(path string) (int, string) {
	res, err := s.client.Get(s.r.base + path)
	return s.read(res, err)
}

func (s seat) post(path string, v url.Values) (int, string) {
	res, err := s.client.PostForm(s.r.base+path, v)
	return s.read(res, err)
}

func (s seat) read(res *http.Response, err error) (int, string) {
	s.r.t.Helper()
	if err != nil {
		s.r.t.Fatal(err)
	}
	defer res.Body.Close()
	page, err := io.ReadAll(res.Body)
	if err != nil {
		s.r.t.Fatal(err)
	}
	return res.StatusCode, html.UnescapeString(string(page))
}

// Payments name their orders in a key that nobody told the console of: it is found, set,
// and what waited is applied at once, by whichever process comes first.
func TestTheKeyThatLinksIsFoundAndSet(t *testing.T) {
	t.Parallel()
	r := start(t).withShopify(nil).withStripe("hk", nil)
	other := r.beside()
	var ids []int64
	for range 6 {
		id, ns, err := r.shop.CreateOrder(sandbox.ShopifyOrder{Total: "100.00"})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
		r.postAll("hk", ns...)
	}
	r.settled()
	for i, id := range ids {
		o, _ := r.order(gid(id))
		name := []string{fmt.Sprint(id), o.Number, strings.TrimPrefix(o.Number, "#")}[i%3]
		pi, paid := r.stripe.CreateIntent(10000, "hkd", sandbox.StripeIntent{Metadata: map[string]string{"shop_order": name, "order_id": "cart-77", "buyer": "Wong Ka Yan"}})
		r.postAll("pay", append(paid, must(r.stripe.Succeed(pi))...)...)
	}
	r.stripe.CreateIntent(500, "hkd", sandbox.StripeIntent{Metadata: map[string]string{"shop_order": "none"}})
	r.wait("the payments wait for their orders", func() bool {
		var n int
		r.scan(&n, `SELECT count(*) FROM events WHERE state <> 'unmatched' AND connection_id = (SELECT id FROM connections WHERE slug = 'pay')`)
		return n == 0
	})

	const path = "/connections/pay/links"
	support, manager, admin := r.seat(models.Support), r.seat(models.Manager), r.seat(models.Admin)
	if status, page := support.get("/connections"); status != http.StatusOK || strings.Contains(page, path) || !strings.Contains(page, "Not with the role Support. These can: Manager, Administrator.") {
		t.Errorf("support isn't told who can: %d", status)
	}
	for _, p := range []string{path, path + "/use"} {
		if status, _ := support.post(p, nil); status != http.StatusForbidden {
			t.Errorf("support posts %s: %d", p, status)
		}
	}
	if status, _ := manager.post(path+"/use", url.Values{"key": {"shop_order"}}); status != http.StatusForbidden {
		t.Errorf("a manager sets the key: %d", status)
	}
	before := r.stripe.Calls()
	if status, page := manager.get(path); status != http.StatusOK || !strings.Contains(page, "Read recent payments") || strings.Contains(page, "Proposed") {
		t.Errorf("the page explains: %d", status)
	}
	if r.stripe.Calls() != before {
		t.Error("looking at the page asks the platform")
	}
	_, page := manager.post(path, nil)
	for _, want := range []string{"Proposed: shop_order.", "6 of the 7 payments that have it name an order", "6 payments have it; 0 of the values name an order.",
		"Not with the role Manager. These can: Administrator."} {
		if !strings.Contains(page, want) {
			t.Errorf("a manager isn't told %q", want)
		}
	}
	for _, never := range []string{"Wong", "cart-77", fmt.Sprint(ids[0]), `action="` + path + `/use"`} {
		if strings.Contains(page, never) {
			t.Errorf("the page shows %q", never)
		}
	}
	var out, failed bytes.Buffer
	if code := Main([]string{"connection", "links", "--connection", "pay", "--json", "--database-url", r.dsn, "--key", r.key}, strings.NewReader(""), &out, &failed); code != 0 ||
		!strings.Contains(out.String(), `"proposed": "shop_order"`) {
		t.Errorf("the command: %d %s%s", code, out.String(), failed.String())
	}
	if status, page := admin.post(path+"/use", url.Values{"key": {"[x]"}}); status != http.StatusUnprocessableEntity || !strings.Contains(page, "1 to 40 characters") {
		t.Errorf("a key that can't be: %d", status)
	}
	if _, page := admin.post(path, nil); !strings.Contains(page, `name="key" value="shop_order"`) {
		t.Error("an administrator isn't offered the key")
	}
	began := time.Now()
	if status, page := admin.post(path+"/use", url.Values{"key": {"shop_order"}}); status != http.StatusOK || !strings.Contains(page, "Payments are linked by shop_order from now on.") {
		t.Errorf("set: %d", status)
	}
	for _, id := range ids {
		r.wait("every payment found its order", func() bool {
			o, _ := r.order(gid(id))
			return o.states() == "paid none none unfulfilled active none"
		})
	}
	t.Logf("applied after %s", time.Since(began).Round(time.Millisecond))
	other.wait("the other process knows the key", func() bool {
		c, err := other.app.book.Slug(t.Context(), "pay")
		return err == nil && c.Set["order_key"] == "shop_order"
	})
	var audit string
	r.scan(&audit, `SELECT concat(before, ' > ', after) FROM audit WHERE verb = 'connection.set' ORDER BY id DESC LIMIT 1`)
	if old, set, _ := strings.Cut(audit, " > "); strings.Contains(old, "order_key") || !strings.Contains(set, `"order_key": "shop_order"`) && !strings.Contains(set, `"order_key":"shop_order"`) {
		t.Errorf("audited as %s", audit)
	}
	if _, page := admin.post(path, nil); !strings.Contains(page, "shop_order is set and names the most orders. There is nothing to change.") {
		t.Error("what was proposed isn't what is set")
	}
	var left int
	r.scan(&left, `SELECT count(*) FROM events WHERE state = 'unmatched'`)
	if left != 0 {
		t.Errorf("%d events still wait for an order", left)
	}
}

func TestALinkFinderThatCannotAsk(t *testing.T) {
	t.Parallel()
	r := start(t).withShopify(nil).withStripe("hk", nil)
	manager := r.seat(models.Manager)
	const path = "/connections/pay/links"
	for want, spoil := range map[string]func(on bool){
		"Stripe can’t be asked now":      func(on bool) { r.stripe.Down.Store(on) },
		"Stripe limits our requests now": func(on bool) { r.stripe.Throttle.Store(on) },
		"rak_payment_intent_read). An ad": func(on bool) {
			r.stripe.Deny("/v1/payment_intents", map[bool]string{true: "rak_payment_intent_read"}[on])
		},
	} {
		spoil(true)
		status, page := manager.post(path, nil)
		spoil(false)
		if status != http.StatusServiceUnavailable || !strings.Contains(page, want) || !strings.Contains(page, "Nothing was changed") || !strings.Contains(page, "Read recent payments") {
			t.Errorf("%s: %d", want, status)
		}
	}
	if status, page := manager.post(path, nil); status != http.StatusOK || !strings.Contains(page, "Stripe has no payments yet.") {
		t.Errorf("without payments: %d", status)
	}
	r.stripe.CreateIntent(500, "hkd", sandbox.StripeIntent{})
	if _, page := manager.post(path, nil); !strings.Contains(page, "None of these payments has metadata.") {
		t.Error("payments without metadata aren't told")
	}
	r.stripe.CreateIntent(500, "hkd", sandbox.StripeIntent{Metadata: map[string]string{"a": "b"}})
	if _, page := manager.post(path, nil); !strings.Contains(page, "No key names an order of this shop.") {
		t.Error("that none matches isn't told")
	}
	for _, slug := range []string{"hk", "none"} {
		if status, _ := manager.get("/connections/" + slug + "/links"); status != http.StatusNotFound {
			t.Errorf("%s has a link finder: %d", slug, status)
		}
	}
}
