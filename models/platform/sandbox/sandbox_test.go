package sandbox_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"counterfoil/models/platform/sandbox"
)

// A receiver keeps the bodies that come in.
type receiver struct {
	mu     sync.Mutex
	bodies []string
	heads  []http.Header
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	b, _ := io.ReadAll(req.Body)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.bodies = append(r.bodies, string(b))
	r.heads = append(r.heads, req.Header)
	w.WriteHeader(http.StatusAccepted)
}

// outbox is one that sends to a receiver of its own.
func outbox(t *testing.T) (*sandbox.Outbox, *receiver) {
	t.Helper()
	r := &receiver{}
	server := httptest.NewServer(r)
	t.Cleanup(server.Close)
	return &sandbox.Outbox{Switches: &sandbox.Switches{}, URL: server.URL}, r
}

// numbered makes notifications whose bodies are their numbers.
func numbered(n int) []sandbox.Notification {
	var all []sandbox.Notification
	for i := range n {
		all = append(all, sandbox.Notification{Topic: "t", Header: http.Header{"X-N": {strconv.Itoa(i)}}, Body: []byte("body " + strconv.Itoa(i))})
	}
	return all
}

func flush(t *testing.T, o *sandbox.Outbox) []sandbox.Sent {
	t.Helper()
	sent, err := o.Flush(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return sent
}

func TestOutboxSendsWhatItHolds(t *testing.T) {
	t.Parallel()
	o, r := outbox(t)
	o.Put(numbered(2)...)
	o.Put(numbered(1)...)
	sent := flush(t, o)
	if len(sent) != 3 || sent[0].Status != http.StatusAccepted || sent[0].Lost || !slices.Equal(r.bodies, []string{"body 0", "body 1", "body 0"}) {
		t.Errorf("sent %d, received %q", len(sent), r.bodies)
	}
	if r.heads[1].Get("X-N") != "1" {
		t.Error("the header isn't the notification's")
	}
	if again := flush(t, o); len(again) != 0 {
		t.Errorf("%d sent twice", len(again))
	}
	if len(o.Sent()) != 3 {
		t.Errorf("remembers %d", len(o.Sent()))
	}
}

func TestOutboxMisbehaves(t *testing.T) {
	t.Parallel()
	t.Run("duplicate", func(t *testing.T) {
		t.Parallel()
		o, r := outbox(t)
		o.Duplicate.Store(2)
		o.Put(numbered(2)...)
		flush(t, o)
		if !slices.Equal(r.bodies, []string{"body 0", "body 0", "body 0", "body 1", "body 1", "body 1"}) {
			t.Errorf("received %q", r.bodies)
		}
	})
	t.Run("reorder", func(t *testing.T) {
		t.Parallel()
		o, r := outbox(t)
		o.Reorder.Store(true)
		o.Put(numbered(40)...)
		flush(t, o)
		if slices.Equal(r.bodies, bodiesOf(numbered(40))) {
			t.Error("forty stay in order")
		}
		want := bodiesOf(numbered(40))
		slices.Sort(want)
		slices.Sort(r.bodies)
		if !slices.Equal(r.bodies, want) {
			t.Errorf("%d received, want each of forty once", len(r.bodies))
		}
	})
	t.Run("drop", func(t *testing.T) {
		t.Parallel()
		o, r := outbox(t)
		o.Drop.Store(true)
		o.Put(numbered(1)...)
		sent := flush(t, o)
		if len(r.bodies) != 0 || len(sent) != 1 || !sent[0].Lost || sent[0].Status != 0 {
			t.Errorf("received %q, %+v", r.bodies, sent)
		}
	})
	t.Run("forge", func(t *testing.T) {
		t.Parallel()
		o, r := outbox(t)
		o.Forge.Store(true)
		all := numbered(1)
		o.Put(all...)
		flush(t, o)
		if r.bodies[0] == "body 0" || len(r.bodies[0]) != len("body 0") {
			t.Errorf("received %q", r.bodies)
		}
		if string(all[0].Body) != "body 0" {
			t.Error("the notification itself was forged")
		}
	})
	t.Run("nobody answers", func(t *testing.T) {
		t.Parallel()
		o, _ := outbox(t)
		o.URL = "http://127.0.0.1:1/"
		o.Put(numbered(1)...)
		if sent := flush(t, o); len(sent) != 1 || sent[0].Status != 0 || sent[0].Lost {
			t.Errorf("%+v", sent)
		}
	})
	t.Run("delay ends with its context", func(t *testing.T) {
		t.Parallel()
		o, r := outbox(t)
		o.Delay.Store(int64(time.Hour))
		o.Put(numbered(1)...)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := o.Flush(ctx); err == nil || len(r.bodies) != 0 {
			t.Errorf("error %v, received %q", err, r.bodies)
		}
	})
	t.Run("delay passes", func(t *testing.T) {
		t.Parallel()
		o, r := outbox(t)
		o.Delay.Store(1)
		o.Put(numbered(1)...)
		flush(t, o)
		if len(r.bodies) != 1 {
			t.Errorf("received %q", r.bodies)
		}
	})
}

func bodiesOf(all []sandbox.Notification) []string {
	var out []string
	for _, n := range all {
		out = append(out, string(n.Body))
	}
	return out
}

func TestOutboxForgetsOldDeliveries(t *testing.T) {
	t.Parallel()
	o, _ := outbox(t)
	o.Drop.Store(true)
	o.Put(numbered(1100)...)
	flush(t, o)
	kept := o.Sent()
	if len(kept) != 1000 || string(kept[999].Body) != "body 1099" {
		t.Errorf("keeps %d", len(kept))
	}
}

func TestOutboxAtOnce(t *testing.T) {
	t.Parallel()
	o, r := outbox(t)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			o.Put(numbered(5)...)
			if _, err := o.Flush(t.Context()); err != nil {
				t.Error(err)
			}
			o.Sent()
		})
	}
	wg.Wait()
	flush(t, o)
	if len(r.bodies) != 40 {
		t.Errorf("%d received", len(r.bodies))
	}
}

