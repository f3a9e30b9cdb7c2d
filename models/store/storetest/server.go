package storetest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"counterfoil/models/store/localpg"
)

// A Server is a Postgres of one test's own, to be stopped, frozen or killed. It
// keeps its address. It is gone when the test is over.
type Server struct {
	t    testing.TB
	data string
	pg   *localpg.Server
}

// NewServer starts a Postgres for one test alone.
func NewServer(t testing.TB) *Server {
	t.Helper()
	dir, err := folder()
	if err != nil {
		t.Fatalf("storetest: %v", err)
	}
	s := &Server{t: t, data: filepath.Join(dir, "data")}
	t.Cleanup(func() {
		s.Stop()
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("storetest: %v", err)
		}
	})
	s.start(0)
	return s
}

// New makes a fresh migrated database on this server and gives its address. It
// goes with the server.
func (s *Server) New() string {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	dsn, err := clone(ctx, s.pg.DSN(), newName())
	if err != nil {
		s.t.Fatalf("storetest: %v", err)
	}
	return dsn
}

// Stop ends the server; connections are cut and new ones refused.
func (s *Server) Stop() {
	s.t.Helper()
	s.Thaw()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := s.pg.Stop(ctx); err != nil {
		s.t.Errorf("storetest: %v", err)
	}
}

// StartAgain starts the server after Stop, under the same address.
func (s *Server) StartAgain() {
	s.t.Helper()
	s.start(s.pg.Port())
}

func (s *Server) start(port int) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	pg, err := localpg.Start(ctx, s.data, localpg.Options{Throwaway: true, Port: port})
	if err != nil {
		s.t.Fatalf("storetest: %v", err)
	}
	s.pg = pg
}

// Freeze halts all processes of the server: connections stay open, nothing answers.
func (s *Server) Freeze() {
	s.t.Helper()
	s.signal(s.running()[:1], syscall.SIGSTOP) // a halted postmaster makes no new ones
	s.signal(s.running(), syscall.SIGSTOP)
}

// Thaw lets a frozen server go on where it was.
func (s *Server) Thaw() {
	s.t.Helper()
	s.signal(s.pg.Processes(), syscall.SIGCONT)
}

// Kill kills the server without warning. It comes back by itself, under the same
// address, within about a second.
func (s *Server) Kill() {
	s.t.Helper()
	s.signal(s.running(), syscall.SIGKILL)
}

func (s *Server) running() []int {
	s.t.Helper()
	pids := s.pg.Processes()
	if len(pids) == 0 {
		s.t.Fatal("storetest: the server doesn't run")
	}
	return pids
}

func (s *Server) signal(pids []int, sig syscall.Signal) {
	s.t.Helper()
	for _, pid := range pids {
		if err := syscall.Kill(pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
			s.t.Errorf("storetest: %v", err)
		}
	}
}

// roomy is how much a file system in memory must have free before tests go there.
const roomy = 2 << 30

// folder makes a folder that Postgres' user can walk to, unlike t.TempDir. It lies
// in memory where that is possible and nobody asked for another place: cloning a
// database makes some 400 files, which takes 15 ms there and up to 200 ms on a disk.
func folder() (string, error) {
	parent := os.TempDir()
	var memory syscall.Statfs_t
	err := syscall.Statfs("/dev/shm", &memory)
	if err == nil && os.Getenv("TMPDIR") == "" && memory.Bavail*uint64(memory.Bsize) > roomy {
		parent = "/dev/shm"
	}
	dir, err := os.MkdirTemp(parent, "counterfoil-test-")
	if err != nil {
		return "", err
	}
	return dir, os.Chmod(dir, 0o711)
}

// startShared starts the server of this test program. No test is its last user,
// so it ends with the program: Postgres by itself, its files by a small shell that
// waits for the program's end.
func startShared() (string, error) {
	dir, err := folder()
	if err != nil {
		return "", err
	}
	if err := removeAfterUs(dir); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	s, err := localpg.Start(ctx, filepath.Join(dir, "data"), localpg.Options{Throwaway: true})
	if err != nil {
		return "", err
	}
	return s.DSN(), nil
}

// removeAfterUs removes a folder once this program is gone, however it ends, and
// the Postgres in it has ended too (20 s at most).
func removeAfterUs(dir string) error {
	const script = `read -r _; n=0
while [ -e "$0/data/pg/data/postmaster.pid" ] && [ $n -lt 200 ]; do sleep 0.1; n=$((n+1)); done
rm -rf "$0"`
	cmd := exec.Command("/bin/sh", "-c", script, dir)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a Ctrl-C must not end it
	// Nothing is ever written: the shell's read returns when the kernel closes our
	// end. It is a bare descriptor, so that no garbage collection closes it earlier.
	var pipe [2]int
	if err := syscall.Pipe2(pipe[:], syscall.O_CLOEXEC); err != nil {
		return err
	}
	stdin := os.NewFile(uintptr(pipe[0]), "stdin")
	defer stdin.Close()
	cmd.Stdin = stdin
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("remove %s afterwards: %w", dir, err)
	}
	return nil
}
