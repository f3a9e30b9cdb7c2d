package store

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"counterfoil/models"
)

type eventRow struct {
	ID         int64
	Connection string
	Platform   models.Platform
	Account    string
	EventID    string
	Topic      string
	ObjectKind string
	ObjectRef  string
	OrderID    *int64
	OrderName  string
	State      models.EventState
	Deliveries int64
	ReceivedAt time.Time
	LastAt     time.Time
	OccurredAt *time.Time
	DoneAt     *time.Time
	DueAt      *time.Time
	Tries      int
	Error      string
	Test       bool
}

// The order of an event is its own, else that of its object, so that events find it
// before they are processed.
const eventColumns = `
SELECT e.id, c.slug AS connection, c.platform, e.account, e.event_id, e.topic, e.object_kind, e.object_ref,
       COALESCE(e.order_id, p.order_id, l.order_id) AS order_id, COALESCE(o.number, '') AS order_name, e.state, e.deliveries,
       e.received_at, e.last_at, e.occurred_at, e.done_at, e.due_at, e.tries, e.error, e.test`

const eventTables = `
FROM events e JOIN connections c ON c.id = e.connection_id
LEFT JOIN platform_objects p ON p.connection_id = e.connection_id AND p.account = e.account AND p.kind = e.object_kind AND p.ref = e.object_ref AND e.object_ref <> ''
LEFT JOIN platform_objects l ON l.id = p.leads_to
LEFT JOIN orders o ON o.id = COALESCE(e.order_id, p.order_id, l.order_id)`

// eventsOfOrder are an order's events: those that were processed for it, and those of
// its objects that weren't yet. It takes the order's id twice.
const eventsOfOrder = `
    SELECT x.id FROM events x WHERE x.order_id = ?
    UNION SELECT x.id FROM platform_objects p JOIN events x ON x.connection_id = p.connection_id AND x.account = p.account AND x.object_kind = p.kind AND x.object_ref = p.ref
    WHERE p.order_id = ?`

func (x eventRow) event() models.Event {
	e := models.Event{ID: x.ID, Connection: x.Connection, Platform: x.Platform, Account: x.Account, EventID: x.EventID, Topic: x.Topic,
		Object: models.ObjectRef{Account: x.Account, Kind: x.ObjectKind, ID: x.ObjectRef}, OrderName: x.OrderName, State: x.State,
		Deliveries: x.Deliveries, Received: x.ReceivedAt.UTC(), Last: x.LastAt.UTC(), Occurred: utc(x.OccurredAt), Done: utc(x.DoneAt),
		Due: utc(x.DueAt), Tries: x.Tries, Error: x.Error, Test: x.Test}
	if x.OrderID != nil {
		e.OrderID = *x.OrderID
	}
	return e
}

func (r reads) eventsWhere(ctx context.Context, cond string, limit int, args ...any) ([]models.Event, error) {
	var rows []eventRow
	if err := r.rows(ctx, &rows, eventColumns+eventTables+`
WHERE `+cond+` ORDER BY e.id DESC LIMIT ?`, append(args, limit)...); err != nil {
		return nil, err
	}
	out := make([]models.Event, len(rows))
	for i, x := range rows {
		out[i] = x.event()
	}
	return out, nil
}

// Events lists notifications, newest first by id.
func (r reads) Events(ctx context.Context, q models.EventQuery) (models.Page[models.Event], error) {
	var page models.Page[models.Event]
	before, err := cursorID(q.Cursor)
	if err != nil {
		return page, err
	}
	w := &where{}
	if before > 0 {
		w.and("e.id < ?", before)
	}
	if len(q.Shops) > 0 {
		w.and("c.shop_id = ANY (?::bigint[])", idList(q.Shops))
	}
	if q.Connection != "" {
		w.and("c.slug = ?", q.Connection)
	}
	if q.EventID != "" {
		id := strings.TrimSpace(models.Half(q.EventID))
		if q.Exact {
			w.and("e.event_id = ?", id)
		} else {
			w.and("e.event_id LIKE ?", likePrefix(id))
		}
	}
	if q.Topic != "" {
		w.and("e.topic = ?", q.Topic)
	}
	if q.State != "" {
		known := false
		for _, s := range models.EventStates {
			known = known || s == q.State
		}
		if !known {
			return page, &models.Error{Code: models.Invalid, Key: "error.state_unknown", Fields: map[string]string{"state": "error.state_unknown"}}
		}
		w.and("e.state = ?", q.State)
	}
	if q.Order != 0 {
		w.and("e.id IN ("+eventsOfOrder+")", q.Order, q.Order)
	}
	limit := pageSize(q.Limit)
	items, err := r.eventsWhere(ctx, w.String(), limit+1, w.args...)
	if err != nil {
		return page, err
	}
	if len(items) > limit {
		items = items[:limit]
		page.Next = strconv.FormatInt(items[limit-1].ID, 10)
	}
	page.Items = items
	return page, nil
}

