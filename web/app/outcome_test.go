package app

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"counterfoil/models"
	"counterfoil/models/platform/sandbox"
	"counterfoil/models/staff"
)

// checkedOrder is an order's outcome check as programs read it.
type checkedOrder struct {
	ID      string
	Outcome struct {
		Verdict string
		Lines   []struct {
			About, Stage, Verdict, Found string
			Money                        *struct {
				Platform, ID, Amount, State, Reason string
				Fresh                               bool
				Also                                []struct{ Platform, ID string }
			}
			Explain   bool
			Explained *struct{ Code, Reason, By string }
		}
	}
}

// check reads an order's outcome check.
func (r *rig) check(ref string) checkedOrder {
	r.t.Helper()
	o, ok := r.order(ref)
	if !ok {
		r.t.Fatalf("no order %s", ref)
	}
	var c checkedOrder
	r.call(http.MethodGet, "/api/v1/orders/"+o.ID, &c)
	return c
}

// checkFresh reads the official objects again first, as the button does.
func (r *rig) checkFresh(ref string) checkedOrder {
	r.t.Helper()
	o, _ := r.order(ref)
	if code := r.call(http.MethodPost, "/api/v1/orders/"+o.ID+"/resync", nil); code != http.StatusOK {
		r.t.Fatalf("resync answered %d", code)
	}
	return r.check(ref)
}

// of writes the lines about one thing.
func (c checkedOrder) of(about string) string {
	var out []string
	for _, l := range c.Outcome.Lines {
		if l.About != about {
			continue
		}
		s := strings.TrimSpace(l.Stage + " " + l.Found + " " + l.Verdict)
		if l.Money != nil {
			s += " " + l.Money.Platform + " " + l.Money.Amount
			for _, t := range l.Money.Also {
				s += "=" + t.Platform
			}
		}
		out = append(out, s)
	}
	return strings.Join(out, "; ")
}

// paidThroughBoth is an order that a buyer paid through Stripe, which the shop books too.
func (r *rig) paidThroughBoth(number string) (order int64, intent string) {
	r.t.Helper()
	id := r.placed(sandbox.ShopifyOrder{Total: "100.00", Name: number})
	pi, ns := r.stripe.CreateIntent(10000, "hkd", sandbox.StripeIntent{Metadata: map[string]string{"order_id": fmt.Sprint(id)}})
	r.postAll("pay", append(ns, must(r.stripe.Succeed(pi))...)...)
	r.postAll("hk", must(r.shop.Pay(id))...)
	r.settled()
	return id, pi
}

// refund gives money back through Stripe, which the shop books too.
func (r *rig) refund(order int64, intent string, minor int64, status, reason string) string {
	r.t.Helper()
	re, ns, err := r.stripe.RefundFor(intent, minor, status, reason)
	if err != nil {
		r.t.Fatal(err)
	}
	r.postAll("pay", ns...)
	how := sandbox.RefundSucceeds
	if status == "pending" {
		how = sandbox.RefundPends
	}
	r.postAll("hk", must(r.shop.Refund(order, models.Decimal(minor, "HKD"), how))...)
	r.settled()
	return re
}

