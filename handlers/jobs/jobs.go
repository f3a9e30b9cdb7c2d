// Package jobs is the door for background jobs: an alarm rings, a service is called.
package jobs

import (
	"context"
	"time"

	"github.com/riverqueue/river"

	"counterfoil/models/queue"
)

// A Sleeper is woken by an alarm, and never makes it wait.
type Sleeper interface{ Wake(connection int64) }

// A Carrier carries an action if it is due and its conditions are met.
type Carrier interface {
	Carry(ctx context.Context, action int64) error
}

type dueEvents struct {
	river.WorkerDefaults[queue.DueEvents]
	inbox Sleeper
}

func (w dueEvents) Work(_ context.Context, job *river.Job[queue.DueEvents]) error {
	w.inbox.Wake(job.Args.Connection)
	return nil
}

type dueAction struct {
	river.WorkerDefaults[queue.DueAction]
	actions Carrier
}

func (w dueAction) Work(ctx context.Context, job *river.Job[queue.DueAction]) error {
	return w.actions.Carry(ctx, job.Args.Action)
}

// A Sweeper does one page of a sweep if it is due.
type Sweeper interface {
	Page(ctx context.Context, sweep int64) (bool, error)
}

// pageTime is how long a page may take; its lease is prolonged as it goes.
const pageTime = 5 * time.Minute

type dueSweep struct {
	river.WorkerDefaults[queue.DueSweep]
	sweeps Sweeper
}

func (w dueSweep) Timeout(*river.Job[queue.DueSweep]) time.Duration { return pageTime }

func (w dueSweep) Work(ctx context.Context, job *river.Job[queue.DueSweep]) error {
	_, err := w.sweeps.Page(ctx, job.Args.Sweep)
	return err
}

// Workers has a worker for each kind of job.
func Workers(s Sleeper, c Carrier, p Sweeper) *river.Workers {
	w := river.NewWorkers()
	river.AddWorker(w, dueEvents{inbox: s})
	river.AddWorker(w, dueAction{actions: c})
	river.AddWorker(w, dueSweep{sweeps: p})
	return w
}
