package stripe_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"counterfoil/models"
	"counterfoil/models/platform"
	"counterfoil/models/platform/sandbox"
	"counterfoil/models/platform/stripe"
)

func parse(t testing.TB, body string, set ...func(*platform.Config)) models.Notice {
	t.Helper()
	cfg := platform.Config{Account: ownAccount, Settings: map[string]string{}}
	for _, f := range set {
		f(&cfg)
	}
	return adapter(t, cfg).Parse(platform.Request{Body: []byte(body)}, at)
}

// event is a snapshot event around an object.
func event(topic, object string) string {
	return fmt.Sprintf(`{"id": "evt_1", "object": "event", "type": %q, "created": 1764338520, "livemode": false,
		"api_version": "2026-03-25.dahlia", "request": {"id": "req_1"}, "data": {"object": %s}}`, topic, object)
}

func thin(topic, kind, id string) string {
	return fmt.Sprintf(`{"id": "evt_1", "object": "v2.core.event", "type": %q, "created": "2026-09-18T19:56:56.947Z", "context": null,
		"reason": {"type": "request", "request": {"id": "req_1"}}, "related_object": {"id": %q, "type": %q}}`, topic, id, kind)
}

func TestEveryEventOfAPaymentNamesIt(t *testing.T) {
	t.Parallel()
	ref := func(kind, id string) models.ObjectRef { return models.ObjectRef{Kind: kind, ID: id} }
	for _, tt := range []struct {
		name string
		body string
		want models.ObjectRef
		says []models.Axis
	}{
		{"intent", event("payment_intent.succeeded", `{"object": "payment_intent", "id": "pi_1", "status": "succeeded", "amount": 1, "amount_received": 1, "currency": "usd"}`), ref("payment_intent", "pi_1"), []models.Axis{models.Payment}},
		{"charge", event("charge.succeeded", `{"object": "charge", "id": "ch_1", "payment_intent": "pi_1", "status": "succeeded", "captured": true}`), ref("payment_intent", "pi_1"), []models.Axis{models.Payment}},
		{"charge, intent expanded", event("charge.succeeded", `{"object": "charge", "id": "ch_1", "payment_intent": {"id": "pi_1"}, "status": "succeeded"}`), ref("payment_intent", "pi_1"), []models.Axis{models.Payment}},
		{"charge alone", event("charge.succeeded", `{"object": "charge", "id": "py_1", "payment_intent": null, "status": "failed"}`), ref("charge", "py_1"), []models.Axis{models.Payment}},
		{"charge refunded", event("charge.refunded", `{"object": "charge", "id": "ch_1", "payment_intent": "pi_1", "status": "succeeded", "captured": true, "amount": 9, "amount_captured": 9, "amount_refunded": 9, "currency": "usd"}`), ref("payment_intent", "pi_1"), []models.Axis{models.Payment, models.Refund}},
		{"refund", event("refund.updated", `{"object": "refund", "id": "re_1", "payment_intent": "pi_1", "charge": "ch_1", "status": "pending"}`), ref("payment_intent", "pi_1"), nil},
		{"older twin of it", event("charge.refund.updated", `{"object": "refund", "id": "re_1", "payment_intent": null, "charge": "ch_1", "status": "pending"}`), ref("charge", "ch_1"), nil},
		{"refund alone", event("refund.created", `{"object": "refund", "id": "re_1"}`), ref("refund", "re_1"), nil},
		{"dispute", event("charge.dispute.created", `{"object": "dispute", "id": "dp_1", "payment_intent": "pi_1", "charge": "ch_1", "status": "lost"}`), ref("payment_intent", "pi_1"), []models.Axis{models.Dispute}},
		{"session", event("checkout.session.completed", `{"object": "checkout.session", "id": "cs_1", "mode": "payment", "payment_intent": "pi_1", "payment_status": "paid"}`), ref("payment_intent", "pi_1"), []models.Axis{models.Payment}},
		{"session, not paid", event("checkout.session.completed", `{"object": "checkout.session", "id": "cs_1", "payment_intent": "pi_1", "payment_status": "unpaid"}`), ref("payment_intent", "pi_1"), nil},
		{"session alone", event("checkout.session.expired", `{"object": "checkout.session", "id": "cs_1", "status": "expired", "payment_status": "unpaid"}`), ref("checkout_session", "cs_1"), []models.Axis{models.Payment}},
		{"session that saves a card", event("checkout.session.completed", `{"object": "checkout.session", "id": "cs_1", "mode": "setup"}`), models.ObjectRef{}, nil},
		{"invoice", event("invoice.paid", `{"object": "invoice", "id": "in_1"}`), ref("invoice", "in_1"), nil},
		{"invoice of an old version", event("invoice.paid", `{"object": "invoice", "id": "in_1", "payment_intent": "pi_1"}`), ref("payment_intent", "pi_1"), nil},
		{"invoice to come", event("invoice.upcoming", `{"object": "invoice"}`), models.ObjectRef{}, nil},
		{"invoice payment", event("invoice_payment.paid", `{"object": "invoice_payment", "id": "inpay_1", "payment": {"type": "payment_intent", "payment_intent": "pi_1"}}`), ref("payment_intent", "pi_1"), nil},
		{"warning", event("radar.early_fraud_warning.created", `{"object": "radar.early_fraud_warning", "id": "issfr_1", "charge": "ch_1"}`), ref("charge", "ch_1"), nil},
		{"review", event("review.opened", `{"object": "review", "id": "prv_1", "payment_intent": "pi_1", "charge": "ch_1"}`), ref("payment_intent", "pi_1"), nil},
		{"about no order", event("payout.paid", `{"object": "payout", "id": "po_1", "payment_intent": "pi_1"}`), models.ObjectRef{}, nil},
		{"customer", event("customer.subscription.updated", `{"object": "subscription", "id": "sub_1"}`), models.ObjectRef{}, nil},
		{"thin", thin("v1.payment_intent.succeeded", "payment_intent", "pi_1"), ref("payment_intent", "pi_1"), nil},
		{"thin dispute", thin("v1.charge.dispute.created", "dispute", "dp_1"), ref("dispute", "dp_1"), nil},
		{"thin session", thin("v1.checkout.session.completed", "checkout.session", "cs_1"), ref("checkout_session", "cs_1"), nil},
		{"thin customer", thin("v1.customer.created", "customer", "cus_1"), models.ObjectRef{}, nil},
		{"ping", thin("v2.core.event_destination.ping", "v2.core.event_destination", "ed_1"), models.ObjectRef{}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			n := parse(t, tt.body)
			if n.Object != tt.want || !n.Known || n.Anonymous || n.EventID != "evt_1" || n.Act != "req_1" || n.Occurred.IsZero() || !n.Floor.IsZero() || n.Test {
				t.Errorf("notice %+v", n)
			}
			var axes []models.Axis
			for _, axis := range models.Axes {
				if n.Said != nil {
					if s, ok := n.Said.Axes[axis]; ok {
						axes = append(axes, axis)
						if !s.At.Equal(n.Occurred) {
							t.Errorf("%s has become so at %v", axis, s.At)
						}
					}
				}
			}
			if !reflect.DeepEqual(axes, tt.says) {
				t.Errorf("says something about %v, want %v", axes, tt.says)
			}
			if n.Said != nil && (n.Said.Ref != n.Object || n.Said.Basis != models.Reported) {
				t.Errorf("said %+v", n.Said)
			}
			if again := parse(t, tt.body); !reflect.DeepEqual(n, again) {
				t.Error("parsed twice, it isn't the same")
			}
		})
	}
}