func TestGuard(t *testing.T) {
	t.Parallel()
	answer := func(status int) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) })
	}
	for _, c := range []struct {
		name   string
		turn   func(*sandbox.Switches)
		status int // 0: no answer
	}{
		{"behaves", func(*sandbox.Switches) {}, http.StatusOK},
		{"down", func(s *sandbox.Switches) { s.Down.Store(true) }, http.StatusServiceUnavailable},
		{"dead", func(s *sandbox.Switches) { s.Dead.Store(true) }, 0},
		{"dead and down", func(s *sandbox.Switches) { s.Dead.Store(true); s.Down.Store(true) }, 0},
		{"throttled", func(s *sandbox.Switches) { s.Throttle.Store(true) }, http.StatusTeapot},
		{"slow", func(s *sandbox.Switches) { s.Slow.Store(1) }, http.StatusOK},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := &sandbox.Switches{}
			c.turn(s)
			var calls atomic.Int64
			server := httptest.NewServer(s.Guard(&calls, answer(http.StatusTeapot), answer(http.StatusOK)))
			t.Cleanup(server.Close)
			res, err := http.Post(server.URL, "text/plain", bytes.NewReader(nil))
			status := 0
			if err == nil {
				status = res.StatusCode
				_ = res.Body.Close()
			}
			if status != c.status || calls.Load() < 1 {
				t.Errorf("status %d after %d calls, want %d", status, calls.Load(), c.status)
			}
		})
	}
	t.Run("slow ends with its caller", func(t *testing.T) {
		t.Parallel()
		s := &sandbox.Switches{}
		s.Slow.Store(int64(time.Hour))
		var calls atomic.Int64
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		w := httptest.NewRecorder()
		s.Guard(&calls, answer(1), answer(http.StatusTeapot)).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil).WithContext(ctx))
		if w.Code == http.StatusTeapot {
			t.Error("answered")
		}
	})
}
