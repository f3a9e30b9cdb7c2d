package web

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/a-h/templ"
	"github.com/gin-gonic/gin"

	"counterfoil/models"
	"counterfoil/views"
	"counterfoil/views/locale"
)

// people knows one browser and one program.
type people struct{ down bool }

func (p people) Session(_ context.Context, token string) (models.Actor, error) {
	switch {
	case p.down:
		return models.Actor{}, models.Fail(models.Unavailable, "error.database")
	case token == "wing":
		return models.Actor{StaffID: 7, Role: models.Support, Name: "Wing"}, nil
	}
	return models.Actor{}, models.Fail(models.Unauthenticated, "error.unauthenticated")
}

func (p people) Token(_ context.Context, token string) (models.Actor, error) {
	switch {
	case p.down:
		return models.Actor{}, models.Fail(models.Unavailable, "error.database")
	case token == "cf_program":
		return models.Actor{TokenID: 3, Role: models.Service, Scopes: []models.Scope{models.ScopeRead}}, nil
	}
	return models.Actor{}, models.Fail(models.Unauthenticated, "error.unauthenticated")
}

func newEngine(t testing.TB, change func(*Options)) (*Engine, *bytes.Buffer) {
	t.Helper()
	var log bytes.Buffer
	o := Options{Log: slog.New(slog.NewJSONHandler(&log, nil)), Now: func() time.Time { return time.Date(2026, 11, 30, 14, 0, 0, 0, time.UTC) },
		People: people{}, Keys: [][]byte{bytes.Repeat([]byte("s"), 32), bytes.Repeat([]byte("e"), 32)}, Loopback: true}
	if change != nil {
		change(&o)
	}
	e, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return e, &log
}

func send(e http.Handler, r *http.Request) *http.Response {
	w := httptest.NewRecorder()
	e.ServeHTTP(w, r)
	return w.Result()
}

func text(t testing.TB, res *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestErrorsBecomeAnswers(t *testing.T) {
	t.Parallel()
	secret := errors.New("column \"secret\" does not exist")
	tests := []struct {
		name   string
		err    error
		status int
		code   string
		logged bool
	}{
		{"invalid", &models.Error{Code: models.Invalid, Key: "error.invalid", Fields: map[string]string{"limit": "error.limit"}}, 422, "invalid", false},
		{"unauthenticated", models.Fail(models.Unauthenticated, "error.unauthenticated"), 401, "unauthenticated", false},
		{"forbidden", models.Fail(models.Forbidden, "error.forbidden").Because(secret), 403, "forbidden", false},
		{"not found", models.Fail(models.NotFound, "error.not_found"), 404, "not_found", false},
		{"conflict", models.Fail(models.Conflict, "error.conflict"), 409, "conflict", false},
		{"unavailable", models.Fail(models.Unavailable, "error.database").Because(secret), 503, "unavailable", true},
		{"too slow", errors.Join(secret, context.DeadlineExceeded), 503, "unavailable", true},
		{"unknown", secret, 500, "internal", true},
		{"panic", nil, 500, "internal", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			e, log := newEngine(t, nil)
			do := func(*gin.Context) error {
				if tt.err == nil {
					panic(secret)
				}
				return tt.err
			}
			e.Page(http.MethodGet, "/page", models.Public, do)
			e.API(http.MethodGet, "/api/v1/thing", models.Public, do)
			page := send(e, httptest.NewRequest(http.MethodGet, "/page?q=private", nil))
			id := page.Header.Get("X-Request-Id")
			shown := text(t, page)
			if page.StatusCode != tt.status || !strings.Contains(shown, id) || !strings.Contains(shown, "<!doctype html>") || strings.Contains(shown, "secret") {
				t.Errorf("page: %d %s", page.StatusCode, shown)
			}
			res := send(e, httptest.NewRequest(http.MethodGet, "/api/v1/thing?q=private", nil))
			var got struct {
				Error struct {
					Code, Message string
					Fields        map[string]string
				}
			}
			raw := text(t, res)
			if err := json.Unmarshal([]byte(raw), &got); err != nil || res.StatusCode != tt.status || got.Error.Code != tt.code || got.Error.Message == "" || strings.Contains(raw, "secret") {
				t.Errorf("API: %d %s %v", res.StatusCode, raw, err)
			}
			if got.Error.Fields == nil || (tt.name == "invalid") != (got.Error.Fields["limit"] != "") {
				t.Errorf("fields: %s", raw)
			}
			if (tt.status == 503) != (res.Header.Get("Retry-After") != "") {
				t.Errorf("Retry-After: %q", res.Header.Get("Retry-After"))
			}
			if logged := strings.Contains(log.String(), "request failed"); logged != tt.logged || strings.Contains(log.String(), "private") {
				t.Errorf("log: %s", log)
			}
		})
	}
}

