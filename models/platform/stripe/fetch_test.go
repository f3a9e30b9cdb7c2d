package stripe_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"counterfoil/models"
	"counterfoil/models/platform"
	"counterfoil/models/platform/sandbox"
)

func TestPaymentAxisFollowsTheIntent(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name     string
		in       sandbox.StripeIntent
		do       func(t *testing.T, r *rig, id string)
		want     models.State
		received int64
	}{
		{"created", sandbox.StripeIntent{}, func(*testing.T, *rig, string) {}, models.PaymentPending, 0},
		{"requires action", sandbox.StripeIntent{}, func(t *testing.T, r *rig, id string) { must(t)(r.Require(id)) }, models.PaymentPending, 0},
		{"processing", sandbox.StripeIntent{}, func(t *testing.T, r *rig, id string) { must(t)(r.Process(id)) }, models.PaymentPending, 0},
		{"failed", sandbox.StripeIntent{}, func(t *testing.T, r *rig, id string) { must(t)(r.Fail(id, "card_declined")) }, models.PaymentFailed, 0},
		{"failed, then paid", sandbox.StripeIntent{}, func(t *testing.T, r *rig, id string) {
			must(t)(r.Fail(id, "card_declined"))
			must(t)(r.Succeed(id))
		}, models.PaymentPaid, 5000},
		{"authorized", sandbox.StripeIntent{Manual: true}, func(t *testing.T, r *rig, id string) { must(t)(r.Authorize(id)) }, models.PaymentAuthorized, 0},
		{"captured", sandbox.StripeIntent{Manual: true}, func(t *testing.T, r *rig, id string) {
			must(t)(r.Authorize(id))
			must(t)(r.Capture(id, 5000))
		}, models.PaymentPaid, 5000},
		{"captured in part", sandbox.StripeIntent{Manual: true}, func(t *testing.T, r *rig, id string) {
			must(t)(r.Authorize(id))
			must(t)(r.Capture(id, 3000))
		}, models.PaymentPaid, 3000},
		{"authorisation lapsed", sandbox.StripeIntent{Manual: true}, func(t *testing.T, r *rig, id string) {
			must(t)(r.Authorize(id))
			must(t)(r.CancelIntent(id))
		}, models.PaymentVoided, 0},
		{"canceled", sandbox.StripeIntent{}, func(t *testing.T, r *rig, id string) { must(t)(r.CancelIntent(id)) }, models.PaymentVoided, 0},
		{"debit returned", sandbox.StripeIntent{}, func(t *testing.T, r *rig, id string) {
			must(t)(r.Succeed(id))
			must(t)(r.ReturnDebit(id))
		}, models.Review, 0},
		{"unknown word", sandbox.StripeIntent{}, func(t *testing.T, r *rig, id string) { must(t)(r.SetStatusWord(id, "frobnicated")) }, models.Review, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			tt.in.Metadata = map[string]string{"order_id": "1001"}
			id, _ := r.CreateIntent(5000, "hkd", tt.in)
			tt.do(t, r, id)
			o := r.fetch(t, intentRef(id))
			wantState(t, o, models.Payment, tt.want)
			wantState(t, o, models.Refund, models.RefundNone)
			wantState(t, o, models.Dispute, models.DisputeNone)
			wantAmounts(t, o, "HKD", 5000, tt.received, 0)
			if unclear := tt.want == models.Review; o.Axes[models.Payment].Unclear != unclear || (len(o.Faults) > 0) != unclear {
				t.Errorf("unclear %v, faults %v", o.Axes[models.Payment], o.Faults)
			}
			if o.Basis != models.Official || o.Ref != intentRef(id) || !o.Read.Equal(r.clock.now()) || o.Placed.IsZero() || o.Store {
				t.Errorf("observation %+v", o)
			}
			if !slices.Equal(o.Links, []models.Link{{How: models.LinkMetadata, Value: "1001"}}) {
				t.Errorf("links %v", o.Links)
			}
		})
	}
}

