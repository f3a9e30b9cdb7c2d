package handlers

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"counterfoil/models"
	"counterfoil/models/casework"
	"counterfoil/views"
	"counterfoil/views/locale"
	"counterfoil/web"
)

// A holder pauses and resumes what this console sends.
type holder interface {
	Hold(ctx context.Context, actor models.Actor, p casework.Pause) (casework.Held, error)
	Release(ctx context.Context, actor models.Actor, scope models.HoldScope, id int64) error
	Reach(ctx context.Context, actor models.Actor, scope models.HoldScope, id int64) (casework.Reach, error)
}

// Holds has the pages on which people pause and resume shipping.
type Holds struct {
	Book        orderReader
	Connections connectionReader
	Casework    holder
}

// A stop is what a request is about.
type stop struct {
	scope    models.HoldScope
	id       int64
	name     string // as people call it
	path     string // its routes begin so
	back     string // the page that shows it
	platform models.Platform
	held     bool
}

// A finder finds what a request is about, where the person sees it.
type finder func(h Holds, c *gin.Context) (stop, error)

func (h Holds) order(c *gin.Context) (stop, error) {
	id, err := idParam(c)
	if err != nil {
		return stop{}, err
	}
	f, err := h.Book.OrderFile(c.Request.Context(), id)
	if err != nil {
		return stop{}, err
	}
	if !web.Actor(c).Sees(f.ShopID) {
		return stop{}, models.Fail(models.NotFound, "error.not_found")
	}
	path := orderPath(f.ID)
	return stop{scope: models.HoldOrder, id: f.ID, name: orderName(f.Order), path: path, back: path, platform: shipper(f.Order), held: len(ownHolds(f)) > 0}, nil
}

func (h Holds) connection(c *gin.Context) (stop, error) {
	f, err := h.connectionFile(c, func(f models.ConnectionFile) bool { return f.Slug == c.Param("slug") })
	return stop{scope: models.HoldConnection, id: f.ID, name: f.Slug, path: "/connections/" + f.Slug, back: "/connections#" + f.Slug, platform: f.Platform,
		held: holdsScope(f.Holds, models.HoldConnection)}, err
}

func (h Holds) shop(c *gin.Context) (stop, error) {
	f, err := h.connectionFile(c, func(f models.ConnectionFile) bool { return f.Shop == c.Param("slug") })
	return stop{scope: models.HoldShop, id: f.ShopID, name: f.ShopName, path: "/shops/" + f.Shop, back: "/connections#" + f.Slug, platform: f.Platform,
		held: holdsScope(f.Holds, models.HoldShop)}, err
}

func (h Holds) connectionFile(c *gin.Context, is func(models.ConnectionFile) bool) (models.ConnectionFile, error) {
	files, err := h.Connections.Connections(c.Request.Context(), web.Actor(c).Shops)
	if err != nil {
		return models.ConnectionFile{}, err
	}
	i := slices.IndexFunc(files, is)
	if i < 0 {
		return models.ConnectionFile{}, models.Fail(models.NotFound, "error.not_found")
	}
	return files[i], nil
}

// form shows the page on which something is paused.
func (h Holds) form(find finder) web.HandlerFunc {
	return func(c *gin.Context) error {
		s, err := find(h, c)
		if err != nil {
			return err
		}
		if s.held {
			web.FlashBad(c, "hold.already")
			return web.SeeOther(c, s.back)
		}
		return h.show(c, http.StatusOK, s, views.HoldFormModel{})
	}
}

// show draws the page with what was typed and what is wrong with it.
func (h Holds) show(c *gin.Context, status int, s stop, m views.HoldFormModel) error {
	ctx, actor := c.Request.Context(), web.Actor(c)
	reach, err := h.Casework.Reach(ctx, actor, s.scope, s.id)
	if err != nil {
		return err
	}
	now := web.Now(c)
	m.Scope, m.Crumb, m.Back, m.Action, m.Platform = s.scope, s.name, s.back, s.path+"/hold", s.platform
	m.Waits, m.Sending = reach.Waits, reach.Sending
	m.Needs = actor.LongestHold(s.scope) > 0
	m.Resumes = actor.MayRelease(models.Hold{Scope: s.scope, By: actor.ID(), Since: now}, now)
	m.Title, m.Do = locale.Say("may.pause"), locale.Say("may.pause")
	if s.scope != models.HoldOrder {
		m.Title, m.Do = locale.Say("may.pause_all", s.name), locale.Say("may.pause_all", s.name)
	}
	return web.Render(c, status, views.HoldForm(web.Page(c, locale.From(ctx).Text(m.Title), navigationOf(s.scope)), m))
}

