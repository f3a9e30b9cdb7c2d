package api

import (
	"cmp"
	"context"
	"errors"
	"io"
	"time"

	"github.com/gin-gonic/gin"

	"counterfoil/models"
	"counterfoil/models/casework"
	"counterfoil/web"
)

// A Holder pauses and resumes what this console sends.
type Holder interface {
	Hold(ctx context.Context, actor models.Actor, p casework.Pause) (casework.Held, error)
	Release(ctx context.Context, actor models.Actor, scope models.HoldScope, id int64) error
}

func holdsJSON(holds []models.Hold) []hold {
	out := []hold{}
	for _, h := range holds {
		out = append(out, hold{h.Scope, h.Reason, cmp.Or(h.ByName, h.By), h.Since.UTC(), instant(h.Until)})
	}
	return out
}

// held is the answer to a pause: the order, with what a pause came too late for.
type held struct {
	order
	Sending []sending `json:"sending"`
	Manual  []sending `json:"manual"` // taken off the list of work, where somebody may have seen them
}

type sending struct {
	ID    string            `json:"id"`
	Kind  models.ActionKind `json:"kind"`
	Stage string            `json:"stage"`
}

// HoldOrder pauses an order.
func (a API) HoldOrder(c *gin.Context) error {
	file, err := a.orderFile(c)
	if err != nil {
		return err
	}
	var body struct {
		Reason  string `json:"reason"`
		Until   string `json:"until"`
		Resumes bool   `json:"resumes"`
	}
	in := newInput(c)
	var until time.Time
	if err := c.ShouldBindJSON(&body); err != nil && !errors.Is(err, io.EOF) {
		in.refuse("body", "error.json")
	} else if body.Until != "" {
		if until, err = time.Parse(time.RFC3339, body.Until); err != nil {
			in.refuse("until", "error.time")
		}
	}
	if err := in.err(); err != nil {
		return err
	}
	did, err := a.Holds.Hold(c.Request.Context(), web.Actor(c), casework.Pause{Scope: models.HoldOrder, Subject: file.ID, Reason: body.Reason,
		Until: until, Resumes: body.Resumes})
	if err != nil {
		return err
	}
	file, err = a.readOrder(c.Request.Context(), web.Actor(c), file.ID)
	if err != nil {
		return err
	}
	return ok(c, held{fileJSON(file, web.Now(c)), tooLate(did.Sending), tooLate(did.Manual)})
}

func tooLate(actions []models.Action) []sending {
	out := []sending{}
	for _, a := range actions {
		out = append(out, sending{id(a.ID), a.Kind, a.Stage})
	}
	return out
}

// ReleaseOrder resumes an order.
func (a API) ReleaseOrder(c *gin.Context) error {
	file, err := a.orderFile(c)
	if err != nil {
		return err
	}
	if err := a.Holds.Release(c.Request.Context(), web.Actor(c), models.HoldOrder, file.ID); err != nil {
		return err
	}
	file, err = a.readOrder(c.Request.Context(), web.Actor(c), file.ID)
	if err != nil {
		return err
	}
	return ok(c, fileJSON(file, web.Now(c)))
}
