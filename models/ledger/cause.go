package ledger

import (
	"encoding/hex"
	"strconv"
	"strings"
	"time"

	"counterfoil/models"
	"counterfoil/models/store"
)

// names of axes inside topics, in the platforms' own spelling.
var topicWords = []struct {
	word string
	axis models.Axis
}{
	{"refund", models.Refund},
	{"dispute", models.Dispute},
	{"return", models.Return},
	{"fulfil", models.Fulfillment},
	{"cancelled", models.Cancellation},
	{"delete", models.Cancellation},
	{"paid", models.Payment},
	{"payment", models.Payment},
	{"charge", models.Payment},
	{"transaction", models.Payment},
	{"checkout.session", models.Payment},
	{"issued", models.Payment},
	{"edited", models.Payment},
}

// names tells which axis a topic is about; empty where it is about the order.
func topicAxis(topic string) models.Axis {
	t := strings.ToLower(topic)
	for _, w := range topicWords {
		if strings.Contains(t, w.word) {
			return w.axis
		}
	}
	return ""
}

// causeOf finds what justified a move: of the events that the reading served, the
// one that names the moved axis, else the newest by its own time; without events,
// the reading's own cause.
func causeOf(m models.Move, r Reading) (models.Cause, int64) {
	best := Pick(r.Events, m.Axis)
	cause := r.Cause
	var id int64
	if best != nil {
		id = best.ID
		cause = models.Cause{Kind: models.CauseEvent, ID: strconv.FormatInt(best.ID, 10), EventID: best.EventID, Topic: best.Topic,
			Digest: hex.EncodeToString(best.Digest), At: best.Received}
		if best.Occurred != nil {
			cause.At = best.Occurred.UTC()
		}
	}
	cause.Basis, cause.Object = m.Basis, m.Object
	if r.Seen != nil {
		d := r.Seen.Digest()
		cause.Read, cause.Reading = r.Seen.Read, hex.EncodeToString(d[:])
	}
	return cause, id
}

// Pick is the event that stands for a move on an axis ("" : for the order as a whole).
func Pick(events []store.DueEvent, axis models.Axis) *store.DueEvent {
	var best *store.DueEvent
	for i := range events {
		e := &events[i]
		if best == nil || stands(e, best, axis) {
			best = e
		}
	}
	return best
}

func stands(e, than *store.DueEvent, axis models.Axis) bool {
	if axis != "" {
		mine, theirs := topicAxis(e.Topic) == axis, topicAxis(than.Topic) == axis
		if mine != theirs {
			return mine
		}
	}
	a, b := ownTime(e), ownTime(than)
	if !a.Equal(b) {
		return a.After(b)
	}
	return e.ID > than.ID
}

func ownTime(e *store.DueEvent) time.Time {
	if e.Occurred != nil {
		return *e.Occurred
	}
	return e.Received
}