func TestRefundsAddUp(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	id := r.paid(t, 5000, "hkd")
	refund := func(amount int64, status string) string {
		t.Helper()
		re, ns, err := r.Refund(id, amount, status)
		if err != nil || len(ns) == 0 {
			t.Fatal(err)
		}
		return re
	}
	check := func(want models.State, sum int64) models.Observation {
		t.Helper()
		o := r.fetch(t, intentRef(id))
		wantState(t, o, models.Refund, want)
		wantState(t, o, models.Payment, models.PaymentPaid)
		wantAmounts(t, o, "HKD", 5000, 5000, sum)
		if len(o.Faults) > 0 {
			t.Errorf("faults %v", o.Faults)
		}
		return o
	}
	check(models.RefundNone, 0)
	slow := refund(2000, "pending")
	check(models.RefundPending, 0)
	bank := refund(500, "requires_action")
	check(models.RefundPending, 0)
	must(t)(r.SettleRefund(slow))
	check(models.RefundPartial, 2000)
	must(t)(r.CancelRefund(bank))
	rest := refund(3000, "succeeded")
	check(models.RefundFull, 5000)
	r.clock.pass(21 * 24 * time.Hour)
	must(t)(r.FailRefund(rest, "insufficient_funds"))
	o := check(models.RefundPartial, 2000)
	for _, p := range o.Parts {
		if p.ID == rest && (p.Counts || p.Note != "insufficient_funds" || p.Word != "failed") {
			t.Errorf("the failed refund reads %+v", p)
		}
	}
	must(t)(r.FailRefund(slow, "declined"))
	check(models.RefundNone, 0)
	must(t)(r.SetStatusWord(slow, "frobnicated"))
	o = r.fetch(t, intentRef(id))
	if s := o.Axes[models.Refund]; s.State != models.Review || !s.Unclear || s.Word != "frobnicated" {
		t.Errorf("unknown refund word reads %+v", s)
	}
}

// A refund's own reason is kept beside the reason why it failed or waits.
func TestARefundKeepsItsReason(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	id := r.paid(t, 5000, "hkd")
	want := map[string]string{}
	for _, why := range []string{"", "duplicate", "requested_by_customer"} {
		re, _, err := r.RefundFor(id, 1000, "succeeded", why)
		if err != nil {
			t.Fatal(err)
		}
		want[re] = why
		if why == "duplicate" {
			must(t)(r.FailRefund(re, "declined"))
		}
	}
	for _, p := range r.fetch(t, intentRef(id)).Parts {
		if why, ok := want[p.ID]; ok && (p.Reason != why || (p.Note == "declined") != (why == "duplicate")) {
			t.Errorf("%q reads %+v", why, p)
		}
		delete(want, p.ID)
	}
	if len(want) > 0 {
		t.Errorf("not read: %v", want)
	}
}

func TestMoreRefundsThanTheChargeShows(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	id := r.paid(t, 100000, "usd")
	for range 123 {
		if _, _, err := r.Refund(id, 100, "succeeded"); err != nil {
			t.Fatal(err)
		}
	}
	r.Paths()
	o := r.fetch(t, intentRef(id))
	wantAmounts(t, o, "USD", 100000, 100000, 12300)
	wantState(t, o, models.Refund, models.RefundPartial)
	if n := len(r.Paths()); n != 3 {
		t.Errorf("%d calls, want one for the intent and two pages of refunds", n)
	}
}

