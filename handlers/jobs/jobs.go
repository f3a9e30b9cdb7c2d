// Package jobs is the door for background jobs: an alarm rings, a service is called.
package jobs

import (
	"context"

	"github.com/riverqueue/river"

	"counterfoil/models/queue"
)

// A Sleeper is woken by an alarm, and never makes it wait.
type Sleeper interface{ Wake(connection int64) }

type dueEvents struct {
	river.WorkerDefaults[queue.DueEvents]
	inbox Sleeper
}

func (w dueEvents) Work(_ context.Context, job *river.Job[queue.DueEvents]) error {
	w.inbox.Wake(job.Args.Connection)
	return nil
}

// Workers has a worker for each kind of job.
func Workers(s Sleeper) *river.Workers {
	w := river.NewWorkers()
	river.AddWorker(w, dueEvents{inbox: s})
	return w
}
