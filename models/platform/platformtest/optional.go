package platformtest

import (
	"testing"
	"time"

	"counterfoil/models"
	"counterfoil/models/platform"
)

// signs: what an adapter signs its own verifier takes, as long as the secret is accepted.
func (s suite) signs(t *testing.T) {
	a := s.offline(t, s.f.Secrets[0], s.f.Secrets[1])
	signer, ok := a.(platform.Signer)
	if !ok {
		t.Skip("it signs nothing")
	}
	for i := range s.f.Secrets {
		if m, err := a.Verify(signer.Sign(i, []byte(`{"a":1}`), s.f.Now), s.f.Now); err != nil || m.Secret != i {
			t.Errorf("secret %d: match %+v, error %v", i, m, err)
		}
	}
	refused(t, s.offline(t, s.f.Secrets[0]), signer.Sign(1, []byte("{}"), s.f.Now), s.f.Now, platform.SignatureWrong)
}

// shapes: an object has a shape without values, and one that isn't there has none.
func (s suite) shapes(t *testing.T) {
	server := s.f.Serve(t)
	a, ok := s.make(t, s.config(server.URL)).(platform.Shaper)
	if !ok {
		t.Skip("it shows no shapes")
	}
	shape, absence, err := a.Shape(t.Context(), server.Existing)
	if err != nil || absence != models.Present || len(shape) < 5 {
		t.Fatalf("shape of %d paths, %q, %v", len(shape), absence, err)
	}
	for path, kind := range shape {
		switch kind {
		case "null", "object", "list", "text", "boolean", "number", "mixed":
		default:
			t.Errorf("%s is %q", path, kind)
		}
	}
	if again, _, err := a.Shape(t.Context(), server.Existing); err != nil || len(shape.Changes(again)) > 0 {
		t.Errorf("one object has two shapes: %v %v", shape.Changes(again), err)
	}
	if none, absence, err := a.Shape(t.Context(), server.Missing); none != nil || absence == models.Present || err != nil {
		t.Errorf("a missing object: %v %q %v", none, absence, err)
	}
}

// subscribes: what is missing is made once, what sends elsewhere is mended, and what
// belongs to others stays.
func (s suite) subscribes(t *testing.T) {
	server := s.f.Serve(t)
	a, ok := s.make(t, s.config(server.URL)).(platform.Subscriber)
	if !ok {
		t.Skip("its platform lists no subscriptions")
	}
	ctx, door := t.Context(), "/hooks/hk"
	judge := func(address string) int {
		t.Helper()
		list, err := a.Subscriptions(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return len(platform.JudgeSubscriptions(a.Needed(), list, door, address, ""))
	}
	if n := judge(""); n != len(a.Needed()) || n == 0 {
		t.Errorf("%d of %d topics are missing before anything was registered", n, len(a.Needed()))
	}
	if _, err := a.Register(ctx, "https://other.example/hooks/elsewhere"); err != nil {
		t.Fatal(err)
	}
	first, err := a.Register(ctx, "https://old.example/hooks/hk")
	if err != nil || first.Made == 0 || len(first.IDs) != first.Made || judge("https://old.example/hooks/hk") != 0 {
		t.Fatalf("register: %+v %v", first.Made, err)
	}
	if again, err := a.Register(ctx, "https://old.example/hooks/hk"); err != nil || again.Made+again.Mended > 0 {
		t.Errorf("registering twice made %d and mended %d: %v", again.Made, again.Mended, err)
	}
	if judge("https://new.example/hooks/hk") != len(a.Needed()) {
		t.Error("another address isn't seen")
	}
	moved, err := a.Register(ctx, "https://new.example/hooks/hk")
	if err != nil || moved.Made > 0 || moved.Mended == 0 || judge("https://new.example/hooks/hk") != 0 {
		t.Errorf("mend: %+v %v", moved.Mended, err)
	}
	if err := a.Unregister(ctx, first.IDs[0]); err != nil || judge("") == 0 {
		t.Errorf("unregister: %v", err)
	}
	list, err := a.Subscriptions(ctx)
	others := 0
	for _, sub := range list {
		if sub.Address == "https://other.example/hooks/elsewhere" {
			others++
		}
	}
	if err != nil || others == 0 {
		t.Errorf("somebody else's are gone: %v", err)
	}
}

// leans: lean readings agree with whole ones of the same objects, and say they are lean.
func (s suite) leans(t *testing.T) {
	server := s.f.Serve(t)
	a, ok := s.make(t, s.config(server.URL)).(platform.Leaner)
	if !ok {
		t.Skip("its lists state no lean readings")
	}
	whole, err := a.Fetch(t.Context(), []models.ObjectRef{server.Existing})
	if err != nil {
		t.Fatal(err)
	}
	b, err := a.Changed(t.Context(), platform.Window{Since: server.Since, Until: server.Until, Lean: true, Kind: server.Existing.Kind})
	if err != nil || len(b.Observations) == 0 {
		t.Fatalf("%d readings, %v", len(b.Observations), err)
	}
	for _, o := range b.Observations {
		if !o.Lean || o.Ref == server.Existing && !a.Agrees(whole[o.Ref], o) {
			t.Errorf("lean %v: %+v", o.Lean, o)
		}
		o.Changed = o.Changed.Add(time.Second)
		if a.Agrees(whole[o.Ref], o) {
			t.Error("a later change agrees")
		}
	}
}

// logs: the platform's log lists what it made notifications of, once each.
func (s suite) logs(t *testing.T) {
	server := s.f.Serve(t)
	a, ok := s.make(t, s.config(server.URL)).(platform.Logger)
	if !ok {
		t.Skip("its platform shows no log")
	}
	seen, cursor := map[string]bool{}, ""
	for {
		events, next, err := a.Events(t.Context(), server.Since, server.Until, false, cursor)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range events {
			if e.ID == "" || e.Topic == "" || e.Created.IsZero() || seen[e.ID] {
				t.Errorf("%+v", e)
			}
			seen[e.ID] = true
		}
		if cursor = next; next == "" {
			break
		}
	}
	if len(seen) == 0 {
		t.Error("nothing is logged")
	}
}

// most: a page that is asked to be short is.
func (s suite) most(t *testing.T) {
	server := s.f.Serve(t)
	if _, short := s.make(t, s.config(server.URL)).(platform.Leaner); !short {
		t.Skip("its pages have one size")
	}
	b, err := s.make(t, s.config(server.URL)).Changed(t.Context(), platform.Window{Since: server.Since, Until: server.Until, Most: 1})
	if err != nil || len(b.Refs)+len(b.Observations) != 1 {
		t.Errorf("%d objects, %v", len(b.Refs)+len(b.Observations), err)
	}
}
