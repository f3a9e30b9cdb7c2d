// Package jobs is the door for background jobs: an alarm rings, a service is called.
package jobs

import (
	"context"

	"github.com/riverqueue/river"

	"counterfoil/models/queue"
)

// A Processor works on the due events of a connection.
type Processor interface {
	Process(ctx context.Context, connection int64) error
}

// A Carrier carries an action if it is due and its conditions are met.
type Carrier interface {
	Carry(ctx context.Context, action int64) error
}

type dueEvents struct {
	river.WorkerDefaults[queue.DueEvents]
	inbox Processor
}

func (w dueEvents) Work(ctx context.Context, job *river.Job[queue.DueEvents]) error {
	return w.inbox.Process(ctx, job.Args.Connection)
}

type dueAction struct {
	river.WorkerDefaults[queue.DueAction]
	actions Carrier
}

func (w dueAction) Work(ctx context.Context, job *river.Job[queue.DueAction]) error {
	return w.actions.Carry(ctx, job.Args.Action)
}

// Workers has a worker for each kind of job. Those who do the work are given later,
// because they also insert jobs.
func Workers(p Processor, c Carrier) *river.Workers {
	w := river.NewWorkers()
	river.AddWorker(w, dueEvents{inbox: p})
	river.AddWorker(w, dueAction{actions: c})
	return w
}
