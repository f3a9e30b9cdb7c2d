package static

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
)

func get(t *testing.T, method, path string, header ...string) *http.Response {
	t.Helper()
	r := httptest.NewRequest(method, path, nil)
	if len(header) == 2 {
		r.Header.Set(header[0], header[1])
	}
	w := httptest.NewRecorder()
	Handler().ServeHTTP(w, r)
	return w.Result()
}

func TestFilesAreServedUnderTheirHash(t *testing.T) {
	t.Parallel()
	for name, a := range assets {
		res := get(t, "GET", URL(name))
		if res.StatusCode != 200 || res.Header.Get("Content-Type") != a.kind || !strings.Contains(res.Header.Get("Cache-Control"), "immutable") {
			t.Errorf("%s: %d %v", name, res.StatusCode, res.Header)
		}
	}
}

func TestOtherAddresses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		method, path, cache string
		status              int
	}{
		{"GET", "/static/0000000000/app.css", "no-cache", 200},
		{"GET", "/static/app.css", "no-cache", 200},
		{"HEAD", URL("app.js"), "public, max-age=31536000, immutable", 200},
		{"GET", "/static/nothing.css", "", 404},
		{"GET", "/static/", "", 404},
		{"GET", "/static/../static.go", "", 404},
		{"POST", URL("app.css"), "", 404},
	} {
		res := get(t, c.method, c.path)
		if res.StatusCode != c.status || c.cache != "" && res.Header.Get("Cache-Control") != c.cache {
			t.Errorf("%s %s: %d, %q", c.method, c.path, res.StatusCode, res.Header.Get("Cache-Control"))
		}
	}
	if res := get(t, "GET", "/static/app.css", "If-None-Match", `"`+assets["app.css"].hash+`"`); res.StatusCode != 304 {
		t.Errorf("a known stylesheet is sent again: %d", res.StatusCode)
	}
}

// The pages' policy is default-src 'self': no address elsewhere, no data: picture.
func TestFilesKeepThePolicyAndTheirSize(t *testing.T) {
	t.Parallel()
	for name, limit := range map[string]int{"app.css": 30 << 10, "app.js": 10 << 10} {
		if n := len(assets[name].body); n > limit {
			t.Errorf("%s has %d bytes, at most %d", name, n, limit)
		}
	}
	foreign := regexp.MustCompile(`(?i)url\(|@import|https?://|data:|\beval\(|innerHTML`)
	for _, name := range []string{"app.css", "app.js"} {
		if hit := foreign.Find(assets[name].body); hit != nil {
			t.Errorf("%s has %q", name, hit)
		}
	}
}