// EventFile reads a notification with everything its page shows.
func (r reads) EventFile(ctx context.Context, id int64) (models.EventFile, error) {
	var row struct {
		Row          eventRow `gorm:"embedded"`
		ConnectionID int64
		ShopID       int64
		Act          string
		Digest       []byte
		Size         int
		RequestID    string
		Secret       string
		SkewMs       *int64
		Conflicts    int
		Said         *string
		CausedBy     *int64
	}
	if err := r.one(ctx, "error.event_unknown", &row, eventColumns+`, e.connection_id, c.shop_id, e.act, e.digest, e.size, e.request_id, e.secret, e.skew_ms,
       e.conflicts, e.said::text AS said, e.caused_by`+eventTables+`
WHERE e.id = ?`, id); err != nil {
		return models.EventFile{}, err
	}
	f := models.EventFile{Event: row.Row.event(), ConnectionID: row.ConnectionID, ShopID: row.ShopID, Act: row.Act, Digest: hex.EncodeToString(row.Digest), Size: row.Size,
		RequestID: row.RequestID, Secret: row.Secret, Conflicts: row.Conflicts}
	if row.SkewMs != nil {
		f.SkewKnown, f.Skew = true, time.Duration(*row.SkewMs)*time.Millisecond
	}
	if row.CausedBy != nil {
		f.Superseder = *row.CausedBy
	}
	if row.Said != nil {
		f.Said = &models.Observation{}
		if err := json.Unmarshal([]byte(*row.Said), f.Said); err != nil {
			return f, fmt.Errorf("store: reported observation of event %d: %w", id, err)
		}
	}
	var err error
	if f.Moves, err = r.entries(ctx, "cause_kind = 'event' AND cause_id = ?", maxEntries, strconv.FormatInt(id, 10)); err != nil {
		return f, err
	}
	if err := r.arrivals(ctx, &f); err != nil {
		return f, err
	}
	var tries []struct {
		At      time.Time
		Outcome string
		Error   string
	}
	if err := r.rows(ctx, &tries, `SELECT at, outcome, error FROM event_tries WHERE event_id = ? ORDER BY n DESC`, id); err != nil {
		return f, err
	}
	for _, t := range tries {
		f.Attempts = append(f.Attempts, models.Try{At: t.At.UTC(), Outcome: t.Outcome, Error: t.Error})
	}
	f.Relatives, err = r.eventsWhere(ctx, `e.id <> ? AND e.id IN (
    (SELECT x.id FROM events x WHERE x.connection_id = ? AND x.object_kind = ? AND x.object_ref = ? AND x.account = ? AND x.object_ref <> '' ORDER BY x.id DESC LIMIT 21)
    UNION (SELECT x.id FROM events x WHERE x.connection_id = ? AND x.act = ? AND x.act <> '' ORDER BY x.id DESC LIMIT 21))`,
		20, id, row.ConnectionID, row.Row.ObjectKind, row.Row.ObjectRef, row.Row.Account, row.ConnectionID, row.Act)
	return f, err
}

func (r reads) arrivals(ctx context.Context, f *models.EventFile) error {
	var rows []struct {
		At        time.Time
		Same      bool
		RequestID string
	}
	if err := r.rows(ctx, &rows, `SELECT at, same, request_id FROM event_deliveries WHERE event_id = ? ORDER BY n`, f.ID); err != nil {
		return err
	}
	f.Arrivals = append(f.Arrivals, models.Delivery{At: f.Received, Same: true, RequestID: f.RequestID})
	for _, x := range rows {
		f.Arrivals = append(f.Arrivals, models.Delivery{At: x.At.UTC(), Same: x.Same, RequestID: x.RequestID})
	}
	return nil
}
