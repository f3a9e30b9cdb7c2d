package web

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"github.com/gin-gonic/gin"
)

// recover is the last net, under middleware and under handlers that don't go through
// Handle. The server's own signal to drop a connection passes.
func (e *Engine) recover(c *gin.Context) {
	c.Set(engineKey{}, e)
	defer func() {
		v := recover()
		if v == nil {
			return
		}
		if err, ok := v.(error); ok && errors.Is(err, http.ErrAbortHandler) {
			panic(v)
		}
		e.fail(c, fmt.Errorf("web: panic: %v\n%s", v, debug.Stack()))
	}()
	c.Next()
}

// begin names the request. A name that the client sends isn't taken over: it would
// stand in our log and on our pages.
func (e *Engine) begin(c *gin.Context) {
	id := newRequestID()
	c.Set(requestKey{}, id)
	c.Header("X-Request-Id", id)
	c.Next()
}

// log writes one line per request: its route, never its address, query or body. What
// machines ask all day is logged on the debug level.
func (e *Engine) log(c *gin.Context) {
	start := time.Now()
	c.Next()
	level := slog.LevelInfo
	switch path := c.Request.URL.Path; {
	case c.Writer.Status() >= http.StatusInternalServerError:
		level = slog.LevelWarn
	case strings.HasPrefix(path, hookPrefix), strings.HasPrefix(path, "/static/"), path == "/healthz", path == "/readyz", path == "/metrics":
		level = slog.LevelDebug
	}
	ctx := c.Request.Context()
	if !e.options.Log.Enabled(ctx, level) {
		return
	}
	user := ""
	if actor := Actor(c); actor.Role != "" {
		user = actor.ID()
	}
	e.options.Log.LogAttrs(ctx, level, "request",
		slog.String("request_id", RequestID(c)), slog.String("method", c.Request.Method), slog.String("route", c.FullPath()),
		slog.Int("status", c.Writer.Status()), slog.Duration("took", time.Since(start)), slog.String("user", user))
}

// policy lets pages load and send to this origin only.
const policy = "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'"

func (e *Engine) headers(c *gin.Context) {
	h := c.Writer.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	// Not no-referrer: with it, browsers send "Origin: null" with our own forms.
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	if Secure(c) {
		h.Set("Strict-Transport-Security", "max-age=31536000")
	}
	c.Next()
}

func limitBody(c *gin.Context) {
	c.Request.Body = http.MaxBytesReader(c.Writer, c.Request.Body, bodyLimit)
	c.Next()
}
