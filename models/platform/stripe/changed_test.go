package stripe_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"counterfoil/models"
	"counterfoil/models/platform"
	"counterfoil/models/platform/sandbox"
	"counterfoil/models/platform/stripe"
)

// list walks a window to its end.
func (r *rig) list(t *testing.T, w platform.Window) (refs []models.ObjectRef, pages int) {
	t.Helper()
	for range 50 {
		b, err := r.a.Changed(context.Background(), w)
		if err != nil {
			t.Fatal(err)
		}
		pages++
		for _, ref := range b.Refs {
			if !slices.Contains(refs, ref) {
				refs = append(refs, ref)
			}
		}
		if b.Next == "" {
			return refs, pages
		}
		w.Cursor = b.Next
	}
	t.Fatal("the list doesn't end")
	return nil, 0
}

func TestChangedListsIntentsOfEveryKind(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.paid(t, 100, "hkd")
	r.clock.pass(time.Hour)
	since := r.clock.now()
	id := r.paid(t, 5000, "hkd")
	if _, _, err := r.Refund(id, 100, "pending"); err != nil {
		t.Fatal(err)
	}
	if _, _, err := r.OpenDispute(id, 5000, true); err != nil {
		t.Fatal(err)
	}
	cs := r.CreateSession(3800, "hkd", sandbox.StripeSession{})
	intent, _, err := r.CompleteSession(cs)
	if err != nil {
		t.Fatal(err)
	}
	open := models.ObjectRef{Kind: "checkout_session", ID: r.CreateSession(3800, "hkd", sandbox.StripeSession{})}
	charge, _ := r.CreateCharge(100, "hkd", sandbox.StripeIntent{})
	alone := models.ObjectRef{Kind: "charge", ID: charge}
	r.clock.pass(time.Hour)
	until := r.clock.now()
	r.clock.pass(time.Second)
	r.paid(t, 100, "hkd")

	want := map[string][]models.ObjectRef{
		"":                 {alone, intentRef(intent), intentRef(id)},
		"event":            {alone, intentRef(intent), intentRef(id)},
		"payment_intent":   {intentRef(intent), intentRef(id)},
		"charge":           {alone, intentRef(intent), intentRef(id)},
		"refund":           {intentRef(id)},
		"dispute":          {intentRef(id)},
		"checkout_session": {open, intentRef(intent)},
	}
	for _, kind := range append(r.a.Kinds(), "") {
		refs, _ := r.list(t, platform.Window{Since: since, Until: until, Kind: kind})
		if !slices.Equal(refs, want[kind]) {
			t.Errorf("%q lists %v, want %v", kind, refs, want[kind])
		}
	}
	if _, err := r.a.Changed(context.Background(), platform.Window{Kind: "frobnicator"}); err == nil {
		t.Error("there is no such list")
	}
}

func TestChangedPages(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for range 120 {
		r.CreateIntent(100, "hkd", sandbox.StripeIntent{})
	}
	for _, kind := range []string{"event", "payment_intent"} {
		if refs, pages := r.list(t, platform.Window{Kind: kind}); len(refs) != 120 || pages != 2 {
			t.Errorf("%s: %d intents on %d pages", kind, len(refs), pages)
		}
	}
	r.Down.Store(true)
	_, err := r.a.Changed(context.Background(), platform.Window{})
	if _, ok := errors.AsType[*platform.Outage](err); !ok {
		t.Errorf("error %v", err)
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	keys := func(notes []models.Note) (out []string) {
		for _, n := range notes {
			out = append(out, n.Key+" "+strings.Join(n.Args, " "))
		}
		return out
	}
	r := newRig(t, setting("mode", "live"))
	notes, err := r.a.Check(context.Background())
	want := []string{"stripe.access.mode_differs live test", "stripe.access.version 2026-03-25.dahlia"}
	if err != nil || !slices.Equal(keys(notes), want) || r.Calls() != 1 {
		t.Errorf("%v %v after %d calls", keys(notes), err, r.Calls())
	}

	r = newRig(t, func(c *platform.Config) { c.APIToken = "rk_test_x" })
	r.Key = "rk_test_x"
	r.Deny("/v1/payment_intents", "rak_payment_intent_read")
	notes, err = r.a.Check(context.Background())
	out, ok := errors.AsType[*platform.Outage](err)
	if !ok || !out.Denied || len(notes) != 3 || notes[2].Key != "stripe.access.permission" || notes[2].Args[0] != "rak_payment_intent_read" || !notes[2].Warn {
		t.Errorf("%v %v", keys(notes), err)
	}
}

func TestNewRefusesWhatItCannotUse(t *testing.T) {
	t.Parallel()
	for name, value := range map[string]string{"mode": "both", "api_version": "2020-08-27", "tolerance": "0s"} {
		_, err := stripe.New(platform.Config{Settings: map[string]string{name: value}})
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s=%s: %v", name, value, err)
		}
	}
	if _, err := stripe.New(platform.Config{APIURL: "api.stripe.com"}); err == nil {
		t.Error("that is no address")
	}
	if _, err := stripe.New(platform.Config{Settings: map[string]string{"tolerance": "600", "api_version": "2026-09-30.endive"}}); err != nil {
		t.Error(err)
	}
}

func TestWithoutKeyNothingIsAsked(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *platform.Config) { c.APIToken = "" })
	if r.a.HasAPI() || r.a.Reads() != nil {
		t.Error("there is no access")
	}
	if _, err := r.a.Fetch(context.Background(), []models.ObjectRef{intentRef("pi_1")}); err == nil || r.Calls() != 0 {
		t.Errorf("error %v, %d calls", err, r.Calls())
	}
}

func TestDeepAndSpell(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for ref, want := range map[models.ObjectRef]string{
		intentRef("pi_1"):                               "https://dashboard.stripe.com/test/payments/pi_1",
		{Kind: "dispute", ID: "dp_1"}:                   "https://dashboard.stripe.com/test/disputes/dp_1",
		{Kind: "checkout_session"}:                      "",
		{Kind: "charge", ID: "ch_/../"}:                 "",
		{Account: "acct_a", Kind: "charge", ID: "ch_1"}: "https://dashboard.stripe.com/acct_a/test/payments/ch_1",
	} {
		if got := r.a.Deep(ref); got != want {
			t.Errorf("%v leads to %q", ref, got)
		}
	}
	live := adapter(t, platform.Config{APIToken: "sk_live_x"})
	if got := live.Deep(intentRef("pi_1")); got != "https://dashboard.stripe.com/payments/pi_1" {
		t.Error(got)
	}
	for typed, want := range map[string][]string{
		" pi_1 ": {"pi_1"},
		"https://dashboard.stripe.com/test/payments/pi_3Sj8z9?tab=x": {"pi_3Sj8z9"},
		"pi_1_secret_abc": {"pi_1"},
		"#1001":           {"#1001"},
		"":                nil,
	} {
		if got := r.a.Spell(typed); !slices.Equal(got, want) {
			t.Errorf("%q is spelled %q", typed, got)
		}
	}
	for _, s := range r.a.Settings() {
		if s.Value == "" || s.Set != (s.Name == "rate") {
			t.Errorf("setting %+v", s)
		}
	}
}
