package localpg_test

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"counterfoil/models/store/localpg"
)

func TestStartsAnswersAndStops(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	if _, running, err := localpg.Find(dir); running || err != nil {
		t.Fatalf("before the start: running %v, error %v", running, err)
	}
	s := start(t, dir)
	if got := mustAsk(t, s.DSN(), "SELECT current_database()"); got != "counterfoil" {
		t.Errorf("database %q", got)
	}
	if dsn, running, err := localpg.Find(dir); dsn != s.DSN() || !running || err != nil {
		t.Errorf("found another address, or running %v, error %v", running, err)
	}
	pids := s.Processes()
	if len(pids) < 2 {
		t.Errorf("processes %v", pids)
	}
	stop(t, s)
	select {
	case <-s.Done():
	default:
		t.Error("stopped, but not done")
	}
	for _, pid := range pids {
		if alive(pid) {
			t.Errorf("process %d outlived the server", pid)
		}
	}
	if _, running, err := localpg.Find(dir); running || err != nil {
		t.Errorf("after the stop: running %v, error %v", running, err)
	}
	start(t, dir)
}

func TestServerIsPrivateAndSilentAboutStatements(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	s := start(t, dir)
	for setting, want := range map[string]string{
		"listen_addresses":        "127.0.0.1",
		"unix_socket_directories": "",
		"password_encryption":     "scram-sha-256",
		"server_encoding":         "UTF8",
		"timezone":                "UTC",
	} {
		if got := mustAsk(t, s.DSN(), "SELECT current_setting('"+setting+"')"); got != want {
			t.Errorf("%s = %q, want %q", setting, got, want)
		}
	}
	without, err := url.Parse(s.DSN())
	if err != nil {
		t.Fatal(err)
	}
	without.User = url.UserPassword("counterfoil", "guess")
	if _, err := ask(without.String(), "SELECT 'in'"); err == nil {
		t.Error("a wrong password was let in")
	}
	if info, err := os.Stat(filepath.Join(dir, "pg", "password")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("password file: mode %v, error %v", info.Mode(), err)
	}
	if _, err := ask(s.DSN(), "SELECT ('Chan Tai Man')::integer::text"); err == nil {
		t.Error("a wrong statement worked")
	}
	stop(t, s)
	log, err := os.ReadFile(filepath.Join(dir, "pg.log"))
	if err != nil || len(log) == 0 {
		t.Fatalf("log of %d bytes, error %v", len(log), err)
	}
	if strings.Contains(string(log), "Chan Tai Man") {
		t.Error("the log tells what a statement carried")
	}
}

func TestSecondStartIsRefused(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	start(t, dir)
	_, err := localpg.Start(t.Context(), dir, localpg.Options{})
	want := fmt.Sprintf("the data folder %s is in use by process %d", dir, os.Getpid())
	if err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}

