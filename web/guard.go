package web

import (
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/gin-gonic/gin"
	"golang.org/x/text/language"

	"counterfoil/models"
	"counterfoil/views/locale"
)

// sameOrigin refuses forms that another site sends in a signed-in person's name.
func (e *Engine) sameOrigin(c *gin.Context) {
	if err := http.NewCrossOriginProtection().Check(c.Request); err != nil {
		e.fail(c, models.Fail(models.Forbidden, "error.cross_origin").Because(err))
		return
	}
	c.Next()
}

// session finds out who is signed in. A session that can't be looked up now is no
// reason to send its person to sign in again.
func (e *Engine) session(c *gin.Context) {
	if strings.HasPrefix(c.Request.URL.Path, apiPrefix) || strings.HasPrefix(c.Request.URL.Path, hookPrefix) {
		c.Next()
		return
	}
	token := SessionToken(c)
	if token == "" {
		c.Next()
		return
	}
	actor, err := e.options.People.Session(c.Request.Context(), token)
	switch {
	case err == nil:
		c.Set(actorKey{}, actor)
	case models.CodeOf(err) == models.Unauthenticated:
		drop(c, sessionCookie)
	default:
		e.fail(c, models.Fail(models.Unavailable, "error.unavailable").Because(err))
		return
	}
	c.Next()
}

// bearer finds whoever the API token acts for.
func (e *Engine) bearer(c *gin.Context) {
	actor, err := e.fromBearer(c)
	switch {
	case err == nil:
		c.Set(actorKey{}, actor)
	case models.CodeOf(err) != models.Unauthenticated:
		e.fail(c, models.Fail(models.Unavailable, "error.unavailable").Because(err))
		return
	}
	c.Next()
}

func (e *Engine) fromBearer(c *gin.Context) (models.Actor, error) {
	scheme, token, _ := strings.Cut(c.GetHeader("Authorization"), " ")
	token = strings.TrimSpace(token)
	if !strings.EqualFold(scheme, "Bearer") || token == "" {
		return models.Actor{}, models.Fail(models.Unauthenticated, "error.unauthenticated")
	}
	return e.options.People.Token(c.Request.Context(), token)
}

// Bearer is whoever the request's API token acts for, on a route outside the API.
func Bearer(c *gin.Context) (models.Actor, error) { return engineOf(c).fromBearer(c) }

// guardPage lets through whoever has the permission. Nobody is sent to sign in, and
// comes back to the page that was asked for.
func (e *Engine) guardPage(needs models.Permission) gin.HandlerFunc {
	return func(c *gin.Context) {
		actor := Actor(c)
		switch {
		case actor.May(needs):
			c.Next()
		case actor.Role == "":
			to := "/login"
			if c.Request.Method == http.MethodGet && c.Request.URL.Path != "/" {
				to += "?next=" + url.QueryEscape(c.Request.URL.RequestURI())
			}
			c.Redirect(http.StatusSeeOther, to)
			c.Abort()
		default:
			e.fail(c, models.Fail(models.Forbidden, "error.forbidden"))
		}
	}
}

func (e *Engine) guardAPI(needs models.Permission) gin.HandlerFunc {
	return func(c *gin.Context) {
		actor := Actor(c)
		switch {
		case actor.May(needs):
			c.Next()
		case actor.Role == "":
			e.fail(c, models.Fail(models.Unauthenticated, "error.unauthenticated"))
		default:
			e.fail(c, models.Fail(models.Forbidden, "error.token_forbidden"))
		}
	}
}

// LocalPath is next if it is a path of this console, else fallback: nobody is led to
// another site by a link to our sign-in.
func LocalPath(next, fallback string) string {
	if !strings.HasPrefix(next, "/") || strings.HasPrefix(next, "//") || strings.ContainsAny(next, "\\") {
		return fallback
	}
	for _, r := range next {
		if r < ' ' || r == 0x7f {
			return fallback
		}
	}
	u, err := url.Parse(next)
	if err != nil || u.Host != "" || u.Scheme != "" || u.Path == "/login" || u.Path == "/logout" {
		return fallback
	}
	return next
}

// langAge is how long a browser remembers a chosen language.
const langAge = 365 * 24 * time.Hour

var (
	languages = []string{locale.English, locale.Chinese}
	matcher   = language.NewMatcher([]language.Tag{language.English, language.TraditionalChinese})
)

// locale gives the request its printer: the language just chosen (?lang=), the one
// chosen before, the person's own, else the browser's.
func (e *Engine) locale(c *gin.Context) {
	lang := known(c.Query("lang"))
	if lang != "" {
		if CookiesAllowed(c) == nil {
			o := cookieOptions(c, langAge)
			http.SetCookie(c.Writer, &http.Cookie{Name: langCookie, Value: lang, Path: o.Path, MaxAge: o.MaxAge, HttpOnly: true, Secure: o.Secure, SameSite: o.SameSite})
		}
	} else if ck, err := c.Request.Cookie(langCookie); err == nil {
		lang = known(ck.Value)
	}
	if lang == "" {
		lang = known(Actor(c).Locale)
	}
	if lang == "" {
		tags, _, err := language.ParseAcceptLanguage(c.GetHeader("Accept-Language"))
		if err == nil {
			_, i, _ := matcher.Match(tags...)
			lang = languages[i]
		}
	}
	printer := locale.New(lang, e.options.Zone, e.options.Now())
	c.Request = c.Request.WithContext(locale.With(c.Request.Context(), printer))
	c.Next()
}

func known(lang string) string {
	for _, l := range languages {
		if l == lang {
			return l
		}
	}
	return ""
}
