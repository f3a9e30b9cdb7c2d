package api

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/gin-gonic/gin"

	"counterfoil/models"
	"counterfoil/models/casework"
	"counterfoil/web"
)

// Cases has exceptions and what people decide about them.
type Cases interface {
	Find(ctx context.Context, actor models.Actor, id int64) (models.Exception, error)
	Solve(ctx context.Context, actor models.Actor, id int64, c casework.Closing) error
	Dismiss(ctx context.Context, actor models.Actor, id int64, c casework.Closing) error
}

// A Rereader lists exceptions and reads what they are about again.
type Rereader interface {
	Exceptions(ctx context.Context, q models.CaseQuery) (models.Page[models.CaseRow], error)
	// Case answers the result of a resync, and the order that it led to (0: none).
	Case(ctx context.Context, actor models.Actor, id int64) (result string, orderID int64, err error)
}

// exception is an exception as programs read it.
type exception struct {
	ID            string               `json:"id"`
	Kind          models.ExceptionKind `json:"kind"`
	Case          string               `json:"case"`
	Axis          *models.Axis         `json:"axis"`
	OrderID       *string              `json:"order_id"`
	Shop          string               `json:"shop"`
	Connection    string               `json:"connection"`
	PlatformRef   string               `json:"platform_ref"`
	PlatformState string               `json:"platform_state"`
	LocalState    string               `json:"local_state"`
	Suggestion    string               `json:"suggestion"`
	Detail        string               `json:"detail"`
	Topic         string               `json:"topic"` // the notification that should have come
	Policy        models.Policy        `json:"policy"`
	Urgency       models.Urgency       `json:"urgency"`
	State         string               `json:"state"`
	Needs         bool                 `json:"needs"` // a person's; else it is settling by itself
	NeedsAt       *time.Time           `json:"needs_at"`
	HealAt        *time.Time           `json:"heal_at"`
	TellCustomer  bool                 `json:"tell_customer"`
	ToldAt        *time.Time           `json:"told_at"`
	Count         int64                `json:"count"`
	Group         *string              `json:"group"`
	Owner         *string              `json:"owner"`
	FirstSeen     time.Time            `json:"first_seen"`
	LastSeen      time.Time            `json:"last_seen"`
	ClosedAt      *time.Time           `json:"closed_at"`
	How           string               `json:"how"`
	Reading       bool                 `json:"reading"` // the platform is being asked
	Version       int64                `json:"version"`
}

// Suggestions are what is best done next about an exception, for programs.
const (
	suggestResync     = "resync"
	suggestAction     = "look_at_action"
	suggestEvent      = "look_at_event"
	suggestConnection = "look_at_connection"
	suggestRedeliver  = "redeliver" // from the platform's own page
	suggestOrder      = "look_at_order"
)

func suggestion(x models.Exception) string {
	switch x.Kind {
	case models.ActionFailedKind, models.ActionUnclearKind:
		return suggestAction
	case models.EventFailedKind, models.PayloadConflict:
		return suggestEvent
	case models.ActionDiffers, models.Contradiction, models.PaidTwice, models.ShippedTwice, models.Overdue:
		return suggestOrder
	case models.MissedNotification:
		if x.Platform == models.ReceiptRoller {
			return suggestRedeliver
		}
	}
	if x.Mendable() {
		return suggestResync
	}
	return suggestConnection
}

func exceptionJSON(x models.Exception, reading bool) exception {
	out := exception{ID: id(x.ID), Kind: x.Kind, Case: x.Case, OrderID: maybe(x.OrderID), Shop: x.Shop, Connection: x.Connection, PlatformRef: x.Ref,
		PlatformState: x.PlatformState, LocalState: x.LocalState, Suggestion: suggestion(x), Detail: x.Detail, Topic: x.Topic, Policy: x.Policy, Urgency: x.Urgency,
		State: x.State, Needs: x.Needs, NeedsAt: instant(x.NeedsAt), HealAt: instant(x.HealAt), TellCustomer: x.Tell, ToldAt: instant(x.Told), Count: x.Count,
		Group: maybe(x.Group), FirstSeen: x.First.UTC(), LastSeen: x.Last.UTC(), ClosedAt: instant(x.Closed), How: x.How, Reading: reading, Version: x.Version}
	if x.Axis != "" {
		out.Axis = &x.Axis
	}
	if x.OwnedBy != "" {
		out.Owner = &x.OwnedBy
	}
	return out
}

