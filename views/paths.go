package views

import (
	"context"
	"strconv"
	"time"

	"counterfoil/models"
	"counterfoil/views/locale"
)

func orderPath(id int64) string { return "/orders/" + strconv.FormatInt(id, 10) }

func eventPath(id int64) string { return "/events/" + strconv.FormatInt(id, 10) }

// topicOf is an event's topic, or a word where it has none.
func topicOf(ctx context.Context, e models.Event) string {
	if e.Topic == "" {
		return locale.T(ctx, "events.no_topic")
	}
	return e.Topic
}

// orderName is how people call an event's order.
func orderName(e models.Event) string {
	if e.OrderName == "" {
		return strconv.FormatInt(e.OrderID, 10)
	}
	return e.OrderName
}

// unfinished tells whether somebody still has to move an event on.
func unfinished(s models.EventState) bool {
	return s.Open() || s == models.EventReview || s == models.EventFailed
}

// longAgo tells whether something happened long enough ago to look twice.
func longAgo(now, t time.Time, d time.Duration) bool { return !t.IsZero() && now.Sub(t) > d }