func TestDisputes(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	id := r.paid(t, 5000, "usd")
	open := func(inquiry bool) string {
		t.Helper()
		dp, _, err := r.OpenDispute(id, 5000, inquiry)
		if err != nil {
			t.Fatal(err)
		}
		return dp
	}
	check := func(want models.State, word string) models.Observation {
		t.Helper()
		o := r.fetch(t, intentRef(id))
		wantState(t, o, models.Dispute, want)
		wantState(t, o, models.Payment, models.PaymentPaid)
		if o.Axes[models.Dispute].Word != word {
			t.Errorf("word %q, want %q", o.Axes[models.Dispute].Word, word)
		}
		return o
	}
	inquiry := open(true)
	o := check(models.DisputeOpen, "warning_needs_response")
	if p := o.Parts[len(o.Parts)-1]; p.ID != inquiry || !strings.Contains(p.Note, "due 2026-12-12") {
		t.Errorf("part %+v", p)
	}
	must(t)(r.CloseInquiry(inquiry))
	check(models.DisputeNone, "warning_closed")
	first := open(false)
	check(models.DisputeOpen, "needs_response")
	must(t)(r.WinDispute(first))
	check(models.DisputeWon, "won")
	second := open(false)
	check(models.DisputeOpen, "needs_response")
	must(t)(r.LoseDispute(second))
	check(models.DisputeLost, "lost")
	must(t)(r.SetStatusWord(second, "frobnicated"))
	o = r.fetch(t, intentRef(id))
	if s := o.Axes[models.Dispute]; s.State != "" || !s.Unclear || s.Word != "frobnicated" {
		t.Errorf("unknown dispute word reads %+v", s)
	}
}

func TestAmountsInEveryKindOfCurrency(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		currency string
		stripe   int64
		want     int64
	}{
		{"jpy", 5400, 5400}, {"usd", 1099, 1099}, {"kwd", 12340, 12340}, {"ugx", 500000, 5000}, {"isk", 990000, 9900},
		{"mga", 700, 70000}, {"huf", 123456, 123456}, {"twd", 88800, 88800},
	} {
		t.Run(tt.currency, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			o := r.fetch(t, intentRef(r.paid(t, tt.stripe, tt.currency)))
			wantAmounts(t, o, strings.ToUpper(tt.currency), tt.want, tt.want, 0)
		})
	}
	t.Run("never rounded", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		o := r.fetch(t, intentRef(r.paid(t, 990001, "isk")))
		if o.Amounts != nil || len(o.Faults) == 0 || o.Axes[models.Refund].State != models.Review {
			t.Errorf("9900.01 ISK read as %+v, faults %v", o.Amounts, o.Faults)
		}
	})
}

func TestChargeThatIsNotNamedYet(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	id := r.paid(t, 5000, "hkd")
	if _, _, err := r.Refund(id, 1000, "succeeded"); err != nil {
		t.Fatal(err)
	}
	named := r.fetch(t, intentRef(id))
	r.HideCharge(id, 1)
	hidden := r.fetch(t, intentRef(id))
	if named.Digest() != hidden.Digest() {
		t.Errorf("without latest_charge it reads\n%+v\nwith it\n%+v", hidden, named)
	}
	wantAmounts(t, hidden, "HKD", 5000, 5000, 1000)
}

func TestEverythingLeadsToTheIntentAndIsReadOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	invoice, intent, _ := r.PayInvoice(5000, "hkd", sandbox.StripeIntent{Metadata: map[string]string{"order_id": "1001"}})
	re, _, err := r.Refund(intent, 100, "succeeded")
	if err != nil {
		t.Fatal(err)
	}
	dp, _, err := r.OpenDispute(intent, 5000, false)
	if err != nil {
		t.Fatal(err)
	}
	charge := r.fetch(t, intentRef(intent)).Refs[0]
	refs := []models.ObjectRef{intentRef(intent), {Kind: "invoice", ID: invoice}, {Kind: "refund", ID: re}, {Kind: "dispute", ID: dp}, {Kind: "charge", ID: charge}}
	r.Paths()
	got, err := r.a.Fetch(context.Background(), refs)
	if err != nil {
		t.Fatal(err)
	}
	for _, ref := range refs {
		o := got[ref]
		if o.Ref != intentRef(intent) || o.Absence != models.Present || o.Axes[models.Payment].State != models.PaymentPaid {
			t.Errorf("%v reads %+v", ref, o)
		}
	}
	reads := 0
	for _, p := range r.Paths() {
		if strings.HasPrefix(p, "/v1/payment_intents/") {
			reads++
		}
	}
	if reads != 1 {
		t.Errorf("the intent was read %d times", reads)
	}
}

