package pglock_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/postgres"
	"github.com/carillon/carillon/internal/testservices/migrated"
	"github.com/carillon/carillon/worker/leader"
	"github.com/carillon/carillon/worker/leader/pglock"
)

// process is one of two that compete, each with connections of its own.
type process struct {
	name string
	end  func()
}

// began is a term that has begun.
type began struct {
	by   *process
	term schedule.Term
	at   time.Time
}

// compete starts a process that campaigns, in a database at url.
func compete(t *testing.T, url, name string, terms chan<- began) *process {
	t.Helper()
	store, err := postgres.Open(t.Context(), url+"&application_name="+name, postgres.Options{MaxConns: 4, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	p := &process{name: name}
	elector := leader.New(leader.Options{Lease: store, Lock: pglock.New(url, 0), Now: store.Now, Logger: slog.New(slog.DiscardHandler)})
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = elector.Run(ctx, func(ctx, _ context.Context, term schedule.Term) error {
			terms <- began{p, term, time.Now()}
			<-ctx.Done()
			return nil
		})
	}()
	p.end = sync.OnceFunc(func() {
		cancel()
		<-done
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(p.end)
	return p
}

// takeovers has a process lead, another follow, and measures from the fault to
// the follower's first term.
func takeovers(t *testing.T, rounds int, fault func(conn *pgx.Conn, first *process)) []time.Duration {
	t.Helper()
	url := migrated.Postgres(t)
	conn := connected(t, url)
	var took []time.Duration
	for round := range rounds {
		terms := make(chan began, 100)
		first := compete(t, url, fmt.Sprintf("first-%d", round), terms)
		<-terms
		second := compete(t, url, fmt.Sprintf("second-%d", round), terms)
		waiting(t, conn, 1)
		lockHeld(t, conn)
		at := time.Now()
		fault(conn, first)
		select {
		case next := <-terms:
			if next.by != second {
				t.Error("the first leads again, before the one that followed")
			}
			took = append(took, next.at.Sub(at))
		case <-time.After(10 * time.Second):
			t.Fatal("nobody has taken over after ten seconds")
		}
		first.end()
		second.end()
	}
	slices.Sort(took)
	t.Logf("takeover after %s to %s, in the middle %s (%d rounds)", took[0], took[len(took)-1], took[len(took)/2], len(took))
	return took
}

// lockHeld waits until the row says that the leader has the lock: on a busy
// machine it may have found the row free before it was connected.
func lockHeld(t *testing.T, conn *pgx.Conn) {
	t.Helper()
	for held := false; !held; <-time.After(time.Millisecond) {
		if err := conn.QueryRow(t.Context(), `SELECT lock_held FROM leaders`).Scan(&held); err != nil {
			t.Fatal(err)
		}
	}
}

func TestTakeoverIsAMatterOfMilliseconds(t *testing.T) {
	t.Parallel()
	const rounds = 10
	const allSessions = `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
 WHERE datname = current_database() AND (application_name = $1 OR pid = ANY($2))`
	for _, c := range []struct {
		name  string
		fault func(conn *pgx.Conn, first *process)
		most  time.Duration // in the middle: a busy machine may be late once
	}{
		{
			name: "every session of the leader ends, as when it is killed", most: 300 * time.Millisecond,
			fault: func(conn *pgx.Conn, first *process) {
				if _, err := conn.Exec(t.Context(), allSessions, first.name, pids(t, conn, true)); err != nil {
					t.Error(err)
				}
			},
		},
		{
			name: "the session of its lock ends, and it does not know", most: 300 * time.Millisecond,
			fault: func(conn *pgx.Conn, _ *process) { terminate(t, conn, pids(t, conn, true)[0]) },
		},
		{
			name: "it ends gracefully", most: 300 * time.Millisecond,
			fault: func(_ *pgx.Conn, first *process) { first.end() },
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			if took := takeovers(t, rounds, c.fault); took[rounds/2] > c.most {
				t.Errorf("takeover took %s in the middle, want at most %s", took[rounds/2], c.most)
			}
		})
	}
}
