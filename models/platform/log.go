package platform

import (
	"context"
	"time"

	"counterfoil/models"
)

// A Logger is an adapter whose platform keeps a log of the notifications it made,
// which can be laid beside what was kept here.
type Logger interface {
	// Events lists one page of what the platform made notifications of between since
	// and until, newest first; undelivered keeps those that it couldn't deliver to
	// some endpoint. next is empty at the end. The error is as Fetch's.
	Events(ctx context.Context, since, until time.Time, undelivered bool, cursor string) (ids []LoggedEvent, next string, err error)
}

// A LoggedEvent is one row of a platform's log.
type LoggedEvent struct {
	ID      string
	Topic   string
	Object  models.ObjectRef
	Created time.Time
	// Pending: the platform still tries to deliver it to some endpoint.
	Pending bool
}