func TestChargeWithoutIntent(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	id, _ := r.CreateCharge(5000, "hkd", sandbox.StripeIntent{Metadata: map[string]string{"order_id": "1001"}})
	re, _, err := r.Refund(id, 2000, "succeeded")
	if err != nil {
		t.Fatal(err)
	}
	ref := models.ObjectRef{Kind: "charge", ID: id}
	o := r.fetch(t, models.ObjectRef{Kind: "refund", ID: re})
	if o.Ref != ref || len(o.Links) != 1 {
		t.Errorf("observation %+v", o)
	}
	wantState(t, o, models.Payment, models.PaymentPaid)
	wantState(t, o, models.Refund, models.RefundPartial)
	wantAmounts(t, o, "HKD", 5000, 5000, 2000)
	if _, _, err := r.OpenDispute(id, 5000, false); err != nil {
		t.Fatal(err)
	}
	wantState(t, r.fetch(t, ref), models.Dispute, models.DisputeOpen)
}

// The refund's event carries no reference of the merchant's; only the session does.
func TestSessionIsLookedUpForItsReferences(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	cs := r.CreateSession(3800, "hkd", sandbox.StripeSession{Reference: "ORDER-1001", Metadata: map[string]string{"order_id": "1001"}})
	intent, _, err := r.CompleteSession(cs)
	if err != nil {
		t.Fatal(err)
	}
	_, ns, err := r.Refund(intent, 3800, "succeeded")
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range ns {
		if obj := r.notice(t, n).Object; obj != intentRef(intent) {
			t.Errorf("%s leads to %v", n.Topic, obj)
		}
	}
	r.Paths()
	o := r.fetch(t, intentRef(intent))
	if n := len(r.Paths()); n != 2 {
		t.Errorf("%d calls, want 2", n)
	}
	want := []models.Link{{How: models.LinkMetadata, Value: "1001"}, {How: models.LinkReference, Value: "ORDER-1001"}}
	if !slices.Equal(o.Links, want) || !slices.Contains(o.Refs, cs) {
		t.Errorf("links %v, references %v", o.Links, o.Refs)
	}
	wantState(t, o, models.Refund, models.RefundFull)
	if again := r.fetch(t, models.ObjectRef{Kind: "checkout_session", ID: cs}); again.Digest() != o.Digest() {
		t.Errorf("the session reads %+v, its intent %+v", again, o)
	}
}

func TestCallsPerReading(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	id := r.paid(t, 5000, "hkd")
	if _, _, err := r.Refund(id, 100, "pending"); err != nil {
		t.Fatal(err)
	}
	r.Paths()
	r.fetch(t, intentRef(id))
	if paths := r.Paths(); len(paths) != 1 {
		t.Errorf("an intent with metadata and refunds costs %v", paths)
	}
}

func TestSessionWithoutIntent(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		amount int64
		do     func(t *testing.T, r *rig, cs string)
		want   models.State
	}{
		{"open", 3800, func(*testing.T, *rig, string) {}, models.PaymentPending},
		{"expired", 3800, func(t *testing.T, r *rig, cs string) { must(t)(r.ExpireSession(cs)) }, models.PaymentVoided},
		{"free, open", 0, func(*testing.T, *rig, string) {}, models.PaymentPending},
		{"free, finished", 0, func(t *testing.T, r *rig, cs string) {
			if _, _, err := r.CompleteSession(cs); err != nil {
				t.Fatal(err)
			}
		}, models.PaymentPaid},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			cs := r.CreateSession(tt.amount, "hkd", sandbox.StripeSession{Reference: "1001"})
			tt.do(t, r, cs)
			ref := models.ObjectRef{Kind: "checkout_session", ID: cs}
			o := r.fetch(t, ref)
			if o.Ref != ref || len(o.Links) != 1 {
				t.Errorf("observation %+v", o)
			}
			wantState(t, o, models.Payment, tt.want)
			wantAmounts(t, o, "HKD", tt.amount, 0, 0)
			if _, stated := o.Axes[models.Refund]; stated {
				t.Error("a session knows of no refunds")
			}
		})
	}
}

