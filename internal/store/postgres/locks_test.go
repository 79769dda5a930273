package postgres_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/postgres"
)

// A plan holds its schedules and its leadership while it decides. Neither a
// renewal nor a claim of the same schedules may wait for that: the one would
// lose a leadership that nobody disputes, the other its exact second.
func TestWhatMustNotWaitForAPlanDoesNot(t *testing.T) {
	t.Parallel()
	store, _ := fresh(t)
	s := everySecond("busy", noon)
	create(t, store, noon, s)
	term := lead(t, store)
	now := noon.Add(time.Second)
	req := schedule.PlanRequest{Term: term, Now: now, Horizon: now, Grace: time.Minute, Limit: 10}
	if _, err := store.Plan(t.Context(), req, planOne); err != nil {
		t.Fatal(err)
	}

	later := noon.Add(2 * time.Second)
	req.Now, req.Horizon = later, later
	_, err := store.Plan(t.Context(), req, func(candidates []schedule.PlanCandidate) []schedule.PlanDecision {
		if len(candidates) != 1 {
			t.Errorf("%d schedules are held, want 1", len(candidates))
		}
		// A lock timeout of 2 s, tried again and again, would end far beyond this.
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		if _, err := store.Renew(ctx, term, schedule.RenewRequest{TTL: time.Hour, Now: later}); err != nil {
			t.Errorf("a renewal waits for a plan: %v", err)
		}
		result, err := newLeaseRenewer(store, term).claim(ctx, later)
		if err != nil || len(result.Launches) != 1 {
			t.Errorf("a claim waits for a plan: %d launches, %v", len(result.Launches), err)
		}
		return planOne(candidates)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A leader that is stopped in the middle of a transaction keeps its locks until Postgres
// ends the session, and a takeover waits for them.
func TestATakeoverWaitsTwoSecondsForAHungTransaction(t *testing.T) {
	t.Parallel()
	store, url := fresh(t)
	other := open(t, url, postgres.Options{MaxConns: 2})
	create(t, store, noon, everySecond("busy", noon))
	term := lead(t, store)
	now := noon.Add(time.Second)
	req := schedule.PlanRequest{Term: term, Now: now, Horizon: now, Grace: time.Minute, Limit: 10}
	_, err := store.Plan(t.Context(), req, func(candidates []schedule.PlanCandidate) []schedule.PlanDecision {
		// With the limit of other transactions, the leader would hold its locks for ten
		// seconds.
		ctx, cancel := context.WithTimeout(t.Context(), 8*time.Second)
		defer cancel()
		_, won, err := other.Takeover(ctx, schedule.TakeoverRequest{Holder: "next", TTL: time.Hour, LockHeld: true})
		if err != nil || !won {
			t.Errorf("the takeover fails: won %t, %v", won, err)
		}
		return planOne(candidates)
	})
	if err == nil {
		t.Error("the hung plan was committed although another leads")
	}
}

// A deploy of thousands of new schedules has every stripe of new ids for as long
// as it writes.
func TestAChangeOfAnotherScheduleDoesNotWaitForADeploy(t *testing.T) {
	t.Parallel()
	store, _ := fresh(t)
	create(t, store, noon, everySecond("other", noon))
	var ids []string
	for i := range 3000 {
		ids = append(ids, fmt.Sprintf("new-%d", i))
	}
	err := store.ChangeSchedules(t.Context(), schedule.ChangeRequest{ScheduleIDs: ids}, func([]schedule.ChangeInput) ([]schedule.Change, error) {
		// A lock timeout of 2 s, tried again and again, would end far beyond this.
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		pause := schedule.ChangeRequest{ScheduleIDs: []string{"other"}}
		return nil, store.ChangeSchedules(ctx, pause, func(found []schedule.ChangeInput) ([]schedule.Change, error) {
			row := *found[0].Schedule
			row.Pause = schedule.Pause{Paused: true}
			return []schedule.Change{{ScheduleID: "other", Row: &row, Now: noon}}, nil
		})
	})
	if err != nil {
		t.Errorf("a pause while a deploy is under way: %v", err)
	}
}

// Two processes create one id at once: the second one sees what the first has
// made, at the latest when it would write.
func TestASecondCreationOfAnIDSeesTheFirst(t *testing.T) {
	t.Parallel()
	store, url := fresh(t)
	other, watch := open(t, url, postgres.Options{}), connect(t, url)
	req := schedule.ChangeRequest{ScheduleIDs: []string{"new"}}
	s := everySecond("new", noon)
	creation := []schedule.Change{{ScheduleID: "new", Row: &s, Created: true, NewRevision: true, Now: noon}}
	var seen []bool
	err := store.ChangeSchedules(t.Context(), req, func(found []schedule.ChangeInput) ([]schedule.Change, error) {
		seen = append(seen, found[0].Schedule != nil)
		if found[0].Schedule != nil {
			return nil, nil
		}
		create(t, other, noon, s) // before this one is written
		return creation, nil
	})
	if err != nil || !slices.Equal(seen, []bool{false, true}) {
		t.Errorf("it saw the other's: %v, %v; want not at first, and then", seen, err)
	}
	var revisions int
	if err := watch.QueryRow(t.Context(), `SELECT count(*) FROM schedule_revisions WHERE schedule_id = 'new'`).Scan(&revisions); err != nil || revisions != 1 {
		t.Errorf("%d revisions, %v; want 1", revisions, err)
	}
}

// A lease is extended, the extension of the next one waits for another transaction, and
// Postgres rolls both back. Meanwhile the first key is released.
func TestAnExtensionThatWasRolledBackDoesNotCount(t *testing.T) {
	t.Parallel()
	store, url, k, runs := due(t, "a")
	if _, err := k.claimLoaded(t.Context(), noon); err != nil {
		t.Fatal(err)
	}
	first, second := runs[0].Key, schedule.Key{1} // of a run, and of a record
	begun, err := store.Begin(t.Context(), []schedule.BeginRequest{
		{
			Key: first, ScheduleID: "a", ScheduledFor: noon, Trigger: schedule.TriggerSchedule, Version: 1,
			Grant: schedule.GrantUse{UserID: "owner", WorkflowID: "workflow"}, FireAt: noon, Lease: time.Minute,
		},
		{Key: second, FireAt: noon, Lease: time.Minute},
	}, noon)
	if err != nil || begun[0].Permission != schedule.Granted || begun[1].Permission != schedule.Granted {
		t.Fatalf("began %v: %v", begun, err)
	}
	other, watch := connect(t, url), connect(t, url)
	exec := func(statement string, args ...any) {
		t.Helper()
		if _, err := other.Exec(t.Context(), statement, args...); err != nil {
			t.Fatal(err)
		}
	}
	exec(`SET deadlock_timeout = '1h'`) // the extension is rolled back
	exec(`BEGIN`)
	exec(`SELECT FROM execution_requests WHERE idempotency_key = $1 FOR UPDATE`, second[:])
	var until []time.Time
	g, ctx := errgroup.WithContext(t.Context())
	g.Go(func() (err error) {
		held := noon.Add(time.Minute)
		until, err = store.Extend(ctx, []schedule.LeaseExtension{{Key: first, Held: held, Lease: time.Hour}, {Key: second, Held: held, Lease: time.Hour}}, noon)
		return err
	})
	awaitLockWait(t, watch)
	exec(`UPDATE open_runs SET holder = NULL, lease_until = NULL WHERE idempotency_key = $1`, first[:])
	exec(`COMMIT`)
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	if !until[0].IsZero() || !until[1].Equal(noon.Add(time.Hour)) {
		t.Errorf("extended until %v, want only the second until %v", until, noon.Add(time.Hour))
	}
}

// Prune deletes the old record of a key between the two statements that make and lock it.
func TestAKeyBeginsWhileItsOldRecordIsPruned(t *testing.T) {
	t.Parallel()
	store, url := fresh(t)
	reqs := []schedule.BeginRequest{{Key: schedule.Key{1}, FireAt: noon, Lease: time.Minute}}
	begin := func(ctx context.Context, now time.Time, want schedule.Permission) error {
		begun, err := store.Begin(ctx, reqs, now)
		if err == nil && begun[0].Permission != want {
			err = fmt.Errorf("permission %d, want %d", begun[0].Permission, want)
		}
		return err
	}
	if err := begin(t.Context(), noon, schedule.Granted); err != nil {
		t.Fatal(err)
	}
	other, watch := connect(t, url), connect(t, url)
	if _, err := other.Exec(t.Context(), `BEGIN; SELECT FROM execution_requests FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	g, ctx := errgroup.WithContext(t.Context())
	g.Go(func() error { return begin(ctx, noon.Add(time.Hour), schedule.Granted) })
	awaitLockWait(t, watch)
	if _, err := other.Exec(t.Context(), `DELETE FROM execution_requests; COMMIT`); err != nil {
		t.Fatal(err)
	}
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
}

// awaitLockWait returns once a session of the database waits for a lock.
func awaitLockWait(t *testing.T, conn *pgx.Conn) {
	t.Helper()
	for waits := false; !waits; {
		if err := conn.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
			WHERE NOT l.granted AND a.datname = current_database())`).Scan(&waits); err != nil {
			t.Fatal(err)
		}
	}
}
