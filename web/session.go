package web

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/gorilla/sessions"

	"counterfoil/models"
	"counterfoil/views/locale"
)

const (
	sessionCookie = "counterfoil"
	flashCookie   = "counterfoil-flash"
	langCookie    = "counterfoil-lang"
	tokenValue    = "t"
	flashValue    = "f"
)

// cookieName binds a cookie that came over TLS to this very host and to TLS.
func cookieName(c *gin.Context, name string) string {
	if Secure(c) {
		return "__Host-" + name
	}
	return name
}

// CookiesAllowed refuses where a cookie would travel in the clear through a network:
// without TLS it is set only by a server that listens on loopback.
func CookiesAllowed(c *gin.Context) error {
	if Secure(c) || engineOf(c).options.Loopback {
		return nil
	}
	return models.Fail(models.Forbidden, "login.needs_tls")
}

// options of every cookie; a negative age removes it.
func cookieOptions(c *gin.Context, age time.Duration) *sessions.Options {
	return &sessions.Options{Path: "/", MaxAge: int(age / time.Second), HttpOnly: true, Secure: Secure(c), SameSite: http.SameSiteLaxMode}
}

// save writes one signed and encrypted value into a cookie.
func (e *Engine) save(c *gin.Context, name, key, value string, age time.Duration) error {
	if err := CookiesAllowed(c); err != nil {
		return err
	}
	s := sessions.NewSession(e.cookies, cookieName(c, name))
	s.Options = cookieOptions(c, age)
	s.Values[key] = value
	if err := e.cookies.Save(c.Request, c.Writer, s); err != nil {
		return fmt.Errorf("web: cookie: %w", err)
	}
	return nil
}

// read gives a cookie's value; one that is missing, forged or of another key is empty.
func (e *Engine) read(c *gin.Context, name, key string) string {
	s, err := e.cookies.New(c.Request, cookieName(c, name))
	if err != nil {
		return ""
	}
	v, _ := s.Values[key].(string)
	return v
}

func drop(c *gin.Context, name string) {
	full := cookieName(c, name)
	http.SetCookie(c.Writer, sessions.NewCookie(full, "", cookieOptions(c, -time.Second)))
}

// SignIn gives the browser the token of its new session. The token is always a fresh
// one, so that a cookie planted before is worth nothing.
func SignIn(c *gin.Context, token string, age time.Duration) error {
	return engineOf(c).save(c, sessionCookie, tokenValue, token, age)
}

// SignOut takes the session's cookie away; ending the session is the caller's part.
func SignOut(c *gin.Context) { drop(c, sessionCookie) }

// SessionToken is the random token in the browser's cookie; empty where there is none.
func SessionToken(c *gin.Context) string {
	return engineOf(c).read(c, sessionCookie, tokenValue)
}

// flashAge is how long a sentence waits for the next page.
const flashAge = time.Minute

type flash struct {
	Key  string `json:"k"`
	Args []any  `json:"a,omitempty"`
	Bad  bool   `json:"b,omitempty"`
}

// Flash says a sentence on the next page that this browser opens: what was just
// done. Its values are words and whole numbers.
func Flash(c *gin.Context, key string, args ...any) { keepFlash(c, flash{Key: key, Args: args}) }

// FlashBad says on the next page what didn't work.
func FlashBad(c *gin.Context, key string, args ...any) {
	keepFlash(c, flash{Key: key, Args: args, Bad: true})
}

func keepFlash(c *gin.Context, f flash) {
	b, err := json.Marshal(f)
	if err != nil {
		return
	}
	// Where no cookie may be set nobody is signed in, so that there is nobody to tell.
	_ = engineOf(c).save(c, flashCookie, flashValue, string(b), flashAge)
}

// told is a flash that was taken from its cookie.
type told struct {
	text locale.Text
	bad  bool
}

// takeFlash reads the waiting sentence and removes it.
func takeFlash(c *gin.Context) told {
	raw := engineOf(c).read(c, flashCookie, flashValue)
	if raw == "" {
		return told{}
	}
	drop(c, flashCookie)
	var f flash
	if err := json.Unmarshal([]byte(raw), &f); err != nil {
		return told{}
	}
	for i, a := range f.Args {
		if n, ok := a.(float64); ok {
			f.Args[i] = int64(n)
		}
	}
	return told{locale.Say(f.Key, f.Args...), f.Bad}
}
