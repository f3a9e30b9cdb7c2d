package localpg_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"counterfoil/models/store/localpg"
)

// fakePostgres is a folder with programs that only tell a version.
func fakePostgres(t *testing.T, version string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"initdb", "postgres"} {
		script := fmt.Sprintf("#!/bin/sh\necho '%s (PostgreSQL) %s'\n", name, version)
		if err := os.WriteFile(filepath.Join(dir, name), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestUnusablePostgresIsOneClearLine(t *testing.T) {
	dir := folder(t)
	stop(t, start(t, dir))
	version, err := os.ReadFile(filepath.Join(dir, "pg", "data", "PG_VERSION"))
	if err != nil {
		t.Fatal(err)
	}
	made := strings.TrimSpace(string(version))
	tests := []struct{ name, bin, data, want string }{
		{"none", t.TempDir(), folder(t), "apt-get install postgresql"},
		{"too old", fakePostgres(t, "14.9"), folder(t), "no Postgres 15 or newer"},
		{"another major version than the cluster's", fakePostgres(t, "99.1"), dir, "install postgresql-" + made},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv("PG_BIN", tt.bin)
			_, err := localpg.Start(t.Context(), tt.data, localpg.Options{})
			if err == nil || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q in one line", err, tt.want)
			}
		})
	}
	start(t, dir) // a refused start keeps nothing locked
}
