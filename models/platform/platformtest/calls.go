package platformtest

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"counterfoil/models"
	"counterfoil/models/platform"
)

// patience is how long a test waits for what should happen at once.
const patience = 20 * time.Second

// checkObservation checks what holds for every observation.
func checkObservation(t testing.TB, o models.Observation) {
	t.Helper()
	if o.Absence != models.Present && (len(o.Axes) > 0 || o.Amounts != nil || len(o.Parts) > 0) {
		t.Errorf("an absent object states something")
	}
	for axis, st := range o.Axes {
		hasReview := axis == models.Payment || axis == models.Refund
		switch {
		case st.Unclear && hasReview && st.State != models.Review:
			t.Errorf("%s is unclear and not in review but %q", axis, st.State)
		case st.Unclear && !hasReview && st.State != "":
			t.Errorf("%s is unclear and states %q", axis, st.State)
		case !st.Unclear && !axis.Has(st.State):
			t.Errorf("%q is no state of %s", st.State, axis)
		}
	}
	for _, p := range o.Parts {
		if p.State != "" && !p.Axis.Has(p.State) {
			t.Errorf("part: %q is no state of %s", p.State, p.Axis)
		}
		if p.ID == "" || p.Amount != 0 && p.Currency == "" {
			t.Errorf("a part of %s has no id, or an amount without currency", p.Axis)
		}
	}
	if o.Amounts != nil && o.Amounts.Currency == "" {
		t.Errorf("amounts without a currency")
	}
	for _, f := range o.Faults {
		switch f.Kind {
		case models.UnknownStatus, models.SchemaChanged, models.Contradiction:
		default:
			t.Errorf("%q is no kind of fault", f.Kind)
		}
	}
}

// fetch reads one object of a server that answers.
func (s suite) fetch(t *testing.T, ref func(Server) models.ObjectRef) (models.Observation, models.ObjectRef) {
	t.Helper()
	server := s.f.Serve(t)
	want := ref(server)
	got, err := s.make(t, s.config(server.URL)).Fetch(t.Context(), []models.ObjectRef{want})
	if err != nil {
		t.Fatalf("fetch: %v", err)
	}
	o, ok := got[want]
	if !ok || len(got) != 1 {
		t.Fatalf("the answer has %d observations, and none under the reference asked", len(got))
	}
	checkObservation(t, o)
	return o, want
}

func (s suite) fetchExisting(t *testing.T) {
	o, want := s.fetch(t, func(s Server) models.ObjectRef { return s.Existing })
	if o.Absence != models.Present || o.Basis != models.Official || o.Ref != want || len(o.Axes) == 0 {
		t.Errorf("absence %q, basis %q, about %+v, %d axes; want an official reading of %+v", o.Absence, o.Basis, o.Ref, len(o.Axes), want)
	}
	if !o.Read.Equal(s.f.Now) {
		t.Errorf("read at %v by a clock that says %v", o.Read, s.f.Now)
	}
	server := s.f.Serve(t)
	a := s.make(t, s.config(server.URL))
	for axis := range o.Axes {
		if !a.Reads()[axis] {
			t.Errorf("states %s, which Reads doesn't list", axis)
		}
	}
	many := []models.ObjectRef{server.Existing, server.Missing, server.Existing}
	all, err := a.Fetch(t.Context(), many)
	if err != nil {
		t.Fatalf("fetch together: %v", err)
	}
	if len(all) != 2 || all[server.Existing].Digest() != o.Digest() || all[server.Missing].Absence != s.f.Absence {
		t.Errorf("together: %d observations, missing one is %q, or the existing one reads otherwise than alone", len(all), all[server.Missing].Absence)
	}
	if none, err := a.Fetch(t.Context(), nil); err != nil || len(none) != 0 {
		t.Errorf("fetch of nothing: %d observations, %v", len(none), err)
	}
}

func (s suite) fetchMissing(t *testing.T) {
	o, _ := s.fetch(t, func(s Server) models.ObjectRef { return s.Missing })
	if o.Absence != s.f.Absence || o.Basis != models.Official {
		t.Errorf("absence is %q on basis %q, want %q", o.Absence, o.Basis, s.f.Absence)
	}
}

