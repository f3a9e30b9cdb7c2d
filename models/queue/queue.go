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

// Notifications and actions have queues of their own, so that neither can starve the
// other.
const (
	Events  = "events"
	Actions = "actions"
	Sweeps  = "sweeps"
)

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

// DueAction wakes whoever carries an action.
type DueAction struct {
	Action int64 `json:"action"`
}

// Kind never changes: jobs of older releases may still stand in the table.
func (DueAction) Kind() string { return "action_carry" }

// InsertOpts puts the job into its queue; one try is enough for an alarm clock.
func (DueAction) InsertOpts() river.InsertOpts {
	return river.InsertOpts{Queue: Actions, MaxAttempts: 1}
}

// DueSweep wakes whoever does the next page of a sweep.
type DueSweep struct {
	Sweep int64 `json:"sweep"`
}

// Kind never changes: jobs of older releases may still stand in the table.
func (DueSweep) Kind() string { return "sweep_page" }

// InsertOpts puts the job into its queue; one try is enough for an alarm clock.
func (DueSweep) InsertOpts() river.InsertOpts {
	return river.InsertOpts{Queue: Sweeps, MaxAttempts: 1}
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

// New makes a queue. Without workers it only inserts; how many alarms of each queue it
// answers at once is the caller's to say. listen tells whether the database delivers
// announcements; without them River polls.
func New(s *store.Store, workers *river.Workers, atOnce map[string]int, listen bool, log *slog.Logger) (*Queue, error) {
	cfg := &river.Config{Logger: log}
	if workers != nil {
		cfg.Workers = workers
		cfg.Queues = map[string]river.QueueConfig{}
		for name, n := range atOnce {
			cfg.Queues[name] = river.QueueConfig{MaxWorkers: n}
		}
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
	return q.insert(ctx, tx, jobs)
}

// WakeActions adds one alarm for each action, in the transaction that made it due.
func (q *Queue) WakeActions(ctx context.Context, tx *store.Tx, actions []int64) error {
	if len(actions) == 0 {
		return nil
	}
	jobs := make([]river.InsertManyParams, len(actions))
	for i, id := range actions {
		jobs[i] = river.InsertManyParams{Args: DueAction{Action: id}}
	}
	return q.insert(ctx, tx, jobs)
}

// WakeSweeps adds one alarm for each sweep, in the transaction that made its page due.
func (q *Queue) WakeSweeps(ctx context.Context, tx *store.Tx, sweeps []int64) error {
	if len(sweeps) == 0 {
		return nil
	}
	jobs := make([]river.InsertManyParams, len(sweeps))
	for i, id := range sweeps {
		jobs[i] = river.InsertManyParams{Args: DueSweep{Sweep: id}}
	}
	return q.insert(ctx, tx, jobs)
}

func (q *Queue) insert(ctx context.Context, tx *store.Tx, jobs []river.InsertManyParams) error {
	if _, err := q.client.InsertManyFastTx(ctx, tx.SQL(), jobs); err != nil {
		return fmt.Errorf("queue: wake: %w", err)
	}
	return nil
}
