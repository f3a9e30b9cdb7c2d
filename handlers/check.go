package handlers

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"counterfoil/models"
	"counterfoil/models/platform"
	"counterfoil/views"
	"counterfoil/views/locale"
	"counterfoil/web"
)

// A checker tries whether a connection works.
type checker interface {
	File(ctx context.Context, actor models.Actor, slug string) (models.CheckFile, error)
	Check(ctx context.Context, actor models.Actor, slug, version string) error
	AddCanary(ctx context.Context, actor models.Actor, slug, typed string) error
	ChangeCanary(ctx context.Context, actor models.Actor, slug string, id int64, do string) error
}

// A registrar has notifications sent to this console.
type registrar interface {
	File(ctx context.Context, actor models.Actor, slug string) (models.SubscriptionFile, error)
	Register(ctx context.Context, actor models.Actor, slug, base string) (platform.Registered, error)
}

// Checks has the pages on which a connection is checked and its notifications are
// registered.
type Checks struct {
	Checker   checker
	Registrar registrar
	// Base is the console's public address; empty: the one that the browser used.
	Base string
}

func checkPath(slug string) string { return "/connections/" + slug + "/check" }

// lookAgain is how soon a page that waits for a notification is drawn again, and
// brokenOff when a check that hasn't ended never will.
const (
	lookAgain = "5"
	brokenOff = 3 * time.Minute
)

func (h Checks) show(c *gin.Context) error { return h.page(c, http.StatusOK, views.CheckModel{}) }

func (h Checks) page(c *gin.Context, status int, m views.CheckModel) error {
	ctx, actor := c.Request.Context(), web.Actor(c)
	m.Slug, m.Now = c.Param("slug"), web.Now(c)
	f, err := h.Checker.File(ctx, actor, m.Slug)
	if err != nil {
		return err
	}
	if !actor.May(models.ConnectionsCheck) {
		m.Refused = refusedFor(actor, models.ConnectionsCheck)
	}
	m, waits := checkModel(m, f)
	if waits && m.Ref == "" && m.Failed.Empty() {
		c.Header("Refresh", lookAgain)
	}
	return web.Render(c, status, views.Check(web.Page(c, locale.T(ctx, "do.check_connection"), "connections"), m))
}

// checkModel works out the page of a check, and whether it waits for something.
func checkModel(m views.CheckModel, f models.CheckFile) (views.CheckModel, bool) {
	m.Versions = f.Versions
	waits := false
	for _, run := range f.Checks {
		r := views.CheckRun{ConnectionCheck: run, Own: run.By == "console", Broken: run.Ended.IsZero() && m.Now.Sub(run.Started) > brokenOff}
		waits = waits || run.Ended.IsZero() && !r.Broken
		for _, s := range run.Steps {
			said := views.CheckSaid{State: s.State, Text: locale.Say(s.Key, texts(s.Args)...)}
			if s.Do != "" {
				said.Do = locale.Say(s.Do, texts(s.Args)...)
			}
			r.Said = append(r.Said, said)
		}
		m.Checks = append(m.Checks, r)
	}
	for _, k := range f.Canaries {
		m.Items = append(m.Items, views.CanaryModel{Canary: k, Event: "/events/" + strconv.FormatInt(k.CameEvent, 10)})
		waits = waits || !k.Awaiting.IsZero() && k.Came.IsZero() && m.Now.Sub(k.Awaiting) < 15*time.Minute
	}
	return m, waits
}

func texts(args []string) []any {
	out := make([]any, len(args))
	for i, a := range args {
		out[i] = a
	}
	return out
}

// refusedFor says why somebody may not, and who may.
func refusedFor(actor models.Actor, p models.Permission) locale.Text {
	return locale.Say("may.refused.role", locale.Say("role."+string(actor.Role)), roleList(p))
}

func (h Checks) check(c *gin.Context) error {
	version := strings.TrimSpace(c.PostForm("version"))
	err := h.Checker.Check(c.Request.Context(), web.Actor(c), c.Param("slug"), version)
	if e, ok := errors.AsType[*models.Error](err); ok && e.Code == models.Invalid {
		return h.page(c, http.StatusUnprocessableEntity, views.CheckModel{Version: version, Errors: fieldTexts(e)})
	}
	if err != nil {
		return err
	}
	return web.SeeOther(c, checkPath(c.Param("slug")))
}