func TestTheOutcomeOfAnOrder(t *testing.T) {
	t.Parallel()
	r := start(t).withShopify(nil).withStripe("hk", nil)
	s := newSink(t)
	r.live("hk", s, true, usual...)
	id, pi := r.paidThroughBoth("#1")
	r.carried()
	ref := gid(id)
	if c := r.checkFresh(ref); c.Outcome.Verdict != "good" || c.of("instruction") != "order done good" || c.of("message") != "payment_received done good" ||
		c.of("money") != "in good stripe 100.00=shopify" {
		t.Fatalf("a usual order: %+v", c.Outcome)
	}
	// What was read before something else happened proves nothing.
	re := r.refund(id, pi, 4000, "succeeded", "requested_by_customer")
	r.carried()
	if c := r.check(ref); c.of("money") != "in unknown stripe 100.00=shopify; out unknown stripe 40.00=shopify" {
		t.Errorf("before it is read again: %s", c.of("money"))
	}
	c := r.checkFresh(ref)
	if c.Outcome.Verdict != "good" || c.of("money") != "in good stripe 100.00=shopify; out good stripe 40.00=shopify" ||
		c.of("message") != "payment_received done good; refund:4000 done good" {
		t.Errorf("one refund, told by both: %+v", c.Outcome)
	}
	if m := c.Outcome.Lines[len(c.Outcome.Lines)-1].Money; m.ID != re || m.Reason != "requested_by_customer" || !m.Fresh {
		t.Errorf("the refund %+v", m)
	}
	s.mu.Lock()
	calls := slices.Clone(s.calls)
	s.mu.Unlock()
	for _, call := range calls {
		if _, told := call.order["outcome"]; told {
			t.Errorf("a destination reads the outcome check: %s", call.body)
		}
	}
	// The age alone makes it doubtful.
	r.clock.forward(3 * time.Minute)
	if c := r.check(ref); c.Outcome.Verdict != "unknown" || !strings.HasPrefix(c.of("money"), "in unknown") {
		t.Errorf("three minutes later: %s", c.of("money"))
	}

	// A second refund is red until a person explains it, and again when it changes.
	second := r.refund(id, pi, 1000, "pending", "")
	if c = r.checkFresh(ref); c.Outcome.Verdict != "bad" || !strings.HasSuffix(c.of("money"), "; second_out bad stripe 10.00=shopify") {
		t.Fatalf("two refunds: %s", c.of("money"))
	}
	desk := r.browserOf("lead", models.Support, true)
	page := desk.get("/orders/" + c.ID)
	for _, want := range []string{"Outcome check", "A further refund", second, "/explain?part=" + second, "no reason given by Stripe"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page doesn't say %q", want)
		}
	}
	floor := r.browserOf("wing", models.Support, false)
	if page := floor.get("/orders/" + c.ID); strings.Contains(page, "/explain?part=") || !strings.Contains(page, "These can: Shift lead, Manager") {
		t.Error("support without the grant explain, or aren't told who can")
	}
	if code := floor.post("/orders/"+c.ID+"/explain", url.Values{"part": {second}, "seen": {"1000 HKD pending"}, "code": {"goodwill"}, "reason": {"x"}}); code != http.StatusForbidden {
		t.Errorf("support without the grant: %d", code)
	}
	explain := url.Values{"part": {second}, "seen": {"1000 HKD pending"}, "code": {"goodwill"}, "reason": {"a scratched cup"}}
	for field, values := range map[string][]string{"code": {"", "whim"}, "reason": {"", "two\nlines", strings.Repeat("x", 501)}} {
		for _, v := range values {
			wrong := url.Values{field: {v}}
			for k := range explain {
				if k != field {
					wrong[k] = explain[k]
				}
			}
			if code := desk.post("/orders/"+c.ID+"/explain", wrong); code != http.StatusUnprocessableEntity {
				t.Errorf("%s %.10q: %d", field, v, code)
			}
		}
	}
	stale := url.Values{"part": {second}, "seen": {"900 HKD pending"}, "code": {"goodwill"}, "reason": {"x"}}
	if code := desk.post("/orders/"+c.ID+"/explain", stale); code != http.StatusConflict {
		t.Errorf("what nobody saw: %d", code)
	}
	if code := desk.post("/orders/"+c.ID+"/explain", url.Values{"part": {re}, "seen": {"4000 HKD succeeded"}, "code": {"goodwill"}, "reason": {"x"}}); code != http.StatusNotFound {
		t.Errorf("the first refund: %d", code)
	}
	if code := desk.post("/orders/"+c.ID+"/explain", explain); code != http.StatusSeeOther {
		t.Fatalf("explained: %d", code)
	}
	c = r.checkFresh(ref)
	if last := c.Outcome.Lines[len(c.Outcome.Lines)-1]; last.Verdict != "good" || last.Explained == nil || last.Explained.Reason != "a scratched cup" || last.Explained.By != "lead" {
		t.Errorf("explained: %+v", c.Outcome)
	}
	var audit string
	r.scan(&audit, `SELECT after FROM audit WHERE verb = 'outcome.explain'`)
	if strings.Contains(audit, "cup") || !strings.Contains(audit, second) || !strings.Contains(audit, "goodwill") {
		t.Errorf("audited as %q", audit)
	}
	r.postAll("pay", must(r.stripe.SettleRefund(second))...)
	r.settled()
	if c = r.checkFresh(ref); !strings.HasSuffix(c.of("money"), "; second_out bad stripe 10.00=shopify") {
		t.Errorf("it changed: %s", c.of("money"))
	}
	if page := desk.get("/orders/" + c.ID); !strings.Contains(page, "Explanations of what stood differently then") || !strings.Contains(page, "a scratched cup") {
		t.Error("what was said then is gone")
	}
}