// fetchForeignKind: what can't be asked for is absent, never an error that would
// spoil the rest of a batch.
func (s suite) fetchForeignKind(t *testing.T) {
	o, _ := s.fetch(t, func(server Server) models.ObjectRef {
		return models.ObjectRef{Account: server.Existing.Account, Kind: "no_such_kind", ID: "../x?y#z%00"}
	})
	if o.Absence == models.Present {
		t.Error("an object of no kind is present")
	}
}

// outage runs Fetch, Changed and Check against a platform that can't be asked.
func (s suite) outage(t *testing.T, cfg platform.Config, server Server, fits func(*platform.Outage) bool) {
	t.Helper()
	a := s.make(t, cfg)
	for name, err := range everyCall(t.Context(), a, server) {
		out, ok := errors.AsType[*platform.Outage](err)
		if !ok {
			t.Errorf("%s: want an outage, got %v", name, err)
			continue
		}
		if out.Detail == "" || !fits(out) {
			t.Errorf("%s: throttled %v, denied %v, detail %q", name, out.Throttled, out.Denied, out.Detail)
		}
	}
}

// everyCall makes each call of an adapter once, all at the same time.
func everyCall(ctx context.Context, a platform.Adapter, server Server) map[string]error {
	var mu sync.Mutex
	var wg sync.WaitGroup
	errs := map[string]error{}
	for name, call := range map[string]func() error{
		"Fetch": func() error {
			_, err := a.Fetch(ctx, []models.ObjectRef{server.Existing})
			return err
		},
		"Changed": func() error {
			_, err := a.Changed(ctx, platform.Window{Since: server.Since, Until: server.Until})
			return err
		},
		"Check": func() error {
			_, err := a.Check(ctx)
			return err
		},
	} {
		wg.Go(func() {
			err := call()
			mu.Lock()
			defer mu.Unlock()
			errs[name] = err
		})
	}
	wg.Wait()
	return errs
}

func (s suite) throttled(t *testing.T) {
	server := s.f.Serve(t)
	server.Throttle.Store(true)
	s.outage(t, s.config(server.URL), server, func(o *platform.Outage) bool { return o.Throttled && !o.Denied })
}

func (s suite) down(t *testing.T) {
	server := s.f.Serve(t)
	server.Down.Store(true)
	s.outage(t, s.config(server.URL), server, func(o *platform.Outage) bool { return !o.Throttled && !o.Denied })
}

func (s suite) dead(t *testing.T) {
	server := s.f.Serve(t)
	server.Dead.Store(true)
	s.outage(t, s.config(server.URL), server, func(o *platform.Outage) bool { return !o.Throttled && !o.Denied })
}

func (s suite) denied(t *testing.T) {
	server := s.f.Serve(t)
	s.outage(t, s.f.Wrong(s.config(server.URL)), server, func(o *platform.Outage) bool { return o.Denied })
}

func (s suite) noAccess(t *testing.T) {
	cfg := s.config("http://127.0.0.1:1")
	cfg.APIToken, cfg.ClientID, cfg.ClientSecret, cfg.UserName, cfg.Password = "", "", "", "", ""
	a := s.make(t, cfg)
	if a.HasAPI() || a.Reads() != nil {
		t.Error("access without credentials")
	}
	if _, err := a.Verify(s.f.Genuine(s.f.Secrets[0], s.f.Now), s.f.Now); err != nil {
		t.Errorf("a genuine request was refused: %v", err)
	}
	server := s.f.Serve(t)
	for name, err := range everyCall(t.Context(), a, server) {
		if err == nil {
			t.Errorf("%s works without access", name)
		}
	}
}

// spent is a budget that is used up.
type spent struct{}

func (spent) Spend(context.Context, int) error {
	return &platform.Outage{Throttled: true, Detail: "the calls are used up"}
}

func (s suite) budgetUsedUp(t *testing.T) {
	server := s.f.Serve(t)
	cfg := s.config(server.URL)
	cfg.Budget = spent{}
	s.outage(t, cfg, server, func(o *platform.Outage) bool { return o.Throttled })
}

// answering is a server of the suite's own that answers every call alike.
func answering(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return server.URL
}

