package app

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"counterfoil/models"
	"counterfoil/models/casework"
	"counterfoil/models/platform/sandbox"
	"counterfoil/models/staff"
)

// decide sets rules of the shop hk, as a manager.
func (r *rig) decide(rules ...models.ActionRule) {
	r.t.Helper()
	p := &casework.Policies{Store: r.app.store}
	boss := models.Actor{StaffID: 1, Name: "Ng", Role: models.Manager}
	f, err := p.File(context.Background(), boss, "hk")
	if err == nil {
		err = p.SetRules(context.Background(), boss, "hk", f.Rules.Version(), models.RulesOf(rules))
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

var atAuthorized = models.ActionRule{Occasion: models.OnAuthorized, Kind: models.FulfillmentInstruction, Active: true}

// listed names the actions of the newest kind and stage, with their states.
func (r *rig) listed() string {
	r.t.Helper()
	var text string
	r.scan(&text, `SELECT COALESCE(string_agg(kind || '/' || stage || ' ' || state || ' ' || occasion, ', ' ORDER BY id), '') FROM actions`)
	return text
}

func TestAShopThatCapturesWhenItShips(t *testing.T) {
	t.Parallel()
	r := start(t).withShopify(nil)
	s := newSink(t)
	r.live("hk", s, true, usual...)
	r.decide(atAuthorized, models.ActionRule{Occasion: models.OnShipped, Kind: models.CustomerMessage, Active: true})
	id := r.placed(sandbox.ShopifyOrder{Pieces: 1})
	r.postAll("hk", must(r.shop.Authorize(id))...)
	r.carried()
	if got := s.effects(); got != "fulfillment_instruction/order 1" {
		t.Fatalf("sent at authorized: %s\n%s", got, r.listed())
	}
	r.postAll("hk", must(r.shop.Fulfill(id, 1, "SF1"))...)
	r.carried()
	r.postAll("hk", must(r.shop.Pay(id))...)
	r.carried()
	if got := s.effects(); got != "customer_message/payment_received 1, customer_message/shipped 1, fulfillment_instruction/order 1, invoice/order 1" || s.count() != 4 {
		t.Errorf("%d calls: %s\n%s", s.count(), got, r.listed())
	}
	var occasion string
	r.scan(&occasion, `SELECT occasion FROM actions WHERE kind = 'fulfillment_instruction'`)
	if occasion != "authorized" {
		t.Errorf("planned by %s", occasion)
	}
}

func TestMoneyThatIsNoLongerReserved(t *testing.T) {
	t.Parallel()
	r := start(t).withShopify(nil)
	s := newSink(t)
	r.live("hk", s, true, models.FulfillmentInstruction)
	r.decide(atAuthorized)
	id := r.placed(sandbox.ShopifyOrder{})
	r.exec(`INSERT INTO holds (scope, subject, reason, actor, since) SELECT 'order', max(id), 'test', 'console', now() FROM orders`)
	r.postAll("hk", must(r.shop.Authorize(id))...)
	r.becomes(models.ActionWaiting, "no_hold")
	r.postAll("hk", must(r.shop.Void(id))...)
	r.settled()
	r.exec(`UPDATE holds SET released_at = now(), released_by = 'console'`)
	r.exec(`UPDATE actions SET due_at = now()`)
	r.becomes(models.ActionWaiting, "paid")
	if s.count() != 0 {
		t.Fatalf("%d calls for an order whose money is gone", s.count())
	}
	// What was planned by a rule stays by it when the rule is off; other orders follow
	// the rules of their time.
	r.decide()
	r.postAll("hk", must(r.shop.Authorize(id))...)
	r.carried()
	if s.count() != 1 {
		t.Errorf("%d calls after the bank reserved it anew", s.count())
	}
	next := r.placed(sandbox.ShopifyOrder{})
	r.postAll("hk", must(r.shop.Authorize(next))...)
	r.settled()
	if got := r.listed(); strings.Count(got, "fulfillment_instruction") != 1 {
		t.Errorf("planned although the rule is off: %s", got)
	}
}

func TestARuleThatIsOffPlansNothing(t *testing.T) {
	t.Parallel()
	r := start(t).withShopify(nil)
	r.decide(models.ActionRule{Occasion: models.OnPaid, Kind: models.FulfillmentInstruction}, models.ActionRule{Occasion: models.OnPaid, Kind: models.CustomerMessage},
		models.ActionRule{Occasion: models.OnPayOnDelivery, Kind: models.FulfillmentInstruction}, models.ActionRule{Occasion: models.OnRefunded, Kind: models.CustomerMessage},
		models.ActionRule{Occasion: models.OnRefunded, Kind: models.CreditNote, Active: true}, models.ActionRule{Occasion: models.OnCancelled, Kind: models.CustomerMessage, Active: true})
	id := r.placed(sandbox.ShopifyOrder{})
	r.placed(sandbox.ShopifyOrder{Gateway: "Cash on Delivery (COD)"})
	r.postAll("hk", must(r.shop.Pay(id))...)
	r.settled()
	r.postAll("hk", must(r.shop.Refund(id, "20.00", sandbox.RefundSucceeds))...)
	r.settled()
	r.postAll("hk", must(r.shop.Cancel(id, "customer"))...)
	r.settled()
	if got := r.listed(); got != "invoice/order watched paid, credit_note/refund:2000 watched refunded, customer_message/cancelled watched cancelled" {
		t.Errorf("planned %s", got)
	}
}

func TestAWaitIsRespected(t *testing.T) {
	t.Parallel()
	r := start(t).withShopify(nil)
	s := newSink(t)
	r.live("hk", s, true, models.FulfillmentInstruction)
	r.decide(models.ActionRule{Occasion: models.OnPaid, Kind: models.FulfillmentInstruction, Active: true, Wait: 2 * time.Hour})
	id := r.placed(sandbox.ShopifyOrder{})
	r.postAll("hk", must(r.shop.Pay(id))...)
	r.settled()
	var waits float64
	r.scan(&waits, `SELECT extract(epoch FROM not_before - planned_at) FROM actions WHERE kind = 'fulfillment_instruction'`)
	if waits != 7200 {
		t.Errorf("waits %g seconds", waits)
	}
	// Whatever wakes it before its time, it waits.
	r.exec(`UPDATE actions SET due_at = now() WHERE kind = 'fulfillment_instruction'`)
	r.becomes(models.ActionWaiting, "not_before")
	if s.count() != 0 {
		t.Fatalf("%d calls before its time", s.count())
	}
	r.clock.forward(2*time.Hour + time.Second)
	r.exec(`UPDATE actions SET due_at = now() WHERE kind = 'fulfillment_instruction'`)
	r.carried()
	if s.count() != 1 {
		t.Errorf("%d calls after it: %+v", s.count(), r.instruction())
	}
}

// A visitor is a person's browser.
type visitor struct {
	*rig
	http *http.Client
}

// visit signs a person of a role in.
func (r *rig) visit(name string, role models.Role) visitor {
	r.t.Helper()
	email := strings.ToLower(name) + "@shop.example"
	if _, err := r.app.staff.AddAccount(context.Background(), commandLine, staff.NewAccount{Email: email, Name: name, Role: role, Password: "a-long-password"}); err != nil {
		r.t.Fatal(err)
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		r.t.Fatal(err)
	}
	v := visitor{r, &http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
	if code, _ := v.form("/login", "email", email, "password", "a-long-password"); code != http.StatusSeeOther {
		r.t.Fatalf("%s signs in: %d", name, code)
	}
	return v
}

// form sends a form: names and values in turn.
func (v visitor) form(path string, pairs ...string) (int, string) {
	v.t.Helper()
	values := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		values.Set(pairs[i], pairs[i+1])
	}
	res, err := v.http.PostForm(v.base+path, values)
	return v.answer(res, err)
}

func (v visitor) page(path string) string {
	v.t.Helper()
	code, text := v.answer(v.http.Get(v.base + path))
	if code != http.StatusOK {
		v.t.Fatalf("%s answered %d", path, code)
	}
	return text
}

func (v visitor) answer(res *http.Response, err error) (int, string) {
	v.t.Helper()
	if err != nil {
		v.t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		v.t.Fatal(err)
	}
	return res.StatusCode, string(b)
}

// hidden is the value of a hidden field.
func hidden(t *testing.T, page, name string) string {
	t.Helper()
	m := regexp.MustCompile(`name="` + name + `" value="([^"]+)"`).FindStringSubmatch(page)
	if m == nil {
		t.Fatalf("the page has no %s", name)
	}
	return m[1]
}

func TestAKindMadeLiveByTwoPeopleIsReallySent(t *testing.T) {
	t.Parallel()
	r := start(t).withShopify(nil)
	s := newSink(t)
	before := r.placed(sandbox.ShopifyOrder{})
	r.postAll("hk", must(r.shop.Pay(before))...)
	r.settled()
	managers := []visitor{r.visit("Ng", models.Manager), r.visit("Chang", models.Manager)}
	admins := []visitor{r.visit("Ad", models.Admin), r.visit("Lee", models.Admin)}
	kinds := []models.ActionKind{models.FulfillmentInstruction, models.Invoice}
	// A manager asks for one kind, an administrator for another one.
	for i, c := range []struct {
		asks, same, decides visitor
	}{{managers[0], managers[1], admins[0]}, {admins[0], admins[1], managers[1]}} {
		path := "/policies/hk/live/" + string(kinds[i])
		code, text := c.asks.form(path, "mode", "http", "url", s.url, "secret", sinkSecret, "idempotent", "true", "hosts", "127.0.0.1", "reason", "ready",
			"seen", hidden(t, c.asks.page(path), "seen"))
		if code != http.StatusSeeOther {
			t.Fatalf("asked: %d %s", code, text)
		}
		id := hidden(t, c.decides.page("/policies?shop=hk"), "request")
		for name, who := range map[string]visitor{"whoever asked": c.asks, "another one of that role": c.same, "support": r.visit(fmt.Sprint("Wing", i), models.Support)} {
			if code, _ := who.form(path+"/approve", "request", id); code != http.StatusForbidden {
				t.Errorf("%s approves %s: %d", name, kinds[i], code)
			}
		}
		var mode string
		r.scan(&mode, `SELECT COALESCE(max(mode), '') FROM destinations WHERE kind = $1`, kinds[i])
		if mode != "" {
			t.Fatalf("%s is %s before anybody agreed", kinds[i], mode)
		}
		if code, text := c.decides.form(path+"/approve", "request", id); code != http.StatusSeeOther {
			t.Fatalf("approved: %d %s", code, text)
		}
	}
	if page := managers[0].page("/policies?shop=hk"); !strings.Contains(page, s.url) || strings.Contains(page, "c2lua") || strings.Contains(page, "sink-secret") {
		t.Error("the page doesn't say where it goes, or tells the secret")
	}
	id := r.placed(sandbox.ShopifyOrder{})
	r.postAll("hk", must(r.shop.Pay(id))...)
	r.carried()
	if got := s.effects(); got != "fulfillment_instruction/order 1, invoice/order 1" || s.count() != 2 {
		t.Errorf("%d calls: %s\n%s", s.count(), got, r.listed())
	}
	if got := r.listed(); strings.Count(got, "watched") != 4 {
		t.Errorf("what was only watched didn't stay so: %s", got)
	}
	// Either stops it alone, and then nothing is sent.
	for i, who := range []visitor{admins[1], managers[1]} {
		if code, _ := who.form("/policies/hk/live/" + string(kinds[i]) + "/stop"); code != http.StatusSeeOther {
			t.Errorf("stopped: %d", code)
		}
	}
	last := r.placed(sandbox.ShopifyOrder{})
	r.postAll("hk", must(r.shop.Pay(last))...)
	r.carried()
	if s.count() != 2 {
		t.Errorf("%d calls after it was stopped", s.count())
	}
	var told int
	r.scan(&told, `SELECT (SELECT count(*) FROM audit WHERE before || after LIKE '%c2lua%') + (SELECT count(*) FROM requests WHERE terms LIKE '%c2lua%' OR secret IS NOT NULL)`)
	if told != 0 {
		t.Errorf("%d rows tell or keep the secret", told)
	}
}
