package handlers

import (
	"context"
	"net/http"
	"strconv"
	"strings"

	"github.com/gin-gonic/gin"

	"counterfoil/models"
	"counterfoil/views"
	"counterfoil/views/locale"
	"counterfoil/web"
)

// A sweeper compares connections with their platforms.
type sweeper interface {
	File(ctx context.Context, actor models.Actor, slug string) (models.SweepFile, error)
	Ask(ctx context.Context, actor models.Actor, slug string) ([]int64, error)
	Stop(ctx context.Context, actor models.Actor, slug string, id int64) error
}

// Sweeps has the page on which a connection is compared.
type Sweeps struct{ Sweeper sweeper }

func sweepsPath(slug string) string { return "/connections/" + slug + "/sweeps" }

func (h Sweeps) show(c *gin.Context) error {
	ctx, actor := c.Request.Context(), web.Actor(c)
	f, err := h.Sweeper.File(ctx, actor, c.Param("slug"))
	if err != nil {
		return err
	}
	m, running := sweepsModel(f, actor)
	if running {
		c.Header("Refresh", lookAgain)
	}
	return web.Render(c, http.StatusOK, views.Sweeps(web.Page(c, locale.T(ctx, "sweeps.title"), "connections"), m))
}

// sweepsModel works out the page of a connection's comparisons, and whether one runs.
func sweepsModel(f models.SweepFile, actor models.Actor) (m views.SweepsModel, running bool) {
	m = views.SweepsModel{SweepFile: f, Span: strings.NewReplacer("h0m0s", "h", "m0s", "m").Replace(f.Every.String())}
	if !actor.May(models.SweepsRun) {
		m.Refused = refusedFor(actor, models.SweepsRun)
	} else if !f.HasAPI {
		m.Refused = locale.Say("error.sweep_no_api")
	}
	for _, s := range f.Sweeps {
		running = running || s.State == models.SweepRunning
	}
	return m, running
}

func (h Sweeps) ask(c *gin.Context) error {
	if _, err := h.Sweeper.Ask(c.Request.Context(), web.Actor(c), c.Param("slug")); err != nil {
		return err
	}
	web.Flash(c, "sweeps.asked")
	return web.SeeOther(c, sweepsPath(c.Param("slug")))
}

func (h Sweeps) stop(c *gin.Context) error {
	id, err := strconv.ParseInt(c.Param("id"), 10, 64)
	if err != nil {
		return models.Fail(models.NotFound, "error.sweep_unknown")
	}
	if err := h.Sweeper.Stop(c.Request.Context(), web.Actor(c), c.Param("slug"), id); err != nil {
		return err
	}
	web.Flash(c, "sweeps.stopped")
	return web.SeeOther(c, sweepsPath(c.Param("slug")))
}
