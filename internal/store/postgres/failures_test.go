package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/postgres"
)

// asked is the SQLSTATE that an error carries all the way up.
func asked(err error) string {
	var refused *pgconn.PgError
	if errors.As(err, &refused) {
		return refused.Code
	}
	return ""
}

// writes are calls that write, each of another part.
func writes(store *postgres.Store, term schedule.Term, run schedule.Run) map[string]func(context.Context) error {
	return map[string]func(context.Context) error{
		"Takeover": func(ctx context.Context) error {
			_, _, err := store.Takeover(ctx, schedule.TakeoverRequest{Shard: 5, Holder: "other", TTL: time.Hour, LockHeld: true})
			return err
		},
		"Renew": func(ctx context.Context) error {
			_, err := store.Renew(ctx, term, schedule.RenewRequest{TTL: time.Hour})
			return err
		},
		"Plan": func(ctx context.Context) error {
			_, err := store.Plan(ctx, schedule.PlanRequest{Term: term, Now: noon.Add(time.Minute), Horizon: noon.Add(time.Minute), Grace: time.Hour, Limit: 10}, planOne)
			return err
		},
		"Claim": func(ctx context.Context) error {
			_, err := newLeaseRenewer(store, term).claim(ctx, noon.Add(time.Minute))
			return err
		},
		"Settle": func(ctx context.Context) error {
			_, err := store.Settle(ctx, term, noon, []schedule.Settlement{{Key: run.Key, To: schedule.StatusCancelled}})
			return err
		},
		"Begin": func(ctx context.Context) error {
			_, err := store.Begin(ctx, []schedule.BeginRequest{{Key: schedule.ManualKey("no", "run"), Lease: time.Minute}}, noon)
			return err
		},
		"Heartbeat": func(ctx context.Context) error {
			return store.Heartbeat(ctx, schedule.Instance{ID: "w", StartedAt: noon})
		},
	}
}

