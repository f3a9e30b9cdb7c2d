package web

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/a-h/templ"
	"github.com/gin-gonic/gin"

	"counterfoil/models"
	"counterfoil/views"
	"counterfoil/views/locale"
)

// A HandlerFunc answers a request, or returns the error that Handle answers for it.
type HandlerFunc = func(c *gin.Context) error

// statusGone is what the log says of a request whose client left; nothing is sent.
const statusGone = 499

// headlines of statuses that have none of their own: the sentence below says the rest.
var headlines = map[int]int{
	http.StatusUnauthorized:     http.StatusForbidden,
	http.StatusConflict:         http.StatusUnprocessableEntity,
	http.StatusMethodNotAllowed: http.StatusNotFound,
}

// keyMethod says that a page exists and can't be used so.
const keyMethod = "error.method"

// retryAfter, in seconds, is sent with every 503.
const retryAfter = "5"

var statuses = map[models.Code]int{
	models.Invalid:         http.StatusUnprocessableEntity,
	models.Unauthenticated: http.StatusUnauthorized,
	models.Forbidden:       http.StatusForbidden,
	models.NotFound:        http.StatusNotFound,
	models.Conflict:        http.StatusConflict,
	models.Unavailable:     http.StatusServiceUnavailable,
	models.Internal:        http.StatusInternalServerError,
}

// Handle is the one place where an error becomes an answer: the status of its code,
// and a page or JSON that shows the sentence of its key. What went wrong inside is
// logged for 5xx and shown to nobody.
func Handle(do HandlerFunc) gin.HandlerFunc {
	return func(c *gin.Context) {
		if err := safely(do, c); err != nil {
			engineOf(c).fail(c, err)
		}
	}
}

// safely turns a panic into an error with its stack.
func safely(do HandlerFunc, c *gin.Context) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("web: panic: %v\n%s", v, debug.Stack())
		}
	}()
	return do(c)
}

func (e *Engine) fail(c *gin.Context, err error) {
	c.Abort()
	if c.Request.Context().Err() != nil && errors.Is(err, context.Canceled) {
		c.Status(statusGone)
		return
	}
	code := models.CodeOf(err)
	if code == models.Internal && errors.Is(err, context.DeadlineExceeded) {
		code = models.Unavailable
	}
	status := statuses[code]
	if status >= http.StatusInternalServerError {
		e.options.Log.LogAttrs(c.Request.Context(), slog.LevelError, "request failed",
			slog.String("request_id", RequestID(c)), slog.String("method", c.Request.Method),
			slog.String("route", c.FullPath()), slog.Int("status", status), slog.String("error", err.Error()))
	}
	if c.Writer.Written() {
		return
	}
	shown, ok := errors.AsType[*models.Error](err)
	if !ok || shown.Code != code {
		shown = models.Fail(code, "error."+string(code))
	}
	e.answer(c, status, shown)
}

// answer shows a failure in the form that the caller reads.
func (e *Engine) answer(c *gin.Context, status int, shown *models.Error) {
	if status == http.StatusServiceUnavailable {
		c.Header("Retry-After", retryAfter)
	}
	if strings.HasPrefix(c.Request.URL.Path, hookPrefix) {
		c.JSON(status, gin.H{"result": "refused", "request": RequestID(c)})
		return
	}
	if status == http.StatusUnauthorized {
		c.Header("WWW-Authenticate", "Bearer")
	}
	if strings.HasPrefix(c.Request.URL.Path, apiPrefix) {
		c.JSON(status, gin.H{"error": errorJSON(c.Request.Context(), shown)})
		return
	}
	if !c.GetBool(plainKey{}) && safely(func(c *gin.Context) error { return Render(c, status, faultPage(c, status, shown)) }, c) == nil {
		return
	}
	c.String(status, "%d %s\n%s\n", status, http.StatusText(status), RequestID(c))
}

// faultPage is a failure in the console's look. The general sentences are the page's own.
func faultPage(c *gin.Context, status int, shown *models.Error) templ.Component {
	if near, ok := headlines[status]; ok {
		status = near
	}
	m := views.ErrorModel{Status: status, Request: RequestID(c)}
	if shown.Key != "error."+string(shown.Code) && shown.Key != keyMethod {
		m.Text = locale.Say(shown.Key, shown.Args...)
	}
	return views.Error(Page(c, locale.T(c.Request.Context(), "problem."+strconv.Itoa(status)), ""), m)
}

type apiError struct {
	Code    models.Code       `json:"code"`
	Message string            `json:"message"`
	Fields  map[string]string `json:"fields"`
}

func errorJSON(ctx context.Context, shown *models.Error) apiError {
	out := apiError{Code: shown.Code, Message: locale.T(ctx, shown.Key, shown.Args...), Fields: map[string]string{}}
	for field, key := range shown.Fields {
		out.Fields[field] = locale.T(ctx, key)
	}
	return out
}

// Render answers with a page. It is drawn whole before the first byte is sent, so
// that a failure half-way can still be answered as one.
func Render(c *gin.Context, status int, page templ.Component) error {
	var b bytes.Buffer
	if err := page.Render(c.Request.Context(), &b); err != nil {
		return fmt.Errorf("web: render %s: %w", c.FullPath(), err)
	}
	c.Data(status, "text/html; charset=utf-8", b.Bytes())
	return nil
}

// SeeOther sends the browser to a page of ours with GET.
func SeeOther(c *gin.Context, url string) error {
	c.Redirect(http.StatusSeeOther, url)
	return nil
}
