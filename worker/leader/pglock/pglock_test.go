package pglock_test

import (
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/carillon/carillon/internal/store/postgres"
	"github.com/carillon/carillon/internal/test/services"
	"github.com/carillon/carillon/internal/test/services/leaks"
	"github.com/carillon/carillon/internal/test/services/migrated"
	"github.com/carillon/carillon/worker/leader"
	"github.com/carillon/carillon/worker/leader/leadertest"
	"github.com/carillon/carillon/worker/leader/pglock"
)

func TestMain(m *testing.M) {
	leadertest.Together()
	leaks.Main(m)
}

func TestAdvisoryLockLeads(t *testing.T) {
	t.Parallel()
	services.Postgres(t, nil) // without a server, skip here and say so once
	leadertest.Run(t, func(t *testing.T, test func(*testing.T, leadertest.Setting)) {
		url := migrated.Postgres(t)
		store, err := postgres.Open(t.Context(), url, postgres.Options{MaxConns: 4})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := store.Close(); err != nil {
				t.Error(err)
			}
		})
		test(t, leadertest.Setting{Lease: store, Now: store.Now, Soon: leadertest.Busy, Lock: func() leader.Lock { return pglock.New(url, 0) }})
	})
}

func TestASessionThatDiesPassesItsLockOn(t *testing.T) {
	t.Parallel()
	url := services.Postgres(t, nil)
	first, second, other := pglock.New(url, 0), pglock.New(url, 0), pglock.New(url, 1)
	if err := first.Acquire(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := other.Acquire(t.Context()); err != nil {
		t.Fatalf("the lock of another shard: %v", err)
	}
	defer func() { _ = other.Release(t.Context()) }()
	acquired := make(chan error, 1)
	go func() { acquired <- second.Acquire(t.Context()) }()

	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	const kill = `SELECT pg_terminate_backend(pid) FROM pg_locks
 WHERE locktype = 'advisory' AND objid = 0 AND granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`
	if _, err := conn.Exec(t.Context(), kill); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-acquired:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("the lock of a dead session was not passed on")
	}
	for _, lock := range []*pglock.Lock{first, second} {
		if err := lock.Release(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

func TestNoMessageHoldsThePassword(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"postgres://u:geheim@127.0.0.1:1/x?connect_timeout=1", "postgres://u:geheim@[::1", "postgres://u:geheim@127.0.0.1:99999999/x"} {
		err := pglock.New(url, 0).Acquire(t.Context())
		if err == nil || strings.Contains(err.Error(), "geheim") {
			t.Errorf("got %v, want an error without the password", err)
		}
	}
}
