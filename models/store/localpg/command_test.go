package localpg_test

import (
	"sync"
	"sync/atomic"
	"testing"

	"counterfoil/models/store/localpg"
)

func TestCommandUsesTheServerThatRuns(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	s := start(t, dir)
	dsn, done, err := localpg.ForCommand(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	if dsn != s.DSN() {
		t.Error("the command got another address")
	}
	done()
	mustAsk(t, s.DSN(), "SELECT 'still there'")
}

func TestCommandsTakeTurns(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	var inside, most atomic.Int32
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			dsn, done, err := localpg.ForCommand(t.Context(), dir)
			if err != nil {
				t.Error(err)
				return
			}
			defer done()
			most.Store(max(most.Load(), inside.Add(1)))
			defer inside.Add(-1)
			if _, err := ask(dsn, "SELECT 'in'"); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if most.Load() != 1 {
		t.Errorf("%d commands at once", most.Load())
	}
	if _, running, err := localpg.Find(dir); running || err != nil {
		t.Errorf("after the commands: running %v, error %v", running, err)
	}
}

func TestServeWaitsForACommand(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	_, done, err := localpg.ForCommand(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		s, err := localpg.Start(t.Context(), dir, localpg.Options{})
		if err != nil {
			t.Error(err)
			return
		}
		stop(t, s)
	})
	done()
	wg.Wait()
}
