// Package static holds the bytes that the browser loads: one stylesheet, one
// script, one sprite of icons. Their addresses carry a hash of their content, so
// that browsers may keep them for ever.
package static

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"net/http"
	"strings"
	"time"

	"github.com/tdewolff/minify/v2"
	mincss "github.com/tdewolff/minify/v2/css"
)

//go:embed app.css
var css []byte

//go:embed app.js
var js []byte

//go:embed icons.svg
var icons []byte

//go:embed icon.svg
var icon []byte

// prefix of every address in this package.
const prefix = "/static/"

type asset struct {
	kind string
	body []byte
	hash string
}

var assets = map[string]asset{
	"app.css":   newAsset("text/css; charset=utf-8", small(css)),
	"app.js":    newAsset("text/javascript; charset=utf-8", js),
	"icons.svg": newAsset("image/svg+xml", icons),
	"icon.svg":  newAsset("image/svg+xml", icon),
}

// small is a stylesheet without what only its readers need.
func small(css []byte) []byte {
	m := minify.New()
	m.AddFunc("text/css", mincss.Minify)
	out, err := m.Bytes("text/css", css)
	if err != nil {
		return css // the browser passes over what it can't read, and so do we
	}
	return out
}

func newAsset(kind string, body []byte) asset {
	sum := sha256.Sum256(body)
	return asset{kind: kind, body: body, hash: hex.EncodeToString(sum[:5])}
}

// URL is the address of a file, with the hash of its content. A name that doesn't
// exist has an address that answers 404.
func URL(name string) string {
	return prefix + assets[name].hash + "/" + name
}

// Handler serves /static/. An address with the right hash may be kept for ever; one
// with another hash, from a page of an older release, gets the present bytes and is
// asked for again.
func Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rest := strings.TrimPrefix(r.URL.Path, prefix)
		hash, name, hashed := strings.Cut(rest, "/")
		if !hashed {
			hash, name = "", rest
		}
		a, ok := assets[name]
		if !ok || r.Method != http.MethodGet && r.Method != http.MethodHead {
			http.NotFound(w, r)
			return
		}
		h := w.Header()
		h.Set("Content-Type", a.kind)
		h.Set("ETag", `"`+a.hash+`"`)
		h.Set("X-Content-Type-Options", "nosniff")
		if hash == a.hash {
			h.Set("Cache-Control", "public, max-age=31536000, immutable")
		} else {
			h.Set("Cache-Control", "no-cache")
		}
		http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(a.body))
	})
}
