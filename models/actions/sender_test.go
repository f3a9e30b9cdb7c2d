package actions

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"counterfoil/models"
)

func TestWhichAddressesArePublic(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]bool{
		"93.184.215.14": true, "1.1.1.1": true, "172.15.255.255": true, "172.32.0.1": true, "100.63.255.255": true, "100.128.0.1": true,
		"2606:4700:4700::1111": true, "2a00:1450:4001::200e": true,
		"127.0.0.1": false, "127.8.8.8": false, "0.0.0.0": false, "0.1.2.3": false, "10.0.0.8": false, "172.16.0.1": false, "172.31.255.255": false,
		"192.168.1.1": false, "169.254.169.254": false, "100.64.0.1": false, "100.127.255.255": false, "192.0.0.1": false, "192.0.2.1": false,
		"198.18.0.1": false, "198.51.100.7": false, "203.0.113.9": false, "224.0.0.1": false, "239.255.255.250": false, "240.0.0.1": false, "255.255.255.255": false,
		"::": false, "::1": false, "fe80::1": false, "fe80::1%eth0": false, "fc00::1": false, "fd12:3456::1": false, "fec0::1": false, "ff02::1": false,
		"::ffff:127.0.0.1": false, "::ffff:8.8.8.8": false, "::127.0.0.1": false, "64:ff9b::7f00:1": false, "64:ff9b:1::a00:1": false,
		"2001:db8::1": false, "2002:7f00:1::1": false, "2001::1": false, "3fff::1": false, "100::1": false,
	} {
		if got := public(netip.MustParseAddr(address)); got != want {
			t.Errorf("%s is public: %t", address, got)
		}
		if got := guard("tcp", net.JoinHostPort(address, "443"), nil) == nil; got != want {
			t.Errorf("%s may be dialled: %t", address, got)
		}
	}
	if guard("tcp", "somewhere:443", nil) == nil || public(netip.Addr{}) {
		t.Error("what isn't an address is let through")
	}
}

func TestHostsThatAnAdminAllows(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]bool{
		"http://warehouse.internal/in": true, "https://WAREHOUSE.internal:8443/in": true, "http://10.0.0.8:81/": true, "http://[::1]:9/": true,
		"http://10.0.0.8:82/": false, "http://10.0.0.9/": false, "http://warehouse.internal.example/": false, "http://example/warehouse.internal": false,
	} {
		u, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		if got := allowed([]string{"warehouse.internal", "10.0.0.8:81", "::1"}, u); got != want {
			t.Errorf("%s is allowed: %t", address, got)
		}
	}
}

// A destination of the tests, on loopback.
type box struct {
	url   string
	calls atomic.Int64
}

func newBox(t testing.TB, answer http.HandlerFunc) *box {
	t.Helper()
	b := &box{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b.calls.Add(1)
		_, _ = io.Copy(io.Discard, r.Body)
		answer(w, r)
	}))
	t.Cleanup(s.Close)
	b.url = s.URL
	return b
}

func (b *box) parcel(change func(*parcel)) parcel {
	p := parcel{key: "7", url: b.url, hosts: []string{"127.0.0.1"}, secret: []byte("s"), body: []byte(`{"action":"7"}`), at: time.Unix(1_700_000_000, 0)}
	if change != nil {
		change(&p)
	}
	return p
}

func TestInnerAddressesAreNotCalled(t *testing.T) {
	t.Parallel()
	b := newBox(t, func(http.ResponseWriter, *http.Request) {})
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(b.url, "http://"))
	for _, address := range []string{b.url, "http://localhost:" + port, "http://[::ffff:127.0.0.1]:" + port, "http://0.0.0.0:" + port, "http://2130706433:" + port, "http://127.1:" + port} {
		a := newSender().post(t.Context(), b.parcel(func(p *parcel) { p.url, p.hosts = address, []string{"other.example"} }))
		if a.done || a.reached || b.calls.Load() != 0 {
			t.Errorf("%s was called: %+v", address, a)
		}
	}
	a := newSender().post(t.Context(), b.parcel(func(p *parcel) { p.hosts = nil }))
	if !a.refused || a.err != "note.address_refused" {
		t.Errorf("told as %+v", a)
	}
	// A connection that one shop may use isn't lent to another.
	s := newSender()
	if a := s.post(t.Context(), b.parcel(nil)); !a.done {
		t.Fatalf("%+v", a)
	}
	if a := s.post(t.Context(), b.parcel(func(p *parcel) { p.hosts = nil })); a.done || b.calls.Load() != 1 {
		t.Errorf("%+v after %d calls", a, b.calls.Load())
	}
}

