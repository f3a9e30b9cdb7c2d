package app

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"counterfoil/models"
	"counterfoil/models/platform/sandbox"
)

// begin starts the program, as one process or as several.
type begin func(t testing.TB) *rig

// oneAndTwo plays a scenario against one process, and against two that share a
// database and of which either may get any request.
func oneAndTwo(t *testing.T, scenario func(t *testing.T, start begin)) {
	t.Parallel()
	for name, start := range map[string]begin{"one process": start, "two processes": startTwo} {
		t.Run(name, func(t *testing.T) { scenario(t, start) })
	}
}

// startTwo is a rig of two processes.
func startTwo(t testing.TB) *rig {
	t.Helper()
	r := start(t)
	other := r.beside()
	bases := []string{r.base, other.base}
	r.doors = func() string { return bases[rand.IntN(len(bases))] }
	return r
}

// Fifty deliveries of one payment to two processes of which one after the other is
// killed, five times in all.
func TestTwoKilledInTurn(t *testing.T) {
	t.Parallel()
	c := startChild(t)
	other := c.sibling()
	if err := other.launch(); err != nil {
		t.Fatal(err)
	}
	c.withShopify(nil).withStripe("hk", nil)
	s := newSink(t)
	c.live("hk", s, true, usual...)
	_, told := c.manyWays()
	topics := map[string]bool{}
	for _, ns := range told {
		for _, n := range ns {
			topics[n.Topic] = true
		}
	}
	if len(topics) < 8 {
		t.Fatalf("only %d topics: %v", len(topics), topics)
	}
	killed := make(chan struct{})
	go func() {
		defer close(killed)
		for i := range 5 {
			<-time.After(time.Duration(100+rand.IntN(300)) * time.Millisecond)
			dies := []*child{c, other}[i%2]
			dies.kill()
			if err := dies.launch(); err != nil {
				t.Error(err)
			}
		}
	}()
	shuffled(told, 50, func(slug string, n sandbox.Notification) {
		c.persist(slug, n)
		<-time.After(50 * time.Millisecond)
	})
	<-killed
	c.expire()
	c.carried()
	if got := s.effects(); got != allOnce {
		t.Errorf("%d calls: %s", s.count(), got)
	}
	t.Logf("%d calls", s.count())
}

// firstCalls has one process claim and send a paid order's instruction. While the
// destination has the call in its hands, the other process starts; then meanwhile goes
// on, before anything is answered.
func (c *child) firstCalls(s *sink, idempotent bool, meanwhile func(w http.ResponseWriter, a call)) *child {
	t := c.t
	t.Helper()
	other := c.sibling()
	s.mu.Lock()
	later := s.answer
	s.answer = func(w http.ResponseWriter, a call, nth int) {
		switch {
		case nth == 1:
			if err := other.launch(); err != nil {
				t.Error(err)
			}
			meanwhile(w, a)
		case later != nil:
			later(w, a, nth)
		}
	}
	s.mu.Unlock()
	c.live("hk", s, idempotent, models.FulfillmentInstruction)
	id, ns, err := c.shop.CreateOrder(sandbox.ShopifyOrder{Total: "100.00"})
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range append(ns, must(c.shop.Pay(id))...) {
		c.persist("hk", n)
	}
	return other
}

// answered writes an answer that the caller has when it comes back.
func answered(t testing.TB, w http.ResponseWriter, status int) {
	w.WriteHeader(status)
	if err := http.NewResponseController(w).Flush(); err != nil {
		t.Error(err)
	}
}

// idempotentOrNot plays a scenario with a destination that knows a key again, and with
// one that doesn't.
func idempotentOrNot(t *testing.T, scenario func(t *testing.T, idempotent bool)) {
	t.Parallel()
	for _, idempotent := range []bool{true, false} {
		t.Run(fmt.Sprintf("idempotent %t", idempotent), func(t *testing.T) {
			t.Parallel()
			scenario(t, idempotent)
		})
	}
}

