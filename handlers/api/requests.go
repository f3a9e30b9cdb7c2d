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

// Requests has what one person asks for and another one decides.
type Requests interface {
	List(ctx context.Context, q models.RequestQuery) (models.Page[models.Request], error)
	Find(ctx context.Context, actor models.Actor, id int64) (models.Request, error)
	Propose(ctx context.Context, actor models.Actor, a casework.Ask) (models.Request, error)
	Decide(ctx context.Context, actor models.Actor, id int64, yes bool, note string) (models.Request, error)
	Withdraw(ctx context.Context, actor models.Actor, id int64) error
	Retry(ctx context.Context, actor models.Actor, action int64, reason string) (models.Action, error)
	ProposeCase(ctx context.Context, actor models.Actor, id, version int64, how, reason string) (models.Request, error)
}

// request is a request as programs read it.
type request struct {
	ID         string              `json:"id"`
	Kind       models.RequestKind  `json:"kind"`
	State      models.RequestState `json:"state"`
	Shop       string              `json:"shop"`
	OrderID    *string             `json:"order_id"`
	ActionID   *string             `json:"action_id"`    // what is released, sent again or replaced
	CaseID     *string             `json:"exception_id"` // what is accepted or dismissed
	Code       string              `json:"code"`
	Reason     string              `json:"reason"`
	ProposedBy string              `json:"proposed_by"`
	ProposedAt time.Time           `json:"proposed_at"`
	ExpiresAt  time.Time           `json:"expires_at"`
	Needs      int                 `json:"needs"` // approvals
	Approvals  []approval          `json:"approvals"`
	DecidedBy  string              `json:"decided_by"`
	DecidedAt  *time.Time          `json:"decided_at"`
	Note       string              `json:"note"`
	MadeID     *string             `json:"made_id"` // the action that came of it
}

type approval struct {
	By string    `json:"by"`
	At time.Time `json:"at"`
}

func requestJSON(q models.Request) request {
	out := request{ID: id(q.ID), Kind: q.Kind, State: q.State, Shop: q.Shop, OrderID: maybe(q.OrderID), ActionID: maybe(q.ActionID), CaseID: maybe(q.Exception), Code: string(q.Code),
		Reason: q.Reason, ProposedBy: cmp.Or(q.ByName, q.By), ProposedAt: q.At, ExpiresAt: q.Expires, Needs: q.Needs, Approvals: []approval{},
		DecidedBy: cmp.Or(q.Decider, q.DecidedBy), DecidedAt: instant(q.Decided), Note: q.Note, MadeID: maybe(q.Made)}
	for _, yes := range q.Approvals {
		out.Approvals = append(out.Approvals, approval{cmp.Or(yes.Name, yes.By), yes.At})
	}
	return out
}

// ListRequests lists requests, newest first.
func (a API) ListRequests(c *gin.Context) error {
	in := newInput(c)
	q := models.RequestQuery{Shops: web.Actor(c).Shops, State: word(in, "state", models.RequestStates), Kind: word(in, "kind", models.RequestKinds),
		Order: in.id("order"), Action: in.id("action"), Cursor: in.text("cursor"), Limit: in.limit()}
	if err := in.err(); err != nil {
		return err
	}
	page, err := a.Requests.List(c.Request.Context(), q)
	if err != nil {
		return err
	}
	out := list[request]{Items: make([]request, len(page.Items)), Next: page.Next}
	for i, x := range page.Items {
		out.Items[i] = requestJSON(x)
	}
	return ok(c, out)
}

// words are what people say when they ask or decide.
type words struct {
	Reason string `json:"reason"`
	Code   string `json:"code"`
	Note   string `json:"note"`
}

func said(c *gin.Context) (words, error) {
	var body words
	in := newInput(c)
	if err := c.ShouldBindJSON(&body); err != nil && !errors.Is(err, io.EOF) {
		in.refuse("body", "error.json")
	}
	return body, in.err()
}

func (a API) propose(c *gin.Context, unknown string, ask casework.Ask) error {
	n, err := pathID(c, unknown)
	if err != nil {
		return err
	}
	body, err := said(c)
	if err != nil {
		return err
	}
	if ask.Reason, ask.Code = body.Reason, models.ReasonCode(body.Code); ask.Kind == models.RequestReplacement {
		ask.Order = n
	} else {
		ask.Action = n
	}
	q, err := a.Requests.Propose(c.Request.Context(), web.Actor(c), ask)
	if err != nil {
		return err
	}
	return made(c, requestJSON(q))
}

// ReleaseAction asks for the release of an action that waits for people.
func (a API) ReleaseAction(c *gin.Context) error {
	return a.propose(c, "error.action_unknown", casework.Ask{Kind: models.RequestRelease})
}

// RepeatAction asks for a message once more.
func (a API) RepeatAction(c *gin.Context) error {
	return a.propose(c, "error.action_unknown", casework.Ask{Kind: models.RequestAgain})
}

// ReplaceOrder asks for a replacement shipment.
func (a API) ReplaceOrder(c *gin.Context) error {
	return a.propose(c, "error.order_unknown", casework.Ask{Kind: models.RequestReplacement})
}

// RetryAction has an action tried again whose tries are used up.
func (a API) RetryAction(c *gin.Context) error {
	n, err := pathID(c, "error.action_unknown")
	if err != nil {
		return err
	}
	body, err := said(c)
	if err != nil {
		return err
	}
	after, err := a.Requests.Retry(c.Request.Context(), web.Actor(c), n, body.Reason)
	if err != nil {
		return err
	}
	return ok(c, listedJSON(c.Request.Context(), after))
}

func (a API) decide(c *gin.Context, yes bool) error {
	n, err := pathID(c, "error.request_unknown")
	if err != nil {
		return err
	}
	body, err := said(c)
	if err != nil {
		return err
	}
	q, err := a.Requests.Decide(c.Request.Context(), web.Actor(c), n, yes, body.Note)
	if err != nil {
		return err
	}
	return ok(c, requestJSON(q))
}

// ApproveRequest says yes.
func (a API) ApproveRequest(c *gin.Context) error { return a.decide(c, true) }

// RejectRequest says no.
func (a API) RejectRequest(c *gin.Context) error { return a.decide(c, false) }

// WithdrawRequest takes back what the caller proposed.
func (a API) WithdrawRequest(c *gin.Context) error {
	n, err := pathID(c, "error.request_unknown")
	if err != nil {
		return err
	}
	if err := a.Requests.Withdraw(c.Request.Context(), web.Actor(c), n); err != nil {
		return err
	}
	q, err := a.Requests.Find(c.Request.Context(), web.Actor(c), n)
	if err != nil {
		return err
	}
	return ok(c, requestJSON(q))
}
