package handlers

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/gin-gonic/gin"

	"counterfoil/models"
	"counterfoil/views"
	"counterfoil/views/locale"
	"counterfoil/web"
)

type eventReader interface {
	Events(ctx context.Context, q models.EventQuery) (models.Page[models.Event], error)
	EventFile(ctx context.Context, id int64) (models.EventFile, error)
	OrderFile(ctx context.Context, id int64) (models.OrderFile, error)
}

// Events has the pages of kept notifications.
type Events struct {
	Book        eventReader
	Connections connectionNamer
}

func (h Events) list(c *gin.Context) error {
	ctx, actor := c.Request.Context(), web.Actor(c)
	asked, err := query(c)
	if err != nil {
		return err
	}
	q, err := eventQuery(asked)
	if err != nil {
		return err
	}
	q.Shops = actor.Shops
	page, err := h.Book.Events(ctx, q)
	if err != nil {
		return err
	}
	return web.Render(c, http.StatusOK, views.Events(web.Page(c, locale.T(ctx, "nav.events"), "events"), eventsModel(page, q, h.Connections.Slugs(actor.Shops))))
}

func (h Events) show(c *gin.Context) error {
	id, err := idParam(c)
	if err != nil {
		return err
	}
	ctx, actor := c.Request.Context(), web.Actor(c)
	f, err := h.Book.EventFile(ctx, id)
	if err != nil {
		return err
	}
	if !actor.Sees(f.ShopID) {
		return models.Fail(models.NotFound, "error.not_found")
	}
	var order *models.OrderFile
	if f.OrderID != 0 {
		o, err := h.Book.OrderFile(ctx, f.OrderID)
		if err != nil {
			return err
		}
		order = &o
	}
	m := eventModel(f, order)
	return web.Render(c, http.StatusOK, views.EventFile(web.Page(c, eventName(f.Event), "events"), m))
}

func eventPath(id int64) string { return "/events/" + strconv.FormatInt(id, 10) }

// eventName is what a window with the event is called.
func eventName(e models.Event) string { return orDash(e.Topic, e.EventID) }

func eventQuery(v url.Values) (models.EventQuery, error) {
	if err := readable(v); err != nil {
		return models.EventQuery{}, err
	}
	q := models.EventQuery{
		Connection: v.Get("connection"), EventID: strings.TrimSpace(models.Half(v.Get("event_id"))), Topic: v.Get("topic"),
		State: models.EventState(v.Get("state")), Cursor: v.Get("cursor"),
	}
	if q.State != "" && !slices.Contains(models.EventStates, q.State) {
		return q, models.Fail(models.Invalid, "error.filter", string(q.State))
	}
	if s := v.Get("order"); s != "" {
		id, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			return q, models.Fail(models.Invalid, "error.filter", s)
		}
		q.Order = id
	}
	return q, nil
}

func eventValues(q models.EventQuery) url.Values {
	v := url.Values{}
	for name, value := range map[string]string{"connection": q.Connection, "event_id": q.EventID, "topic": q.Topic, "state": string(q.State)} {
		if value != "" {
			v.Set(name, value)
		}
	}
	if q.Order != 0 {
		v.Set("order", strconv.FormatInt(q.Order, 10))
	}
	return v
}

// eventViews are the saved views of the list.
var eventViews = []struct {
	key   string
	query models.EventQuery
}{
	{"events.view.all", models.EventQuery{}},
	{"events.view.waiting", models.EventQuery{State: models.EventWaiting}},
	{"events.view.unmatched", models.EventQuery{State: models.EventUnmatched}},
	{"events.view.review", models.EventQuery{State: models.EventReview}},
	{"events.view.failed", models.EventQuery{State: models.EventFailed}},
}

// eventsModel works out the list of events.
func eventsModel(page models.Page[models.Event], q models.EventQuery, slugs []string) views.EventsModel {
	v := eventValues(q)
	m := views.EventsModel{
		Rows: page.Items, State: q.State, Connection: q.Connection, EventID: q.EventID, Order: q.Order, Topic: q.Topic, Connections: slugs,
		Filtered: len(v) > 0, Newer: listPath("/events", v, page.Prev), Older: listPath("/events", v, page.Next),
	}
	for _, view := range eventViews {
		m.Views = append(m.Views, chip("/events", view.key, eventValues(view.query), v))
	}
	return m
}
