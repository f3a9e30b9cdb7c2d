// Package store keeps everything in Postgres. Reads hang on Store and Tx, writes
// on Tx alone, so that a write needs a transaction and whoever holds an interface
// of reads can't write. It is the only package that knows gorm and SQL.
package store

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"counterfoil/models"
)

// Options of a Store. The zero value is for tests.
type Options struct {
	Now      func() time.Time // business times; nil: time.Now
	Log      *slog.Logger     // nil: nothing is logged
	AuditKey []byte           // key of the audit trail's MACs
	MaxConns int32            // 0: 20
}

// reads has every query that only looks.
type reads struct{ db *gorm.DB }

// A Store is the database outside a transaction.
type Store struct {
	reads
	now      func() time.Time
	auditKey []byte
	pool     *pgxpool.Pool
	sql      *sql.DB
	dsn      string
}

// A Tx is one transaction: every change, and the same looks. Its time is the time
// of everything that it writes.
type Tx struct {
	reads
	Now      time.Time
	auditKey []byte
}

// Open connects to a migrated database. It doesn't wait for it: the first use fails
// if nobody answers.
func Open(ctx context.Context, dsn string, opt Options) (*Store, error) {
	cfg, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return nil, fmt.Errorf("store: the database address can't be read: %w", err)
	}
	cfg.MaxConns = opt.MaxConns
	if cfg.MaxConns == 0 {
		cfg.MaxConns = 20
	}
	cfg.MaxConnIdleTime = 5 * time.Minute
	cfg.ConnConfig.ConnectTimeout = 2 * time.Second
	cfg.PingTimeout = time.Second
	cfg.AfterConnect = func(ctx context.Context, c *pgx.Conn) error {
		// A process that stops in a transaction keeps its locks. Leases last half a minute:
		// whoever takes over after that has to find them gone.
		_, err := c.Exec(ctx, `SET lock_timeout = '3s'; SET TIME ZONE 'UTC'; SET idle_in_transaction_session_timeout = '20s'`)
		return err
	}
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	db := stdlib.OpenDBFromPool(pool)
	if opt.Now == nil {
		opt.Now = time.Now
	}
	now := func() time.Time { return opt.Now().UTC().Truncate(time.Microsecond) }
	log := logger.Discard
	if opt.Log != nil {
		log = logger.NewSlogLogger(opt.Log, logger.Config{SlowThreshold: 200 * time.Millisecond, LogLevel: logger.Warn, ParameterizedQueries: true, IgnoreRecordNotFoundError: true})
	}
	g, err := gorm.Open(postgres.New(postgres.Config{Conn: db}), &gorm.Config{
		SkipDefaultTransaction: true, TranslateError: true, QueryFields: true, NowFunc: now, Logger: log, DisableAutomaticPing: true,
	})
	if err != nil {
		pool.Close()
		return nil, fmt.Errorf("store: %w", err)
	}
	return &Store{reads: reads{g}, now: now, auditKey: opt.AuditKey, pool: pool, sql: db, dsn: dsn}, nil
}

// Close ends all connections.
func (s *Store) Close() {
	_ = s.sql.Close()
	s.pool.Close()
}

// SQL is the pool for libraries that bring their own statements: River, goose.
func (s *Store) SQL() *sql.DB { return s.sql }

// Pool is for LISTEN, which needs a connection of its own.
func (s *Store) Pool() *pgxpool.Pool { return s.pool }

// DSN is the address of the database.
func (s *Store) DSN() string { return s.dsn }

// Now is the program's clock at Postgres' precision.
func (s *Store) Now() time.Time { return s.now() }

// Ping tells whether the database answers.
func (s *Store) Ping(ctx context.Context) error {
	if err := s.sql.PingContext(ctx); err != nil {
		return unavailable(err)
	}
	return nil
}

const txTries = 4

// Tx runs fn in a transaction. fn may run more than once (another transaction was
// in the way), so it must not call platforms, send, or append to what it captured.
func (s *Store) Tx(ctx context.Context, fn func(tx *Tx) error) error {
	for try := 1; ; try++ {
		err := s.db.WithContext(ctx).Transaction(func(g *gorm.DB) error {
			tx := &Tx{reads: reads{g}, Now: s.now(), auditKey: s.auditKey}
			return fn(tx)
		})
		if err == nil {
			return nil
		}
		if !again(err) || try == txTries || ctx.Err() != nil {
			return wrap(err)
		}
		select {
		case <-time.After(time.Duration(rand.Int64N(int64(20*time.Millisecond) << try))):
		case <-ctx.Done():
			return wrap(err)
		}
	}
}

