package localpg

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	role     = "counterfoil"
	database = "counterfoil"
	pidFile  = "postmaster.pid"
	// maxLog is the size from which the log begins anew at a start.
	maxLog = 8 << 20
)

// A child is a postmaster that this process started.
type child struct {
	cmd    *exec.Cmd
	exited chan struct{}
}

// end stops the server: first so that data is written, then at any price.
func (c *child) end() {
	for _, step := range []struct {
		signal syscall.Signal
		wait   time.Duration
	}{{syscall.SIGINT, fastTime}, {syscall.SIGQUIT, fastTime / 2}, {syscall.SIGKILL, fastTime / 2}} {
		_ = c.cmd.Process.Signal(step.signal) // it may be gone already
		select {
		case <-c.exited:
			return
		case <-time.After(step.wait):
		}
	}
}

// create makes the cluster beside its place and moves it there when it is
// complete, so that a start that is killed leaves nothing half done.
func (s *Server) create(ctx context.Context) error {
	if major, err := s.place.majorVersion(); err != nil || major != 0 {
		return err
	}
	fresh := filepath.Join(s.place.home, "pg.new")
	if err := removeAll(ctx, fresh); err != nil {
		return fmt.Errorf("localpg: %w", err)
	}
	if err := os.Mkdir(fresh, 0o700); err != nil {
		return fmt.Errorf("localpg: %w", err)
	}
	// The folder is handed over last: as root we write nothing where somebody
	// else could have put a link.
	if err := s.place.writePassword(filepath.Join(fresh, "password")); err != nil {
		return err
	}
	if err := s.place.give(fresh); err != nil {
		return err
	}
	// Not every system has C.UTF-8.
	err := s.initdb(ctx, fresh, "C.UTF-8")
	if err != nil && ctx.Err() == nil {
		err = s.initdb(ctx, fresh, "C")
	}
	if err != nil {
		return err
	}
	if err := os.Rename(fresh, s.place.pg()); err != nil {
		return fmt.Errorf("localpg: %w", err)
	}
	return syncFolder(s.place.home)
}

// removeAll tries again for a while: processes of a killed initdb may still write.
func removeAll(ctx context.Context, dir string) error {
	begin := time.Now()
	for {
		err := os.RemoveAll(dir)
		if err == nil || time.Since(begin) > settleTime || !pause(ctx, 10*pollTime) {
			return err
		}
	}
}

func (s *Server) initdb(ctx context.Context, fresh, locale string) error {
	args := []string{
		"--pgdata=" + filepath.Join(fresh, "data"),
		"--username=" + role,
		"--pwfile=" + filepath.Join(fresh, "password"),
		"--auth=scram-sha-256",
		"--encoding=UTF8",
		"--locale=" + locale,
		"--no-instructions",
	}
	if s.opts.Throwaway {
		args = append(args, "--no-sync")
	}
	cmd := exec.CommandContext(ctx, filepath.Join(s.binaries.dir, "initdb"), args...)
	s.place.dress(cmd, syscall.SIGKILL)
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = fastTime
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("localpg: initdb: %w: %s", err, lastLine(out))
	}
	return nil
}

// settings of the server. Nothing that a statement carries reaches the log: an
// error text or its detail may hold a name or an address.
func (s *Server) settings() []string {
	set := []string{
		"cluster_name=" + s.name,
		"listen_addresses=127.0.0.1",
		"port=" + strconv.Itoa(s.port),
		"unix_socket_directories=", // a socket's path would be too long in many folders
		"max_connections=200",
		"shared_buffers=128MB",
		"jit=off", // our statements are short; compiling them costs more than it saves
		"timezone=UTC",
		"log_timezone=UTC",
		"log_min_messages=log",
		"log_min_error_statement=panic",
		"log_error_verbosity=terse",
		"log_checkpoints=off",
	}
	if s.opts.Throwaway {
		// Commits still reach the kernel: they survive a killed server.
		set = append(set, "fsync=off", "full_page_writes=off", "max_wal_size=256MB")
	}
	return set
}

// launch starts the postmaster and waits until it takes connections. Recovery
// after a crash may take its time; only ctx bounds it.
func (s *Server) launch(ctx context.Context) (*child, error) {
	log, from, err := s.openLog()
	if err != nil {
		return nil, err
	}
	defer log.Close()
	args := []string{"-D", s.place.cluster()}
	for _, set := range s.settings() {
		args = append(args, "-c", set)
	}
	c := &child{cmd: exec.Command(filepath.Join(s.binaries.dir, "postgres"), args...), exited: make(chan struct{})}
	c.cmd.Stdout, c.cmd.Stderr = log, log
	s.place.dress(c.cmd, syscall.SIGINT)
	if err := c.cmd.Start(); err != nil {
		return nil, fmt.Errorf("localpg: start postgres: %w", err)
	}
	go func() {
		_ = c.cmd.Wait() // why it ended stands in its log
		close(c.exited)
	}()
	for {
		seen := readPidFile(s.place.cluster())
		if seen.pid == c.cmd.Process.Pid && seen.ready {
			break
		}
		select {
		case <-c.exited:
			return nil, fmt.Errorf("localpg: postgres ended: %s", tail(log, from))
		case <-ctx.Done():
			c.end()
			return nil, ctx.Err()
		case <-time.After(pollTime):
		}
	}
	s.pid.Store(int64(c.cmd.Process.Pid))
	return c, nil
}

// openLog opens the log for appending and tells where this start's part begins.
// Postgres gets it open, so it stays ours.
func (s *Server) openLog() (*os.File, int64, error) {
	f, err := os.OpenFile(filepath.Join(s.place.home, "pg.log"), os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, 0, fmt.Errorf("localpg: %w", err)
	}
	size, err := f.Seek(0, io.SeekEnd)
	if err == nil && size > maxLog {
		size, err = 0, f.Truncate(0)
	}
	if err != nil {
		f.Close()
		return nil, 0, fmt.Errorf("localpg: %w", err)
	}
	return f, size, nil
}

// tail is the line of the log that says why a start failed.
func tail(log *os.File, from int64) string {
	text, err := io.ReadAll(io.NewSectionReader(log, from, 64<<10))
	if err != nil {
		return err.Error()
	}
	for line := range strings.Lines(string(text)) {
		if _, reason, ok := strings.Cut(line, "FATAL:"); ok {
			return strings.TrimSpace(reason)
		}
	}
	return lastLine(text)
}

func lastLine(text []byte) string {
	lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	return string(lines[len(lines)-1])
}

// createDatabase makes our database the first time.
func createDatabase(ctx context.Context, dsn string) error {
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		return fmt.Errorf("localpg: %w", err)
	}
	config.Database = "postgres"
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return fmt.Errorf("localpg: first connection: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	var there bool
	if err := conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)", database).Scan(&there); err != nil {
		return fmt.Errorf("localpg: %w", err)
	}
	if there {
		return nil
	}
	if _, err := conn.Exec(ctx, "CREATE DATABASE "+database); err != nil {
		return fmt.Errorf("localpg: create database: %w", err)
	}
	return nil
}
