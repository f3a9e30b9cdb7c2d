package app

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"counterfoil/models"
	"counterfoil/models/platform/sandbox"
	"counterfoil/models/seal"
	"counterfoil/models/staff"
	"counterfoil/models/store/storetest"
	"counterfoil/web/config"
)

// childArgs in the environment makes this test program a child that runs a command.
const childArgs = "COUNTERFOIL_TEST_CHILD"

// TestChild is the program itself, when it runs as a child of another test.
func TestChild(t *testing.T) {
	args := os.Getenv(childArgs)
	if args == "" {
		t.Skip("this is for children")
	}
	os.Exit(Main(strings.Fields(args), strings.NewReader(""), os.Stdout, os.Stderr))
}

// A child is the program as a process of its own, on a rig's database.
type child struct {
	*rig
	cmd     *exec.Cmd
	mu      sync.Mutex
	address string // empty: it doesn't run
}

// startChild is a rig whose program is a process that can be killed.
func startChild(t testing.TB) *child {
	t.Helper()
	r := &rig{t: t, waits: patience, clock: &clock{}, dsn: storetest.New(t), key: seal.New()}
	keys, err := keysOf(config.Database{Key: r.key})
	if err != nil {
		t.Fatal(err)
	}
	b, err := open(context.Background(), r.dsn, keys, options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.shut)
	r.app = &App{base: b}
	if r.token, _, err = b.staff.AddToken(context.Background(), commandLine, staff.NewToken{Name: "test", Role: models.Admin}); err != nil {
		t.Fatal(err)
	}
	c := &child{rig: r}
	if err := c.launch(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.kill)
	r.doors = c.where
	return c
}

// sibling is another process on the same database, which isn't started yet. From then
// on either gets any request, as long as it runs.
func (c *child) sibling() *child {
	other := &child{rig: c.rig}
	c.t.Cleanup(other.kill)
	c.doors = func() string {
		a, b := c.where(), other.where()
		if a == "" || b != "" && rand.IntN(2) == 0 {
			return b
		}
		return a
	}
	return other
}

// launch starts the process and waits until it listens.
func (c *child) launch() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cmd = exec.Command(os.Args[0], "-test.run=^TestChild$", "-test.timeout=5m")
	c.cmd.Env = append(os.Environ(), childArgs+"=serve --addr 127.0.0.1:0", "DATABASE_URL="+c.dsn, "COUNTERFOIL_KEY="+c.key, "COUNTERFOIL_DATA="+c.t.TempDir())
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := c.cmd.Start(); err != nil {
		return err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	_, address, ok := strings.Cut(strings.TrimSpace(line), "listens on ")
	if err != nil || !ok {
		return fmt.Errorf("the child says %q: %w", line, err)
	}
	c.address = address
	return nil
}

// kill ends the process as kill -9 does.
func (c *child) kill() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cmd == nil || c.cmd.Process == nil || c.cmd.ProcessState != nil {
		return
	}
	c.address = ""
	_ = c.cmd.Process.Kill()
	_ = c.cmd.Wait()
}

func (c *child) where() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.address
}

// persist sends a notification until it is kept, as the platforms do.
func (c *child) persist(slug string, n sandbox.Notification) {
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		req, err := http.NewRequest(http.MethodPost, c.door()+"/hooks/"+slug, strings.NewReader(string(n.Body)))
		if err != nil {
			c.t.Error(err)
			return
		}
		req.Header = n.Header.Clone()
		if res, err := http.DefaultClient.Do(req); err == nil {
			res.Body.Close()
			if res.StatusCode == http.StatusOK {
				return
			}
		}
		<-time.After(50 * time.Millisecond)
	}
	c.t.Errorf("%s was never kept", n.Topic)
}

// expire ends the leases of a process that was killed, which would take half a minute.
func (c *child) expire() {
	c.exec(`UPDATE platform_objects SET claimed_until = now() WHERE claimed_until > now()`)
	c.exec(`UPDATE actions SET due_at = now() WHERE state = 'sending'`)
}

func TestKilledFiveTimesMeanwhile(t *testing.T) {
	t.Parallel()
	c := startChild(t)
	c.withShopify(nil).withStripe("hk", nil)
	s := newSink(t)
	c.live("hk", s, true, usual...)
	_, told := c.manyWays()
	killed := make(chan struct{})
	go func() {
		defer close(killed)
		for range 5 {
			<-time.After(time.Duration(100+rand.IntN(300)) * time.Millisecond)
			c.kill()
			if err := c.launch(); err != nil {
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

func TestKilledAfterTheDestinationAnswered(t *testing.T) {
	t.Parallel()
	for _, idempotent := range []bool{true, false} {
		t.Run(fmt.Sprintf("idempotent %t", idempotent), func(t *testing.T) {
			t.Parallel()
			c := startChild(t)
			c.withShopify(nil)
			s := newSink(t)
			dead := make(chan struct{})
			s.answer = func(w http.ResponseWriter, a call, nth int) {
				if nth > 1 {
					return
				}
				// The result can't be stored before the process is gone.
				lock := c.lock(`SELECT 1 FROM actions WHERE id = ` + a.key + ` FOR UPDATE`)
				w.WriteHeader(http.StatusOK)
				if err := http.NewResponseController(w).Flush(); err != nil {
					t.Error(err)
				}
				go func() {
					defer close(dead)
					c.kill()
					if err := lock.Rollback(); err != nil {
						t.Error(err)
					}
				}()
			}
			c.live("hk", s, idempotent, models.FulfillmentInstruction)
			id, ns, err := c.shop.CreateOrder(sandbox.ShopifyOrder{Total: "100.00"})
			if err != nil {
				t.Fatal(err)
			}
			for _, n := range append(ns, must(c.shop.Pay(id))...) {
				c.persist("hk", n)
			}
			<-dead
			if err := c.launch(); err != nil {
				t.Fatal(err)
			}
			c.expire()
			if idempotent {
				c.becomes(models.ActionDone, "")
				if s.count() != 2 || s.effects() != "fulfillment_instruction/order 1" {
					t.Errorf("%d calls: %s", s.count(), s.effects())
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
}