// SQL is the one unwrapping of gorm's transaction, for statements that need arrays
// and for River.
func (tx *Tx) SQL() *sql.Tx {
	return tx.db.Statement.ConnPool.(*sql.Tx)
}

// Audit records who did what. before and after are kept as written; they hold ids,
// states and amounts, never personal data.
func (tx *Tx) Audit(ctx context.Context, actor, verb, subject, before, after string) error {
	mac := hmac.New(sha256.New, tx.auditKey)
	var at [8]byte
	binary.BigEndian.PutUint64(at[:], uint64(tx.Now.UnixMicro()))
	mac.Write(at[:])
	for _, part := range []string{actor, verb, subject, before, after} {
		var n [8]byte
		binary.BigEndian.PutUint64(n[:], uint64(len(part)))
		mac.Write(n[:])
		mac.Write([]byte(part))
	}
	return tx.exec(ctx, `INSERT INTO audit (at, actor, verb, subject, before, after, mac) VALUES (?, ?, ?, ?, ?, ?, ?)`,
		tx.Now, actor, verb, subject, before, after, mac.Sum(nil))
}

// exec runs a statement whose row count doesn't matter.
func (tx *Tx) exec(ctx context.Context, query string, args ...any) error {
	return wrap(tx.db.WithContext(ctx).Exec(query, args...).Error)
}

// changed runs a statement and says how many rows it touched.
func (tx *Tx) changed(ctx context.Context, query string, args ...any) (int64, error) {
	res := tx.db.WithContext(ctx).Exec(query, args...)
	return res.RowsAffected, wrap(res.Error)
}

// rows fills a slice of small row structs.
func (r reads) rows(ctx context.Context, into any, query string, args ...any) error {
	_, err := r.scan(ctx, into, query, args...)
	return err
}

// one fills a single row and fails with not_found under key where there is none.
func (r reads) one(ctx context.Context, key string, into any, query string, args ...any) error {
	n, err := r.scan(ctx, into, query, args...)
	if err == nil && n == 0 {
		return models.Fail(models.NotFound, key)
	}
	return err
}

// scan fills what a query finds and says how many rows that were. gorm's own Scan
// writes each statement with its values for a log that nobody asked for, and into the
// log when it is slow: values may be about a person.
func (r reads) scan(ctx context.Context, into any, query string, args ...any) (int64, error) {
	g := r.db.WithContext(ctx).Raw(query, args...)
	rows, err := g.Rows()
	if err != nil {
		return 0, wrap(err)
	}
	defer rows.Close()
	if !rows.Next() {
		return 0, wrap(rows.Err())
	}
	if err := g.ScanRows(rows, into); err != nil {
		return 0, wrap(err)
	}
	if err := rows.Close(); err != nil {
		return 0, wrap(err)
	}
	return g.RowsAffected, wrap(rows.Err())
}

// again tells whether a transaction failed only because another was in the way.
func again(err error) bool {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (pg.Code == "40001" || pg.Code == "40P01")
}

// Down tells whether an error says that the database can't be used at the moment,
// rather than that a statement was wrong.
func Down(err error) bool {
	if err == nil {
		return false
	}
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch pg.Code[:2] {
		case "08", "53", "57", "58", "55", "25":
			return true
		}
		return false
	}
	if m, ok := errors.AsType[*models.Error](err); ok {
		return m.Code == models.Unavailable
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) || errors.Is(err, sql.ErrConnDone) || errors.Is(err, sql.ErrTxDone) {
		return true
	}
	var connect *pgconn.ConnectError
	return errors.As(err, &connect) || pgconn.SafeToRetry(err) || pgconn.Timeout(err)
}

// uniques are the constraints whose violation is an answer to a person.
var uniques = map[string]*models.Error{
	"staff_email_key":         models.Fail(models.Conflict, "error.staff_exists"),
	"api_tokens_name_key":     models.Fail(models.Conflict, "error.token_exists"),
	"connections_slug_key":    models.Fail(models.Conflict, "error.connection_exists"),
	"orders_platform_ref_key": models.Fail(models.Conflict, "error.order_exists"),
	"holds_open_key":          models.Fail(models.Conflict, "error.held_already"),
	"requests_open_key":       models.Fail(models.Conflict, "error.request_open_already"),
	"approvals_pkey":          models.Fail(models.Conflict, "error.approved_already"),
}

// wrap turns database errors into the console's own where a person or a caller can
// act on them.
func wrap(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*models.Error](err); ok {
		return err
	}
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		if known, ok := uniques[pg.ConstraintName]; ok {
			return known.Because(err)
		}
	}
	if Down(err) {
		return unavailable(err)
	}
	return err
}

func unavailable(err error) error {
	return models.Fail(models.Unavailable, "error.database").Because(err)
}
