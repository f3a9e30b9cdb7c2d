// Package migrations has the schema as numbered steps, forward only, embedded in
// the program. Each SQL file's first line names the oldest release of the schema
// that may still run on it.
package migrations

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"strconv"

	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
	"github.com/riverqueue/river/riverdriver/riverdatabasesql"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/jackc/pgx/v5"
)

//go:embed *.sql
var files embed.FS

// riverStep is the number of the step that brings River's own tables. It needs a
// transaction for each of its versions, so it is a Go step outside goose's.
const riverStep = 2

var oldestLine = regexp.MustCompile(`^-- oldest: (\d+)\n`)

// Digest identifies the schema that these steps lead to.
func Digest() string {
	h := sha256.New()
	names, _ := fs.Glob(files, "*.sql")
	for _, n := range names {
		b, _ := files.ReadFile(n)
		h.Write(b)
	}
	fmt.Fprintf(h, "river %d", riverStep)
	return hex.EncodeToString(h.Sum(nil))[:16]
}

func open(dsn string) (*sql.DB, error) {
	cfg, err := pgx.ParseConfig(dsn)
	if err != nil {
		return nil, fmt.Errorf("migrations: the database address can't be read: %w", err)
	}
	return stdlib.OpenDB(*cfg), nil
}

func provider(db *sql.DB) (*goose.Provider, error) {
	locker, err := lock.NewPostgresSessionLocker()
	if err != nil {
		return nil, fmt.Errorf("migrations: %w", err)
	}
	river := goose.NewGoMigration(riverStep, &goose.GoFunc{RunDB: func(ctx context.Context, db *sql.DB) error {
		m, err := rivermigrate.New(riverdatabasesql.New(db), nil)
		if err != nil {
			return err
		}
		_, err = m.Migrate(ctx, rivermigrate.DirectionUp, nil)
		return err
	}}, nil)
	return goose.NewProvider(goose.DialectPostgres, db, files,
		goose.WithGoMigrations(river), goose.WithSessionLocker(locker), goose.WithDisableGlobalRegistry(true))
}

// Up brings the schema up to date. Several processes may call it at once.
func Up(ctx context.Context, dsn string) error {
	db, err := open(dsn)
	if err != nil {
		return err
	}
	defer db.Close()
	if at, err := version(ctx, db); err != nil || at > Newest() {
		return err
	}
	p, err := provider(db)
	if err != nil {
		return err
	}
	if _, err := p.Up(ctx); err != nil {
		return fmt.Errorf("migrations: %w", err)
	}
	return nil
}

// version is where the schema stands; 0 on an empty database.
func version(ctx context.Context, db *sql.DB) (int64, error) {
	var known bool
	if err := db.QueryRowContext(ctx, `SELECT to_regclass('goose_db_version') IS NOT NULL`).Scan(&known); err != nil {
		return 0, fmt.Errorf("migrations: the database can't be asked: %w", err)
	}
	if !known {
		return 0, nil
	}
	var v int64
	if err := db.QueryRowContext(ctx, `SELECT COALESCE(max(version_id), 0) FROM goose_db_version WHERE is_applied`).Scan(&v); err != nil {
		return 0, fmt.Errorf("migrations: the schema's version can't be read: %w", err)
	}
	return v, nil
}

// Pending lists the steps that Up would run.
func Pending(ctx context.Context, dsn string) ([]string, error) {
	db, err := open(dsn)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	p, err := provider(db)
	if err != nil {
		return nil, err
	}
	status, err := p.Status(ctx)
	if err != nil {
		return nil, fmt.Errorf("migrations: %w", err)
	}
	var todo []string
	for _, s := range status {
		if s.State == goose.StatePending {
			name := s.Source.Path
			if name == "" {
				name = fmt.Sprintf("%05d_river", s.Source.Version)
			}
			todo = append(todo, name)
		}
	}
	return todo, nil
}

// Newest is the schema version that this program brings.
func Newest() int64 {
	newest := int64(riverStep)
	names, _ := fs.Glob(files, "*.sql")
	for _, n := range names {
		if v, err := goose.NumericComponent(n); err == nil {
			newest = max(newest, v)
		}
	}
	return newest
}

// ErrNewer says that the schema was made by a newer release and that this one may
// not run on it.
var ErrNewer = errors.New("the database was migrated by a newer release that this one can't run on")

// Check tells whether this program may run on the schema it finds: a schema that
// is newer must name a release no newer than ours as its oldest.
func Check(ctx context.Context, db *sql.DB) error {
	at, err := version(ctx, db)
	if err != nil {
		return err
	}
	if at < Newest() {
		return fmt.Errorf("migrations: the schema is at %d and must be at %d: run counterfoil migrate", at, Newest())
	}
	if at == Newest() {
		return nil
	}
	var oldest sql.NullInt64
	if err := db.QueryRowContext(ctx, `SELECT max(oldest) FROM schema_oldest`).Scan(&oldest); err != nil {
		return fmt.Errorf("migrations: the schema's oldest release can't be read: %w", err)
	}
	if oldest.Valid && oldest.Int64 > Newest() {
		return ErrNewer
	}
	return nil
}

// Oldest is what a step's first line names as the oldest schema release that may
// still run on it.
func Oldest(name string) (int64, error) {
	b, err := files.ReadFile(name)
	if err != nil {
		return 0, fmt.Errorf("migrations: %w", err)
	}
	m := oldestLine.FindSubmatch(b)
	if m == nil {
		return 0, fmt.Errorf("migrations: %s doesn't begin with \"-- oldest: N\"", name)
	}
	return strconv.ParseInt(string(m[1]), 10, 64)
}

// Files lists the SQL steps.
func Files() []string {
	names, _ := fs.Glob(files, "*.sql")
	return names
}
