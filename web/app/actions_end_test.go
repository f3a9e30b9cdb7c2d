package app

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"counterfoil/models"
	"counterfoil/models/actions"
	"counterfoil/models/platform/sandbox"
	"counterfoil/models/staff"
)

// paid is an order of the shop that is paid.
func (r *rig) paid() int64 {
	r.t.Helper()
	id := r.placed(sandbox.ShopifyOrder{})
	r.postAll("hk", must(r.shop.Pay(id))...)
	return id
}

// openCases lists the open exceptions of actions, as kind/case/policy.
func (r *rig) openCases() string {
	r.t.Helper()
	var out string
	r.scan(&out, `SELECT COALESCE(string_agg(kind || '/' || case_name || '/' || policy, ' ' ORDER BY id), '') FROM exceptions WHERE state = 'open' AND subject LIKE 'action:%'`)
	return out
}

// cut ends a call without an answer.
func cut(w http.ResponseWriter) {
	if c, _, err := w.(http.Hijacker).Hijack(); err == nil {
		c.Close()
	}
}

func TestAnIdempotentDestinationIsTriedAgain(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(http.ResponseWriter){
		"cut":   cut,
		"fault": func(w http.ResponseWriter) { w.WriteHeader(http.StatusInternalServerError) },
		"busy":  func(w http.ResponseWriter) { w.WriteHeader(http.StatusTooManyRequests) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := start(t).withShopify(nil)
			s := newSink(t)
			s.answer = func(w http.ResponseWriter, _ call, nth int) {
				if nth <= 3 {
					fail(w)
					return
				}
				fmt.Fprint(w, `{"receipt": "SF-1"}`)
			}
			r.live("hk", s, true, models.FulfillmentInstruction)
			r.paid()
			r.wait("a case is opened", func() bool { return r.openCases() == "action_failed/fulfillment_instruction/ask" })
			a := r.becomes(models.ActionDone, "")
			if a.Tries != 4 || a.Receipt != "SF-1" || a.Error != "" || s.effects() != "fulfillment_instruction/order 1" || r.openCases() != "" {
				t.Errorf("%+v, %s, open %q", a, s.effects(), r.openCases())
			}
		})
	}
}

func TestAnUnclearOutcomeIsForAPerson(t *testing.T) {
	t.Parallel()
	r := start(t).withShopify(nil)
	s := newSink(t)
	s.answer = func(w http.ResponseWriter, _ call, _ int) { cut(w) }
	r.live("hk", s, false, models.FulfillmentInstruction)
	id := r.paid()
	a := r.becomes(models.ActionUnclear, "")
	if r.openCases() != "action_unclear/fulfillment_instruction/hold" || a.Error == "" {
		t.Errorf("%+v, open %q", a, r.openCases())
	}
	r.postAll("hk", must(r.shop.Touch(id))...)
	r.settled()
	if s.count() != 1 || r.instruction().State != "unclear" {
		t.Fatalf("%d calls, %+v", s.count(), r.instruction())
	}
	path := "/api/v1/actions/" + a.ID + "/receipt"
	for who, from := range map[string]*rig{
		"support":                     r.as("Wing", models.Support),
		"an administrator":            r.as("Lee", models.Admin),
		"a service without the scope": r.holding(staff.NewToken{Name: "writer", Role: models.Service}),
		"an auditor":                  r.as("Wu", models.Auditor),
	} {
		if code := from.callWith(http.MethodPost, path, `{"receipt": "SF-1"}`, nil); code != http.StatusForbidden {
			t.Errorf("%s settles it: %d", who, code)
		}
	}
	warehouse := r.holding(staff.NewToken{Name: "warehouse", Role: models.Service, Scopes: []models.Scope{models.ScopeReceipt}})
	var after seenAction
	for range 2 {
		if code := warehouse.callWith(http.MethodPost, path, `{"receipt": "SF-1"}`, &after); code != http.StatusOK || after.State != "done" || after.Receipt != "SF-1" {
			t.Errorf("%d %+v", code, after)
		}
	}
	if r.openCases() != "" {
		t.Errorf("open %q", r.openCases())
	}
	var audited int
	r.scan(&audited, `SELECT count(*) FROM audit WHERE verb = 'action.receipt' AND actor LIKE 'token:%'`)
	if audited != 1 {
		t.Errorf("%d audit rows", audited)
	}
	for body, want := range map[string]int{`{"receipt": "SF-2"}`: 409, `{"outcome": "maybe"}`: 422, `[`: 422, `{"receipt": "` + strings.Repeat("x", 400) + `"}`: 422} {
		if code := warehouse.callWith(http.MethodPost, path, body, nil); code != want {
			t.Errorf("%s answered %d", body, code)
		}
	}
	if code := warehouse.callWith(http.MethodPost, path, `{"outcome": "failed"}`, nil); code != http.StatusOK || r.openCases() != "action_differs/fulfillment_instruction/ask" {
		t.Errorf("disputed: %d, open %q", code, r.openCases())
	}
	if code := warehouse.callWith(http.MethodPost, "/api/v1/actions/999/receipt", `{}`, nil); code != http.StatusNotFound {
		t.Errorf("an action that isn't there: %d", code)
	}
}