// failing is a database with something to do for all of them.
func failing(t *testing.T) (url string, term schedule.Term, run schedule.Run) {
	t.Helper()
	store, url := fresh(t)
	s := everySecond("s", noon)
	create(t, store, noon, s)
	run = slotOf(&s, noon)
	err := store.ChangeSchedules(t.Context(), schedule.ChangeRequest{ScheduleIDs: []string{"s"}}, func([]schedule.ChangeInput) ([]schedule.Change, error) {
		return []schedule.Change{{ScheduleID: "s", Runs: []schedule.Run{run}, Now: noon}}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	term, ok, err := store.Takeover(t.Context(), schedule.TakeoverRequest{Holder: "leader", TTL: time.Hour, LockHeld: true})
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	return url, term, run
}

// untouched fails the test if the run is not as it was planned.
func untouched(t *testing.T, url string, run schedule.Run) {
	t.Helper()
	var status string
	var requests int
	err := connect(t, url).QueryRow(t.Context(), `SELECT status, (SELECT count(*) FROM execution_requests) FROM schedule_runs
		WHERE idempotency_key = $1`, run.Key[:]).Scan(&status, &requests)
	if err != nil || status != "PLANNED" || requests != 0 {
		t.Errorf("the run is %s with %d requests (%v), want PLANNED as it was", status, requests, err)
	}
}

func TestADatabaseThatTakesNoWritesSaysSoAndLaunchesNothing(t *testing.T) {
	t.Parallel()
	url, term, run := failing(t)
	if _, err := connect(t, url).Exec(t.Context(), `DO $$ BEGIN
		EXECUTE format('ALTER DATABASE %I SET default_transaction_read_only = on', current_database()); END $$`); err != nil {
		t.Fatal(err)
	}
	store := open(t, url, postgres.Options{MaxConns: 2})
	if err := store.Ping(t.Context()); !errors.Is(err, schedule.ErrUnavailable) || !strings.Contains(err.Error(), "default_transaction_read_only") {
		t.Errorf("Ping answers %v, want ErrUnavailable and where to look", err)
	}
	for name, write := range writes(store, term, run) {
		const readOnly = "25006"
		if err := write(t.Context()); asked(err) != readOnly {
			t.Errorf("%s answers %v, want SQLSTATE %s", name, err, readOnly)
		}
	}
	if _, err := store.GetRun(t.Context(), run.Key); err != nil {
		t.Errorf("reading goes on, got %v", err)
	}
	untouched(t, url, run)
}

// TestADiskThatIsFullIsSaidAndLaunchesNothing has every table refuse its rows
// as Postgres does then.
func TestADiskThatIsFullIsSaidAndLaunchesNothing(t *testing.T) {
	t.Parallel()
	url, term, run := failing(t)
	conn := connect(t, url)
	const full = "53100"
	_, err := conn.Exec(t.Context(), `CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		RAISE EXCEPTION 'could not extend file' USING ERRCODE = '`+full+`'; END $$`)
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range []string{"schedules", "open_runs", "ended_runs", "execution_requests", "leaders", "instances"} {
		if _, err := conn.Exec(t.Context(), fmt.Sprintf(`CREATE TRIGGER full_disk BEFORE INSERT OR UPDATE ON %s EXECUTE FUNCTION full_disk()`, table)); err != nil {
			t.Fatal(err)
		}
	}
	store := open(t, url, postgres.Options{MaxConns: 2})
	for name, write := range writes(store, term, run) {
		if err := write(t.Context()); asked(err) != full {
			t.Errorf("%s answers %v, want SQLSTATE %s", name, err, full)
		}
	}
	untouched(t, url, run)
}

func TestTooManyConnectionsAreAnErrorAndPass(t *testing.T) {
	t.Parallel()
	database, term, _ := failing(t)
	conn := connect(t, database)
	if _, err := conn.Exec(t.Context(), `DO $$ BEGIN
		EXECUTE format('CREATE ROLE %I LOGIN PASSWORD ''few'' CONNECTION LIMIT 3', current_database());
		EXECUTE format('GRANT ALL ON ALL TABLES IN SCHEMA public TO %I', current_database()); END $$`); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_, err := conn.Exec(context.WithoutCancel(t.Context()), `DO $$ BEGIN
			EXECUTE format('DROP OWNED BY %I', current_database()); EXECUTE format('DROP ROLE %I', current_database()); END $$`)
		if err != nil {
			t.Error(err)
		}
	})
	parsed, err := url.Parse(database)
	if err != nil {
		t.Fatal("the test's own URL is none")
	}
	parsed.User = url.UserPassword(strings.TrimPrefix(parsed.Path, "/"), "few")
	store := open(t, parsed.String(), postgres.Options{MaxConns: 8})
	// The others have all that is left.
	var others []*postgres.Store
	for {
		s, err := postgres.Open(t.Context(), parsed.String(), postgres.Options{MaxConns: 1})
		if err != nil {
			if asked(err) != "53300" {
				t.Errorf("one more is refused with %v, want SQLSTATE 53300", err)
			}
			break
		}
		others = append(others, s)
	}
	if err := store.Heartbeat(t.Context(), schedule.Instance{ID: "w", StartedAt: noon}); err != nil {
		t.Errorf("what is connected goes on, got %v", err)
	}
	for _, s := range others {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := newLeaseRenewer(store, term).claim(t.Context(), noon); err != nil {
		t.Errorf("once there is room again, got %v", err)
	}
}

// TestASessionThatIsEndedCostsOneCall has an administrator end every session.
func TestASessionThatIsEndedCostsOneCall(t *testing.T) {
	t.Parallel()
	url, term, run := failing(t)
	store := open(t, url, postgres.Options{MaxConns: 1})
	const shutdown = "57P01"
	err := store.ChangeSchedules(t.Context(), schedule.ChangeRequest{ScheduleIDs: []string{"s"}}, func([]schedule.ChangeInput) ([]schedule.Change, error) {
		_, err := connect(t, url).Exec(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
			WHERE datname = current_database() AND pid <> pg_backend_pid() AND state = 'idle in transaction'`)
		return []schedule.Change{{ScheduleID: "s", Runs: []schedule.Run{run}, Now: noon}}, err
	})
	if err == nil {
		t.Error("a call whose session ended under it has not happened")
	}
	if code := asked(err); code != "" && code != shutdown {
		t.Errorf("got %v, want SQLSTATE %s or a lost connection", err, shutdown)
	}
	untouched(t, url, run)
	result, err := newLeaseRenewer(store, term).claim(t.Context(), noon)
	if err != nil || len(result.Launches) != 1 {
		t.Errorf("the next call launches %d (%v), want 1", len(result.Launches), err)
	}
}