func TestDelayedSessionIsNotPaidYet(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	cs := r.CreateSession(3800, "eur", sandbox.StripeSession{Reference: "1001", Delayed: true})
	intent, ns, err := r.CompleteSession(cs)
	if err != nil {
		t.Fatal(err)
	}
	last := r.notice(t, ns[len(ns)-1])
	if last.Topic != "checkout.session.completed" || len(last.Said.Axes) != 0 {
		t.Errorf("%s says %+v", last.Topic, last.Said)
	}
	wantState(t, r.fetch(t, intentRef(intent)), models.Payment, models.PaymentPending)
	must(t)(r.Succeed(intent))
	wantState(t, r.fetch(t, intentRef(intent)), models.Payment, models.PaymentPaid)
}

func TestInvoiceWithoutPaymentStatesNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	id, _ := r.DraftInvoice(5000, "hkd", sandbox.StripeIntent{Metadata: map[string]string{"order_id": "1001"}})
	ref := models.ObjectRef{Kind: "invoice", ID: id}
	if o := r.fetch(t, ref); o.Ref != ref || len(o.Axes) != 0 || o.Absence != models.Present || len(o.Links) != 1 {
		t.Errorf("observation %+v", o)
	}
}

func TestConnectedAccount(t *testing.T) {
	t.Parallel()
	for _, opaque := range []bool{false, true} {
		t.Run(fmt.Sprintf("opaque context %v", opaque), func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.Thin, r.OpaqueContext = true, opaque
			id, ns := r.CreateIntent(5000, "hkd", sandbox.StripeIntent{Account: "acct_connected"})
			for _, n := range append(ns, must(t)(r.Succeed(id))...) {
				notice := r.notice(t, n)
				if notice.Account == "" || notice.Object.Account != notice.Account {
					t.Fatalf("%s names %+v", n.Topic, notice.Object)
				}
				o := r.fetch(t, notice.Object)
				if o.Axes[models.Payment].State != models.PaymentPaid || o.Ref.Account != notice.Account {
					t.Errorf("%s reads %+v", n.Topic, o)
				}
			}
			if o := r.fetch(t, intentRef(id)); o.Absence != models.Gone {
				t.Errorf("without its account it reads %+v", o)
			}
		})
	}
	t.Run("access taken back", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		mine := intentRef(r.paid(t, 5000, "hkd"))
		theirs := models.ObjectRef{Account: "acct_gone", Kind: "payment_intent", ID: "pi_1"}
		got, err := r.a.Fetch(context.Background(), []models.ObjectRef{theirs, mine})
		if err != nil || got[theirs].Absence != models.Unreadable || got[mine].Absence != models.Present {
			t.Errorf("%v %v", got, err)
		}
	})
}