// A process dies after the destination answered and before that is stored; the other
// one takes over.
func TestTheOtherTakesOver(t *testing.T) {
	idempotentOrNot(t, func(t *testing.T, idempotent bool) {
		c := startChild(t)
		c.withShopify(nil)
		s := newSink(t)
		dead := make(chan struct{})
		c.firstCalls(s, idempotent, func(w http.ResponseWriter, a call) {
			// The result can't be stored before the process is gone.
			lock := c.lock(`SELECT 1 FROM actions WHERE id = ` + a.key + ` FOR UPDATE`)
			answered(t, w, http.StatusOK)
			go func() {
				defer close(dead)
				c.kill()
				if err := lock.Rollback(); err != nil {
					t.Error(err)
				}
			}()
		})
		<-dead
		c.expire()
		if idempotent {
			if a := c.becomes(models.ActionDone, ""); a.Tries != 2 || s.count() != 2 || s.effects() != "fulfillment_instruction/order 1" || c.openCases() != "" {
				t.Errorf("%d calls: %s, %+v, open %q", s.count(), s.effects(), a, c.openCases())
			}
			return
		}
		c.becomes(models.ActionUnclear, "")
		c.settled()
		if s.count() != 1 || c.openCases() != "action_unclear/fulfillment_instruction/hold" {
			t.Errorf("%d calls, open %q", s.count(), c.openCases())
		}
	})
}

// stop halts the process as it is, until resume.
func (c *child) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.address = ""
	pid := c.cmd.Process.Pid
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		c.t.Error(err)
	}
	// What runs at that moment still runs for a little while.
	for deadline := time.Now().Add(c.waits); ; {
		tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
		halted := err == nil && len(tasks) > 0
		for _, task := range tasks {
			stat, err := os.ReadFile(task)
			_, state, _ := strings.Cut(string(stat), ") ")
			halted = halted && err == nil && strings.HasPrefix(state, "T")
		}
		if halted {
			return
		}
		if time.Now().After(deadline) {
			c.t.Error("the process doesn't stop")
			return
		}
		<-time.After(time.Millisecond)
	}
}

func (c *child) resume() {
	if err := syscall.Kill(c.cmd.Process.Pid, syscall.SIGCONT); err != nil {
		c.t.Error(err)
	}
}