func TestAClearNoIsNotTriedAgain(t *testing.T) {
	t.Parallel()
	r := start(t).withShopify(nil)
	s := newSink(t)
	s.answer = func(w http.ResponseWriter, _ call, _ int) {
		w.WriteHeader(http.StatusUnprocessableEntity)
		fmt.Fprint(w, "no such warehouse")
	}
	r.live("hk", s, true, models.Invoice)
	r.paid()
	r.carried()
	a := r.actions()["invoice/order"]
	if a.State != "failed" || a.Tries != 1 || s.count() != 1 || !strings.Contains(a.Error, "422") || !strings.Contains(a.Error, "no such warehouse") || r.openCases() != "action_failed/invoice/ask" {
		t.Fatalf("%+v, %d calls, open %q", a, s.count(), r.openCases())
	}
	var detail string
	r.scan(&detail, `SELECT detail FROM exceptions WHERE kind = 'action_failed'`)
	if detail != "422 Unprocessable Entity" {
		t.Errorf("the case tells %q", detail)
	}
	if code := r.as("Ng", models.Manager).callWith(http.MethodPost, "/api/v1/actions/"+a.ID+"/receipt", `{"receipt": "INV-7"}`, nil); code != http.StatusOK || r.openCases() != "" {
		t.Errorf("settled by hand: %d, open %q", code, r.openCases())
	}
}

func TestADestinationThatIsntThereYet(t *testing.T) {
	t.Parallel()
	r := start(t).withShopify(nil)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	s := &sink{t: t, url: "http://" + address}
	r.live("hk", s, false, models.FulfillmentInstruction)
	r.paid()
	r.wait("it was tried", func() bool { a := r.instruction(); return a.State == "waiting" && a.Tries > 0 })
	if l, err = net.Listen("tcp", address); err != nil {
		t.Skip("somebody else took the port")
	}
	server := &httptest.Server{Listener: l, Config: &http.Server{Handler: s}}
	server.Start()
	t.Cleanup(server.Close)
	r.becomes(models.ActionDone, "")
	if s.count() != 1 {
		t.Errorf("%d calls", s.count())
	}
}

func TestInnerAddressesNeedAllowance(t *testing.T) {
	t.Parallel()
	r := start(t).withShopify(nil)
	s := newSink(t)
	r.destination(actions.Setup{Shop: "hk", Kind: models.FulfillmentInstruction, Mode: models.ByHTTP, URL: strings.Replace(s.url, "127.0.0.1", "localhost", 1), Secret: sinkSecret})
	r.paid()
	a := r.becomes(models.ActionFailed, "")
	if s.count() != 0 || !strings.Contains(a.Error, "inner network") {
		t.Errorf("%d calls, %+v", s.count(), a)
	}
}

