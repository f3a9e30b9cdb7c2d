package web

import (
	"context"
	"log/slog"

	"github.com/gin-gonic/gin"

	"counterfoil/models"
	"counterfoil/views"
)

// Strips asks which platforms of an actor's shops can't be asked now.
type Strips func(ctx context.Context, actor models.Actor) ([]views.Strip, error)

// Needs asks how many exceptions of an actor's shops need people.
type Needs func(ctx context.Context, actor models.Actor) (int, error)

// Page is what every page needs beside its own model: who looks, when, what the last
// request did. title is in the person's language; current names the navigation entry.
func Page(c *gin.Context, title, current string) views.Page {
	o := engineOf(c).options
	p := views.Page{
		Title: title, Current: current, Actor: Actor(c), Now: o.Now(), Zone: o.Zone, Demo: o.Demo,
		Query: c.Query("q"), Path: c.Request.URL.RequestURI(),
	}
	if said := takeFlash(c); !said.text.Empty() {
		p.Flash = &views.Flash{Text: said.text, Bad: said.bad}
	}
	if o.Strips != nil && p.SignedIn() {
		strips, err := o.Strips(c.Request.Context(), p.Actor)
		if err != nil {
			// The page itself may still have an answer; it says what it couldn't read.
			o.Log.LogAttrs(c.Request.Context(), slog.LevelWarn, "strips can't be read",
				slog.String("request_id", RequestID(c)), slog.String("error", err.Error()))
		}
		p.Strips = strips
	}
	if o.Needs != nil && p.SignedIn() && p.May(models.ExceptionsRead) {
		n, err := o.Needs(c.Request.Context(), p.Actor)
		if err != nil {
			o.Log.LogAttrs(c.Request.Context(), slog.LevelWarn, "exceptions can't be counted",
				slog.String("request_id", RequestID(c)), slog.String("error", err.Error()))
		}
		p.Needs = n
	}
	return p
}
