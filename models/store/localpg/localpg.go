// Package localpg runs a private Postgres out of the binaries that are installed
// on the machine, for people who just want to start the console, and for tests.
//
// Everything lies below the program's data folder:
//
//	lock         held while a process owns the folder; names that process
//	pg/data      the cluster
//	pg/password  of its only user
//	pg.log       what Postgres says about itself, never about statements
//	pg.new       a cluster that isn't finished; taken away at the next start
//	pg.at        where the others are, when Postgres' user can't reach the data folder
//
// Postgres listens on a free port of 127.0.0.1 and nowhere else, asks for the
// password, and ends with the process that started it, however that ends.
package localpg

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	// settleTime is how long a start waits for what an earlier run left behind:
	// a stopping server takes a second or two.
	settleTime = 15 * time.Second
	// fastTime is how long a server may take to end when its clients are cut off.
	fastTime = 10 * time.Second
	// pollTime is the pause between two looks at a file or at /proc.
	pollTime = 10 * time.Millisecond
	// retryTime is the pause before a server that ended by itself is started again;
	// it doubles up to retryMax while that fails.
	retryTime = 100 * time.Millisecond
	retryMax  = 5 * time.Second
	// startTries: between choosing a free port and listening on it somebody else may take it.
	startTries = 3
)

// Options of a server. The zero value is right for production.
type Options struct {
	Log       *slog.Logger // where restarts are told; nil: nowhere
	Port      int          // 0: a free one
	Throwaway bool         // the data needn't survive a power failure: for tests
}

// A Server is a running Postgres that belongs to this process. If it ends by
// itself it is started again under the same address.
type Server struct {
	opts     Options
	place    place
	binaries binaries
	lock     *lock
	name     string // marks our processes in /proc
	port     int
	dsn      string
	pid      atomic.Int64 // of the postmaster; 0 while there is none
	cancel   context.CancelFunc
	done     chan struct{}
}

// Start starts the Postgres of a data folder, and makes folder and cluster the
// first time. It returns when the server answers. ctx bounds the start only; the
// server runs until Stop. It fails if another process owns the folder.
func Start(ctx context.Context, dataDir string, opts Options) (*Server, error) {
	deadline := time.Now().Add(settleTime)
	for {
		s, err := start(ctx, dataDir, opts, useServe)
		held, ok := errors.AsType[*inUse](err)
		// A command gives the folder back soon, and who has only just taken it
		// hasn't said yet what for.
		if !ok || held.use == useServe || time.Now().After(deadline) || !pause(ctx, pollTime) {
			return s, err
		}
	}
}

func start(ctx context.Context, dataDir string, opts Options, use string) (*Server, error) {
	dataDir, err := filepath.Abs(dataDir)
	if err != nil {
		return nil, fmt.Errorf("localpg: %w", err)
	}
	// Others may pass through, not look: Postgres' user has to reach pg.
	if err := os.MkdirAll(dataDir, 0o711); err != nil {
		return nil, fmt.Errorf("localpg: %w", err)
	}
	l, err := takeLock(dataDir, use)
	if err != nil {
		return nil, err
	}
	s := &Server{opts: opts, lock: l, port: opts.Port, done: make(chan struct{})}
	if opts.Log == nil {
		s.opts.Log = slog.New(slog.DiscardHandler)
	}
	if err := s.find(ctx, dataDir); err != nil {
		l.release()
		return nil, err
	}
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s.cancel = cancel
	giveUp := context.AfterFunc(ctx, cancel)
	started := make(chan error, 1)
	go s.supervise(running, started)
	err = <-started
	if err == nil && !giveUp() {
		err = ctx.Err()
	}
	if err != nil {
		cancel()
		<-s.done
		return nil, err
	}
	return s, nil
}

// find settles where the cluster is, with which binaries and by whom it is run.
func (s *Server) find(ctx context.Context, dataDir string) error {
	p, err := existing(dataDir)
	if err != nil {
		return err
	}
	major, err := p.majorVersion()
	if err != nil {
		return err
	}
	if s.binaries, err = findBinaries(ctx, major); err != nil {
		return err
	}
	s.place, err = p.settle(ctx, s.binaries)
	return err
}

// DSN is the server's address, with the password. It stays the same as long as
// the Server lives.
func (s *Server) DSN() string { return s.dsn }

// Port is the port on 127.0.0.1.
func (s *Server) Port() int { return s.port }

// Done is closed when the server has ended after Stop and the data folder is free.
func (s *Server) Done() <-chan struct{} { return s.done }

