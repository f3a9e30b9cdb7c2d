// Package web is what surrounds every handler: the engine with its middleware, the
// one adapter that turns errors into answers, sessions, guards and the server.
package web

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/gorilla/sessions"

	"counterfoil/models"
)

// People tells who is behind a request.
type People interface {
	// Session finds the person behind a browser's random token. An unknown, ended or
	// expired one is unauthenticated.
	Session(ctx context.Context, token string) (models.Actor, error)
	// Token finds whoever an API token acts for; an unknown one is unauthenticated.
	Token(ctx context.Context, token string) (models.Actor, error)
}

// Options are what an engine needs. Log, Now, People and Keys have to be
// given.
type Options struct {
	Log *slog.Logger
	Now func() time.Time
	// Zone in which times are shown; nil: UTC.
	Zone   *time.Location
	People People
	// Keys sign and encrypt cookies: pairs of a 32-byte signing and a 32-byte
	// encryption key, the newest pair first.
	Keys [][]byte
	// Loopback: the server listens on loopback only, so that a cookie may go without TLS.
	Loopback bool
	// Proxies are the addresses or networks whose forwarding headers are believed.
	Proxies []string
	// Demo marks every page as demo data.
	Demo bool
	// Needs counts what the navigation shows of exceptions; nil: nothing.
	Needs Needs
	// Strips fills the strips of every page; nil: none.
	Strips Strips
}

// An Engine routes requests through the middleware of their door. Its doors are
// pages (cross-origin check, session, locale, guard), the API (bearer token, guard),
// hooks (nothing that touches a body) and what is open to everybody.
type Engine struct {
	options Options
	gin     *gin.Engine
	pages   *gin.RouterGroup
	api     *gin.RouterGroup
	cookies *sessions.CookieStore
	proxies []netip.Prefix
}

// cookieAge is how long a signed cookie is read at all; sessions end earlier, in the
// database.
const cookieAge = 24 * time.Hour

// bodyLimit of forms and JSON; webhooks have a limit of their own.
const bodyLimit = 1 << 20

// apiPrefix begins the address of everything that answers JSON.
const apiPrefix = "/api/"

// hookPrefix begins the address of everything that platforms send to.
const hookPrefix = "/hooks/"

// New makes an engine without routes.
func New(o Options) (*Engine, error) {
	gin.SetMode(gin.ReleaseMode)
	e := &Engine{options: o, gin: gin.New(), cookies: sessions.NewCookieStore(o.Keys...)}
	e.cookies.MaxAge(int(cookieAge / time.Second))
	for _, p := range o.Proxies {
		prefix, err := network(p)
		if err != nil {
			return nil, fmt.Errorf("web: trusted proxy %q: %w", p, err)
		}
		e.proxies = append(e.proxies, prefix)
	}
	// Without this call every client's X-Forwarded-For is believed.
	if err := e.gin.SetTrustedProxies(o.Proxies); err != nil {
		return nil, fmt.Errorf("web: trusted proxies: %w", err)
	}
	e.gin.RedirectTrailingSlash = false
	e.gin.RedirectFixedPath = false
	e.gin.HandleMethodNotAllowed = true
	e.gin.Use(e.recover, e.begin, e.log, e.headers)
	e.pages = e.gin.Group("", limitBody, e.sameOrigin, e.session, e.locale)
	e.api = e.gin.Group("", limitBody, e.bearer)
	e.gin.NoRoute(e.session, e.locale, Handle(func(*gin.Context) error {
		return models.Fail(models.NotFound, "error.not_found")
	}))
	e.gin.NoMethod(e.session, e.locale, func(c *gin.Context) {
		e.answer(c, http.StatusMethodNotAllowed, models.Fail(models.NotFound, keyMethod))
	})
	return e, nil
}

func network(s string) (netip.Prefix, error) {
	if !strings.Contains(s, "/") {
		a, err := netip.ParseAddr(s)
		if err != nil {
			return netip.Prefix{}, err
		}
		return netip.PrefixFrom(a, a.BitLen()), nil
	}
	return netip.ParsePrefix(s)
}

// ServeHTTP answers one request.
func (e *Engine) ServeHTTP(w http.ResponseWriter, r *http.Request) { e.gin.ServeHTTP(w, r) }

// Page routes a page or a form. GET routes answer HEAD too.
func (e *Engine) Page(method, path string, needs models.Permission, do HandlerFunc) {
	route(e.pages, method, path, e.guardPage(needs), Handle(do))
}

// API routes JSON for programs.
func (e *Engine) API(method, path string, needs models.Permission, do HandlerFunc) {
	route(e.api, method, path, e.guardAPI(needs), Handle(do))
}

// Open routes what belongs to no session: files, health, figures. Failures are one
// line of text.
func (e *Engine) Open(method, path string, do HandlerFunc) {
	route(e.gin, method, path, func(c *gin.Context) { c.Set(plainKey{}, true) }, Handle(do))
}

// Hooks lets the receiver of notifications mount its routes. Nothing before them
// reads a form or a body: signatures are over the exact bytes.
func (e *Engine) Hooks(mount func(gin.IRouter)) { mount(e.gin) }

func route(r gin.IRouter, method, path string, chain ...gin.HandlerFunc) {
	r.Handle(method, path, chain...)
	if method == http.MethodGet {
		r.Handle(http.MethodHead, path, chain...)
	}
}

// The keys under which a request keeps what the middleware found.
type (
	engineKey  struct{}
	actorKey   struct{}
	requestKey struct{}
	plainKey   struct{}
)

func engineOf(c *gin.Context) *Engine {
	e, _ := c.MustGet(engineKey{}).(*Engine)
	return e
}

// Actor is whoever makes the request; the zero Actor, who may nothing, where nobody
// is signed in.
func Actor(c *gin.Context) models.Actor {
	v, _ := c.Get(actorKey{})
	a, _ := v.(models.Actor)
	return a
}

// Now is the engine's clock.
func Now(c *gin.Context) time.Time { return engineOf(c).options.Now() }

// Zone is the zone in which people read and type times.
func Zone(c *gin.Context) *time.Location {
	if zone := engineOf(c).options.Zone; zone != nil {
		return zone
	}
	return time.UTC
}

// RequestID is the request's short name in logs, headers and error pages.
func RequestID(c *gin.Context) string {
	v, _ := c.Get(requestKey{})
	id, _ := v.(string)
	return id
}

// newRequestID makes ten letters that can be read out: about 50 random bits.
func newRequestID() string { return strings.ToLower(rand.Text()[:10]) }

// Secure tells whether the request came over TLS, our own or a trusted proxy's.
func Secure(c *gin.Context) bool {
	if c.Request.TLS != nil {
		return true
	}
	if !engineOf(c).trusted(c) {
		return false
	}
	protos := strings.Split(strings.Join(c.Request.Header.Values("X-Forwarded-Proto"), ","), ",")
	return strings.EqualFold(strings.TrimSpace(protos[len(protos)-1]), "https")
}

// Direct tells whether the request came from this machine without a proxy between.
func Direct(c *gin.Context) bool {
	for _, h := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Real-Ip", "Via"} {
		if c.Request.Header.Get(h) != "" {
			return false
		}
	}
	a, err := netip.ParseAddr(c.RemoteIP())
	return err == nil && a.Unmap().IsLoopback()
}

func (e *Engine) trusted(c *gin.Context) bool {
	a, err := netip.ParseAddr(c.RemoteIP())
	if err != nil {
		return false
	}
	return slices.ContainsFunc(e.proxies, func(p netip.Prefix) bool { return p.Contains(a.Unmap()) })
}
