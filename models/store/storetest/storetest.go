// Package storetest gives each test a database of its own: migrated, empty, and
// gone when the test is over. Only tests may import it.
//
// The server is the one that COUNTERFOIL_TEST_DSN names (the address of a
// superuser, as a URL), else a private one for this test program, started when
// the first test asks.
package storetest

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"counterfoil/migrations"
)

// patience is how long anything here may take before a test fails.
const patience = 60 * time.Second

// shared starts the server of this test program, once.
var shared = sync.OnceValues(func() (string, error) {
	if dsn := os.Getenv("COUNTERFOIL_TEST_DSN"); dsn != "" {
		return dsn, nil
	}
	return startShared()
})

// New makes a fresh database for a test and gives its address. The database is
// dropped at the test's end, whoever is still connected.
func New(t testing.TB) string {
	t.Helper()
	dsn, err := shared()
	if err != nil {
		t.Fatalf("storetest: no Postgres: %v", err)
	}
	return fresh(t, dsn)
}

func newName() string { return "test_" + strings.ToLower(rand.Text()) }

// fresh clones the template on a server.
func fresh(t testing.TB, server string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	name := newName()
	dsn, err := clone(ctx, server, name)
	if err != nil {
		t.Fatalf("storetest: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := drop(ctx, server, name); err != nil {
			t.Errorf("storetest: %v", err)
		}
	})
	return dsn
}

func clone(ctx context.Context, server, name string) (string, error) {
	conn, err := pgx.Connect(ctx, server)
	if err != nil {
		return "", err
	}
	defer conn.Close(ctx)
	template, err := template(ctx, conn, server)
	if err != nil {
		return "", fmt.Errorf("make the template: %w", err)
	}
	if _, err := conn.Exec(ctx, "CREATE DATABASE "+name+" TEMPLATE "+template); err != nil {
		return "", fmt.Errorf("clone the template: %w", err)
	}
	return withDatabase(server, name)
}

func drop(ctx context.Context, server, name string) error {
	conn, err := pgx.Connect(ctx, server)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)"); err != nil {
		return fmt.Errorf("drop the test's database: %w", err)
	}
	return nil
}

// template makes the migrated database that tests are cloned from, once per
// server and schema. Several test programs may ask at the same time.
func template(ctx context.Context, conn *pgx.Conn, server string) (string, error) {
	name := "template_" + migrations.Digest()
	if done, err := complete(ctx, conn, name); done || err != nil {
		return name, err
	}
	if _, err := conn.Exec(ctx, "SELECT pg_advisory_lock($1)", lockKey()); err != nil {
		return "", err // the lock goes with the connection
	}
	if done, err := complete(ctx, conn, name); done || err != nil {
		return name, err
	}
	// What is there without being marked was left by a program that was killed.
	for _, sql := range []string{"DROP DATABASE IF EXISTS " + name + " WITH (FORCE)", "CREATE DATABASE " + name} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return "", err
		}
	}
	dsn, err := withDatabase(server, name)
	if err != nil {
		return "", err
	}
	if err := migrations.Up(ctx, dsn); err != nil {
		return "", err
	}
	_, err = conn.Exec(ctx, "ALTER DATABASE "+name+" WITH IS_TEMPLATE true")
	return name, err
}

// complete tells whether the template is there and migrated: only then it is marked as one.
func complete(ctx context.Context, conn *pgx.Conn, name string) (bool, error) {
	var done bool
	err := conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1 AND datistemplate)", name).Scan(&done)
	return done, err
}

// lockKey keeps apart the programs that make a template of the same schema.
func lockKey() int64 {
	digest, err := hex.DecodeString(migrations.Digest())
	if err != nil || len(digest) < 8 {
		return 0 // all wait for each other, which is only slower
	}
	return int64(binary.BigEndian.Uint64(digest))
}

func withDatabase(server, name string) (string, error) {
	u, err := url.Parse(server)
	if err != nil || u.Scheme == "" {
		return "", fmt.Errorf("the server's address must be a URL: postgres://user:password@host:port/database")
	}
	u.Path = "/" + name
	return u.String(), nil
}
