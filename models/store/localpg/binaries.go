package localpg

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
)

// oldest is the first Postgres that our schema works with.
const oldest = 15

// binaries are one installed version of Postgres.
type binaries struct {
	dir   string
	major int
}

var versionText = regexp.MustCompile(`\(PostgreSQL\) (\d+)`)

// findBinaries looks in $PG_BIN, else in PATH, else where Debian and Red Hat put
// them, newest first. A cluster can be run only by the major version that made
// it; wanted is that version, or 0 for a cluster yet to be made.
func findBinaries(ctx context.Context, wanted int) (binaries, error) {
	found := installed(ctx)
	i := slices.IndexFunc(found, func(b binaries) bool {
		return b.major == wanted || wanted == 0 && b.major >= oldest
	})
	if i >= 0 {
		return found[i], nil
	}
	if wanted != 0 {
		return binaries{}, fmt.Errorf("localpg: this data folder needs Postgres %d: install postgresql-%d, or set PG_BIN to its bin folder", wanted, wanted)
	}
	return binaries{}, fmt.Errorf("localpg: no Postgres %d or newer: install it (Debian: apt-get install postgresql), set PG_BIN to its bin folder, or set DATABASE_URL", oldest)
}

func installed(ctx context.Context) []binaries {
	if dir := os.Getenv("PG_BIN"); dir != "" {
		b, err := inspect(ctx, dir)
		if err != nil {
			return nil
		}
		return []binaries{b}
	}
	var found []binaries
	for _, pattern := range []string{"/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin"} {
		dirs, err := filepath.Glob(pattern)
		if err != nil {
			continue
		}
		for _, dir := range dirs {
			if b, err := inspect(ctx, dir); err == nil {
				found = append(found, b)
			}
		}
	}
	slices.SortStableFunc(found, func(a, b binaries) int { return cmp.Compare(b.major, a.major) })
	if path, err := exec.LookPath("postgres"); err == nil {
		if b, err := inspect(ctx, filepath.Dir(path)); err == nil {
			found = slices.Insert(found, 0, b)
		}
	}
	return found
}

// inspect asks the binaries in a folder for their version.
func inspect(ctx context.Context, dir string) (binaries, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return binaries{}, err
	}
	if _, err := exec.LookPath(filepath.Join(dir, "initdb")); err != nil {
		return binaries{}, err
	}
	out, err := exec.CommandContext(ctx, filepath.Join(dir, "postgres"), "--version").Output()
	if err != nil {
		return binaries{}, err
	}
	m := versionText.FindSubmatch(out)
	if m == nil {
		return binaries{}, errors.New("no version")
	}
	major, err := strconv.Atoi(string(m[1]))
	return binaries{dir: dir, major: major}, err
}