func TestOneObjectsTroubleLeavesTheOthers(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	good, bad := intentRef(r.paid(t, 5000, "hkd")), intentRef(r.paid(t, 5000, "hkd"))
	r.Break(bad.ID)
	refs := []models.ObjectRef{good, bad, intentRef("pi_missing"), intentRef("pi_00000000000000"), intentRef("../../v1/account"),
		{Kind: "frobnicator", ID: "fr_1"}, {Account: "a b", Kind: "payment_intent", ID: "pi_1"}}
	got, err := r.a.Fetch(context.Background(), refs)
	if err != nil || len(got) != len(refs) {
		t.Fatal(got, err)
	}
	for i, want := range []models.Absence{models.Present, models.Unreadable, models.Gone, models.AdminTest, models.Gone, models.Unreadable, models.Unreadable} {
		o := got[refs[i]]
		if o.Absence != want || want != models.Present && (o.Axes != nil || o.Ref != refs[i]) {
			t.Errorf("%v reads %+v, want %q", refs[i], o, want)
		}
	}
}

func TestOutages(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		do     func(r *rig)
		detail string
		throt  bool
		denied bool
	}{
		{"down", func(r *rig) { r.Down.Store(true) }, "503", false, false},
		{"dead", func(r *rig) { r.Dead.Store(true) }, "no connection", false, false},
		{"rate", func(r *rig) { r.Throttle.Store(true) }, "endpoint-rate", true, false},
		{"lock", func(r *rig) { r.LockTimeout.Store(true); r.Throttle.Store(true) }, "lock_timeout", false, false},
		{"bad key", func(r *rig) { r.Key = "sk_test_other" }, "401", false, true},
		{"no permission", func(r *rig) { r.Deny("/v1/payment_intents", "rak_payment_intent_read") }, "rak_payment_intent_read", false, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			refs := []models.ObjectRef{intentRef(r.paid(t, 5000, "hkd")), intentRef(r.paid(t, 6000, "hkd"))}
			tt.do(r)
			got, err := r.a.Fetch(context.Background(), refs)
			out, ok := errors.AsType[*platform.Outage](err)
			if !ok || got != nil || out.Throttled != tt.throt || out.Denied != tt.denied || !strings.Contains(out.Detail, tt.detail) {
				t.Errorf("answer %v, error %#v", got, err)
			}
		})
	}
	t.Run("cancelled", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if _, err := r.a.Fetch(ctx, []models.ObjectRef{intentRef("pi_1")}); err == nil {
			t.Error("nothing was asked, and nobody said so")
		}
	})
}

// answers serves one fixed body per path.
func answers(t *testing.T, bodies map[string]string) *rig {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, ok := bodies[q.URL.Path]
		if !ok {
			body = `{"object": "list", "data": [], "has_more": false}`
		}
		_, _ = w.Write([]byte(body))
	}))
	t.Cleanup(srv.Close)
	return newRig(t, func(c *platform.Config) { c.APIURL = srv.URL })
}