func TestUnknownTopics(t *testing.T) {
	t.Parallel()
	if n := parse(t, event("payment_intent.frobnicated", `{"object": "payment_intent", "id": "pi_1"}`)); n.Known || n.Object.ID != "pi_1" {
		t.Errorf("a new event of an intent is a hint: %+v", n)
	}
	if n := parse(t, event("frobnicator.created", `{"object": "frobnicator", "id": "fr_1", "payment_intent": "pi_1"}`)); n.Known || n.Object.ID != "pi_1" {
		t.Errorf("it names an intent: %+v", n)
	}
	if n := parse(t, event("frobnicator.created", `{"object": "frobnicator", "id": "fr_1"}`)); n.Known || !n.Object.Zero() {
		t.Errorf("it names nothing: %+v", n)
	}
}

func TestEventsOfEveryAge(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"", "2015-10-16", "2019-05-16", "2022-11-15", "2025-04-30.basil", "2026-09-30.endive"} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.EventVersion = version
			id, _ := r.CreateIntent(5000, "hkd", sandbox.StripeIntent{})
			for _, sent := range must(t)(r.Succeed(id)) {
				n := r.notice(t, sent)
				if n.Object != intentRef(id) || n.Act == "" || !n.Known || n.Said == nil {
					t.Errorf("%s reads %+v", sent.Topic, n)
				}
				wantState(t, *n.Said, models.Payment, models.PaymentPaid)
			}
		})
	}
}