func TestAClientThatLeftIsDropped(t *testing.T) {
	t.Parallel()
	e, log := newEngine(t, nil)
	e.Page(http.MethodGet, "/page", models.Public, func(c *gin.Context) error { return c.Request.Context().Err() })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	res := send(e, httptest.NewRequestWithContext(ctx, http.MethodGet, "/page", nil))
	if b := text(t, res); b != "" || strings.Contains(log.String(), "request failed") {
		t.Errorf("answered %q, logged %s", b, log)
	}
}

func TestHalfAPageIsNeverSent(t *testing.T) {
	t.Parallel()
	e, _ := newEngine(t, nil)
	e.Page(http.MethodGet, "/page", models.Public, func(c *gin.Context) error {
		return Render(c, http.StatusOK, templ.ComponentFunc(func(_ context.Context, w io.Writer) error {
			_, _ = io.WriteString(w, strings.Repeat("half a page ", 1000))
			return errors.New("the other half is missing")
		}))
	})
	res := send(e, httptest.NewRequest(http.MethodGet, "/page", nil))
	if b := text(t, res); res.StatusCode != 500 || strings.Contains(b, "half a page") {
		t.Errorf("%d %.80s", res.StatusCode, b)
	}
}

func TestEveryAnswerIsProtected(t *testing.T) {
	t.Parallel()
	e, log := newEngine(t, nil)
	e.Hooks(func(r gin.IRouter) { r.POST("/hooks/:slug", func(*gin.Context) { panic("in a receiver") }) })
	for _, r := range []*http.Request{
		httptest.NewRequest(http.MethodGet, "/nowhere", nil),
		httptest.NewRequest(http.MethodPost, "/api/v1/nowhere", nil),
		httptest.NewRequest(http.MethodPost, "/hooks/shop", strings.NewReader("body")),
	} {
		res := send(e, r)
		csp := res.Header.Get("Content-Security-Policy")
		if !strings.Contains(csp, "default-src 'self'") || !strings.Contains(csp, "frame-ancestors 'none'") || strings.Contains(csp, "unsafe") ||
			res.Header.Get("X-Content-Type-Options") != "nosniff" || res.Header.Get("Cache-Control") != "no-store" || res.Header.Get("Strict-Transport-Security") != "" ||
			!regexp.MustCompile(`^[a-z2-7]{10}$`).MatchString(res.Header.Get("X-Request-Id")) {
			t.Errorf("%s: %v", r.URL, res.Header)
		}
		if r.URL.Path == "/hooks/shop" && (res.StatusCode != 500 || !strings.Contains(text(t, res), `"result":"refused"`)) {
			t.Errorf("a receiver that panics: %d", res.StatusCode)
		}
	}
	if !strings.Contains(log.String(), "in a receiver") {
		t.Errorf("log: %s", log)
	}
}

func TestNoRoute(t *testing.T) {
	t.Parallel()
	e, _ := newEngine(t, nil)
	e.Page(http.MethodGet, "/page", models.Public, func(c *gin.Context) error { c.String(200, "page"); return nil })
	e.API(http.MethodGet, "/api/v1/thing", models.Public, func(c *gin.Context) error { c.String(200, "thing"); return nil })
	for _, tt := range []struct {
		method, path string
		status       int
		kind         string
	}{
		{http.MethodGet, "/page", 200, "text/plain"},
		{http.MethodHead, "/page", 200, "text/plain"},
		{http.MethodGet, "/page/", 404, "text/html"},
		{http.MethodGet, "/PAGE", 404, "text/html"},
		{http.MethodPost, "/page", 405, "text/html"},
		{http.MethodGet, "/api/v1/other", 404, "application/json"},
		{http.MethodDelete, "/api/v1/thing", 405, "application/json"},
		{http.MethodPost, "/hooks/a/b/c", 404, "application/json"},
	} {
		res := send(e, httptest.NewRequest(tt.method, tt.path, nil))
		if res.StatusCode != tt.status || !strings.HasPrefix(res.Header.Get("Content-Type"), tt.kind) {
			t.Errorf("%s %s: %d %s", tt.method, tt.path, res.StatusCode, res.Header.Get("Content-Type"))
		}
	}
}

