package handlers

import (
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"counterfoil/models"
	"counterfoil/web"
)

func doorHouse(t testing.TB, change func(*web.Options)) house {
	t.Helper()
	h := newHouse(t, change)
	d := Doors{Login: Login{h.staff}}
	pages := d.pages()
	for i, r := range pages {
		if strings.HasPrefix(r.path, "/orders") || strings.HasPrefix(r.path, "/events") {
			reached(pages[i : i+1])
		}
	}
	mount(h.engine, pages, nil, nil)
	h.add(t, "wing@shop.example", models.Support)
	return h
}

func TestSignInLeadsToThePageThatWasAskedFor(t *testing.T) {
	t.Parallel()
	h := doorHouse(t, nil)
	res := h.do(httptest.NewRequest(http.MethodGet, "/orders?payment=paid&q=%231001", nil))
	to := res.Header.Get("Location")
	if res.StatusCode != http.StatusSeeOther || to != "/login?next="+url.QueryEscape("/orders?payment=paid&q=%231001") {
		t.Fatalf("%d %q", res.StatusCode, to)
	}
	res = h.do(httptest.NewRequest(http.MethodGet, to, nil))
	if page := body(t, res); res.StatusCode != http.StatusOK || !strings.Contains(page, `name="next" value="/orders?payment=paid&amp;q=%231001"`) {
		t.Fatalf("%d %s", res.StatusCode, page)
	}
	for next, want := range map[string]string{
		"/orders/7":                 "/orders/7",
		"":                          "/orders",
		"https://elsewhere.example": "/orders",
		"//elsewhere.example":       "/orders",
		`/\elsewhere.example`:       "/orders",
		"/\t/elsewhere.example":     "/orders",
		"/login?next=/orders":       "/orders",
		"orders":                    "/orders",
	} {
		res := h.do(form("/login", url.Values{"email": {"wing@shop.example"}, "password": {password}, "next": {next}, "code": {""}}))
		if got := res.Header.Get("Location"); res.StatusCode != http.StatusSeeOther || got != want {
			t.Errorf("next %q: %d to %q, want %q", next, res.StatusCode, got, want)
		}
	}
}

func TestTheCookie(t *testing.T) {
	t.Parallel()
	https := func(r *http.Request) { r.TLS = &tls.ConnectionState{} }
	forwarded := func(from string) func(*http.Request) {
		return func(r *http.Request) { r.RemoteAddr = from; r.Header.Set("X-Forwarded-Proto", "https") }
	}
	tests := []struct {
		name     string
		loopback bool
		prepare  func(*http.Request)
		status   int
		cookie   string
		secure   bool
	}{
		{"on loopback", true, func(*http.Request) {}, http.StatusSeeOther, "counterfoil", false},
		{"in the clear on a network", false, func(*http.Request) {}, http.StatusForbidden, "", false},
		{"over TLS", false, https, http.StatusSeeOther, "__Host-counterfoil", true},
		{"behind a trusted proxy", false, forwarded("198.51.100.7:9"), http.StatusSeeOther, "__Host-counterfoil", true},
		{"behind a stranger who says https", false, forwarded("203.0.113.1:9"), http.StatusForbidden, "", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			h := doorHouse(t, func(o *web.Options) { o.Loopback, o.Proxies = tt.loopback, []string{"198.51.100.0/24"} })
			r := form("/login", url.Values{"email": {"wing@shop.example"}, "password": {password}})
			tt.prepare(r)
			res := h.do(r)
			if res.StatusCode != tt.status {
				t.Fatalf("%d %s", res.StatusCode, body(t, res))
			}
			if tt.cookie == "" {
				if len(res.Cookies()) != 0 {
					t.Fatalf("cookies %v", res.Cookies())
				}
				return
			}
			c := res.Cookies()[0]
			if c.Name != tt.cookie || !c.HttpOnly || c.Secure != tt.secure || c.SameSite != http.SameSiteLaxMode || c.Path != "/" || c.Domain != "" {
				t.Errorf("cookie %+v", c)
			}
			if hsts := res.Header.Get("Strict-Transport-Security"); (hsts != "") != tt.secure {
				t.Errorf("HSTS %q", hsts)
			}
		})
	}
}

func TestAWrongSignInKeepsWhatWasTypedButThePassword(t *testing.T) {
	t.Parallel()
	h := doorHouse(t, nil)
	for n, want := range []int{422, 422, 422, 422, 422, 429} {
		res := h.do(form("/login", url.Values{"email": {"wing@shop.example"}, "password": {"sesame open now"}, "next": {"/events"}}))
		page := body(t, res)
		if res.StatusCode != want || len(res.Cookies()) != 0 || !strings.Contains(page, `value="wing@shop.example"`) || !strings.Contains(page, `value="/events"`) || strings.Contains(page, "sesame") {
			t.Errorf("try %d: %d %v\n%s", n+1, res.StatusCode, res.Cookies(), page)
		}
	}
}

func TestSignInBeginsAFreshSessionAndSignOutEndsIt(t *testing.T) {
	t.Parallel()
	h := doorHouse(t, nil)
	open := func(cookies []*http.Cookie) int {
		r := httptest.NewRequest(http.MethodGet, "/orders", nil)
		for _, c := range cookies {
			r.AddCookie(c)
		}
		return h.do(r).StatusCode
	}
	first := h.signIn(t, "wing@shop.example")
	if got := open(first); got != passed {
		t.Fatalf("signed in: %d", got)
	}
	r := form("/login", url.Values{"email": {"wing@shop.example"}, "password": {password}})
	for _, c := range first {
		r.AddCookie(c)
	}
	second := h.do(r).Cookies()
	if open(first) != http.StatusSeeOther || open(second) != passed {
		t.Errorf("after signing in again: old %d, new %d", open(first), open(second))
	}
	out := httptest.NewRequest(http.MethodPost, "/logout", nil)
	for _, c := range second {
		out.AddCookie(c)
	}
	res := h.do(out)
	if res.StatusCode != http.StatusSeeOther || res.Header.Get("Location") != "/login" || res.Cookies()[0].MaxAge >= 0 {
		t.Errorf("sign-out: %d %v", res.StatusCode, res.Cookies())
	}
	if got := open(second); got != http.StatusSeeOther {
		t.Errorf("after sign-out the old cookie opens %d", got)
	}
	forged := *second[0]
	forged.Value += "x"
	if got := open([]*http.Cookie{&forged}); got != http.StatusSeeOther {
		t.Errorf("a forged cookie opens %d", got)
	}
}

func TestFormsOfOtherSitesAreRefused(t *testing.T) {
	t.Parallel()
	h := doorHouse(t, nil)
	cookies := h.signIn(t, "wing@shop.example")
	for _, tt := range []struct {
		header, value string
		want          int
	}{
		{"Sec-Fetch-Site", "cross-site", http.StatusForbidden},
		{"Sec-Fetch-Site", "same-site", http.StatusForbidden},
		{"Sec-Fetch-Site", "same-origin", passed},
		{"Origin", "https://elsewhere.example", http.StatusForbidden},
		{"Origin", "http://example.com", passed},
	} {
		r := httptest.NewRequest(http.MethodPost, "/orders/7/resync", nil)
		r.Header.Set(tt.header, tt.value)
		for _, c := range cookies {
			r.AddCookie(c)
		}
		if got := h.do(r).StatusCode; got != tt.want {
			t.Errorf("%s: %s: %d, want %d", tt.header, tt.value, got, tt.want)
		}
	}
}
