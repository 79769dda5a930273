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
	"github.com/carillon/carillon/internal/test/services/migrated"
	"github.com/carillon/carillon/worker/leader"
	"github.com/carillon/carillon/worker/leader/pglock"
)

// byExpiry is how long a row lasts here: far too long for anyone to take over
// before the lock is free.
const byExpiry = time.Minute

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
func compete(t testing.TB, url, name string, terms chan<- began) *process {
	t.Helper()
	store, err := postgres.Open(t.Context(), url+"&application_name="+name, postgres.Options{MaxConns: 4, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	p := &process{name: name}
	elector := leader.New(leader.Options{
		Lease: store, Lock: pglock.New(url, 0), TTL: byExpiry, Now: store.Now, Logger: slog.New(slog.DiscardHandler),
	})
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
// the follower's first term, in the middle of all rounds.
func takeovers(t testing.TB, rounds int, fault func(t testing.TB, conn *pgx.Conn, first *process)) time.Duration {
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
		fault(t, conn, first)
		select {
		case next := <-terms:
			if next.by != second {
				t.Error("the first leads again, before the one that followed")
			}
			took = append(took, next.at.Sub(at))
		case <-time.After(byExpiry / 2):
			t.Fatal("nobody has taken over though the lock is free")
		}
		first.end()
		second.end()
	}
	slices.Sort(took)
	t.Logf("takeover after %s to %s, in the middle %s (%d rounds)", took[0], took[len(took)-1], took[len(took)/2], len(took))
	return took[len(took)/2]
}

// lockHeld waits until the row says that the leader has the lock: on a busy
// machine it may have found the row free before it was connected.
func lockHeld(t testing.TB, conn *pgx.Conn) {
	t.Helper()
	for held := false; !held; <-time.After(time.Millisecond) {
		if err := conn.QueryRow(t.Context(), `SELECT lock_held FROM leaders`).Scan(&held); err != nil {
			t.Fatal(err)
		}
	}
}

// faults are what takes a leader's lock away.
var faults = []struct {
	name string
	do   func(t testing.TB, conn *pgx.Conn, first *process)
}{
	{"every session of the leader ends, as when it is killed", func(t testing.TB, conn *pgx.Conn, first *process) {
		const allSessions = `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
 WHERE datname = current_database() AND (application_name = $1 OR pid = ANY($2))`
		if _, err := conn.Exec(t.Context(), allSessions, first.name, pids(t, conn, true)); err != nil {
			t.Error(err)
		}
	}},
	{"the session of its lock ends, and it does not know", func(t testing.TB, conn *pgx.Conn, _ *process) {
		terminate(t, conn, pids(t, conn, true)[0])
	}},
	{"it ends gracefully", func(_ testing.TB, _ *pgx.Conn, first *process) { first.end() }},
}

func TestWhoeverGetsTheLockTakesOverLongBeforeTheRowExpires(t *testing.T) {
	t.Parallel()
	for _, fault := range faults {
		t.Run(fault.name, func(t *testing.T) { takeovers(t, 3, fault.do) })
	}
}

func BenchmarkTakeover(b *testing.B) {
	for _, fault := range faults {
		b.Run(fault.name, func(b *testing.B) {
			b.ReportMetric(float64(takeovers(b, b.N, fault.do).Microseconds()), "µs/takeover")
		})
	}
}