func fieldTexts(e *models.Error) views.FieldErrors {
	out := views.FieldErrors{}
	for field, key := range e.Fields {
		out[field] = locale.Say(key)
	}
	return out
}

func (h Checks) addCanary(c *gin.Context) error {
	ref := strings.TrimSpace(c.PostForm("ref"))
	err := h.Checker.AddCanary(c.Request.Context(), web.Actor(c), c.Param("slug"), ref)
	if e, ok := errors.AsType[*models.Error](err); ok && e.Code == models.Invalid {
		return h.page(c, http.StatusUnprocessableEntity, views.CheckModel{Ref: ref, Errors: fieldTexts(e)})
	}
	if e, ok := told(err, models.Unavailable); ok {
		return h.page(c, http.StatusServiceUnavailable, views.CheckModel{Ref: ref, Failed: e})
	}
	if err != nil {
		return err
	}
	web.Flash(c, "canaries.added")
	return web.SeeOther(c, checkPath(c.Param("slug"))+"#canaries")
}

func (h Checks) changeCanary(c *gin.Context) error {
	id, err := strconv.ParseInt(c.Param("id"), 10, 64)
	if err != nil {
		return models.Fail(models.NotFound, "error.canary_unknown")
	}
	if err := h.Checker.ChangeCanary(c.Request.Context(), web.Actor(c), c.Param("slug"), id, c.PostForm("do")); err != nil {
		return err
	}
	return web.SeeOther(c, checkPath(c.Param("slug"))+"#canaries")
}

func (h Checks) base(c *gin.Context) string {
	if h.Base != "" {
		return h.Base
	}
	if web.Secure(c) {
		return "https://" + c.Request.Host
	}
	return "http://" + c.Request.Host
}

func (h Checks) notifications(c *gin.Context) error {
	return h.subscriptions(c, http.StatusOK, locale.Text{})
}

func (h Checks) subscriptions(c *gin.Context, status int, failed locale.Text) error {
	ctx, actor, slug := c.Request.Context(), web.Actor(c), c.Param("slug")
	f, err := h.Registrar.File(ctx, actor, slug)
	if err != nil {
		return err
	}
	m := views.SubscriptionsModel{SubscriptionFile: f, Slug: slug, Failed: failed, Target: strings.TrimSuffix(h.base(c), "/") + "/hooks/" + slug}
	if !actor.May(models.ConnectionsNotify) {
		m.Refused = refusedFor(actor, models.ConnectionsNotify)
	}
	return web.Render(c, status, views.Subscriptions(web.Page(c, locale.T(ctx, "subscriptions.title"), "connections"), m))
}

func (h Checks) register(c *gin.Context) error {
	slug := c.Param("slug")
	done, err := h.Registrar.Register(c.Request.Context(), web.Actor(c), slug, h.base(c))
	for code, status := range map[models.Code]int{models.Unavailable: http.StatusServiceUnavailable, models.Invalid: http.StatusUnprocessableEntity, models.Conflict: http.StatusConflict} {
		if e, ok := told(err, code); ok {
			return h.subscriptions(c, status, e)
		}
	}
	if err != nil {
		return err
	}
	web.Flash(c, "subscriptions.done", done.Made, done.Mended)
	return web.SeeOther(c, "/connections/"+slug+"/notifications")
}

// checkOffers lead to a connection's check and to its notifications.
func checkOffers(f models.ConnectionFile) []views.OfferModel {
	list := []views.OfferModel{{Label: locale.Say("do.check_connection"), Icon: "sync", Page: checkPath(f.Slug), Note: locale.Say("may.check.is")}}
	if f.HasAPI {
		list = append(list, views.OfferModel{Label: locale.Say("sweeps.title"), Icon: "sync", Page: sweepsPath(f.Slug), Note: locale.Say("may.compare.is")})
	}
	if f.Platform != models.ReceiptRoller {
		list = append(list, views.OfferModel{Label: locale.Say("subscriptions.title"), Icon: "in", Page: "/connections/" + f.Slug + "/notifications", Note: locale.Say("may.register.is")})
	}
	return list
}
