package storetest_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"counterfoil/models/store/storetest"
)

// askNew tells this test binary that it runs as the program of TestFilesGoWithTheProgram.
const askNew = "STORETEST_TEST_ASK_NEW"

func connect(t *testing.T, dsn string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

func ping(dsn string, patience time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	return conn.Ping(ctx)
}

func TestEachDatabaseIsMigratedAndAlone(t *testing.T) {
	t.Parallel()
	const several = 4
	dsns := make([]string, several)
	var wg sync.WaitGroup
	for i := range dsns {
		wg.Go(func() { dsns[i] = storetest.New(t) })
	}
	wg.Wait()
	for _, dsn := range dsns {
		conn := connect(t, dsn)
		var tables int
		if err := conn.QueryRow(t.Context(), "SELECT count(*) FROM information_schema.tables WHERE table_name IN ('events', 'river_job')").Scan(&tables); err != nil || tables != 2 {
			t.Errorf("%d of the schema's tables, error %v", tables, err)
		}
		if _, err := conn.Exec(t.Context(), "CREATE TABLE only_here ()"); err != nil {
			t.Error("another test's table is here: ", err)
		}
	}
}

func TestDatabaseIsDroppedAlthoughSomebodyIsConnected(t *testing.T) {
	t.Parallel()
	var dsn string
	t.Run("a test", func(t *testing.T) {
		dsn = storetest.New(t)
		conn, err := pgx.Connect(t.Context(), dsn)
		if err != nil {
			t.Fatal(err)
		}
		if err := conn.Ping(t.Context()); err != nil { // and never closed
			t.Fatal(err)
		}
	})
	if err := ping(dsn, time.Minute); err == nil || !strings.Contains(err.Error(), "does not exist") {
		t.Errorf("after the test: %v", err)
	}
}

func TestOwnServerStopsAndStartsUnderTheSameAddress(t *testing.T) {
	t.Parallel()
	s := storetest.NewServer(t)
	dsn := s.New()
	mustExec(t, dsn, "CREATE TABLE kept ()")
	s.Stop()
	if err := ping(dsn, time.Minute); err == nil {
		t.Error("a stopped server answers")
	}
	s.StartAgain()
	mustExec(t, dsn, "TABLE kept")
}

func TestOwnServerFreezesAndThaws(t *testing.T) {
	t.Parallel()
	s := storetest.NewServer(t)
	conn := connect(t, s.New())
	s.Freeze()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	answered := make(chan error, 1)
	go func() {
		_, err := conn.Exec(t.Context(), "SELECT 1")
		answered <- err
	}()
	select {
	case err := <-answered:
		t.Errorf("a frozen server answered: %v", err)
	case <-ctx.Done():
	}
	s.Thaw()
	if err := <-answered; err != nil {
		t.Errorf("after the thaw: %v", err)
	}
}

func TestOwnServerComesBackAfterKill(t *testing.T) {
	t.Parallel()
	s := storetest.NewServer(t)
	dsn := s.New()
	mustExec(t, dsn, "CREATE TABLE kept ()")
	s.Kill()
	deadline := time.Now().Add(30 * time.Second)
	for ping(dsn, time.Second) != nil {
		if time.Now().After(deadline) {
			t.Fatal("it doesn't come back")
		}
	}
	mustExec(t, dsn, "TABLE kept")
}

// TestAskAndSayWhere is run by TestFilesGoWithTheProgram in a program of its own.
func TestAskAndSayWhere(t *testing.T) {
	if os.Getenv(askNew) == "" {
		t.Skip("part of TestFilesGoWithTheProgram")
	}
	conn := connect(t, storetest.New(t))
	var folder string
	if err := conn.QueryRow(t.Context(), "SHOW data_directory").Scan(&folder); err != nil {
		t.Fatal(err)
	}
	fmt.Println("folder", folder)
	<-t.Context().Done() // until it is killed
}

func TestFilesGoWithTheProgram(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "-test.run=^TestAskAndSayWhere$")
	cmd.Env = append(os.Environ(), askNew+"=1", "COUNTERFOIL_TEST_DSN=")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var folder string
	for lines := bufio.NewScanner(out); folder == "" && lines.Scan(); {
		if rest, ok := strings.CutPrefix(lines.Text(), "folder "); ok {
			folder = rest
		}
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if folder == "" {
		t.Fatal("the program didn't start")
	}
	top := strings.TrimSuffix(folder, "/data/pg/data")
	deadline := time.Now().Add(30 * time.Second)
	for {
		if _, err := os.Stat(top); errors.Is(err, os.ErrNotExist) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s is still there", top)
		}
		<-time.After(20 * time.Millisecond)
	}
}

func mustExec(t *testing.T, dsn, sql string) {
	t.Helper()
	if _, err := connect(t, dsn).Exec(t.Context(), sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}