func TestASecondCaptureAsksForAnExplanation(t *testing.T) {
	t.Parallel()
	r := start(t).withShopify(nil).withStripe("hk", nil)
	id, _ := r.paidThroughBoth("#1")
	pi, ns := r.stripe.CreateIntent(10000, "hkd", sandbox.StripeIntent{Metadata: map[string]string{"order_id": fmt.Sprint(id)}})
	r.postAll("pay", append(ns, must(r.stripe.Succeed(pi))...)...)
	r.settled()
	c := r.checkFresh(gid(id))
	if c.Outcome.Verdict != "bad" || c.of("money") != "in good stripe 100.00=shopify; second_in bad stripe 100.00" || !strings.HasPrefix(c.of("instruction"), "order watched good") {
		t.Errorf("%s; %s", c.of("instruction"), c.of("money"))
	}
	for _, who := range []struct {
		name string
		role models.Role
		want int
	}{{"ng", models.Manager, http.StatusSeeOther}, {"ad", models.Admin, http.StatusForbidden}, {"au", models.Auditor, http.StatusForbidden}} {
		code := r.browserOf(who.name, who.role, false).post("/orders/"+c.ID+"/explain", url.Values{"part": {pi}, "seen": {"10000 HKD succeeded"}, "code": {"duplicate"}, "reason": {"paid twice"}})
		if code != who.want {
			t.Errorf("%s explains: %d, want %d", who.role, code, who.want)
		}
	}
	if c := r.check(gid(id)); !strings.HasSuffix(c.of("money"), "second_in good stripe 100.00") {
		t.Errorf("explained: %s", c.of("money"))
	}
}

// The button on the panel leads back to it.
func TestCheckNowComesBackToTheOutcome(t *testing.T) {
	t.Parallel()
	r := start(t).withShopify(nil)
	id := r.placed(sandbox.ShopifyOrder{})
	o, _ := r.order(gid(id))
	d := r.browserOf("wing", models.Support, false)
	for to, want := range map[string]string{"outcome": "/orders/" + o.ID + "#outcome", "": "/orders/" + o.ID, "//elsewhere.example": "/orders/" + o.ID} {
		d.post("/orders/"+o.ID+"/resync", url.Values{"to": {to}})
		if d.location != want {
			t.Errorf("to %q leads to %q, want %q", to, d.location, want)
		}
	}
}

// Whoever opens an order whose reading is old has it read again, once, and needn't wait.
func TestOpeningAnOrderReadsItAgain(t *testing.T) {
	t.Parallel()
	r := start(t).withShopify(nil).withReceipts(true)
	id := r.placed(sandbox.ShopifyOrder{})
	o, _ := r.order(gid(id))
	d := r.browserOf("wing", models.Support, false)
	open := func() string { return d.get("/orders/" + o.ID) }
	calls := r.shop.Calls()
	if page := open(); strings.Contains(page, "Checking…") {
		t.Error("a fresh order is read again")
	}
	r.clock.forward(3 * time.Minute)
	if page := open(); !strings.Contains(page, "Checking…") {
		t.Error("an old reading isn't checked")
	}
	read := func() bool {
		var n int
		r.scan(&n, `SELECT count(*) FROM platform_objects WHERE reread_at IS NOT NULL OR claimed_until IS NOT NULL OR fetched_at < $1`, r.clock.now().Add(-time.Minute))
		return n == 0
	}
	r.wait("the order is read", read)
	for range 3 {
		if page := open(); strings.Contains(page, "Checking…") {
			t.Error("it is read once more")
		}
	}
	if more := r.shop.Calls() - calls; more != 1 {
		t.Errorf("%d calls", more)
	}
	// What the platform changed without a word is found.
	if _, err := r.shop.Pay(id); err != nil {
		t.Fatal(err)
	}
	r.clock.forward(3 * time.Minute)
	open()
	r.wait("the order is paid", func() bool {
		now, _ := r.order(gid(id))
		return now.states() == "paid none none unfulfilled active none"
	})

	// A till whose calls are counted isn't asked, nor a platform that can't be.
	receipt, issued := r.receipt.Issue(sandbox.Receipt{Lines: []sandbox.ReceiptLine{{Product: "tea", Price: 76, Quantity: 1}}})
	r.postAll("till", issued)
	r.settled()
	r.exec(`UPDATE connections SET api_state = 'down', api_since = now() WHERE slug = 'hk'`)
	hk, err := r.app.book.Slug(t.Context(), "hk")
	if err != nil {
		t.Fatal(err)
	}
	r.wait("the book knows", func() bool { return r.app.book.ID(hk.ID).APIState == models.APIDownState })
	r.clock.forward(time.Hour)
	sold, _ := r.order(receipt.ID)
	for _, order := range []string{o.ID, sold.ID} {
		if page := d.get("/orders/" + order); strings.Contains(page, "Checking…") || !strings.Contains(page, "Outcome check") {
			t.Errorf("order %s is read again", order)
		}
	}
	var wishes int
	if r.scan(&wishes, `SELECT count(*) FROM platform_objects WHERE reread_at IS NOT NULL`); wishes != 0 {
		t.Errorf("%d objects are to be read", wishes)
	}
}

