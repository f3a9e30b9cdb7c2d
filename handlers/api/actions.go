package api

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/gin-gonic/gin"

	"counterfoil/models"
	"counterfoil/models/actions"
	"counterfoil/web"
)

// Actions lists actions and takes what people and destinations report of them.
type Actions interface {
	List(ctx context.Context, q models.ActionQuery) (models.Page[models.Action], error)
	Settle(ctx context.Context, actor models.Actor, id int64, r actions.Receipt) (models.Action, error)
}

// listedAction is an action as programs read it.
type listedAction struct {
	action
	OrderID   string     `json:"order_id"`
	Shop      string     `json:"shop"`
	Error     string     `json:"error"`
	Receipt   string     `json:"receipt"`
	PlannedAt time.Time  `json:"planned_at"`
	SentAt    *time.Time `json:"sent_at"`
	DoneAt    *time.Time `json:"done_at"`
	Withdrew  *string    `json:"withdrew_id"` // ledger entry
}

func actionJSON(a models.Action) action {
	return action{ID: id(a.ID), Kind: string(a.Kind), Stage: a.Stage, State: string(a.State), Tries: a.Tries, Why: a.Why, Person: a.Person,
		Pieces: a.Pieces, RequestID: maybe(a.Request), ExpiresAt: instant(a.Expires())}
}

// maybe is an id, or null where there is none.
func maybe(n int64) *string {
	if n == 0 {
		return nil
	}
	s := id(n)
	return &s
}

func listedJSON(ctx context.Context, a models.Action) listedAction {
	out := listedAction{action: actionJSON(a), OrderID: id(a.OrderID), Shop: a.Shop, Error: told(ctx, a.Error), Receipt: a.Receipt,
		PlannedAt: a.Planned, SentAt: instant(a.Sent), DoneAt: instant(a.Done)}
	out.Withdrew = maybe(a.Withdrew)
	return out
}

// ListActions lists actions, newest first.
func (a API) ListActions(c *gin.Context) error {
	in := newInput(c)
	q := models.ActionQuery{Shops: web.Actor(c).Shops, State: word(in, "state", models.ActionStates), Kind: word(in, "kind", models.ActionKinds),
		Order: in.id("order"), Cursor: in.text("cursor"), Limit: in.limit()}
	if err := in.err(); err != nil {
		return err
	}
	page, err := a.Actions.List(c.Request.Context(), q)
	if err != nil {
		return err
	}
	out := list[listedAction]{Items: make([]listedAction, len(page.Items)), Next: page.Next}
	for i, x := range page.Items {
		out.Items[i] = listedJSON(c.Request.Context(), x)
	}
	return ok(c, out)
}

// Receipt takes what somebody reports of an action.
func (a API) Receipt(c *gin.Context) error {
	n, err := pathID(c, "error.action_unknown")
	if err != nil {
		return err
	}
	var body struct {
		Outcome string `json:"outcome"` // done (also where it is missing) or failed
		Receipt string `json:"receipt"`
	}
	in := newInput(c)
	if err := c.ShouldBindJSON(&body); err != nil && !errors.Is(err, io.EOF) {
		in.refuse("body", "error.json")
	} else if !storable(body.Receipt) {
		in.refuse("receipt", "error.text")
	}
	if err := in.err(); err != nil {
		return err
	}
	after, err := a.Actions.Settle(c.Request.Context(), web.Actor(c), n, actions.Receipt{Outcome: body.Outcome, Receipt: body.Receipt})
	if err != nil {
		return err
	}
	return ok(c, listedJSON(c.Request.Context(), after))
}

// outline is an order as destinations read it.
type outline struct {
	order
	Objects *struct{} `json:"objects,omitempty"` // takes the place of the order's own
	Ledger  *struct{} `json:"ledger,omitempty"`
	Outcome *struct{} `json:"outcome,omitempty"`
}

// Outline is an order as destinations read it: what this API says of it, without where
// we know it from.
func Outline(f models.OrderFile, now time.Time) any { return outline{order: fileJSON(f, now)} }