func TestKilledPostmasterIsStartedAgain(t *testing.T) {
	t.Parallel()
	s := start(t, folder(t))
	mustAsk(t, s.DSN(), "CREATE TABLE kept AS SELECT 'yes' AS v")
	for range 2 {
		killed := s.Processes()[0]
		if err := syscall.Kill(killed, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		eventually(t, "another postmaster", func() bool {
			pids := s.Processes()
			return len(pids) > 1 && pids[0] != killed && !alive(killed)
		})
		if got := mustAsk(t, s.DSN(), "SELECT v FROM kept"); got != "yes" {
			t.Errorf("kept %q", got)
		}
	}
}

func TestServerDiesWithItsParent(t *testing.T) {
	t.Parallel()
	for _, both := range []bool{false, true} {
		t.Run(fmt.Sprintf("postmaster killed too %v", both), func(t *testing.T) {
			t.Parallel()
			dir := folder(t)
			h := startHelper(t, self(t), dir, nil)
			mustAsk(t, h.dsn(t), "CREATE TABLE kept AS SELECT 'yes' AS v")
			postmaster := pidOf(t, dir)
			h.kill()
			if both {
				_ = syscall.Kill(postmaster, syscall.SIGKILL) // it may be gone already
			}
			// At once, without waiting for the old server.
			s := start(t, dir)
			if alive(postmaster) {
				t.Error("the old server still runs beside the new one")
			}
			if got := mustAsk(t, s.DSN(), "SELECT v FROM kept"); got != "yes" {
				t.Errorf("kept %q", got)
			}
		})
	}
}

func TestServerEndsAfterItsParentWasKilled(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	h := startHelper(t, self(t), dir, nil)
	h.dsn(t)
	postmaster := pidOf(t, dir)
	h.kill()
	eventually(t, "the server ends", func() bool { return !alive(postmaster) })
	eventually(t, "nothing is found", func() bool {
		_, running, err := localpg.Find(dir)
		return !running && err == nil
	})
}

func TestStartKilledInsideInitdbLeavesNothingHarmful(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	for _, reached := range []string{"pg.new", "pg.new/data/PG_VERSION", "pg.new/data/base/1/PG_VERSION"} {
		h := startHelper(t, self(t), dir, nil)
		eventually(t, reached, func() bool { return exists(filepath.Join(dir, reached)) })
		h.kill()
		if exists(filepath.Join(dir, "pg")) {
			t.Fatalf("a cluster stands there although initdb was killed at %s", reached)
		}
		if err := os.RemoveAll(filepath.Join(dir, "pg.new", "password")); err != nil {
			t.Fatal(err)
		}
		eventually(t, "nobody writes there", func() bool { return os.RemoveAll(filepath.Join(dir, "pg.new")) == nil })
	}
	h := startHelper(t, self(t), dir, nil)
	eventually(t, "initdb at work", func() bool { return exists(filepath.Join(dir, "pg.new/data/PG_VERSION")) })
	h.kill()
	s := start(t, dir)
	if exists(filepath.Join(dir, "pg.new")) {
		t.Error("half a cluster is still there")
	}
	mustAsk(t, s.DSN(), "SELECT 'works'")
}

// A killed server leaves its pid in a file, and that number may belong to any
// process by now, in a container even to ourselves.
func TestPidFileOfSomebodyElseIsNoObstacle(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	s := start(t, dir)
	file := filepath.Join(dir, "pg", "data", "postmaster.pid")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	stop(t, s)
	_, rest, _ := strings.Cut(string(text), "\n")
	if err := os.WriteFile(file, fmt.Appendf(nil, "%d\n%s", os.Getpid(), rest), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, running, err := localpg.Find(dir); running || err != nil {
		t.Errorf("took itself for Postgres: running %v, error %v", running, err)
	}
	start(t, dir)
}

func TestStartGivesUpWithItsContext(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if s, err := localpg.Start(ctx, dir, localpg.Options{Throwaway: true}); err == nil {
		stop(t, s)
		t.Fatal("started although nobody waits")
	}
	start(t, dir)
}

func TestFixedPortIsKept(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	first := start(t, dir)
	stop(t, first)
	again, err := localpg.Start(t.Context(), dir, localpg.Options{Throwaway: true, Port: first.Port()})
	if err != nil {
		t.Fatal(err)
	}
	defer stop(t, again)
	if again.DSN() != first.DSN() {
		t.Error("another address after a start with the same port")
	}
}

func TestUnreachableDataFolder(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root runs Postgres as somebody else")
	}
	dir := t.TempDir() // closed to others
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	s := start(t, dir)
	at, err := os.ReadFile(filepath.Join(dir, "pg.at"))
	if err != nil {
		t.Fatal(err)
	}
	home := strings.TrimSpace(string(at))
	t.Cleanup(func() { os.RemoveAll(home) })
	if !strings.HasPrefix(home, "/var/lib/counterfoil/") || exists(filepath.Join(dir, "pg")) {
		t.Errorf("the cluster lies in %s", home)
	}
	mustAsk(t, s.DSN(), "CREATE TABLE kept AS SELECT 'yes' AS v")
	if dsn, running, err := localpg.Find(dir); dsn != s.DSN() || !running || err != nil {
		t.Errorf("found another address, or running %v, error %v", running, err)
	}
	stop(t, s)
	s = start(t, dir)
	if got := mustAsk(t, s.DSN(), "SELECT v FROM kept"); got != "yes" {
		t.Errorf("kept %q", got)
	}
	stop(t, s)
	if err := os.RemoveAll(home); err != nil {
		t.Fatal(err)
	}
	if _, err := localpg.Start(t.Context(), dir, localpg.Options{}); err == nil || !strings.Contains(err.Error(), "which is gone") {
		t.Errorf("a lost database was replaced by an empty one: %v", err)
	}
}

func TestOrdinaryUser(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("the other tests run as an ordinary user already")
	}
	const nobody = 65534
	dir := folder(t)
	parent := filepath.Dir(dir)
	if err := os.Chown(parent, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(parent, "helper") // the test binary itself lies where only we can read
	if out, err := exec.Command("install", "-m", "755", self(t), program).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	h := startHelper(t, program, dir, &syscall.Credential{Uid: nobody, Gid: nobody})
	mustAsk(t, h.dsn(t), "CREATE TABLE kept AS SELECT 'yes' AS v")
	if _, err := localpg.Start(t.Context(), dir, localpg.Options{}); err == nil || !strings.Contains(err.Error(), strconv.Itoa(h.cmd.Process.Pid)) {
		t.Errorf("error %v doesn't name process %d", err, h.cmd.Process.Pid)
	}
	if err := h.close(); err != nil {
		t.Fatal(err)
	}
	if err := h.cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	// Root goes on with what an ordinary user began, as that user.
	s := start(t, dir)
	if got := mustAsk(t, s.DSN(), "SELECT v FROM kept"); got != "yes" {
		t.Errorf("kept %q", got)
	}
}

func pidOf(t *testing.T, dir string) int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "pg", "data", "postmaster.pid"))
	if err != nil {
		t.Fatal(err)
	}
	first, _, _ := strings.Cut(string(text), "\n")
	pid, err := strconv.Atoi(first)
	if err != nil {
		t.Fatal(err)
	}
	return pid
}