// A desk is a signed-in browser without script.
type desk struct {
	r        *rig
	client   *http.Client
	location string
}

func (r *rig) browserOf(name string, role models.Role, lead bool) *desk {
	r.t.Helper()
	email := name + "@desk.example"
	if _, err := r.app.staff.AddAccount(context.Background(), commandLine, staff.NewAccount{Email: email, Name: name, Role: role, Lead: lead, Password: "a-long-password"}); err != nil {
		r.t.Fatal(err)
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		r.t.Fatal(err)
	}
	d := &desk{r: r, client: &http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
	if code := d.post("/login", url.Values{"email": {email}, "password": {"a-long-password"}}); code != http.StatusSeeOther {
		r.t.Fatalf("sign-in answered %d", code)
	}
	return d
}

func (d *desk) get(path string) string {
	d.r.t.Helper()
	res, err := d.client.Get(d.r.base + path)
	if err != nil {
		d.r.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		d.r.t.Fatal(err)
	}
	return string(text)
}

func (d *desk) post(path string, form url.Values) int {
	d.r.t.Helper()
	res, err := d.client.PostForm(d.r.base+path, form)
	if err != nil {
		d.r.t.Fatal(err)
	}
	defer res.Body.Close()
	d.location = res.Header.Get("Location")
	return res.StatusCode
}

// The panel and the form fit both widths in both languages, with names as long as they
// come. With SHOTS set there are pictures of both themes.
func TestTheOutcomeInABrowser(t *testing.T) {
	t.Parallel()
	r := start(t).withShopify(nil).withStripe("hk", nil)
	long := "#HK-10433-ÉDITION-SPÉCIALE-2026-11-30-000000000000000000001"
	id, pi := r.paidThroughBoth(long)
	r.refund(id, pi, 4000, "succeeded", "requested_by_customer")
	second := r.refund(id, pi, 1000, "pending", "")
	c := r.checkFresh(gid(id))
	if _, err := r.app.staff.AddAccount(context.Background(), commandLine, staff.NewAccount{Email: "ng@shop.example", Name: "Ng", Role: models.Manager, Password: "a-long-password"}); err != nil {
		t.Fatal(err)
	}
	themes := []string{"light"}
	if os.Getenv("SHOTS") != "" {
		themes = append(themes, "dark")
	}
	for _, width := range []int{1280, 360} {
		ctx := browser(t, width, 800)
		do(t, ctx, chromedp.Navigate(r.base+"/login"), chromedp.WaitVisible("#email"), chromedp.SendKeys("#email", "ng@shop.example"), chromedp.SendKeys("#password", "a-long-password"),
			chromedp.Submit("#password"), chromedp.WaitVisible("main .table"))
		for _, lang := range []string{"en", "zh-Hant"} {
			for _, theme := range themes {
				for name, page := range map[string]string{"outcome": "/orders/" + c.ID + "?lang=" + lang + "#outcome", "explain": "/orders/" + c.ID + "/explain?part=" + second} {
					do(t, ctx, chromedp.Navigate(r.base+page), chromedp.WaitVisible(".outcome__facts"),
						chromedp.Evaluate[chromedp.Void](`document.documentElement.dataset.theme = "`+theme+`"`), chromedp.ScrollIntoView(".outcome__facts"))
					look(t, ctx, fmt.Sprintf("%s-%d-%s-%s", name, width, lang, theme))
				}
			}
		}
	}
}