func TestAManualKindIsAListOfWork(t *testing.T) {
	t.Parallel()
	r := start(t).withShopify(nil)
	r.destination(actions.Setup{Shop: "hk", Kind: models.FulfillmentInstruction, Mode: models.ByHand})
	id := r.pausedInstruction()
	a := r.instruction()
	path := "/api/v1/actions/" + a.ID + "/receipt"
	wing := r.as("Wing", models.Support)
	if code := wing.callWith(http.MethodPost, path, `{"receipt": "SF-1"}`, nil); code != http.StatusConflict {
		t.Errorf("ticked off while it waits: %d", code)
	}
	r.exec(`UPDATE holds SET released_at = now(), released_by = 'console'`)
	r.exec(`UPDATE actions SET due_at = now()`)
	r.becomes(models.ActionManual, "")
	if code := wing.callWith(http.MethodPost, path, `{}`, nil); code != http.StatusUnprocessableEntity {
		t.Errorf("ticked off without a receipt: %d", code)
	}
	// What is refunded in part isn't on the list any more.
	r.postAll("hk", must(r.shop.Refund(id, "20.00", sandbox.RefundSucceeds))...)
	r.becomes(models.ActionWaiting, "not_refunded_partly")
	r.postAll("hk", must(r.shop.Cancel(id, "customer"))...)
	r.becomes(models.ActionWithdrawn, "cancellation")
	second := r.paid()
	r.becomes(models.ActionManual, "")
	var after seenAction
	if code := wing.callWith(http.MethodPost, "/api/v1/actions/"+r.instruction().ID+"/receipt", `{"receipt": "SF-2"}`, &after); code != http.StatusOK || after.State != "done" || after.Receipt != "SF-2" {
		t.Errorf("%d %+v", code, after)
	}
	r.postAll("hk", must(r.shop.Cancel(second, "customer"))...)
	r.settled()
	if got := r.instruction().State; got != "done" {
		t.Errorf("what was done is %s", got)
	}
}

func TestReportedOnlyMovesPromiseNothing(t *testing.T) {
	t.Parallel()
	r := start(t).withReceipts(false)
	s := newSink(t)
	r.live("till", s, true, models.Invoice, models.CustomerMessage)
	_, issued := r.receipt.Issue(sandbox.Receipt{Lines: []sandbox.ReceiptLine{{Product: "tea", Price: 76, Quantity: 1}}})
	r.postAll("till", issued)
	r.settled()
	r.wait("both wait for an official reading", func() bool {
		all := r.actions()
		return all["invoice/order"].Why == "official" && all["customer_message/payment_received"].Why == "official"
	})
	if s.count() != 0 {
		t.Errorf("%d calls", s.count())
	}
}

func TestADisputeThatWasWonLetsAPersonPutItBack(t *testing.T) {
	t.Parallel()
	r := start(t).withShopify(nil)
	s := newSink(t)
	r.live("hk", s, true, models.FulfillmentInstruction)
	id := r.pausedInstruction()
	r.postAll("hk", must(r.shop.OpenDispute(id))...)
	a := r.becomes(models.ActionWithdrawn, "dispute")
	r.exec(`UPDATE holds SET released_at = now(), released_by = 'console'`)
	r.postAll("hk", must(r.shop.ResolveDispute(id, "WON"))...)
	r.settled()
	if r.instruction().State != "withdrawn" || s.count() != 0 {
		t.Fatalf("it came back by itself: %+v", r.instruction())
	}
	// One person asks, another one decides; a third try finds that it left.
	if code, q := r.asks("release", a.ID); code != http.StatusCreated || r.approves(q.ID) != http.StatusOK {
		t.Fatalf("%d %+v", code, q)
	}
	if b := r.becomes(models.ActionDone, ""); b.ID != a.ID || s.count() != 1 {
		t.Errorf("%d calls, %+v", s.count(), b)
	}
	if code, _ := r.asks("release", a.ID); code != http.StatusConflict {
		t.Errorf("put back after it was sent: %d", code)
	}
}

