package api

import (
	"time"

	"github.com/gin-gonic/gin"

	"counterfoil/models"
	"counterfoil/web"
)

// connection is a connection as programs read it, without its secrets.
type connection struct {
	Slug           string          `json:"slug"`
	Platform       models.Platform `json:"platform"`
	Account        string          `json:"account"`
	Shop           string          `json:"shop"`
	API            access          `json:"api"`
	LastSweepAt    *time.Time      `json:"last_sweep_at"`
	Checkpoint     string          `json:"checkpoint"`
	OpenExceptions int64           `json:"open_exceptions"`
	OldestOpenAt   *time.Time      `json:"oldest_open_at"`
}

type access struct {
	State     models.APIState `json:"state"`
	Since     *time.Time      `json:"since"`
	LastError string          `json:"last_error"`
}

// Connections lists the connections of the caller's shops.
func (a API) Connections(c *gin.Context) error {
	files, err := a.Book.Connections(c.Request.Context(), web.Actor(c).Shops)
	if err != nil {
		return err
	}
	out := list[connection]{Items: make([]connection, len(files))}
	for i, f := range files {
		out.Items[i] = connection{f.Slug, f.Platform, f.Account, f.Shop, access{f.API, instant(f.APISince), f.APIError},
			instant(f.LastSweep), f.Checkpoint, f.OpenExc, instant(f.OldestExc)}
	}
	return ok(c, out)
}
