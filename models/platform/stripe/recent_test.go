package stripe_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"counterfoil/models/platform"
	"counterfoil/models/platform/sandbox"
)

func TestRecentPaymentsWithTheirMetadata(t *testing.T) {
	t.Parallel()
	r := newRig(t, setting("order_key", "order_ref"), setting("ignore_metadata", "system=tickets"))
	if r.a.LinkField() != "order_ref" {
		t.Errorf("links by %q", r.a.LinkField())
	}
	if got, more, err := r.a.Recent(t.Context(), 3); err != nil || more || len(got) != 0 || r.Calls() != 1 {
		t.Fatalf("%v %t %v after %d calls", got, more, err, r.Calls())
	}
	made := r.clock.now()
	r.CreateIntent(100, "hkd", sandbox.StripeIntent{Metadata: map[string]string{"order_ref": " #1001 ", "blank": " ", "bad\nkey": "1", "note": "left at\nthe door"}})
	r.clock.pass(time.Hour)
	r.CreateIntent(100, "hkd", sandbox.StripeIntent{Metadata: map[string]string{"system": "tickets", "order_ref": "1001"}})
	r.CreateIntent(100, "hkd", sandbox.StripeIntent{})
	r.CreateIntent(100, "hkd", sandbox.StripeIntent{Account: "acct_other", Metadata: map[string]string{"order_ref": "elsewhere"}})
	got, more, err := r.a.Recent(t.Context(), 3)
	if err != nil || more || len(got) != 3 {
		t.Fatalf("%v %t %v", got, more, err)
	}
	if !got[1].Foreign || got[0].Foreign || len(got[0].Labels) != 0 {
		t.Errorf("newest first: %+v", got)
	}
	if p := got[2]; !p.Created.Equal(made) || p.Test || p.Foreign || len(p.Labels) != 2 || p.Labels["order_ref"] != "#1001" {
		t.Errorf("%+v", p)
	}
}

func TestRecentTellsTestPayments(t *testing.T) {
	t.Parallel()
	r := newRig(t, setting("mode", "live"))
	r.CreateIntent(100, "hkd", sandbox.StripeIntent{Metadata: map[string]string{"order_id": "1001"}})
	if got, _, err := r.a.Recent(t.Context(), 1); err != nil || len(got) != 1 || !got[0].Test {
		t.Errorf("%+v %v", got, err)
	}
}

func TestRecentReadsAFewPagesOnly(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for i := range 230 {
		r.CreateIntent(100, "hkd", sandbox.StripeIntent{Metadata: map[string]string{"n": fmt.Sprint(i)}})
	}
	r.Paths()
	for calls, want := range map[int]struct {
		read int
		more bool
	}{1: {100, true}, 2: {200, true}, 3: {230, false}, 9: {230, false}} {
		got, more, err := r.a.Recent(t.Context(), calls)
		if err != nil || len(got) != want.read || more != want.more || got[0].Labels["n"] != "229" {
			t.Errorf("%d calls: %d payments, more %t, %v", calls, len(got), more, err)
		}
		if paths := r.Paths(); len(paths) != min(calls, 3) || !slices.Contains(paths, "/v1/payment_intents?limit=100") {
			t.Errorf("%d calls: %v", calls, paths)
		}
	}
}

func TestRecentFailsAsEveryCall(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(r *rig){
		"down":      func(r *rig) { r.Down.Store(true) },
		"throttled": func(r *rig) { r.Throttle.Store(true) },
		"denied":    func(r *rig) { r.Deny("/v1/payment_intents", "rak_payment_intent_read") },
	} {
		r := newRig(t)
		spoil(r)
		got, _, err := r.a.Recent(context.Background(), 1)
		out, ok := errors.AsType[*platform.Outage](err)
		if !ok || got != nil || out.Throttled != (name == "throttled") || out.Denied != (name == "denied") {
			t.Errorf("%s: %v %v", name, got, err)
		}
	}
}
