package inbox

import (
	"context"
	"sync"
	"time"

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

// leave gives the place back, unless somebody came meanwhile and this runner can look
// once more for him.
func (r runs) leave(id int64, failed bool) (again bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.more[id] && !failed {
		delete(r.more, id)
		return true
	}
	r.busy[id]--
	return false
}

// lookEvery is how long a lost alarm can delay an event.
const lookEvery = 2 * time.Second

// Wake is what an alarm does: somebody looks at the connection soon. It never waits.
func (in *Inbox) Wake(connection int64) {
	select {
	case in.alarms <- connection:
	default: // the next round of the lookout finds it
	}
}

// Lookout answers alarms, and finds due rows whatever happened to theirs, until the
// context ends.
func (in *Inbox) Lookout(ctx context.Context) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	var working sync.WaitGroup
	defer working.Wait()
	process := func(id int64) {
		if err := in.Process(ctx, id); err != nil && ctx.Err() == nil && !store.Down(err) {
			in.log.Error("due events not processed", "connection", id, "error", err)
		}
	}
	round := func() {
		in.wake(ctx)
		due, err := in.store.DueConnections(ctx)
		if err != nil {
			return // the database is away; the next round asks again
		}
		for _, id := range due {
			working.Go(func() {
				in.probe(ctx, id)
				process(id)
			})
		}
	}
	for {
		round()
	alarms:
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				break alarms
			case id := <-in.alarms:
				working.Go(func() { process(id) })
			}
		}
	}
}

// probeTime is how long one probe may take before another process tries.
const probeTime = 40 * time.Second

// probe lets one waiting event, or else one cheap call, find out whether a platform is
// back. Of all processes one does.
func (in *Inbox) probe(ctx context.Context, id int64) {
	conn := in.book.ID(id)
	if conn == nil || conn.APIFailing == nil {
		return
	}
	due, mine := false, false
	err := in.store.Tx(ctx, func(tx *store.Tx) error {
		var err error
		if due, err = tx.DueProbe(ctx, id); err != nil || due {
			return err
		}
		mine, err = tx.ClaimProbe(ctx, id, probeTime)
		return err
	})
	if err == nil && mine {
		err = in.book.Check(ctx, conn)
	}
	if err != nil && ctx.Err() == nil && !store.Down(err) {
		in.log.Error("probe", "connection", id, "error", err)
	}
}

// wake has disagreements that outlast their grace read once more, which opens a case.
func (in *Inbox) wake(ctx context.Context) {
	err := in.store.Tx(ctx, func(tx *store.Tx) error {
		return tx.WakeDisagreements(ctx, tx.Now)
	})
	if err != nil && ctx.Err() == nil && !store.Down(err) {
		in.log.Error("disagreements", "error", err)
	}
}
