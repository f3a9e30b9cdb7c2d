// Package queue names the background jobs and adds them inside a transaction
// (River). A job is only an alarm clock: the rows say what is due, so a job that is
// lost costs seconds and one that comes twice costs a look.
package queue

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverdatabasesql"

	"database/sql"

	"counterfoil/models/store"
)

// Events is the queue of notifications. Actions and sweeps get queues of their own,
// so that a sweep can't starve them.
const Events = "events"

// DueEvents wakes whoever processes the events of a connection.
type DueEvents struct {
	Connection int64 `json:"connection"`
}

// Kind never changes: jobs of older releases may still stand in the table.
func (DueEvents) Kind() string { return "delivery_process" }

// InsertOpts puts the job into its queue; one try is enough for an alarm clock.
func (DueEvents) InsertOpts() river.InsertOpts {
	return river.InsertOpts{Queue: Events, MaxAttempts: 1}
}

// A Queue adds jobs, and runs them where it was made with workers.
type Queue struct{ client *river.Client[*sql.Tx] }

// Settings, each from a measured trap: River announces one insert per queue and
// cooldown, what follows waits for the poll; a job of a killed worker stays running
// until it is rescued.
const (
	fetchCooldown = 20 * time.Millisecond
	fetchPoll     = 250 * time.Millisecond
	jobTimeout    = 25 * time.Second
	rescueAfter   = time.Minute
	keepCompleted = 15 * time.Minute
)

// New makes a queue. Without workers it only inserts. listen tells whether the
// database delivers announcements; without them River polls.
func New(s *store.Store, workers *river.Workers, eventWorkers int, listen bool, log *slog.Logger) (*Queue, error) {
	cfg := &river.Config{Logger: log}
	if workers != nil {
		cfg.Workers = workers
		cfg.Queues = map[string]river.QueueConfig{Events: {MaxWorkers: eventWorkers}}
		cfg.FetchCooldown = fetchCooldown
		cfg.FetchPollInterval = fetchPoll
		cfg.JobTimeout = jobTimeout
		cfg.RescueStuckJobsAfter = rescueAfter
		cfg.CompletedJobRetentionPeriod = keepCompleted
		cfg.PollOnly = !listen
	}
	driver := riverdatabasesql.New(s.SQL())
	if listen && workers != nil {
		driver = riverdatabasesql.NewWithPgxListener(s.SQL(), s.Pool())
	}
	client, err := river.NewClient(driver, cfg)
	if err != nil {
		return nil, fmt.Errorf("queue: %w", err)
	}
	return &Queue{client}, nil
}

// Start runs the workers until Stop.
func (q *Queue) Start(ctx context.Context) error {
	if err := q.client.Start(ctx); err != nil {
		return fmt.Errorf("queue: start: %w", err)
	}
	return nil
}

// Stop lets running jobs end, and cancels them when the context does.
func (q *Queue) Stop(ctx context.Context) error {
	if err := q.client.Stop(ctx); err != nil {
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		if err := q.client.StopAndCancel(stop); err != nil {
			return fmt.Errorf("queue: stop: %w", err)
		}
	}
	return nil
}

// WakeEvents adds one alarm for each connection, in the transaction that made its
// events due.
func (q *Queue) WakeEvents(ctx context.Context, tx *store.Tx, connections []int64) error {
	jobs := make([]river.InsertManyParams, len(connections))
	for i, id := range connections {
		jobs[i] = river.InsertManyParams{Args: DueEvents{Connection: id}}
	}
	if _, err := q.client.InsertManyFastTx(ctx, tx.SQL(), jobs); err != nil {
		return fmt.Errorf("queue: wake: %w", err)
	}
	return nil
}