func TestHooksKeepTheExactBody(t *testing.T) {
	t.Parallel()
	e, _ := newEngine(t, nil)
	e.Hooks(func(r gin.IRouter) {
		r.POST("/hooks/:slug", func(c *gin.Context) {
			b, err := io.ReadAll(c.Request.Body)
			if err != nil {
				t.Error(err)
			}
			c.Data(200, "text/plain", b)
		})
	})
	for _, kind := range []string{"application/x-www-form-urlencoded", "application/json", "multipart/form-data; boundary=x"} {
		sent := strings.Repeat("a=%20&", 1<<20)
		r := httptest.NewRequest(http.MethodPost, "/hooks/shop", strings.NewReader(sent))
		r.Header.Set("Content-Type", kind)
		r.Header.Set("Sec-Fetch-Site", "cross-site")
		if got := text(t, send(e, r)); got != sent {
			t.Errorf("%s: %d of %d bytes", kind, len(got), len(sent))
		}
	}
}

func TestBodiesOfPagesAreLimited(t *testing.T) {
	t.Parallel()
	e, _ := newEngine(t, nil)
	e.Page(http.MethodPost, "/form", models.Public, func(c *gin.Context) error {
		if _, err := io.ReadAll(c.Request.Body); err != nil {
			return models.Fail(models.Invalid, "error.invalid").Because(err)
		}
		return SeeOther(c, "/page")
	})
	for size, want := range map[int]int{bodyLimit: 303, bodyLimit + 1: 422} {
		if got := send(e, httptest.NewRequest(http.MethodPost, "/form", strings.NewReader(strings.Repeat("x", size)))).StatusCode; got != want {
			t.Errorf("%d bytes: %d", size, got)
		}
	}
}

// browser keeps the cookies that it gets.
type browser struct {
	e       *Engine
	cookies map[string]*http.Cookie
}

func (b *browser) get(path string) *http.Response {
	r := httptest.NewRequest(http.MethodGet, path, nil)
	for _, c := range b.cookies {
		r.AddCookie(c)
	}
	res := send(b.e, r)
	for _, c := range res.Cookies() {
		if c.MaxAge < 0 {
			delete(b.cookies, c.Name)
		} else {
			b.cookies[c.Name] = c
		}
	}
	return res
}

func sessionEngine(t testing.TB, change func(*Options)) *browser {
	e, _ := newEngine(t, change)
	e.Page(http.MethodGet, "/in", models.Public, func(c *gin.Context) error {
		if err := SignIn(c, c.Query("as"), time.Hour); err != nil {
			return err
		}
		Flash(c, "n.orders", "Wing", 3)
		return SeeOther(c, "/page")
	})
	e.Page(http.MethodGet, "/bad", models.Public, func(c *gin.Context) error { FlashBad(c, "nav.orders"); return SeeOther(c, "/page") })
	e.Page(http.MethodGet, "/page", models.OrdersRead, func(c *gin.Context) error {
		p := Page(c, "Orders", "orders")
		said := ""
		if p.Flash != nil {
			said = p.Flash.Text.Key
			if p.Flash.Bad {
				said += "!"
			}
			for _, a := range p.Flash.Text.Args {
				if n, ok := a.(int64); ok {
					said += " " + strings.Repeat("i", int(n))
				}
			}
		}
		c.String(200, "%s|%s|%s|%s|%s", p.Actor.Name, said, p.Query, p.Path, locale.From(c.Request.Context()).Lang())
		return nil
	})
	return &browser{e, map[string]*http.Cookie{}}
}

