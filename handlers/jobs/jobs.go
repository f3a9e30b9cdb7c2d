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

type dueEvents struct {
	river.WorkerDefaults[queue.DueEvents]
	inbox Processor
}

func (w dueEvents) Work(ctx context.Context, job *river.Job[queue.DueEvents]) error {
	return w.inbox.Process(ctx, job.Args.Connection)
}

// Workers has a worker for each kind of job. The processor is given later, because
// whoever processes also inserts jobs.
func Workers(p Processor) *river.Workers {
	w := river.NewWorkers()
	river.AddWorker(w, dueEvents{inbox: p})
	return w
}
