package pglock_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/carillon/carillon/internal/test/services"
	"github.com/carillon/carillon/worker/leader/pglock"
)

// connected opens a session in addition to those of the locks.
func connected(t testing.TB, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	return conn
}

// locks finds the sessions that hold or await a lock of this database.
const locks = `SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND granted = $1
 AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`

func pids(t testing.TB, conn *pgx.Conn, granted bool) []int32 {
	t.Helper()
	rows, err := conn.Query(t.Context(), locks, granted)
	if err != nil {
		t.Fatal(err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowTo[int32])
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// waiting waits until so many sessions await a lock.
func waiting(t testing.TB, conn *pgx.Conn, n int) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); len(pids(t, conn, false)) != n; <-time.After(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d wait for a lock, want %d", len(pids(t, conn, false)), n)
		}
	}
}

func terminate(t testing.TB, conn *pgx.Conn, pid int32) {
	t.Helper()
	if _, err := conn.Exec(t.Context(), `SELECT pg_terminate_backend($1)`, pid); err != nil {
		t.Fatal(err)
	}
}

func TestATerminatedSessionIsNoticed(t *testing.T) {
	t.Parallel()
	url := services.Postgres(t, nil)
	lock, conn := pglock.New(url, 0), connected(t, url)
	if err := lock.Acquire(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := lock.Keep(t.Context()); err != nil {
		t.Error(err)
	}
	terminate(t, conn, pids(t, conn, true)[0])
	if err := lock.Keep(t.Context()); err == nil {
		t.Error("the lock is kept by a session that was terminated")
	}
	if err := errors.Join(lock.Release(t.Context()), lock.Acquire(t.Context()), lock.Keep(t.Context()), lock.Release(t.Context())); err != nil {
		t.Errorf("the lock cannot be had again: %v", err)
	}
}

func TestAWaitInATerminatedSessionEnds(t *testing.T) {
	t.Parallel()
	url := services.Postgres(t, nil)
	holder, waiter, conn := pglock.New(url, 0), pglock.New(url, 0), connected(t, url)
	if err := holder.Acquire(t.Context()); err != nil {
		t.Fatal(err)
	}
	acquired := make(chan error, 1)
	go func() { acquired <- waiter.Acquire(t.Context()) }()
	waiting(t, conn, 1)
	terminate(t, conn, pids(t, conn, false)[0])
	if err := <-acquired; err == nil {
		t.Error("a session that was terminated has the lock")
	}
	if err := holder.Release(t.Context()); err != nil {
		t.Error(err)
	}
}

// A leader that took over from a stopped process breaks the lock while it waits
// for it itself, maybe behind others.
func TestABrokenLockGoesToThoseThatWait(t *testing.T) {
	t.Parallel()
	url := services.Postgres(t, nil)
	stopped, other, next, conn := pglock.New(url, 0), pglock.New(url, 1), pglock.New(url, 0), connected(t, url)
	for _, lock := range []*pglock.Lock{stopped, other} {
		if err := lock.Acquire(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	acquired := make(chan error, 1)
	go func() { acquired <- next.Acquire(t.Context()) }()
	waiting(t, conn, 1)
	if err := next.Break(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-acquired; err != nil {
		t.Fatalf("acquire what was broken: %v", err)
	}
	if err := stopped.Keep(t.Context()); err == nil {
		t.Error("the stopped process still holds the lock")
	}
	before := pids(t, conn, true)
	if err := next.Break(t.Context()); err != nil {
		t.Fatal(err)
	}
	if after := pids(t, conn, true); !slices.Equal(before, after) {
		t.Errorf("whoever breaks broke its own lock, or another shard's: %v became %v", before, after)
	}
	if err := errors.Join(next.Keep(t.Context()), other.Keep(t.Context())); err != nil {
		t.Error(err)
	}
	if err := errors.Join(stopped.Release(t.Context()), next.Release(t.Context()), other.Release(t.Context())); err != nil {
		t.Error(err)
	}
}

func TestAPoolerInSessionModeKeepsTheLock(t *testing.T) {
	t.Parallel()
	url := services.PgBouncer(t, services.Postgres(t, nil), "session")
	lock := pglock.New(url, 0)
	if err := lock.Acquire(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(lock.Keep(t.Context()), lock.Release(t.Context())); err != nil {
		t.Error(err)
	}
}