func TestWhatIsStillRefundedIsNotPutBack(t *testing.T) {
	t.Parallel()
	r := start(t).withShopify(nil)
	r.live("hk", newSink(t), true, models.FulfillmentInstruction)
	id := r.pausedInstruction()
	r.postAll("hk", must(r.shop.Refund(id, "100.00", sandbox.RefundSucceeds))...)
	a := r.becomes(models.ActionWithdrawn, "refund")
	var refused struct {
		Error struct{ Code, Message string }
	}
	if code := r.person("Wing", models.Support).callWith(http.MethodPost, "/api/v1/actions/"+a.ID+"/release", `{"reason": "x"}`, &refused); code != http.StatusConflict || !strings.Contains(refused.Error.Message, "fully refunded") {
		t.Errorf("%d %+v", code, refused)
	}
}

func TestADestinationThatChangesBetweenTwoTries(t *testing.T) {
	t.Parallel()
	r := start(t).withShopify(nil)
	s, next := newSink(t), newSink(t)
	s.answer = func(w http.ResponseWriter, _ call, _ int) { cut(w) }
	r.live("hk", s, true, models.FulfillmentInstruction)
	r.paid()
	r.wait("it was tried", func() bool { return s.count() > 0 })
	r.live("hk", next, true, models.FulfillmentInstruction)
	r.becomes(models.ActionUnclear, "")
	if next.count() != 0 {
		t.Errorf("%d calls at the new one", next.count())
	}
}

func TestListsOfActions(t *testing.T) {
	t.Parallel()
	r := start(t).withShopify(nil).withReceipts(false)
	id := r.paid()
	r.settled()
	o, _ := r.order(gid(id))
	till := r.holding(staff.NewToken{Name: "till", Role: models.Service, Shops: []string{"till"}, Scopes: []models.Scope{models.ScopeRead, models.ScopeReceipt}})
	if len(till.actions()) != 0 {
		t.Error("another shop's actions are shown")
	}
	if code := till.callWith(http.MethodPost, "/api/v1/actions/"+r.instruction().ID+"/receipt", `{}`, nil); code != http.StatusNotFound {
		t.Errorf("another shop's action: %d", code)
	}
	for query, want := range map[string]int{"": 3, "?state=watched": 3, "?state=done": 0, "?kind=invoice": 1, "?order=" + o.ID: 3, "?order=999": 0, "?limit=2": 2} {
		var list struct {
			Items []seenAction
			Next  string
		}
		if code := r.call(http.MethodGet, "/api/v1/actions"+query, &list); code != http.StatusOK || len(list.Items) != want || (list.Next != "") != (query == "?limit=2") {
			t.Errorf("%s answered %d: %+v", query, code, list)
		}
	}
	for _, query := range []string{"?state=lost", "?kind=gift", "?cursor=x"} {
		if code := r.call(http.MethodGet, "/api/v1/actions"+query, nil); code != http.StatusUnprocessableEntity {
			t.Errorf("%s answered %d", query, code)
		}
	}
	var list struct{ Items []seenOrder }
	if r.call(http.MethodGet, "/api/v1/orders", &list); len(list.Items) != 1 || len(list.Items[0].Actions) != 3 {
		t.Errorf("the list of orders shows %+v", list.Items)
	}
}