func TestWhatAnswersMean(t *testing.T) {
	t.Parallel()
	cut := func(w http.ResponseWriter, _ *http.Request) {
		c, _, err := w.(http.Hijacker).Hijack()
		if err == nil {
			c.Close()
		}
	}
	status := func(code int, body string, header ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			for i := 0; i+1 < len(header); i += 2 {
				w.Header().Set(header[i], header[i+1])
			}
			w.WriteHeader(code)
			fmt.Fprint(w, body)
		}
	}
	for name, c := range map[string]struct {
		answer     http.HandlerFunc
		idempotent models.ActionState
		once       models.ActionState
		receipt    string
	}{
		"done":               {status(200, `{"receipt": "SF-1"}`), models.ActionDone, models.ActionDone, "SF-1"},
		"a number":           {status(201, `{"receipt": 12345678901234567890}`), models.ActionDone, models.ActionDone, "12345678901234567890"},
		"no JSON":            {status(202, `thank you`), models.ActionDone, models.ActionDone, ""},
		"nothing":            {status(204, ``), models.ActionDone, models.ActionDone, ""},
		"a long answer":      {status(200, `{"receipt": "`+strings.Repeat("x", 1<<20)+`"}`), models.ActionDone, models.ActionDone, ""},
		"no":                 {status(422, `{"why": "no"}`), models.ActionFailed, models.ActionFailed, ""},
		"see there":          {status(303, ``, "Location", "/done"), models.ActionFailed, models.ActionUnclear, ""},
		"exists already":     {status(409, ``), models.ActionFailed, models.ActionUnclear, ""},
		"elsewhere":          {status(307, ``, "Location", "/elsewhere"), models.ActionFailed, models.ActionFailed, ""},
		"too many":           {status(429, ``), models.ActionWaiting, models.ActionWaiting, ""},
		"a fault":            {status(500, ``), models.ActionSending, models.ActionUnclear, ""},
		"away":               {status(503, ``, "Retry-After", "7"), models.ActionSending, models.ActionUnclear, ""},
		"cut without answer": {cut, models.ActionSending, models.ActionUnclear, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, idempotent := range []bool{true, false} {
				b := newBox(t, c.answer)
				s := newSender()
				a := s.post(t.Context(), b.parcel(func(p *parcel) { p.once = !idempotent }))
				e := ending(a, idempotent, false, 1)
				want := c.once
				if idempotent {
					want = c.idempotent
				}
				if e.State != want || e.Receipt != c.receipt || b.calls.Load() != 1 || len(e.Error) > maxAnswer+100 {
					t.Errorf("idempotent %t: %+v after %d calls, want %s", idempotent, e, b.calls.Load(), want)
				}
				if name == "away" && e.After < 7*time.Second {
					t.Errorf("comes again after %s", e.After)
				}
				if last := ending(a, idempotent, false, maxTries); last.State.Open() {
					t.Errorf("the last try leaves it %s", last.State)
				}
			}
		})
	}
}

// A connection that was used before dies with a call on it: the call isn't made again
// by itself, though it carries an Idempotency-Key.
func TestACallIsMadeOnce(t *testing.T) {
	t.Parallel()
	var nth atomic.Int64
	b := newBox(t, func(w http.ResponseWriter, _ *http.Request) {
		if nth.Add(1) == 1 {
			return
		}
		if c, _, err := w.(http.Hijacker).Hijack(); err == nil {
			c.Close()
		}
	})
	s := newSender()
	if a := s.post(t.Context(), b.parcel(nil)); !a.done {
		t.Fatalf("%+v", a)
	}
	if a := s.post(t.Context(), b.parcel(nil)); a.done || !a.reached || b.calls.Load() != 2 {
		t.Errorf("%+v after %d calls", a, b.calls.Load())
	}
}

func TestWhatNeverLeft(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	free := "http://" + l.Addr().String()
	l.Close()
	for _, address := range []string{free, "http://no-such-host.invalid/"} {
		p := parcel{key: "7", url: address, hosts: []string{"127.0.0.1", "no-such-host.invalid"}, once: true}
		a := newSender().post(t.Context(), p)
		if a.reached || a.refused || ending(a, false, false, 1).State != models.ActionWaiting || ending(a, false, false, maxTries).State != models.ActionFailed {
			t.Errorf("%s: %+v", address, a)
		}
	}
	slow := newBox(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if a := newSender().post(ctx, slow.parcel(nil)); !a.reached || !a.silent || ending(a, false, false, 1).State != models.ActionUnclear {
		t.Errorf("no answer: %+v", a)
	}
}

func TestSignatures(t *testing.T) {
	t.Parallel()
	// The example that the Standard Webhooks libraries test themselves with.
	secret, err := signingBytes("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	if err != nil {
		t.Fatal(err)
	}
	if got := sign(secret, "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", []byte(`{"test": 2432232314}`)); got != "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=" {
		t.Error(got)
	}
	if b, err := signingBytes("plain words"); err != nil || string(b) != "plain words" {
		t.Errorf("%q %v", b, err)
	}
	for _, bad := range []string{"whsec_", "whsec_not base64"} {
		if _, err := signingBytes(bad); err == nil {
			t.Errorf("%q signs", bad)
		}
	}
}

func TestPatience(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		why  string
		a    models.Action
		want time.Duration
	}{
		{"verified", models.Action{Planned: now}, time.Second},
		{"verified", models.Action{Planned: now.Add(-20 * time.Second)}, 5 * time.Second},
		{"no_hold", models.Action{Planned: now.Add(-24 * time.Hour)}, longestWait},
		{"released", models.Action{Planned: now}, toldWait},
		{"not_before", models.Action{Planned: now, NotBefore: now.Add(90 * time.Second)}, 90 * time.Second},
		{"not_before", models.Action{Planned: now, NotBefore: now.Add(24 * time.Hour)}, toldWait},
	} {
		if got := patience(c.a, c.why, now); got != c.want {
			t.Errorf("%s: %s, want %s", c.why, got, c.want)
		}
	}
}

func TestTextThatAColumnCanHold(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{"a\x00b": "a\uFFFDb", "a\xffb": "a\uFFFDb", "出貨指令": "出貨", "short": "short"} {
		if got := storable(in, 8); got != want {
			t.Errorf("%q is kept as %q", in, got)
		}
	}
	if got := headline("422 Unprocessable Entity\nWong Ka Yan"); got != "422 Unprocessable Entity" {
		t.Error(got)
	}
}
