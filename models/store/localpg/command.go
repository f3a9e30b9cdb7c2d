package localpg

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"
)

// commandWait is how long a command waits for a server that is starting, or for
// another command that has the data folder.
const commandWait = 60 * time.Second

// Find tells the address of the private Postgres that runs for a data folder, if
// one does and takes connections.
func Find(dataDir string) (dsn string, running bool, err error) {
	dataDir, err = filepath.Abs(dataDir)
	if err != nil {
		return "", false, fmt.Errorf("localpg: %w", err)
	}
	p, err := existing(dataDir)
	if err != nil {
		return "", false, err
	}
	if major, err := p.majorVersion(); err != nil || major == 0 {
		return "", false, err
	}
	name, err := p.name()
	if err != nil {
		return "", false, err
	}
	seen := readPidFile(p.cluster())
	if !seen.ready || !slices.Contains(processes(name), seen.pid) {
		return "", false, nil
	}
	password, err := p.password()
	if err != nil {
		return "", false, err
	}
	return address(seen.port, password), true, nil
}

// ForCommand gives a command the database of a data folder: that of the process
// that serves it, or, if none does, one started for as long as the command runs.
// Call stop at the end. Two commands take turns.
func ForCommand(ctx context.Context, dataDir string) (dsn string, stop func(), err error) {
	deadline := time.Now().Add(commandWait)
	for {
		s, err := start(ctx, dataDir, Options{}, useCommand)
		if err == nil {
			return s.DSN(), func() {
				s.cancel()
				<-s.done
			}, nil
		}
		held, ok := errors.AsType[*inUse](err)
		if !ok {
			return "", nil, err
		}
		if held.use == useServe {
			dsn, running, err := Find(dataDir)
			if err != nil {
				return "", nil, err
			}
			if running {
				return dsn, func() {}, nil
			}
		}
		if time.Now().After(deadline) || !pause(ctx, 10*pollTime) {
			return "", nil, errors.Join(ctx.Err(), err)
		}
	}
}