func TestIdsOfZerosDoNotBlockEachOther(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	seen := map[[32]byte]string{}
	for _, topic := range []string{"payment_intent.succeeded", "payment_intent.canceled", "charge.refunded"} {
		n := r.notice(t, r.Sample(topic))
		if !n.Anonymous || !n.Test || seen[n.Content] != "" {
			t.Errorf("%s reads %+v, like %q", topic, n, seen[n.Content])
		}
		seen[n.Content] = topic
		if o := r.fetch(t, n.Object); o.Absence != models.AdminTest {
			t.Errorf("%s: %+v", topic, o)
		}
	}
	for _, id := range []string{`"evt_00000000000000"`, `"evt_"`, `""`, `null`, `7`, `"evt_\u0000"`, `"` + strings.Repeat("x", 300) + `"`} {
		if n := parse(t, `{"id": `+id+`, "type": "charge.updated"}`); !n.Anonymous {
			t.Errorf("id %s tells events apart", id)
		}
	}
}

func TestContentIsTheSameAtEveryDelivery(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	_, ns := r.CreateIntent(5000, "hkd", sandbox.StripeIntent{})
	first := r.notice(t, ns[0])
	r.clock.pass(time.Hour)
	again, err := r.Again(first.EventID)
	if err != nil || bytes.Equal(again.Body, ns[0].Body) {
		t.Fatal("the second delivery isn't another one", err)
	}
	if second := r.notice(t, again); second.Content != first.Content || second.EventID != first.EventID {
		t.Errorf("one event, two contents")
	}
	changed := bytes.Replace(ns[0].Body, []byte("5000"), []byte("5001"), 1)
	if parse(t, string(changed)).Content == first.Content {
		t.Error("two amounts, one content")
	}
}

func TestTwinsOfBothDestinationsMeetAtOneObject(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.Thin = true
	_, ns := r.CreateIntent(5000, "hkd", sandbox.StripeIntent{})
	if len(ns) != 2 {
		t.Fatalf("%d notifications", len(ns))
	}
	snapshot, small := r.notice(t, ns[0]), r.notice(t, ns[1])
	if snapshot.EventID == small.EventID || snapshot.Object != small.Object || small.Topic != "v1.payment_intent.created" || snapshot.Act != small.Act {
		t.Errorf("%+v\n%+v", snapshot, small)
	}
}

func TestAccountAndContext(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ fields, want string }{
		{`"account": null`, ""},
		{`"account": "acct_own"`, ""},
		{`"context": "acct_own"`, ""},
		{`"account": "acct_a"`, "acct_a"},
		{`"account": "acct_a", "context": "acct_b"`, "acct_a"},
		{`"context": "acct_b"`, "acct_b"},
		{`"context": "org_1/acct_b"`, "org_1/acct_b"},
	} {
		body := strings.Replace(event("charge.updated", `{"object": "charge", "id": "ch_1"}`), `"api_version"`, tt.fields+`, "api_version"`, 1)
		if n := parse(t, body); n.Account != tt.want || n.Object.Account != tt.want {
			t.Errorf("%s names %q and %+v", tt.fields, n.Account, n.Object)
		}
	}
}

func TestTestTraffic(t *testing.T) {
	t.Parallel()
	live := strings.Replace(event("charge.updated", `{"object": "charge", "id": "ch_1"}`), `"livemode": false`, `"livemode": true`, 1)
	sandboxed := event("charge.updated", `{"object": "charge", "id": "ch_1"}`)
	key := func(k string) func(*platform.Config) { return func(c *platform.Config) { c.APIToken = k } }
	for _, tt := range []struct {
		name string
		set  func(*platform.Config)
		body string
		want bool
	}{
		{"unchecked", key(""), sandboxed, false},
		{"unchecked, live", key(""), live, false},
		{"live key, test event", key("rk_live_x"), sandboxed, true},
		{"live key, live event", key("sk_live_x"), live, false},
		{"test key, live event", key("sk_test_x"), live, true},
		{"set", setting("mode", "live"), sandboxed, true},
	} {
		if n := parse(t, tt.body, tt.set); n.Test != tt.want {
			t.Errorf("%s: test is %v", tt.name, n.Test)
		}
	}
}