// Processes are the server's running processes, the postmaster first; none while
// it is being started again.
func (s *Server) Processes() []int {
	main := int(s.pid.Load())
	if main == 0 {
		return nil
	}
	all := []int{main}
	for _, pid := range processes(s.name) {
		if pid != main {
			all = append(all, pid)
		}
	}
	return all
}

// Stop ends the server and gives the data folder back. Connections are cut, data
// is written. It returns when that is done or ctx is; the server ends in any case.
func (s *Server) Stop(ctx context.Context) error {
	s.cancel()
	select {
	case <-s.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("localpg: stop: %w", ctx.Err())
	}
}

// supervise starts Postgres and starts it again until ctx ends. The first result
// goes to started.
func (s *Server) supervise(ctx context.Context, started chan<- error) {
	// The kernel tells Postgres to end when this *thread* ends, so the thread
	// belongs to Postgres for as long as both live.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(s.done)
	defer s.lock.release()

	child, err := s.first(ctx)
	started <- err
	if err != nil {
		return
	}
	for {
		select {
		case <-ctx.Done():
			child.end()
			s.pid.Store(0)
			return
		case <-child.exited:
			s.pid.Store(0)
		}
		if child = s.again(ctx); child == nil {
			return
		}
	}
}

// again starts a server that ended by itself, as often as it takes; nil when ctx
// ends first.
func (s *Server) again(ctx context.Context) *child {
	s.opts.Log.Warn("private Postgres ended by itself; starting it again")
	for wait := retryTime; pause(ctx, wait); wait = min(2*wait, retryMax) {
		err := s.clear(ctx)
		if err == nil {
			var c *child
			if c, err = s.launch(ctx); err == nil {
				s.opts.Log.Info("private Postgres runs again")
				return c
			}
		}
		s.opts.Log.Error("private Postgres doesn't start", "error", err)
	}
	return nil
}

// first makes the cluster if there is none and starts it.
func (s *Server) first(ctx context.Context) (*child, error) {
	if err := s.create(ctx); err != nil {
		return nil, err
	}
	name, err := s.place.name()
	if err != nil {
		return nil, err
	}
	s.name = name
	if err := s.clear(ctx); err != nil {
		return nil, err
	}
	password, err := s.place.password()
	if err != nil {
		return nil, err
	}
	for try := 1; ; try++ {
		if s.opts.Port == 0 {
			if s.port, err = freePort(); err != nil {
				return nil, err
			}
		}
		s.dsn = address(s.port, password)
		c, err := s.launch(ctx)
		if err != nil && try < startTries && ctx.Err() == nil {
			continue
		}
		if err != nil {
			return nil, err
		}
		if err := createDatabase(ctx, s.dsn); err != nil {
			c.end()
			return nil, err
		}
		return c, nil
	}
}

// clear waits until no process of an earlier run uses the cluster, asks it to end
// first, and removes the pid file that a killed one left. The pid in that file may
// belong to anybody by now, so Postgres itself would refuse to start.
//
// A server without an owner is never taken over, even if it is ready: it was told
// to end when its owner died, and may not have noticed yet.
func (s *Server) clear(ctx context.Context) error {
	begin := time.Now()
	signal := syscall.SIGTERM
	for {
		left := processes(s.name)
		if len(left) == 0 {
			break
		}
		if main := readPidFile(s.place.cluster()).pid; slices.Contains(left, main) {
			left, signal = []int{main}, syscall.SIGINT
		}
		if time.Since(begin) > fastTime {
			left, signal = processes(s.name), syscall.SIGKILL
		}
		for _, pid := range left {
			_ = syscall.Kill(pid, signal) // it may be gone already
		}
		if time.Since(begin) > settleTime {
			return fmt.Errorf("localpg: processes %v of an earlier run don't end", left)
		}
		if !pause(ctx, 10*pollTime) {
			return ctx.Err()
		}
	}
	err := os.Remove(filepath.Join(s.place.cluster(), pidFile))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("localpg: %w", err)
	}
	return nil
}

func address(port int, password string) string {
	u := url.URL{
		Scheme:   "postgres",
		User:     url.UserPassword(role, password),
		Host:     net.JoinHostPort("127.0.0.1", strconv.Itoa(port)),
		Path:     "/" + database,
		RawQuery: "sslmode=disable",
	}
	return u.String()
}

func freePort() (int, error) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("localpg: no free port: %w", err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// pause waits and tells whether ctx is still alive.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
