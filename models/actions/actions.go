// Package actions does each follow-up once: it carries what the ledger planned to
// where its shop wants it, when every condition is met, and settles how that ended.
package actions

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"counterfoil/models"
	"counterfoil/models/connect"
	"counterfoil/models/seal"
	"counterfoil/models/store"
)

// A Refresher reads the official objects of an order again that connections have, and
// applies what they say.
type Refresher interface {
	Refresh(ctx context.Context, order int64, connections []int64) error
}

// An Outline is an order as destinations read it.
type Outline func(f models.OrderFile, now time.Time) any

// Actions carries and settles.
type Actions struct {
	Store   *store.Store
	Book    *connect.Book
	Keys    seal.Keys
	Refresh Refresher
	Outline Outline
	Log     *slog.Logger

	sender sender
	runs   runs
}

// New makes an Actions ready for use.
func New(a Actions) *Actions {
	a.sender = newSender()
	a.runs = runs{mu: &sync.Mutex{}, busy: map[int64]bool{}}
	return &a
}

// List lists actions, newest first.
func (s *Actions) List(ctx context.Context, q models.ActionQuery) (models.Page[models.Action], error) {
	return s.Store.Actions(ctx, q)
}

// runs are the actions that this process has in its hands. Whoever comes meanwhile
// leaves a mark, and the one who has it looks again.
type runs struct {
	mu   *sync.Mutex
	busy map[int64]bool // marked
}

func (r runs) enter(id int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.busy[id]; ok {
		r.busy[id] = true
		return false
	}
	r.busy[id] = false
	return true
}

// leave tells whether somebody came meanwhile, so that one more look is due.
func (r runs) leave(id int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.busy[id] {
		r.busy[id] = false
		return true
	}
	delete(r.busy, id)
	return false
}

const (
	// lookEvery is how long a lost alarm can delay an action.
	lookEvery = 2 * time.Second
	// lookAt and atOnce bound what one process takes from the list of due actions.
	lookAt = 64
	atOnce = 16
)

// Lookout finds due actions whatever happened to their jobs, until the context ends.
func (s *Actions) Lookout(ctx context.Context) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	var working sync.WaitGroup
	defer working.Wait()
	slots := make(chan struct{}, atOnce)
	for {
		due, err := s.Store.DueActions(ctx, lookAt)
		if err != nil && ctx.Err() == nil && !store.Down(err) {
			s.Log.Error("due actions", "error", err)
		}
		for _, id := range due {
			select {
			case slots <- struct{}{}:
			case <-ctx.Done():
				return
			}
			working.Go(func() {
				defer func() { <-slots }()
				if err := s.Carry(ctx, id); err != nil && ctx.Err() == nil && !store.Down(err) {
					s.Log.Error("action not carried", "action", id, "error", err)
				}
			})
		}
		if len(due) == lookAt {
			continue // there are more
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
