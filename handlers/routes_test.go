package handlers

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"

	"counterfoil/models"
	"counterfoil/models/staff"
	"counterfoil/models/store"
	"counterfoil/models/store/storetest"
	"counterfoil/web"
)

var updateRoutes = flag.Bool("update", false, "write testdata/routes.golden anew")

const password = "a long enough password"

// A house is a console with staff and a real database.
type house struct {
	store  *store.Store
	staff  *staff.Service
	engine *web.Engine
}

func newHouse(t testing.TB, change func(*web.Options)) house {
	t.Helper()
	s, err := store.Open(t.Context(), storetest.New(t), store.Options{AuditKey: []byte("audit")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	people := staff.New(s, []byte("subjects"))
	o := web.Options{Log: slog.New(slog.NewTextHandler(io.Discard, nil)), Now: s.Now, People: people,
		Keys: [][]byte{[]byte(strings.Repeat("s", 32)), []byte(strings.Repeat("e", 32))}, Loopback: true}
	if change != nil {
		change(&o)
	}
	e, err := web.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return house{s, people, e}
}

func (h house) add(t testing.TB, email string, role models.Role) {
	t.Helper()
	if _, err := h.staff.AddAccount(t.Context(), models.Actor{}, staff.NewAccount{Email: email, Name: "Somebody", Role: role, Password: password}); err != nil {
		t.Fatal(err)
	}
}

func (h house) token(t testing.TB, n staff.NewToken) string {
	t.Helper()
	text, _, err := h.staff.AddToken(t.Context(), models.Actor{}, n)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func (h house) do(r *http.Request) *http.Response {
	w := httptest.NewRecorder()
	h.engine.ServeHTTP(w, r)
	return w.Result()
}

func form(path string, values url.Values) *http.Request {
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(values.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return r
}

func body(t testing.TB, res *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// signIn signs a person in and gives their cookies.
func (h house) signIn(t testing.TB, email string) []*http.Cookie {
	t.Helper()
	res := h.do(form("/login", url.Values{"email": {email}, "password": {password}}))
	if res.StatusCode != http.StatusSeeOther || len(res.Cookies()) == 0 {
		t.Fatalf("sign-in: %d %s", res.StatusCode, body(t, res))
	}
	return res.Cookies()
}

func tables(d Doors) []route {
	return append(append(d.pages(), d.programs()...), d.machines()...)
}

func TestTheTableOfRoutes(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	for _, r := range tables(Doors{}) {
		fmt.Fprintf(&b, "%-5s %-36s %s\n", r.method, r.path, r.needs)
	}
	golden := filepath.Join("testdata", "routes.golden")
	if *updateRoutes {
		if err := os.WriteFile(golden, []byte(b.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if b.String() != string(want) {
		t.Errorf("the table of routes changed:\n%s", b.String())
	}
}

func TestARouteWithoutPermissionIsRefused(t *testing.T) {
	t.Parallel()
	defer func() {
		if recover() == nil {
			t.Error("it was mounted")
		}
	}()
	e, err := web.New(web.Options{Keys: [][]byte{make([]byte, 32)}})
	if err != nil {
		t.Fatal(err)
	}
	mount(e, []route{{get, "/open", "", func(*gin.Context) error { return nil }}}, nil, nil)
}

// passed is what a route answers in the test of guards when its handler was reached.
const passed = http.StatusTeapot

func reached(routes []route) []route {
	for i := range routes {
		routes[i].do = func(c *gin.Context) error { c.String(passed, "reached"); return nil }
	}
	return routes
}

// A caller is somebody who tries every route.
type caller struct {
	name   string
	role   models.Role // empty: nobody
	cookie []*http.Cookie
	bearer string
	scopes []models.Scope
}

func TestEveryRoleAgainstEveryRoute(t *testing.T) {
	t.Parallel()
	h := newHouse(t, nil)
	d := Doors{Login: Login{h.staff}}
	h.engine.Page(post, "/sign-in-of-the-test", models.Public, d.Login.signIn)
	mount(h.engine, reached(d.pages()), reached(d.programs()), reached(d.machines()))

	callers := []caller{{name: "nobody"}, {name: "a forged token", bearer: "cf_forged"}}
	for _, role := range models.Roles {
		scoped := func(name, user string, scopes ...models.Scope) {
			name = fmt.Sprintf("%s token %s", role, name)
			in := staff.NewToken{Name: name, User: user, Scopes: scopes}
			callers = append(callers, caller{name: name, role: role, bearer: h.token(t, in), scopes: scopes})
		}
		email := ""
		if role != models.Service {
			email = string(role) + "@shop.example"
			h.add(t, email, role)
			res := h.do(form("/sign-in-of-the-test", url.Values{"email": {email}, "password": {password}}))
			callers = append(callers, caller{name: string(role), role: role, cookie: res.Cookies()})
		}
		scoped("that reads", email, models.ScopeRead)
		scoped("that reads and writes", email, models.ScopeRead, models.ScopeWrite)
		scoped("that resyncs", email, models.ScopeResync)
		scoped("of figures", email, models.ScopeMetrics)
	}
	for _, who := range callers {
		for _, r := range d.pages() {
			check(t, h, who, r, who.cookie != nil, http.StatusSeeOther)
		}
		for _, r := range d.programs() {
			check(t, h, who, r, who.bearer != "" && who.role != "", http.StatusUnauthorized)
		}
		for _, r := range d.machines() {
			check(t, h, who, r, false, 0)
		}
	}
}

// check tries one route as one caller. known tells whether the route's door can
// recognise the caller; nobody is what strangers get there.
func check(t *testing.T, h house, who caller, r route, known bool, nobody int) {
	t.Helper()
	path := strings.NewReplacer(":id", "7", ":slug", "harbour", "*path", "app.css").Replace(r.path)
	req := httptest.NewRequest(r.method, path, nil)
	for _, c := range who.cookie {
		req.AddCookie(c)
	}
	if who.bearer != "" {
		req.Header.Set("Authorization", "Bearer "+who.bearer)
	}
	actor := models.Actor{Role: who.role, Scopes: who.scopes}
	if who.bearer != "" {
		actor.TokenID = 1
	}
	want := nobody
	switch {
	case r.needs == models.Public || known && actor.May(r.needs):
		want = passed
	case known:
		want = http.StatusForbidden
	}
	res := h.do(req)
	if res.StatusCode != want {
		t.Errorf("%s: %s %s = %d, want %d", who.name, r.method, path, res.StatusCode, want)
	}
	if want == http.StatusSeeOther && !strings.HasPrefix(res.Header.Get("Location"), "/login") {
		t.Errorf("%s: %s %s leads to %q", who.name, r.method, path, res.Header.Get("Location"))
	}
}

func TestMachines(t *testing.T) {
	t.Parallel()
	h := newHouse(t, nil)
	ready := errors.New("no schema yet")
	mount(h.engine, nil, nil, Doors{Machine: Machine{
		Ready:   func(context.Context) error { return ready },
		Figures: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "figures 1\n") }),
	}}.machines())
	figures, reads, resyncs := h.token(t, staff.NewToken{Name: "f", Scopes: []models.Scope{models.ScopeMetrics}}), h.token(t, staff.NewToken{Name: "r"}),
		h.token(t, staff.NewToken{Name: "w", Scopes: []models.Scope{models.ScopeResync}})
	tests := []struct {
		name, path, from string
		header           http.Header
		status           int
		says             string
	}{
		{"alive", "/healthz", "192.0.2.1:9", nil, http.StatusOK, "ok"},
		{"not ready says nothing of why", "/readyz", "192.0.2.1:9", nil, http.StatusServiceUnavailable, "503 Service Unavailable"},
		{"figures for this machine", "/metrics", "127.0.0.1:9", nil, http.StatusOK, "figures 1"},
		{"figures for this machine, IPv6", "/metrics", "[::1]:9", nil, http.StatusOK, "figures 1"},
		{"figures through a proxy here", "/metrics", "127.0.0.1:9", http.Header{"X-Forwarded-For": {"192.0.2.1"}}, http.StatusUnauthorized, ""},
		{"figures for strangers", "/metrics", "192.0.2.1:9", nil, http.StatusUnauthorized, ""},
		{"figures for a token of figures", "/metrics", "192.0.2.1:9", http.Header{"Authorization": {"Bearer " + figures}}, http.StatusOK, "figures 1"},
		{"figures for a token that reads", "/metrics", "192.0.2.1:9", http.Header{"Authorization": {"Bearer " + reads}}, http.StatusOK, "figures 1"},
		{"figures for a token that resyncs", "/metrics", "192.0.2.1:9", http.Header{"Authorization": {"Bearer " + resyncs}}, http.StatusForbidden, ""},
		{"a file", "/static/app.css", "192.0.2.1:9", nil, http.StatusOK, ":root"},
		{"a file that isn't there", "/static/../go.mod", "192.0.2.1:9", nil, http.StatusNotFound, ""},
	}
	for _, tt := range tests {
		r := httptest.NewRequest(http.MethodGet, tt.path, nil)
		r.RemoteAddr = tt.from
		for k, v := range tt.header {
			r.Header[k] = v
		}
		res := h.do(r)
		if got := body(t, res); res.StatusCode != tt.status || !strings.Contains(got, tt.says) || strings.Contains(got, "schema") {
			t.Errorf("%s: %d %q", tt.name, res.StatusCode, got)
		}
	}
}
