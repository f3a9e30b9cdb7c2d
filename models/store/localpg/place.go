package localpg

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// elsewhere holds the clusters of data folders that Postgres' user can't reach,
// such as those below /root.
const elsewhere = "/var/lib/counterfoil"

// A place is where a cluster lies and which user runs it.
type place struct {
	data string              // the program's data folder
	home string              // the folder that holds pg
	cred *syscall.Credential // nil: our own user
}

func (p place) pg() string      { return filepath.Join(p.home, "pg") }
func (p place) cluster() string { return filepath.Join(p.home, "pg", "data") }
func (p place) pointer() string { return filepath.Join(p.data, "pg.at") }

// existing tells where the cluster of a data folder is, or would be.
func existing(data string) (place, error) {
	p := place{data: data, home: data}
	at, err := os.ReadFile(p.pointer())
	if errors.Is(err, fs.ErrNotExist) {
		return p, nil
	}
	if err != nil {
		return place{}, fmt.Errorf("localpg: %w", err)
	}
	p.home = strings.TrimSpace(string(at))
	if info, err := os.Stat(p.home); err != nil || !info.IsDir() {
		return place{}, fmt.Errorf("localpg: the database of %s lay in %s, which is gone: bring it back, or remove %s to begin with an empty one",
			data, p.home, p.pointer())
	}
	return p, nil
}

// majorVersion is the version of Postgres that made the cluster, 0 if there is none.
func (p place) majorVersion() (int, error) {
	text, err := os.ReadFile(filepath.Join(p.cluster(), "PG_VERSION"))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if errors.Is(err, fs.ErrPermission) {
		return 0, fmt.Errorf("localpg: the database in %s belongs to another user: %w", p.home, err)
	}
	if err != nil {
		return 0, fmt.Errorf("localpg: %w", err)
	}
	major, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return 0, fmt.Errorf("localpg: version of the cluster: %w", err)
	}
	return major, nil
}

// name marks the processes of this cluster and of no other: it stands in the
// command line of each. The width is fixed, so that none is the beginning of another.
func (p place) name() (string, error) {
	info, err := os.Stat(p.cluster())
	if err != nil {
		return "", fmt.Errorf("localpg: %w", err)
	}
	sys, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return "", errors.New("localpg: the file system tells no inode")
	}
	return fmt.Sprintf("counterfoil-%08x-%016x", sys.Dev, sys.Ino), nil
}

// settle decides which user runs Postgres, and moves a cluster yet to be made out
// of a folder that this user can't reach. Postgres refuses to run as root.
func (p place) settle(ctx context.Context, b binaries) (place, error) {
	if os.Geteuid() != 0 {
		return p, nil
	}
	if info, err := os.Stat(p.pg()); err == nil {
		// Whoever made it goes on, be it an ordinary user who now calls us with sudo.
		sys, ok := info.Sys().(*syscall.Stat_t)
		if !ok || sys.Uid == 0 {
			return place{}, fmt.Errorf("localpg: %s belongs to root, and Postgres doesn't run as root: give it to its user again (chown -R postgres %s)", p.pg(), p.pg())
		}
		p.cred = &syscall.Credential{Uid: sys.Uid, Gid: sys.Gid}
		return p, nil
	}
	var err error
	if p.cred, err = unprivileged(); err != nil {
		return place{}, err
	}
	if p.home != p.data || p.reaches(ctx, b) {
		return p, nil
	}
	return p.moveAway()
}

func unprivileged() (*syscall.Credential, error) {
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err := strconv.ParseUint(u.Uid, 10, 32)
		if err != nil {
			continue
		}
		gid, err := strconv.ParseUint(u.Gid, 10, 32)
		if err != nil {
			continue
		}
		return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
	}
	return nil, errors.New("localpg: Postgres doesn't run as root, and there is no user postgres or nobody to run it as")
}

// reaches tells whether Postgres' user can walk to the data folder, by walking
// there: permissions are more than mode bits.
func (p place) reaches(ctx context.Context, b binaries) bool {
	cmd := exec.CommandContext(ctx, filepath.Join(b.dir, "postgres"), "--version")
	p.dress(cmd, syscall.SIGKILL)
	cmd.Dir = p.data
	return cmd.Run() == nil
}

func (p place) moveAway() (place, error) {
	if err := os.MkdirAll(elsewhere, 0o711); err != nil {
		return place{}, fmt.Errorf("localpg: %w", err)
	}
	sum := sha256.Sum256([]byte(p.data))
	// Never the same folder twice: a data folder that was removed and made again begins empty.
	home, err := os.MkdirTemp(elsewhere, fmt.Sprintf("%x-", sum[:6]))
	if err != nil {
		return place{}, fmt.Errorf("localpg: %w", err)
	}
	if err := os.Chmod(home, 0o711); err != nil {
		return place{}, fmt.Errorf("localpg: %w", err)
	}
	tmp := p.pointer() + ".new"
	if err := writeFile(tmp, home+"\n", 0o644); err != nil {
		return place{}, err
	}
	if err := os.Rename(tmp, p.pointer()); err != nil {
		return place{}, fmt.Errorf("localpg: %w", err)
	}
	p.home = home
	return p, syncFolder(p.data)
}

// dress makes a command run as Postgres' user, in a process group of its own (a
// Ctrl-C in the terminal is for us, not for it), and end when our thread ends.
func (p place) dress(cmd *exec.Cmd, end syscall.Signal) {
	cmd.Dir = "/"
	// Nothing of our environment: PGDATA or PGPORT would change what runs, and
	// secrets are none of its business.
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: end, Credential: p.cred}
}

// give hands a file to Postgres' user.
func (p place) give(path string) error {
	if p.cred == nil {
		return nil
	}
	if err := os.Chown(path, int(p.cred.Uid), int(p.cred.Gid)); err != nil {
		return fmt.Errorf("localpg: %w", err)
	}
	return nil
}

func (p place) writePassword(path string) error {
	if err := writeFile(path, rand.Text()+"\n", 0o600); err != nil {
		return err
	}
	return p.give(path)
}

func (p place) password() (string, error) {
	text, err := os.ReadFile(filepath.Join(p.pg(), "password"))
	if err != nil {
		return "", fmt.Errorf("localpg: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}

func writeFile(path, text string, mode fs.FileMode) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, mode)
	if err != nil {
		return fmt.Errorf("localpg: %w", err)
	}
	_, err = f.WriteString(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("localpg: %w", err)
	}
	return nil
}

func syncFolder(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("localpg: %w", err)
	}
	if err := errors.Join(d.Sync(), d.Close()); err != nil {
		return fmt.Errorf("localpg: %w", err)
	}
	return nil
}
