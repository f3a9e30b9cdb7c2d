package models

import (
	"slices"
	"time"
)

// Asks tells whether the hold's end has come: it stays in force, and asks for a
// person's decision.
func (h Hold) Asks(now time.Time) bool { return !h.Until.IsZero() && !now.Before(h.Until) }

// Connections are those whose holds reach the order: where it was first seen, and
// those that decide an axis.
func (o Order) Connections() []int64 {
	ids := []int64{o.ConnectionID}
	for _, rec := range o.Axes {
		if rec.Connection != 0 {
			ids = append(ids, rec.Connection)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

const (
	// ownPause is how long support may resume a pause of their own.
	ownPause = time.Hour
	// longestWide is how long a lead or an administrator may pause a connection or a shop.
	longestWide = 4 * time.Hour
)

// MayHold tells whether the actor may pause something of the scope.
func (a Actor) MayHold(s HoldScope) bool {
	if s == HoldOrder {
		return a.May(OrdersHold)
	}
	return a.May(ConnectionsHold)
}

// LongestHold is how far away the end of a hold may be that the actor sets; 0: it
// needs no end.
func (a Actor) LongestHold(s HoldScope) time.Duration {
	if s == HoldOrder || a.Role == Manager {
		return 0
	}
	return longestWide
}

// MayRelease tells whether the actor may end a hold at a moment. Support without the
// grant of a shift lead resume only what they paused themselves, and soon.
func (a Actor) MayRelease(h Hold, at time.Time) bool {
	if h.Scope != HoldOrder {
		return a.May(ConnectionsRelease)
	}
	if !a.May(OrdersRelease) {
		return false
	}
	if a.Role != Support || a.Lead {
		return true
	}
	return h.By == a.ID() && at.Sub(h.Since) <= ownPause
}
