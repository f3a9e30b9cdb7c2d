package handlers

import (
	"context"
	"net/http"

	"github.com/gin-gonic/gin"

	"counterfoil/models"
	"counterfoil/static"
	"counterfoil/web"
)

// Machine answers what no person reads: health, figures, the browser's files.
type Machine struct {
	// Ready is nil when the database answers and has the schema that we need.
	Ready func(ctx context.Context) error
	// Figures writes the program's figures as Prometheus text.
	Figures http.Handler
}

func (h Machine) healthz(c *gin.Context) error {
	c.String(http.StatusOK, "ok\n")
	return nil
}

// readyz says no more than yes or no to strangers; why not is in the log.
func (h Machine) readyz(c *gin.Context) error {
	if err := h.Ready(c.Request.Context()); err != nil {
		return models.Fail(models.Unavailable, "error.unavailable").Because(err)
	}
	c.String(http.StatusOK, "ready\n")
	return nil
}

// metrics shows the figures to this machine, and to tokens that may read them.
func (h Machine) metrics(c *gin.Context) error {
	if !web.Direct(c) {
		actor, err := web.Bearer(c)
		if err != nil {
			return err
		}
		if !mayReadFigures(actor) {
			return models.Fail(models.Forbidden, "error.forbidden")
		}
	}
	h.Figures.ServeHTTP(c.Writer, c.Request)
	return nil
}

// mayReadFigures: they are counts over all shops, so a token of some shops may not.
func mayReadFigures(a models.Actor) bool {
	if len(a.Shops) > 0 {
		return false
	}
	for _, s := range a.Scopes {
		if s == models.ScopeMetrics || s == models.ScopeRead {
			return true
		}
	}
	return false
}

func (h Machine) static(c *gin.Context) error {
	static.Handler().ServeHTTP(c.Writer, c.Request)
	return nil
}
