package migrations_test

import (
	"database/sql"
	"errors"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"counterfoil/migrations"
	"counterfoil/models/store/storetest"
)

// empty makes a database with nothing in it, on the server of the tests.
func empty(t *testing.T) string {
	t.Helper()
	dsn := storetest.New(t)
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	if _, err := conn.Exec(t.Context(), `DROP SCHEMA public CASCADE; CREATE SCHEMA public`); err != nil {
		t.Fatal(err)
	}
	return dsn
}

func open(t *testing.T, dsn string) *sql.DB {
	t.Helper()
	cfg, err := pgx.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	db := stdlib.OpenDB(*cfg)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func TestEveryStepNamesItsOldestRelease(t *testing.T) {
	t.Parallel()
	files := migrations.Files()
	if len(files) == 0 {
		t.Fatal("no steps")
	}
	db := open(t, storetest.New(t))
	for _, name := range files {
		oldest, err := migrations.Oldest(name)
		if err != nil {
			t.Error(err)
			continue
		}
		if oldest < 1 || oldest > migrations.Newest() {
			t.Errorf("%s: oldest release %d", name, oldest)
		}
		number, _, _ := strings.Cut(name, "_")
		var kept int64
		if err := db.QueryRowContext(t.Context(), `SELECT oldest FROM schema_oldest WHERE version = $1::bigint`, number).Scan(&kept); err != nil || kept != oldest {
			t.Errorf("%s: its first line says %d, the table %d, %v", name, oldest, kept, err)
		}
	}
	var steps, rows int64
	if err := db.QueryRowContext(t.Context(), `SELECT (SELECT max(version_id) FROM goose_db_version), (SELECT count(*) FROM schema_oldest)`).Scan(&steps, &rows); err != nil {
		t.Fatal(err)
	}
	if steps != migrations.Newest() || rows != steps {
		t.Errorf("the schema is at %d with %d oldest releases, the program at %d", steps, rows, migrations.Newest())
	}
	if _, err := migrations.Oldest("99999_none.sql"); err == nil {
		t.Error("a step that isn't there has an oldest release")
	}
}

func TestUpFromNothing(t *testing.T) {
	t.Parallel()
	dsn := empty(t)
	db := open(t, dsn)
	if err := migrations.Check(t.Context(), db); err == nil || !strings.Contains(err.Error(), "counterfoil migrate") {
		t.Errorf("an empty database: %v", err)
	}
	todo, err := migrations.Pending(t.Context(), dsn)
	if err != nil || int64(len(todo)) != migrations.Newest() || !slices.IsSorted(todo) {
		t.Fatalf("pending %v, %v", todo, err)
	}
	// Several processes start at once.
	done := make(chan error, 3)
	for range cap(done) {
		go func() { done <- migrations.Up(t.Context(), dsn) }()
	}
	for range cap(done) {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if err := migrations.Check(t.Context(), db); err != nil {
		t.Error(err)
	}
	if todo, err := migrations.Pending(t.Context(), dsn); err != nil || len(todo) != 0 {
		t.Errorf("pending %v, %v", todo, err)
	}
	for _, table := range []string{"orders", "events", "ledger", "river_job"} {
		var there bool
		if err := db.QueryRowContext(t.Context(), `SELECT to_regclass($1) IS NOT NULL`, table).Scan(&there); err != nil || !there {
			t.Errorf("%s isn't there, %v", table, err)
		}
	}
	if err := migrations.Up(t.Context(), dsn); err != nil {
		t.Error("up again:", err)
	}
}

// A newer schema is fine as long as its oldest release is no newer than this program.
func TestNewerSchema(t *testing.T) {
	t.Parallel()
	ours := migrations.Newest()
	for name, c := range map[string]struct {
		oldest  []int64 // of each later step
		refused bool
	}{
		"same":                   {nil, false},
		"one step, still ours":   {[]int64{1}, false},
		"one step, exactly ours": {[]int64{ours}, false},
		"one step too new":       {[]int64{ours + 1}, true},
		"the last asks less":     {[]int64{ours + 1, 1}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dsn := storetest.New(t)
			db := open(t, dsn)
			for i, oldest := range c.oldest {
				at := ours + 1 + int64(i)
				if _, err := db.ExecContext(t.Context(), `INSERT INTO goose_db_version (version_id, is_applied) VALUES ($1, true)`, at); err != nil {
					t.Fatal(err)
				}
				if _, err := db.ExecContext(t.Context(), `INSERT INTO schema_oldest VALUES ($1, $2)`, at, oldest); err != nil {
					t.Fatal(err)
				}
			}
			if err := migrations.Check(t.Context(), db); errors.Is(err, migrations.ErrNewer) != c.refused || err != nil && !c.refused {
				t.Errorf("check: %v", err)
			}
			// Whoever may run on it, nobody takes it back or trips over it.
			if err := migrations.Up(t.Context(), dsn); err != nil {
				t.Errorf("up: %v", err)
			}
			if todo, err := migrations.Pending(t.Context(), dsn); err != nil || len(todo) != 0 {
				t.Errorf("pending %v, %v", todo, err)
			}
		})
	}
}

func TestUnreadableAddress(t *testing.T) {
	t.Parallel()
	for _, dsn := range []string{"postgres://%zz", "postgres://127.0.0.1:1/none?connect_timeout=1"} {
		if err := migrations.Up(t.Context(), dsn); err == nil {
			t.Errorf("%s is no database", dsn)
		}
		if _, err := migrations.Pending(t.Context(), dsn); err == nil {
			t.Errorf("%s is no database", dsn)
		}
	}
	// No error tells the password.
	_, err := migrations.Pending(t.Context(), (&url.URL{Scheme: "postgres", Host: "127.0.0.1:1", Path: "/x", User: url.UserPassword("u", "hush")}).String())
	if err == nil || strings.Contains(err.Error(), "hush") {
		t.Errorf("error: %v", err)
	}
}