func (s suite) redirect(t *testing.T) {
	var followed atomic.Int32
	elsewhere := answering(t, func(http.ResponseWriter, *http.Request) { followed.Add(1) })
	url := answering(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, elsewhere+r.URL.Path, http.StatusTemporaryRedirect)
	})
	for name, err := range everyCall(t.Context(), s.make(t, s.config(url)), s.f.Serve(t)) {
		if err == nil {
			t.Errorf("%s: a redirect isn't an error", name)
		}
	}
	if followed.Load() > 0 {
		t.Error("a redirect was followed, with our token")
	}
}

func (s suite) tooLarge(t *testing.T) {
	chunk := bytes.Repeat([]byte(" "), 1<<20)
	url := answering(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		for range 33 {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	})
	server := s.f.Serve(t)
	if _, err := s.make(t, s.config(url)).Fetch(t.Context(), []models.ObjectRef{server.Existing}); err == nil {
		t.Error("an endless answer isn't an error")
	}
}

// notJSON: a page with status 200, as proxies put up, says nothing of any object.
func (s suite) notJSON(t *testing.T) {
	url := answering(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>Back soon</html>")) })
	for name, err := range everyCall(t.Context(), s.make(t, s.config(url)), s.f.Serve(t)) {
		if err == nil {
			t.Errorf("%s: a page isn't an error", name)
		}
	}
}

func (s suite) cancel(t *testing.T) {
	asked, over := make(chan struct{}, 64), make(chan struct{})
	url := answering(t, func(http.ResponseWriter, *http.Request) {
		asked <- struct{}{}
		<-over
	})
	t.Cleanup(func() { close(over) })
	a, server := s.make(t, s.config(url)), s.f.Serve(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan map[string]error, 1)
	go func() { done <- everyCall(ctx, a, server) }()
	select {
	case <-asked:
	case <-time.After(patience):
		t.Fatal("nobody asked")
	}
	cancel()
	select {
	case errs := <-done:
		for name, err := range errs {
			if err == nil {
				t.Errorf("%s: no error", name)
			}
		}
	case <-time.After(patience / 4):
		t.Fatal("still asking")
	}
}

func (s suite) changed(t *testing.T) {
	server := s.f.Serve(t)
	a := s.make(t, s.config(server.URL))
	found := false
	for _, kind := range a.Kinds() {
		w := platform.Window{Since: server.Since, Until: server.Until, Kind: kind}
		for pages := 0; ; pages++ {
			if pages == 100 {
				t.Fatalf("%s: no end after 100 pages", kind)
			}
			b, err := a.Changed(t.Context(), w)
			if err != nil {
				t.Fatalf("%s: %v", kind, err)
			}
			for _, ref := range b.Refs {
				found = found || ref == server.Existing
			}
			for _, o := range b.Observations {
				checkObservation(t, o)
				found = found || o.Ref == server.Existing
			}
			if b.Next == "" {
				break
			}
			if b.Next == w.Cursor {
				t.Fatalf("%s: a page leads to itself", kind)
			}
			w.Cursor = b.Next
		}
	}
	if !found {
		t.Error("what changed isn't listed")
	}
	if _, err := a.Changed(t.Context(), platform.Window{Since: server.Since, Until: server.Until, Kind: "no_such_kind"}); err == nil {
		t.Error("a kind that can't be listed isn't an error")
	}
}

func (s suite) check(t *testing.T) {
	server := s.f.Serve(t)
	notes, err := s.make(t, s.config(server.URL)).Check(t.Context())
	if err != nil || len(notes) == 0 {
		t.Fatalf("%d notes, error %v", len(notes), err)
	}
	for _, n := range notes {
		if n.Key == "" {
			t.Error("a note without words")
		}
	}
}

// atOnce is for the race detector: everything at the same time on one adapter.
func (s suite) atOnce(t *testing.T) {
	server := s.f.Serve(t)
	a := s.make(t, s.config(server.URL))
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for name, err := range everyCall(t.Context(), a, server) {
				if err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
			got, err := a.Fetch(t.Context(), []models.ObjectRef{server.Existing, server.Missing})
			if err != nil || got[server.Existing].Absence != models.Present {
				t.Errorf("fetch: %v", err)
			}
			r := s.f.Genuine(s.f.Secrets[0], s.f.Now)
			if _, err := a.Verify(r, s.f.Now); err != nil {
				t.Errorf("verify: %v", err)
			}
			a.Parse(r, s.f.Now)
			a.Settings()
			a.Reads()
		})
	}
	wg.Wait()
}
