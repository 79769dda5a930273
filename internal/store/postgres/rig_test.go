package postgres_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/postgres"
	"github.com/carillon/carillon/internal/test/services"
	"github.com/carillon/carillon/internal/test/services/leaks"
)

func TestMain(m *testing.M) { leaks.Main(m) }

// migrate brings an empty database to the schema.
func migrate(ctx context.Context, url string) error {
	s, err := postgres.Open(ctx, url, postgres.Options{MaxConns: 1})
	if err != nil {
		return err
	}
	_, err = s.Migrate(ctx)
	return errors.Join(err, s.Close())
}

// fresh is a store in a database of its own, and the database's URL.
func fresh(t testing.TB) (*postgres.Store, string) {
	t.Helper()
	url := services.Postgres(t, migrate)
	return open(t, url, postgres.Options{}), url
}

// open opens a store that is closed when its test ends.
func open(t testing.TB, url string, opts postgres.Options) *postgres.Store {
	t.Helper()
	s, err := postgres.Open(t.Context(), url, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// connect is a plain connection beside the store's.
func connect(t testing.TB, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := conn.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return conn
}

// leaseRenewer keeps the state of a term in memory, as a worker does.
type leaseRenewer struct {
	store    *postgres.Store
	term     schedule.Term
	pass     ledger.Pass // Now is set by each claim
	state    *ledger.ShardState
	position ledger.Position
	loaded   time.Time
}

func newLeaseRenewer(store *postgres.Store, term schedule.Term) *leaseRenewer {
	return &leaseRenewer{store: store, term: term, pass: ledger.Pass{Grace: time.Hour, Limit: 10_000}}
}

func (k *leaseRenewer) load(ctx context.Context, now time.Time) error {
	until := now.Add(10 * time.Second)
	if k.state != nil && !k.state.Stale() {
		open, err := k.store.LoadOpen(ctx, k.term, k.loaded, until)
		if err != nil {
			return err
		}
		k.state.Load(&open)
		k.state.LoadedUntil(until)
		k.loaded = until
		return nil
	}
	open, err := k.store.LoadOpen(ctx, k.term, time.Time{}, until)
	if err != nil {
		return err
	}
	k.state, k.position, k.loaded = ledger.Rebuild(k.term.Epoch, &open, until), open.Position, until
	return nil
}

// claim is one pass. It loads what fires within ten seconds first.
func (k *leaseRenewer) claim(ctx context.Context, now time.Time) (ledger.Claimed, error) {
	if err := k.load(ctx, now); err != nil {
		return ledger.Claimed{}, err
	}
	return k.claimLoaded(ctx, now)
}

// claimLoaded is one pass over what is in memory.
func (k *leaseRenewer) claimLoaded(ctx context.Context, now time.Time) (ledger.Claimed, error) {
	pass := k.pass
	pass.Now = now
	claimed, err := k.store.Claim(ctx, ledger.ClaimRequest{
		Term: k.term, Now: now, Position: k.position, Lease: time.Minute, RetryFor: 10 * time.Minute,
	}, &ledger.Claim{State: k.state, Pass: pass})
	if err != nil {
		k.state.Discard()
		return claimed, err
	}
	k.state.Commit(claimed.Verdicts, time.Minute)
	k.position = claimed.Position
	if len(claimed.Missing)+len(claimed.Refused) > 0 {
		k.state.Discard()
	}
	return claimed, nil
}

func lead(t testing.TB, store *postgres.Store) schedule.Term {
	t.Helper()
	term, ok, err := store.Takeover(t.Context(), schedule.TakeoverRequest{Holder: "leader", TTL: 1000 * time.Hour, LockHeld: true})
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	return term
}

// insert writes runs of a schedule, as a trigger does.
func insert(t testing.TB, store *postgres.Store, scheduleID string, runs ...schedule.Run) {
	t.Helper()
	err := store.ChangeSchedules(t.Context(), schedule.ChangeRequest{ScheduleIDs: []string{scheduleID}},
		func([]schedule.ChangeInput) ([]schedule.Change, error) {
			return []schedule.Change{{ScheduleID: scheduleID, Runs: runs, Now: noon}}, nil
		})
	if err != nil {
		t.Fatal(err)
	}
}
