package localpg

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// What the holder of a data folder does with it.
const (
	useServe   = "serve"   // keeps it; others may use its database
	useCommand = "command" // gives it back when the command is over
)

// A lock is the ownership of a data folder. The kernel frees it at any death.
type lock struct{ f *os.File }

// inUse says that another process owns the data folder.
type inUse struct {
	data string
	pid  int // 0: it has only just taken it
	use  string
}

func (e *inUse) Error() string {
	if e.pid == 0 {
		return fmt.Sprintf("the data folder %s is in use by another process", e.data)
	}
	return fmt.Sprintf("the data folder %s is in use by process %d", e.data, e.pid)
}

func takeLock(data, use string) (*lock, error) {
	f, err := os.OpenFile(filepath.Join(data, "lock"), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("localpg: %w", err)
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		held := holder(f, data)
		f.Close()
		return nil, held
	}
	if err == nil {
		err = f.Truncate(0)
	}
	if err == nil {
		_, err = f.WriteAt(fmt.Appendf(nil, "%d %s\n", os.Getpid(), use), 0)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("localpg: lock the data folder: %w", err)
	}
	return &lock{f}, nil
}

func holder(f *os.File, data string) *inUse {
	held := &inUse{data: data}
	text := make([]byte, 64)
	n, _ := f.ReadAt(text, 0) // an unreadable holder is still a holder
	pid, use, ok := strings.Cut(strings.TrimSpace(string(text[:n])), " ")
	if !ok {
		return held
	}
	held.use = use
	held.pid, _ = strconv.Atoi(pid)
	return held
}

// release gives the folder back. The file stays: removing it would let two
// processes lock two files of the same name.
func (l *lock) release() {
	_ = l.f.Truncate(0)
	_ = l.f.Close()
}