func TestDestinationsFromTheCommandLine(t *testing.T) {
	t.Parallel()
	r := start(t).withShopify(nil)
	run := func(input string, args ...string) (int, string) {
		var out, errs strings.Builder
		code := Main(append([]string{"destination", "set", "--database-url", r.dsn, "--key", r.key}, args...), strings.NewReader(input), &out, &errs)
		return code, strings.TrimSpace(out.String() + errs.String())
	}
	s := newSink(t)
	for name, c := range map[string]struct {
		input string
		args  []string
		code  int
		says  string
	}{
		"no secret":          {"", []string{"--shop", "hk", "--kind", "invoice", "--url", s.url}, 1, "secret"},
		"not JSON":           {"secret", []string{"--shop", "hk", "--kind", "invoice", "--url", s.url}, 1, `{"secret": "…"}`},
		"another key":        {`{"secrets": "x"}`, []string{"--shop", "hk", "--kind", "invoice", "--url", s.url}, 1, "secrets"},
		"a bad secret":       {`{"secret": "whsec_%"}`, []string{"--shop", "hk", "--kind", "invoice", "--url", s.url}, 1, "base64"},
		"no shop":            {`{"secret": "x"}`, []string{"--shop", "tw", "--kind", "invoice", "--url", s.url}, 1, "no shop tw"},
		"no kind":            {`{"secret": "x"}`, []string{"--shop", "hk", "--kind", "gift", "--url", s.url}, 1, "customer_message"},
		"no address":         {`{"secret": "x"}`, []string{"--shop", "hk", "--kind", "invoice", "--url", "ftp://x"}, 1, "--url"},
		"a user in it":       {`{"secret": "x"}`, []string{"--shop", "hk", "--kind", "invoice", "--url", "http://a:b@x"}, 1, "--url"},
		"a host with a path": {`{"secret": "x"}`, []string{"--shop", "hk", "--kind", "invoice", "--url", s.url, "--allow-host", "x/y"}, 1, "--allow-host"},
		"two places":         {"", []string{"--shop", "hk", "--kind", "invoice", "--manual", "--watch"}, 2, "together"},
		"no place":           {"", []string{"--shop", "hk", "--kind", "invoice"}, 2, "--watch"},
		"idempotent by hand": {"", []string{"--shop", "hk", "--kind", "invoice", "--manual", "--idempotent"}, 1, "--idempotent"},
	} {
		if code, text := run(c.input, c.args...); code != c.code || !strings.Contains(text, c.says) || c.code == 1 && strings.Contains(text, "\n") {
			t.Errorf("%s: %d %s", name, code, text)
		}
	}
	for _, args := range [][]string{
		{"--shop", "hk", "--kind", "fulfillment_instruction", "--url", s.url, "--idempotent", "--allow-host", "127.0.0.1"},
		{"--shop", "hk", "--kind", "invoice", "--manual"},
		{"--shop", "hk", "--kind", "customer_message", "--watch"},
	} {
		if code, text := run(`{"secret": "`+sinkSecret+`"}`, args...); code != 0 || text != "" {
			t.Fatalf("%v: %d %s", args, code, text)
		}
	}
	// Without a secret on standard input the one that is there stays.
	if code, text := run("", "--shop", "hk", "--kind", "fulfillment_instruction", "--url", s.url, "--allow-host", "127.0.0.1"); code != 0 {
		t.Fatalf("%d %s", code, text)
	}
	r.paid()
	r.becomes(models.ActionDone, "")
	r.carried()
	all := r.actions()
	if all["invoice/order"].State != "manual" || all["customer_message/payment_received"].State != "watched" || s.count() != 1 {
		t.Errorf("%+v", all)
	}
	var sealed []byte
	var audited int
	r.scan(&sealed, `SELECT secret FROM destinations WHERE kind = 'fulfillment_instruction'`)
	r.scan(&audited, `SELECT count(*) FROM audit WHERE verb = 'destination.set' AND after NOT LIKE '%`+sinkSecret+`%'`)
	if strings.Contains(string(sealed), sinkSecret) || audited != 4 {
		t.Errorf("%d audit rows, secret %q", audited, sealed)
	}
}
