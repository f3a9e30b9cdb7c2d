package handlers

import (
	"context"
	"errors"
	"net/http"
	"strconv"

	"github.com/gin-gonic/gin"

	"counterfoil/models"
	"counterfoil/models/staff"
	"counterfoil/views"
	"counterfoil/views/locale"
	"counterfoil/web"
)

// A Doorkeeper lets people in and out.
type Doorkeeper interface {
	SignIn(ctx context.Context, a staff.Attempt) (token string, err error)
	SignOut(ctx context.Context, token string) error
}

// Login answers the sign-in page.
type Login struct{ Staff Doorkeeper }

// home is where people start.
const home = "/orders"

// retryAfter, in seconds, is sent with a sign-in that comes after too many failures.
const retryAfter = 15 * 60

func (h Login) page(c *gin.Context) error {
	next := web.LocalPath(c.Query("next"), "")
	if web.Actor(c).StaffID != 0 {
		return web.SeeOther(c, web.LocalPath(next, home))
	}
	if err := web.CookiesAllowed(c); err != nil {
		return h.show(c, http.StatusForbidden, views.LoginModel{Next: next}, err)
	}
	return h.show(c, http.StatusOK, views.LoginModel{Next: next}, nil)
}

func (h Login) signIn(c *gin.Context) error {
	var form struct {
		Email    string `form:"email"`
		Password string `form:"password"`
		Next     string `form:"next"`
	}
	if err := c.ShouldBind(&form); err != nil {
		return models.Fail(models.Invalid, "error.invalid").Because(err)
	}
	m := views.LoginModel{Email: form.Email, Next: web.LocalPath(form.Next, "")}
	if err := web.CookiesAllowed(c); err != nil {
		return h.show(c, http.StatusForbidden, m, err)
	}
	token, err := h.Staff.SignIn(c.Request.Context(), staff.Attempt{
		Email: form.Email, Password: form.Password, Address: c.ClientIP(), Agent: c.Request.UserAgent(),
	})
	switch {
	case err == nil:
	case models.CodeOf(err) == models.Unauthenticated:
		return h.show(c, http.StatusUnprocessableEntity, m, err)
	case models.CodeOf(err) == models.Forbidden:
		c.Header("Retry-After", strconv.Itoa(retryAfter))
		return h.show(c, http.StatusTooManyRequests, m, err)
	default:
		return err
	}
	// A session that this browser had before is over, whosever it was.
	if old := web.SessionToken(c); old != "" {
		if err := h.Staff.SignOut(c.Request.Context(), old); err != nil {
			return err
		}
	}
	if err := web.SignIn(c, token, staff.SessionAge); err != nil {
		return err
	}
	return web.SeeOther(c, web.LocalPath(m.Next, home))
}

// show draws the page again with what was typed, never the password, and what is wrong.
func (h Login) show(c *gin.Context, status int, m views.LoginModel, wrong error) error {
	if shown, ok := errors.AsType[*models.Error](wrong); ok {
		m.Error = locale.Say(shown.Key, shown.Args...)
	}
	return web.Render(c, status, views.Login(web.Page(c, locale.T(c.Request.Context(), "login.title"), ""), m))
}

func (h Login) signOut(c *gin.Context) error {
	if err := h.Staff.SignOut(c.Request.Context(), web.SessionToken(c)); err != nil {
		return err
	}
	web.SignOut(c)
	return web.SeeOther(c, "/login")
}