func TestAFlashIsSaidOnce(t *testing.T) {
	t.Parallel()
	b := sessionEngine(t, nil)
	b.get("/in?as=wing")
	for _, want := range []string{"Wing|n.orders iii|x|/page?q=x|en", "Wing||x|/page?q=x|en"} {
		if got := text(t, b.get("/page?q=x")); got != want {
			t.Errorf("page = %q, want %q", got, want)
		}
	}
	b.get("/bad")
	if got := text(t, b.get("/page")); got != "Wing|nav.orders!||/page|en" {
		t.Errorf("page = %q", got)
	}
}

func TestLanguages(t *testing.T) {
	t.Parallel()
	b := sessionEngine(t, nil)
	b.get("/in?as=wing")
	b.get("/page")
	lang := func(path, accept string) string {
		r := httptest.NewRequest(http.MethodGet, path, nil)
		r.Header.Set("Accept-Language", accept)
		for _, c := range b.cookies {
			r.AddCookie(c)
		}
		s := text(t, send(b.e, r))
		return s[strings.LastIndex(s, "|")+1:]
	}
	for accept, want := range map[string]string{"": "en", "zh-TW,zh;q=0.9,en;q=0.8": "zh-Hant", "zh-HK": "zh-Hant", "en-GB,zh;q=0.5": "en", "fr": "en", "fr,zh-Hant;q=0.3": "zh-Hant", "\xff;;": "en"} {
		if got := lang("/page", accept); got != want {
			t.Errorf("%q: %s, want %s", accept, got, want)
		}
	}
	if got := lang("/page?lang=zh-Hant", "en"); got != "zh-Hant" {
		t.Errorf("chosen: %s", got)
	}
	b.get("/page?lang=zh-Hant")
	if got := lang("/page", "en"); got != "zh-Hant" {
		t.Errorf("remembered: %s", got)
	}
	if got := lang("/page?lang=xx", "en"); got != "zh-Hant" {
		t.Errorf("after an unknown one: %s", got)
	}
}

func TestAnUnknownSessionIsForgottenAndAnUnreadableOneIsNot(t *testing.T) {
	t.Parallel()
	b := sessionEngine(t, nil)
	b.get("/in?as=somebody")
	res := b.get("/page")
	if res.StatusCode != 303 || res.Header.Get("Location") != "/login?next=%2Fpage" || b.cookies[sessionCookie] != nil {
		t.Errorf("%d %q %v", res.StatusCode, res.Header.Get("Location"), b.cookies)
	}
	b = sessionEngine(t, func(o *Options) { o.People = people{down: true} })
	b.get("/in?as=wing")
	if res := b.get("/page"); res.StatusCode != 503 || b.cookies[sessionCookie] == nil {
		t.Errorf("while the database is away: %d %v", res.StatusCode, b.cookies)
	}
}

func TestBearer(t *testing.T) {
	t.Parallel()
	for _, down := range []bool{false, true} {
		e, _ := newEngine(t, func(o *Options) { o.People = people{down} })
		e.API(http.MethodGet, "/api/v1/orders", models.OrdersRead, func(c *gin.Context) error { c.String(200, Actor(c).ID()); return nil })
		e.API(http.MethodPost, "/api/v1/orders", models.OrdersResync, func(c *gin.Context) error { c.String(200, "done"); return nil })
		for _, tt := range []struct {
			method, header string
			want, down     int
		}{
			{http.MethodGet, "", 401, 401},
			{http.MethodGet, "Bearer", 401, 401},
			{http.MethodGet, "Basic cf_program", 401, 401},
			{http.MethodGet, "Bearer cf_other", 401, 503},
			{http.MethodGet, "Bearer cf_program", 200, 503},
			{http.MethodGet, "bearer  cf_program ", 200, 503},
			{http.MethodPost, "Bearer cf_program", 403, 503},
		} {
			r := httptest.NewRequest(tt.method, "/api/v1/orders", nil)
			r.Header.Set("Authorization", tt.header)
			want := tt.want
			if down {
				want = tt.down
			}
			res := send(e, r)
			if res.StatusCode != want || (want == 401) != (res.Header.Get("WWW-Authenticate") == "Bearer") {
				t.Errorf("%s %q, down %t: %d %v, want %d", tt.method, tt.header, down, res.StatusCode, res.Header, want)
			}
		}
	}
}

