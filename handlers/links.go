package handlers

import (
	"context"
	"errors"
	"net/http"

	"github.com/gin-gonic/gin"

	"counterfoil/models"
	"counterfoil/views"
	"counterfoil/views/locale"
	"counterfoil/web"
)

// A linkFinder finds out which field of a connection's payments names their orders.
type linkFinder interface {
	Labels(ctx context.Context, actor models.Actor, slug string) (calls int, err error)
	Find(ctx context.Context, actor models.Actor, slug string) (models.LinkFinding, error)
	Use(ctx context.Context, actor models.Actor, slug, field string) error
}

// Links has the page of a connection's link finder.
type Links struct{ Finder linkFinder }

func linksPath(slug string) string { return "/connections/" + slug + "/links" }

// show explains what reading would do.
func (h Links) show(c *gin.Context) error {
	return h.page(c, http.StatusOK, views.LinksModel{})
}

func (h Links) page(c *gin.Context, status int, m views.LinksModel) error {
	ctx, actor := c.Request.Context(), web.Actor(c)
	var err error
	m.Slug = c.Param("slug")
	if m.Calls, err = h.Finder.Labels(ctx, actor, m.Slug); err != nil {
		return err
	}
	if !actor.May(models.ConnectionsEdit) {
		m.Refused = locale.Say("may.refused.role", locale.Say("role."+string(actor.Role)), roleList(models.ConnectionsEdit))
	}
	return web.Render(c, status, views.Links(web.Page(c, locale.T(ctx, "links.title"), "connections"), m))
}

// read asks the platform and shows what its payments say.
func (h Links) read(c *gin.Context) error {
	found, err := h.Finder.Find(c.Request.Context(), web.Actor(c), c.Param("slug"))
	if e, ok := told(err, models.Unavailable); ok {
		return h.page(c, http.StatusServiceUnavailable, views.LinksModel{Failed: e})
	}
	if err != nil {
		return err
	}
	return h.page(c, http.StatusOK, views.LinksModel{Found: &found})
}

// use makes a field the one that links.
func (h Links) use(c *gin.Context) error {
	slug, field := c.Param("slug"), c.PostForm("key")
	err := h.Finder.Use(c.Request.Context(), web.Actor(c), slug, field)
	if e, ok := told(err, models.Invalid); ok {
		return h.page(c, http.StatusUnprocessableEntity, views.LinksModel{Failed: e})
	}
	if err != nil {
		return err
	}
	web.Flash(c, "links.used", field)
	return web.SeeOther(c, linksPath(slug))
}

// told is the sentence of a failure of one kind.
func told(err error, code models.Code) (locale.Text, bool) {
	e, ok := errors.AsType[*models.Error](err)
	if !ok || e.Code != code {
		return locale.Text{}, false
	}
	return locale.Say(e.Key, e.Args...), true
}

// linksOffer leads to the link finder of a connection whose payments have one.
func linksOffer(f models.ConnectionFile, actor models.Actor) (views.OfferModel, bool) {
	o := views.OfferModel{Label: locale.Say("may.find_links"), Icon: "search", Page: linksPath(f.Slug), Note: locale.Say("may.find_links.is")}
	if !actor.May(models.ConnectionsFind) {
		o.Refused = locale.Say("may.refused.role", locale.Say("role."+string(actor.Role)), roleList(models.ConnectionsFind))
	}
	return o, f.Labels
}