func TestOddAnswers(t *testing.T) {
	t.Parallel()
	const charge = `"latest_charge": {"id": "ch_1", "status": "succeeded", "amount": 1000, "amount_captured": %d, "amount_refunded": %d,
		"captured": true, "currency": "usd", "refunds": {"data": [%s], "has_more": false}}`
	intent := func(rest string) string {
		return `{"id": "pi_1", "status": "succeeded", "amount": 1000, "amount_received": 1000, "currency": "usd", "livemode": false, ` + rest + `}`
	}
	refund := func(amount int, status, txn string) string {
		return fmt.Sprintf(`{"id": "re_1", "amount": %d, "currency": "usd", "status": %q, "balance_transaction": %s}`, amount, status, txn)
	}
	for _, tt := range []struct {
		name  string
		body  string
		fault models.ExceptionKind
		axis  models.Axis
		want  models.State
		sum   int64
	}{
		{"sums agree", intent(fmt.Sprintf(charge, 1000, 300, refund(300, "succeeded", `"txn_1"`))), "", models.Refund, models.RefundPartial, 300},
		{"charge knows of more", intent(fmt.Sprintf(charge, 1000, 500, refund(300, "succeeded", `"txn_1"`))), models.Contradiction, models.Refund, models.Review, 300},
		{"charge knows of less", intent(fmt.Sprintf(charge, 1000, 0, refund(300, "succeeded", `"txn_1"`))), models.Contradiction, models.Refund, models.Review, 300},
		{"charge counts one under way", intent(fmt.Sprintf(charge, 1000, 300, refund(300, "pending", `null`))), "", models.Refund, models.RefundPending, 0},
		{"charge still counts a failed one", intent(fmt.Sprintf(charge, 1000, 300, refund(300, "failed", `"txn_1"`))), "", models.Refund, models.RefundNone, 0},
		{"released rest", intent(fmt.Sprintf(charge, 700, 300, refund(300, "succeeded", `null`))), "", models.Refund, models.RefundNone, 0},
		{"released rest without a refund", intent(fmt.Sprintf(charge, 700, 300, "")), "", models.Refund, models.RefundNone, 0},
		{"other currency", intent(fmt.Sprintf(charge, 1000, 300, strings.Replace(refund(300, "succeeded", `"txn_1"`), "usd", "eur", 1))), models.Contradiction, models.Refund, models.Review, 300},
		{"no status", strings.Replace(intent(`"latest_charge": null`), `"status"`, `"state"`, 1), models.SchemaChanged, models.Payment, models.Review, 0},
		{"canceled_at set, error without code", strings.Replace(intent(`"canceled_at": 1234567890, "last_payment_error": {"type": "idempotency_error"}`), "succeeded", "requires_payment_method", 1),
			"", models.Payment, models.PaymentFailed, 0},
		{"error cleared", strings.Replace(intent(`"last_payment_error": null`), "succeeded", "requires_payment_method", 1), "", models.Payment, models.PaymentPending, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			o := answers(t, map[string]string{"/v1/payment_intents/pi_1": tt.body}).fetch(t, intentRef("pi_1"))
			wantState(t, o, tt.axis, tt.want)
			if o.Amounts == nil || o.Amounts.Refunded != tt.sum {
				t.Errorf("amounts %+v, want %d refunded", o.Amounts, tt.sum)
			}
			if (tt.fault == "") != (len(o.Faults) == 0) || tt.fault != "" && o.Faults[0].Kind != tt.fault {
				t.Errorf("faults %v, want %q", o.Faults, tt.fault)
			}
		})
	}
	t.Run("a field of another type", func(t *testing.T) {
		t.Parallel()
		o := answers(t, map[string]string{"/v1/payment_intents/pi_1": `{"id": "pi_1", "amount": "10.00"}`}).fetch(t, intentRef("pi_1"))
		want := []models.Fault{{Kind: models.SchemaChanged, Path: "amount"}}
		if o.Absence != models.Present || len(o.Axes) != 0 || !reflect.DeepEqual(o.Faults, want) {
			t.Errorf("observation %+v", o)
		}
	})
	t.Run("no JSON", func(t *testing.T) {
		t.Parallel()
		r := answers(t, map[string]string{"/v1/payment_intents/pi_1": "<html>"})
		_, err := r.a.Fetch(context.Background(), []models.ObjectRef{intentRef("pi_1")})
		if _, ok := errors.AsType[*platform.Outage](err); !ok {
			t.Errorf("error %v", err)
		}
	})
	t.Run("a big answer", func(t *testing.T) {
		t.Parallel()
		body := intent(`"description": "` + strings.Repeat("x", 4<<20) + `"`)
		wantState(t, answers(t, map[string]string{"/v1/payment_intents/pi_1": body}).fetch(t, intentRef("pi_1")), models.Payment, models.PaymentPaid)
	})
}

func TestModeOfTheObject(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		mode string
		test bool
	}{{"", false}, {"test", false}, {"live", true}} {
		r := newRig(t, setting("mode", tt.mode))
		o := r.fetch(t, intentRef(r.paid(t, 5000, "hkd")))
		if o.Test != tt.test || o.Live == nil || *o.Live {
			t.Errorf("mode %q: test %v, live %v", tt.mode, o.Test, o.Live)
		}
	}
}
