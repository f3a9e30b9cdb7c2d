package localpg_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"counterfoil/models/store/localpg"
)

// helperFolder makes this test binary a program of its own that only runs the
// Postgres of that folder: one that can be killed.
const helperFolder = "LOCALPG_TEST_HELPER_FOLDER"

func TestMain(m *testing.M) {
	if dir := os.Getenv(helperFolder); dir != "" {
		os.Exit(help(dir))
	}
	os.Exit(m.Run())
}

func help(dir string) int {
	s, err := localpg.Start(context.Background(), dir, localpg.Options{Throwaway: true})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println(s.DSN())
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n') // until the test says so, or is gone
	if err := s.Stop(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// A helper is another process that runs the Postgres of a folder.
type helper struct {
	cmd   *exec.Cmd
	out   *bufio.Reader
	close func() error
}

func startHelper(t *testing.T, program, dir string, as *syscall.Credential) *helper {
	t.Helper()
	cmd := exec.Command(program, "-test.run=^$")
	cmd.Env = append(os.Environ(), helperFolder+"="+dir)
	cmd.Dir = "/"
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: as}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	h := &helper{cmd: cmd, out: bufio.NewReader(out), close: in.Close}
	t.Cleanup(h.kill)
	return h
}

// dsn waits until the helper's Postgres runs.
func (h *helper) dsn(t *testing.T) string {
	t.Helper()
	line, err := h.out.ReadString('\n')
	if err != nil {
		t.Fatalf("the helper didn't start: %v", err)
	}
	return strings.TrimSpace(line)
}

// kill is the death that nobody can prepare for.
func (h *helper) kill() {
	_ = h.cmd.Process.Kill()
	_ = h.cmd.Wait()
}

func self(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// folder is a data folder that other users can walk to, unlike t.TempDir.
func folder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "counterfoil-localpg-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "data")
}

func start(t *testing.T, dir string) *localpg.Server {
	t.Helper()
	s, err := localpg.Start(t.Context(), dir, localpg.Options{Throwaway: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, s) })
	return s
}

func stop(t *testing.T, s *localpg.Server) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := s.Stop(ctx); err != nil {
		t.Error(err)
	}
}

// ask runs one statement on a connection of its own and gives its only value.
func ask(dsn, sql string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return "", err
	}
	defer conn.Close(ctx)
	rows, err := conn.Query(ctx, sql)
	if err != nil {
		return "", err
	}
	values, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || len(values) == 0 {
		return "", err
	}
	return values[0], nil
}

func mustAsk(t *testing.T, dsn, sql string) string {
	t.Helper()
	v, err := ask(dsn, sql)
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return v
}

// eventually waits for a condition.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(30 * time.Second)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-deadline:
			t.Fatalf("never: %s", what)
		case <-tick.C:
		}
	}
}

func alive(pid int) bool {
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return err == nil && len(line) > 0
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