func navigationOf(s models.HoldScope) string {
	if s == models.HoldOrder {
		return "orders"
	}
	return "connections"
}

// moments are how browsers write a local time.
var moments = []string{"2006-01-02T15:04", "2006-01-02T15:04:05"}

// typedTime reads a typed time; nothing typed is no time.
func typedTime(typed string, zone *time.Location) (time.Time, bool) {
	if typed == "" {
		return time.Time{}, true
	}
	for _, layout := range moments {
		if t, err := time.ParseInLocation(layout, typed, zone); err == nil {
			return t.UTC(), true
		}
	}
	return time.Time{}, false
}

// hold pauses something.
func (h Holds) hold(find finder) web.HandlerFunc {
	return func(c *gin.Context) error {
		s, err := find(h, c)
		if err != nil {
			return err
		}
		var in struct {
			Reason  string `form:"reason"`
			Until   string `form:"until"`
			Resumes bool   `form:"resumes"`
		}
		if err := c.ShouldBind(&in); err != nil {
			return models.Fail(models.Invalid, "error.invalid").Because(err)
		}
		m := views.HoldFormModel{Reason: in.Reason, Until: in.Until, Chosen: in.Resumes, Errors: views.FieldErrors{}}
		until, ok := typedTime(in.Until, web.Zone(c))
		if !ok {
			m.Errors["until"] = locale.Say("error.hold_time")
			return h.show(c, http.StatusUnprocessableEntity, s, m)
		}
		held, err := h.Casework.Hold(c.Request.Context(), web.Actor(c), casework.Pause{Scope: s.scope, Subject: s.id, Reason: in.Reason, Until: until, Resumes: in.Resumes})
		if wrong, ok := errors.AsType[*models.Error](err); ok && wrong.Code == models.Invalid {
			for field, key := range wrong.Fields {
				m.Errors[field] = locale.Say(key)
			}
			return h.show(c, http.StatusUnprocessableEntity, s, m)
		}
		switch {
		case models.CodeOf(err) == models.Conflict:
			web.FlashBad(c, "hold.already")
		case err != nil:
			return err
		case len(held.Sending) > 0 && len(held.Manual) > 0:
			web.FlashBad(c, "hold.set_both", len(held.Sending), orderNames(held.Sending), len(held.Manual), orderNames(held.Manual))
		case len(held.Manual) > 0:
			web.FlashBad(c, "hold.set_listed", len(held.Manual), orderNames(held.Manual))
		case len(held.Sending) > 0:
			web.FlashBad(c, "hold.set_late", len(held.Sending), orderNames(held.Sending))
		default:
			web.Flash(c, "hold.set")
		}
		return web.SeeOther(c, s.back)
	}
}

// maxNamed is how many orders a sentence names.
const maxNamed = 10

// orderNames names the orders of actions on their way.
func orderNames(sending []models.Action) string {
	var names []string
	for _, a := range sending {
		if !slices.Contains(names, a.OrderName) {
			names = append(names, a.OrderName)
		}
	}
	if len(names) > maxNamed {
		names = append(names[:maxNamed], "…")
	}
	return strings.Join(names, ", ")
}

// release resumes something.
func (h Holds) release(find finder) web.HandlerFunc {
	return func(c *gin.Context) error {
		s, err := find(h, c)
		if err != nil {
			return err
		}
		err = h.Casework.Release(c.Request.Context(), web.Actor(c), s.scope, s.id)
		switch {
		case models.CodeOf(err) == models.Conflict:
			web.FlashBad(c, "hold.none")
		case err != nil:
			return err
		default:
			web.Flash(c, "hold.released")
		}
		return web.SeeOther(c, s.back)
	}
}