// Exceptions lists exceptions, each of them, newest first.
func (a API) Exceptions(c *gin.Context) error {
	in := newInput(c)
	q := models.CaseQuery{Shops: web.Actor(c).Shops, State: word(in, "state", models.CaseStates), Order: in.id("order"), Kind: word(in, "kind", models.ExceptionKinds),
		Connection: in.text("connection"), Group: in.id("group"), Urgency: word(in, "urgency", models.Urgencies), Policy: word(in, "policy", models.Policies),
		Cursor: in.text("cursor"), Limit: in.limit()}
	if in.query.Get("needs") != "" {
		needs := in.flag("needs")
		q.Needs = &needs
	}
	if err := in.err(); err != nil {
		return err
	}
	page, err := a.Reread.Exceptions(c.Request.Context(), q)
	if err != nil {
		return err
	}
	out := list[exception]{Items: make([]exception, len(page.Items)), Next: page.Next}
	for i, x := range page.Items {
		out.Items[i] = exceptionJSON(x.Exception, x.Reading)
	}
	return ok(c, out)
}

// Exception shows one exception.
func (a API) Exception(c *gin.Context) error {
	n, err := pathID(c, "error.exception_unknown")
	if err != nil {
		return err
	}
	return a.answerException(c, n)
}

func (a API) answerException(c *gin.Context, n int64) error {
	x, err := a.Cases.Find(c.Request.Context(), web.Actor(c), n)
	if err != nil {
		return err
	}
	return ok(c, exceptionJSON(x, false))
}

// ResyncException reads what an exception is about again.
func (a API) ResyncException(c *gin.Context) error {
	n, err := pathID(c, "error.exception_unknown")
	if err != nil {
		return err
	}
	result, order, err := a.Reread.Case(c.Request.Context(), web.Actor(c), n)
	if err != nil {
		return err
	}
	return a.answerResync(c, result, order)
}

// closing is how a program wants an exception to end.
type closing struct {
	Reason  string `json:"reason"`
	Version int64  `json:"version"` // as it was seen; 0: as it is
}

func readClosing(c *gin.Context) (int64, closing, error) {
	n, err := pathID(c, "error.exception_unknown")
	if err != nil {
		return 0, closing{}, err
	}
	var body closing
	in := newInput(c)
	if err := c.ShouldBindJSON(&body); err != nil && !errors.Is(err, io.EOF) {
		in.refuse("body", "error.json")
	}
	return n, body, in.err()
}

func (a API) end(c *gin.Context, how func(context.Context, models.Actor, int64, casework.Closing) error) error {
	n, body, err := readClosing(c)
	if err != nil {
		return err
	}
	if err := how(c.Request.Context(), web.Actor(c), n, casework.Closing{Version: body.Version, Reason: body.Reason}); err != nil {
		return err
	}
	return a.answerException(c, n)
}

// CloseException closes an exception as solved.
func (a API) CloseException(c *gin.Context) error { return a.end(c, a.Cases.Solve) }

// DismissException closes an exception that needs nothing.
func (a API) DismissException(c *gin.Context) error { return a.end(c, a.Cases.Dismiss) }

// AcceptException asks another person to accept a difference.
func (a API) AcceptException(c *gin.Context) error {
	n, body, err := readClosing(c)
	if err != nil {
		return err
	}
	q, err := a.Requests.ProposeCase(c.Request.Context(), web.Actor(c), n, body.Version, models.HowAccepted, body.Reason)
	if err != nil {
		return err
	}
	return made(c, requestJSON(q))
}