func TestForeignTextIsMadeStorable(t *testing.T) {
	t.Parallel()
	n := parse(t, event("charge.updated", `{"object": "charge", "id": "ch_\u0000\u001b`+strings.Repeat("é", 300)+`"}`))
	printable(t, n)
	if !strings.HasPrefix(n.Object.ID, "ch_��é") {
		t.Errorf("object %q", n.Object.ID)
	}
}

// printable checks that everything that becomes a column is short and printable.
func printable(t *testing.T, n models.Notice) {
	t.Helper()
	texts := []string{n.EventID, n.Account, n.Topic, n.Object.ID, n.Object.Kind, n.Object.Account, n.Act}
	if n.Said != nil {
		for _, l := range n.Said.Links {
			texts = append(texts, l.Value)
		}
		texts = append(texts, n.Said.Refs...)
		for _, p := range n.Said.Parts {
			texts = append(texts, p.ID, p.Word, p.Note, p.Currency)
		}
		for _, s := range n.Said.Axes {
			texts = append(texts, s.Word)
		}
		for _, f := range n.Said.Faults {
			texts = append(texts, f.Word, f.Path)
		}
		texts = append(texts, n.Said.Method)
	}
	for _, s := range texts {
		if len(s) > 300 || !utf8.ValidString(s) || strings.ContainsFunc(s, unicode.IsControl) {
			t.Errorf("%q can't be kept", s)
		}
	}
}

func TestWhatCannotBeReadIsKept(t *testing.T) {
	t.Parallel()
	for _, body := range []string{"", "null", "[]", "7", "{", "\x00\xff", `{"id": "evt_1", "type": 7, "data": [], "created": "soon"}`} {
		n := parse(t, body)
		if !n.Object.Zero() || n.Content == ([32]byte{}) || n.Known {
			t.Errorf("%q reads %+v", body, n)
		}
	}
}

func TestBigBody(t *testing.T) {
	t.Parallel()
	n := parse(t, event("charge.updated", `{"object": "charge", "id": "ch_1", "description": "`+strings.Repeat("x", 4<<20)+`"}`))
	if n.Object.ID != "ch_1" {
		t.Errorf("notice %+v", n.Object)
	}
}

