package inbox

import (
	"context"
	"sync"
	"time"

	"counterfoil/models/ledger"
	"counterfoil/models/store"
)

// runs bounds how many workers of this process look at one connection. Whoever comes
// when all are busy leaves a mark, and the last one looks again.
type runs struct {
	mu   *sync.Mutex
	busy map[int64]int
	more map[int64]bool
}

func newRuns() runs {
	return runs{mu: &sync.Mutex{}, busy: map[int64]int{}, more: map[int64]bool{}}
}

func (r runs) enter(id int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.busy[id] >= runners {
		r.more[id] = true
		return false
	}
	r.busy[id]++
	return true
}

// leave tells whether somebody came meanwhile, so that one more look is due.
func (r runs) leave(id int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.more[id] {
		delete(r.more, id)
		return false
	}
	r.busy[id]--
	return true
}

// lookEvery is how long a lost alarm can delay an event.
const lookEvery = 2 * time.Second

// Lookout finds due rows whatever happened to their jobs, until the context ends.
func (in *Inbox) Lookout(ctx context.Context) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	var working sync.WaitGroup
	defer working.Wait()
	for {
		in.wake(ctx)
		if due, err := in.store.DueConnections(ctx); err == nil {
			for _, id := range due {
				working.Go(func() {
					in.probe(ctx, id)
					if err := in.Process(ctx, id); err != nil && ctx.Err() == nil && !store.Down(err) {
						in.log.Error("due events not processed", "connection", id, "error", err)
					}
				})
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// probe lets one waiting event find out whether a platform is back.
func (in *Inbox) probe(ctx context.Context, id int64) {
	due := false
	err := in.store.Tx(ctx, func(tx *store.Tx) error {
		var err error
		due, err = tx.DueProbe(ctx, id)
		return err
	})
	conn := in.book.ID(id)
	if err == nil && !due && conn != nil && conn.APIFailing != nil {
		if _, paused := conn.Paused(time.Now()); !paused {
			err = in.book.Check(ctx, conn) // nothing waits, but orders are in doubt
		}
	}
	if err != nil && ctx.Err() == nil && !store.Down(err) {
		in.log.Error("probe", "connection", id, "error", err)
	}
}

// wake has disagreements that outlast their grace read once more, which opens a case.
func (in *Inbox) wake(ctx context.Context) {
	err := in.store.Tx(ctx, func(tx *store.Tx) error {
		return tx.WakeDisagreements(ctx, ledger.DisagreeGrace)
	})
	if err != nil && ctx.Err() == nil && !store.Down(err) {
		in.log.Error("disagreements", "error", err)
	}
}