func TestWhoIsBelieved(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, from string
		header     http.Header
		tls        bool
		secure     bool
		direct     bool
		ip         string
	}{
		{"a stranger", "203.0.113.1:9", nil, false, false, false, "203.0.113.1"},
		{"a stranger who lies", "203.0.113.1:9", http.Header{"X-Forwarded-For": {"127.0.0.1"}, "X-Forwarded-Proto": {"https"}}, false, false, false, "203.0.113.1"},
		{"over TLS", "203.0.113.1:9", nil, true, true, false, "203.0.113.1"},
		{"through our proxy", "198.51.100.7:9", http.Header{"X-Forwarded-For": {"203.0.113.1"}, "X-Forwarded-Proto": {"https"}}, false, true, false, "203.0.113.1"},
		{"through our proxy in the clear", "198.51.100.7:9", http.Header{"X-Forwarded-Proto": {"https, http"}}, false, false, false, "198.51.100.7"},
		{"through our other proxy", "[2001:db8::7]:9", http.Header{"X-Forwarded-Proto": {"https"}}, false, true, false, "2001:db8::7"},
		{"from here", "127.0.0.1:9", nil, false, false, true, "127.0.0.1"},
		{"from here through a proxy", "127.0.0.1:9", http.Header{"Forwarded": {"for=203.0.113.1"}}, false, false, false, "127.0.0.1"},
	}
	for _, tt := range tests {
		e, _ := newEngine(t, func(o *Options) { o.Proxies = []string{"198.51.100.0/24", "2001:db8::7"} })
		e.Open(http.MethodGet, "/who", func(c *gin.Context) error {
			if Secure(c) != tt.secure || Direct(c) != tt.direct || c.ClientIP() != tt.ip {
				t.Errorf("%s: secure %t, direct %t, address %s", tt.name, Secure(c), Direct(c), c.ClientIP())
			}
			return nil
		})
		r := httptest.NewRequest(http.MethodGet, "/who", nil)
		r.RemoteAddr = tt.from
		if tt.tls {
			r.TLS = &tls.ConnectionState{}
		}
		for k, v := range tt.header {
			r.Header[k] = v
		}
		send(e, r)
	}
	if _, err := New(Options{Proxies: []string{"proxy.example"}}); err == nil {
		t.Error("a name was taken as a trusted proxy")
	}
}

func TestStripsThatCantBeReadDontBreakAPage(t *testing.T) {
	t.Parallel()
	for _, fails := range []bool{false, true} {
		e, _ := newEngine(t, func(o *Options) {
			o.Strips = func(context.Context, models.Actor) ([]views.Strip, error) {
				if fails {
					return nil, errors.New("away")
				}
				return []views.Strip{{Connection: "harbour"}}, nil
			}
		})
		e.Page(http.MethodGet, "/in", models.Public, func(c *gin.Context) error { return SignIn(c, "wing", time.Hour) })
		e.Page(http.MethodGet, "/page", models.OrdersRead, func(c *gin.Context) error {
			if got := len(Page(c, "", "").Strips); got == 0 != fails {
				t.Errorf("fails %t: %d strips", fails, got)
			}
			return nil
		})
		b := &browser{e, map[string]*http.Cookie{}}
		b.get("/in")
		if got := b.get("/page").StatusCode; got != 200 {
			t.Errorf("fails %t: %d", fails, got)
		}
	}
}

func TestServeStopsAndLetsRequestsEnd(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	began, finish := make(chan struct{}), make(chan struct{})
	srv := NewServer(ln.Addr().String(), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(began)
		<-finish
		_, _ = io.WriteString(w, "done")
	}))
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- Serve(ctx, srv, ln) }()
	answer := make(chan string, 1)
	go func() {
		res, err := http.Get("http://" + ln.Addr().String())
		if err != nil {
			answer <- err.Error()
			return
		}
		defer res.Body.Close()
		b, _ := io.ReadAll(res.Body)
		answer <- string(b)
	}()
	<-began
	cancel()
	close(finish)
	if got := <-answer; got != "done" {
		t.Errorf("the request under way got %q", got)
	}
	if err := <-served; err != nil {
		t.Errorf("serve: %v", err)
	}
}
