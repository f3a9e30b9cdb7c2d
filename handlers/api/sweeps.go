package api

import (
	"net/http"
	"strconv"
	"time"

	"github.com/gin-gonic/gin"

	"counterfoil/models"
	"counterfoil/web"
)

// sweep is one run of a comparison as programs read it.
type sweep struct {
	ID        string             `json:"id"`
	Kind      string             `json:"kind"`
	Reason    models.SweepReason `json:"reason"`
	By        string             `json:"by"`
	Since     *time.Time         `json:"since"`
	Until     *time.Time         `json:"until"`
	State     models.SweepState  `json:"state"`
	Pages     int                `json:"pages"`
	Seen      int64              `json:"seen"`
	Missed    int64              `json:"missed"`
	Different int64              `json:"different"`
	Failed    int64              `json:"failed"`
	Error     string             `json:"error"`
	StartedAt *time.Time         `json:"started_at"`
	EndedAt   *time.Time         `json:"ended_at"`
}

// Sweeps lists the newest comparisons of a connection.
func (a API) Sweeps(c *gin.Context) error {
	f, err := a.Compares.File(c.Request.Context(), web.Actor(c), c.Param("slug"))
	if err != nil {
		return err
	}
	out := list[sweep]{Items: make([]sweep, len(f.Sweeps))}
	for i, s := range f.Sweeps {
		out.Items[i] = sweep{strconv.FormatInt(s.ID, 10), s.Kind, s.Reason, s.By, instant(s.Since), instant(s.Until), s.State, s.Pages, s.Seen, s.Missed, s.Different,
			s.Failed, s.Error, instant(s.Started), instant(s.Ended)}
	}
	return ok(c, out)
}

// Sweep has a connection compared now; nobody waits for the end.
func (a API) Sweep(c *gin.Context) error {
	ids, err := a.Compares.Ask(c.Request.Context(), web.Actor(c), c.Param("slug"))
	if err != nil {
		return err
	}
	names := make([]string, len(ids))
	for i, id := range ids {
		names[i] = strconv.FormatInt(id, 10)
	}
	c.JSON(http.StatusAccepted, map[string]any{"sweeps": names})
	return nil
}
