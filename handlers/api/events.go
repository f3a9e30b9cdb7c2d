package api

import (
	"context"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"counterfoil/models"
	"counterfoil/views/locale"
	"counterfoil/web"
)

// event is an event as programs read it.
type event struct {
	ID         string            `json:"id"`
	Connection string            `json:"connection"`
	Account    string            `json:"account"`
	EventID    string            `json:"event_id"`
	Topic      string            `json:"topic"`
	ObjectRef  string            `json:"object_ref"`
	OrderID    *string           `json:"order_id"` // null while no order is known
	State      models.EventState `json:"state"`
	Deliveries int64             `json:"deliveries"`
	ReceivedAt time.Time         `json:"received_at"`
	OccurredAt *time.Time        `json:"occurred_at"`
	Error      string            `json:"error"`
}

func eventJSON(ctx context.Context, e models.Event) event {
	out := event{ID: id(e.ID), Connection: e.Connection, Account: e.Account, EventID: e.EventID, Topic: e.Topic,
		ObjectRef: e.Object.ID, State: e.State, Deliveries: e.Deliveries, ReceivedAt: e.Received.UTC(),
		OccurredAt: instant(e.Occurred), Error: told(ctx, e.Error)}
	if e.OrderID != 0 {
		order := id(e.OrderID)
		out.OrderID = &order
	}
	return out
}

// told says our own notes in words; the platform's words stay as they are.
func told(ctx context.Context, text string) string {
	if strings.HasPrefix(text, "note.") {
		return locale.T(ctx, text)
	}
	return text
}

// Events lists events, newest first.
func (a API) Events(c *gin.Context) error {
	in := newInput(c)
	q := models.EventQuery{
		Shops: web.Actor(c).Shops, Connection: in.text("connection"), EventID: in.text("event_id"), Exact: true, Topic: in.text("topic"),
		State: word(in, "state", models.EventStates), Order: in.id("order"), Cursor: in.text("cursor"), Limit: in.limit(),
	}
	if err := in.err(); err != nil {
		return err
	}
	page, err := a.Book.Events(c.Request.Context(), q)
	if err != nil {
		return err
	}
	out := list[event]{Items: make([]event, len(page.Items)), Next: page.Next}
	for i, e := range page.Items {
		out.Items[i] = eventJSON(c.Request.Context(), e)
	}
	return ok(c, out)
}

// Event shows one event.
func (a API) Event(c *gin.Context) error {
	n, err := pathID(c, "error.event_unknown")
	if err != nil {
		return err
	}
	file, err := a.Book.EventFile(c.Request.Context(), n)
	if err != nil {
		return err
	}
	if !web.Actor(c).Sees(file.ShopID) {
		return models.Fail(models.NotFound, "error.event_unknown")
	}
	return ok(c, eventJSON(c.Request.Context(), file.Event))
}