func TestSamples(t *testing.T) {
	t.Parallel()
	folder := os.Getenv("COUNTERFOIL_SAMPLES")
	if folder == "" {
		t.Skip("COUNTERFOIL_SAMPLES names no folder")
	}
	wants := map[string]struct {
		object   models.ObjectRef
		axis     models.Axis
		state    models.State
		received int64
		currency string
	}{
		"01": {models.ObjectRef{Kind: "payment_intent", ID: "pi_3Sj8z9QEUxc7vavP0hxAfxkD"}, models.Payment, models.PaymentPaid, 3800, "HKD"},
		"02": {models.ObjectRef{Kind: "payment_intent", ID: "pi_3Sj8z9QEUxc7vavP0hxAfxkD"}, models.Refund, models.RefundFull, 3800, "HKD"},
		"03": {models.ObjectRef{Kind: "payment_intent", ID: "pi_1EszRnJRcJsJLSj6KSRDaOKr"}, models.Payment, models.PaymentPaid, 5400, "JPY"},
		"04": {models.ObjectRef{Account: "acct_1EXAMPLECONNECT01", Kind: "payment_intent", ID: "pi_1IFUAFJJYsXa4u2SXOj0g7cj"}, models.Payment, models.PaymentPaid, 1001, "USD"},
		"05": {models.ObjectRef{Kind: "payment_intent", ID: "pi_3RTkpYQ8iJWBZFaM1LBHNo0J"}, models.Payment, models.PaymentPaid, 4620, "EUR"},
		"06": {models.ObjectRef{Kind: "payment_intent", ID: "pi_3RWXidQ8iJWBZFaM0hwfe7LL"}, models.Dispute, models.DisputeNone, 0, ""},
		"07": {models.ObjectRef{Kind: "payment_intent", ID: "pi_thin_test"}, "", "", 0, ""},
	}
	files, err := filepath.Glob(filepath.Join(folder, "stripe", "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatal("no samples", err)
	}
	for _, file := range files {
		body, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		want, known := wants[filepath.Base(file)[:2]]
		n := parse(t, string(body))
		printable(t, n)
		if n.EventID == "" || n.Anonymous || !n.Known || n.Occurred.IsZero() {
			t.Errorf("%s reads %+v", filepath.Base(file), n)
		}
		if !known {
			continue
		}
		if n.Object != want.object {
			t.Errorf("%s names %+v", filepath.Base(file), n.Object)
		}
		if (want.axis == "") != (n.Said == nil) {
			t.Errorf("%s says %+v", filepath.Base(file), n.Said)
		}
		if want.axis != "" {
			wantState(t, *n.Said, want.axis, want.state)
		}
		if want.currency != "" && (n.Said.Amounts == nil || n.Said.Amounts.Received != want.received || n.Said.Amounts.Currency != want.currency) {
			t.Errorf("%s counts %+v", filepath.Base(file), n.Said.Amounts)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(event("charge.updated", `{"object": "charge", "id": "ch_1", "amount": 1e9, "metadata": {"order_id": 7}}`)))
	f.Add([]byte(event("refund.updated", `{"object": "refund", "id": "re_1", "charge": {"id": "ch_\u0000"}, "status": "frobnicated"}`)))
	f.Add([]byte(event("checkout.session.completed", `{"object": "checkout.session", "id": "cs_1", "client_reference_id": "\ud800"}`)))
	f.Add([]byte(thin("v1.refund.created", "refund", "re_1")))
	f.Add([]byte(`{"id": {"id": []}, "type": null, "created": 99999999999999999, "request": "req_1", "data": {"object": {"object": "payment_intent", "charges": {"data": [null]}}}}`))
	a := adapter(f, platform.Config{Account: ownAccount})
	f.Fuzz(func(t *testing.T, body []byte) {
		n := a.Parse(platform.Request{Body: body}, at)
		printable(t, n)
		if n.Content == ([32]byte{}) {
			t.Error("no content")
		}
		if n.Said != nil && n.Said.Ref != n.Object {
			t.Error("said of another object")
		}
		if _, err := json.Marshal(n); err != nil {
			t.Error(err)
		}
	})
}

// Whether an object is another system's is told by its metadata, which isn't kept.
func TestMetadataOfAnotherSystem(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		rule, metadata, want string
	}{
		"fits":           {"app=other", `{"app": "other", "order_id": "7"}`, "app=other"},
		"another value":  {"app=other", `{"app": "ours"}`, ""},
		"no metadata":    {"app=other", `{}`, ""},
		"one of several": {"app=other, source=pos=2", `{"source": "pos=2"}`, "source=pos=2"},
		"empty value":    {"app=", `{"app": ""}`, "app="},
		"no rule":        {"", `{"app": "other"}`, ""},
	} {
		n := parse(t, event("payment_intent.succeeded", `{"object": "payment_intent", "id": "pi_1", "status": "succeeded", "metadata": `+c.metadata+`}`), setting("ignore_metadata", c.rule))
		if n.Said == nil || n.Said.Foreign != c.want {
			t.Errorf("%s: %+v", name, n.Said)
		}
	}
	for _, bad := range []string{"app", "=other", "app=other,", ","} {
		if _, err := stripe.New(platform.Config{Account: ownAccount, Settings: map[string]string{"ignore_metadata": bad}}); err == nil {
			t.Errorf("%q is no rule", bad)
		}
	}
}

func TestFetchedObjectOfAnotherSystem(t *testing.T) {
	t.Parallel()
	r := newRig(t, setting("ignore_metadata", "app=other"))
	theirs, _ := r.CreateIntent(100, "hkd", sandbox.StripeIntent{Metadata: map[string]string{"app": "other"}})
	ours, _ := r.CreateIntent(100, "hkd", sandbox.StripeIntent{Metadata: map[string]string{"app": "shop"}})
	if got := r.fetch(t, intentRef(theirs)).Foreign; got != "app=other" {
		t.Errorf("theirs: %q", got)
	}
	if got := r.fetch(t, intentRef(ours)).Foreign; got != "" {
		t.Errorf("ours: %q", got)
	}
}