// blocked counts the statements with a text in them that wait for a lock.
func (r *rig) blocked(text string) int {
	r.t.Helper()
	var n int
	r.scan(&n, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' AND strpos(query, $1) > 0`, text)
	return n
}

// A process is stopped while it sends, its lease runs out, and the other one decides.
// Then it goes on, and its late answer does no harm, or settles what was unclear.
func TestStoppedWhileItSends(t *testing.T) {
	idempotentOrNot(t, func(t *testing.T, idempotent bool) {
		c := startChild(t)
		c.withShopify(nil)
		s := newSink(t)
		stopped := make(chan struct{})
		late := make(chan struct{})
		s.answer = func(w http.ResponseWriter, _ call, _ int) {
			<-late // the first answer is settled before the second one comes
			answered(t, w, http.StatusInternalServerError)
		}
		c.firstCalls(s, idempotent, func(w http.ResponseWriter, _ call) {
			c.stop()
			answered(t, w, http.StatusOK)
			close(stopped)
		})
		<-stopped
		c.expire()
		if idempotent {
			c.wait("the other sends it again", func() bool { return s.count() == 2 })
		} else if c.becomes(models.ActionUnclear, ""); c.openCases() != "action_unclear/fulfillment_instruction/hold" {
			t.Errorf("open %q", c.openCases())
		}
		c.resume()
		c.becomes(models.ActionDone, "")
		if idempotent {
			// The second answer comes too late to change anything.
			lock := c.lock(`SELECT 1 FROM actions FOR UPDATE`)
			close(late)
			c.wait("the second answer is to be stored", func() bool { return c.blocked("FROM actions WHERE id") > 0 })
			if err := lock.Commit(); err != nil {
				t.Fatal(err)
			}
			c.wait("it was looked at", func() bool { return c.blocked("") == 0 })
		}
		c.carried()
		want := 1
		if idempotent {
			want = 2
		}
		a := c.instruction()
		if a.State != "done" || a.Tries != want || s.count() != want || s.effects() != "fulfillment_instruction/order 1" || c.openCases() != "" {
			t.Errorf("%d calls: %s, %+v, open %q", s.count(), s.effects(), a, c.openCases())
		}
	})
}

// Of two processes one sees that the platform is away, and dies. The other one has not
// asked it since, and finds everything else in order: it may not send.
func TestTheOtherSawTheOutage(t *testing.T) {
	t.Parallel()
	c := startChild(t)
	other := c.sibling()
	if err := other.launch(); err != nil {
		t.Fatal(err)
	}
	c.withShopify(map[string]string{"down_after": "0s", "carry_fresh": "1h"})
	s := newSink(t)
	c.live("hk", s, true, models.FulfillmentInstruction)
	id := c.placed(sandbox.ShopifyOrder{})
	o, _ := c.order(gid(id))
	// Whoever claims waits here.
	lock := c.lock(`SELECT 1 FROM shops FOR NO KEY UPDATE`)
	c.postAll("hk", must(c.shop.Pay(id))...)
	c.settled()
	c.shop.Down.Store(true)
	through := *c.rig
	through.doors = c.where
	var res struct{ Result string }
	if code := through.call(http.MethodPost, "/api/v1/orders/"+o.ID+"/resync", &res); code != http.StatusOK || res.Result != "unavailable" {
		t.Fatalf("resync answered %d %q", code, res.Result)
	}
	c.kill()
	if err := lock.Commit(); err != nil {
		t.Fatal(err)
	}
	c.expire()
	c.exec(`UPDATE actions SET due_at = now()`)
	if c.becomes(models.ActionWaiting, "verified"); s.count() != 0 {
		t.Fatalf("%d calls while the platform is away", s.count())
	}
	c.shop.Down.Store(false)
	c.carried()
	if o, _ := c.order(gid(id)); s.effects() != "fulfillment_instruction/order 1" || s.count() != 1 || o.Verification.State != "verified" {
		t.Errorf("%d calls: %s, order %+v", s.count(), s.effects(), o.Verification)
	}
}

// A process is stopped in the middle of a claim, with the order locked. Its locks end
// before a lease does, so that the other one isn't kept from the order.
func TestStoppedWithTheOrderLocked(t *testing.T) {
	t.Parallel()
	c := startChild(t)
	other := c.sibling()
	c.withShopify(nil)
	s := newSink(t)
	c.live("hk", s, false, models.FulfillmentInstruction)
	id := c.placed(sandbox.ShopifyOrder{})
	shop := c.lock(`SELECT 1 FROM shops FOR NO KEY UPDATE`)
	c.postAll("hk", must(c.shop.Pay(id))...)
	c.settled()
	order := c.lock(`SELECT 1 FROM orders FOR UPDATE`)
	if err := shop.Commit(); err != nil {
		t.Fatal(err)
	}
	c.wait("a claim waits for the order", func() bool { return c.blocked("FROM orders o WHERE o.id = ") > 0 })
	c.stop()
	if err := order.Commit(); err != nil {
		t.Fatal(err)
	}
	c.wait("the stopped process has the order", func() bool {
		var n int
		c.scan(&n, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state = 'idle in transaction'`)
		return n > 0
	})
	if err := other.launch(); err != nil {
		t.Fatal(err)
	}
	c.becomes(models.ActionDone, "")
	c.resume()
	c.carried()
	if s.count() != 1 {
		t.Errorf("%d calls", s.count())
	}
}
