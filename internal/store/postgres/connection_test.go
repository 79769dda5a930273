package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/postgres"
	"github.com/carillon/carillon/schema"
)

// heard fails the test unless wake was called within a generous time.
func heard(t *testing.T, wakes <-chan struct{}, why string) {
	t.Helper()
	select {
	case <-wakes:
	case <-time.After(20 * time.Second):
		t.Fatalf("no wake-up: %s", why)
	}
}

// trigger creates a schedule together with a run of it.
func trigger(t *testing.T, store *postgres.Store, s schedule.Schedule) {
	t.Helper()
	change := schedule.Change{ScheduleID: s.ScheduleID, Row: &s, NewRevision: true, Now: noon, Runs: []schedule.Run{slotOf(&s, noon)}}
	err := store.ChangeSchedules(t.Context(), schedule.ChangeRequest{ScheduleIDs: []string{s.ScheduleID}}, func([]schedule.ChangeInput) ([]schedule.Change, error) {
		return []schedule.Change{change}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestOnlyWhatGivesATermWorkNotifies listens beside a claim, a settlement and a
// sweep of the term itself, and a sign of life: commits that notify wait for one
// another, in every shard.
func TestOnlyWhatGivesATermWorkNotifies(t *testing.T) {
	t.Parallel()
	store, url := fresh(t)
	term := lead(t, store)
	ended, lost, last := everySecond("ended", noon), everySecond("lost", noon), everySecond("last", noon)
	trigger(t, store, ended)
	trigger(t, store, lost)
	postgres.AwaitNotifications(store)
	conn := connect(t, url)
	if _, err := conn.Exec(t.Context(), "LISTEN carillon_wake"); err != nil {
		t.Fatal(err)
	}
	claimed, err := newLeaseRenewer(store, term).claim(t.Context(), noon)
	if err != nil || len(claimed.Launches) != 2 {
		t.Fatal(len(claimed.Launches), err)
	}
	for _, l := range claimed.Launches {
		if l.Run.ScheduleID != "ended" {
			continue
		}
		_, started, err := store.ChangeRun(t.Context(), l.Run.Key, schedule.Key{}, func(schedule.RunInput) (schedule.RunChange, error) {
			return schedule.RunChange{Settle: &schedule.Settlement{To: schedule.StatusStarted}, Now: noon}, nil
		})
		if err != nil || !started {
			t.Fatal(started, err)
		}
		moved, err := store.Settle(t.Context(), term, noon, []schedule.Settlement{{Key: l.Run.Key, To: schedule.StatusSuccess}})
		if err != nil || moved[0].To == "" {
			t.Fatal(moved, err)
		}
	}
	swept, err := store.Sweep(t.Context(), schedule.SweepRequest{Term: term, Now: noon.Add(time.Hour), CancelWait: time.Minute, RetryFor: time.Minute, Limit: 10})
	if err != nil || len(swept.Ended) != 1 {
		t.Fatal(len(swept.Ended), err)
	}
	trigger(t, store, last)

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	heard, err := conn.WaitForNotification(ctx)
	if err != nil {
		t.Fatal(err)
	}
	b := schedule.Bucket(last.QualifiedOverlapKey())
	if want := fmt.Sprintf("%d-%d", b, b); heard.Payload != want {
		t.Errorf("the first to be heard is %q, want %q, of the run that a user asked for", heard.Payload, want)
	}
}

// Commits that notify wait for each other in the whole cluster, so a process notifies
// outside of its transactions and once for many of them.
func TestAProcessNotifiesAtMostEveryFiveMilliseconds(t *testing.T) {
	t.Parallel()
	store, url := fresh(t)
	conn := connect(t, url)
	if _, err := conn.Exec(t.Context(), "LISTEN carillon_wake"); err != nil {
		t.Fatal(err)
	}
	const commits = 100
	changed := make(map[int]bool) // buckets
	began := time.Now()
	for i := range commits {
		s := everySecond(fmt.Sprint("s", i), noon)
		changed[schedule.Bucket(s.QualifiedOverlapKey())] = true
		trigger(t, store, s)
	}
	postgres.AwaitNotifications(store)
	most := int(time.Since(began)/(5*time.Millisecond)) + 1
	if _, err := conn.Exec(t.Context(), "NOTIFY carillon_wake, 'last'"); err != nil {
		t.Fatal(err)
	}
	for heard := 0; ; heard++ {
		n, err := conn.WaitForNotification(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if n.Payload == "last" {
			t.Logf("%d notifications of %d commits", heard, commits)
			if heard > most {
				t.Errorf("%d notifications were sent, want at most %d", heard, most)
			}
			break
		}
		var first, last int
		if _, err := fmt.Sscanf(n.Payload, "%d-%d", &first, &last); err != nil {
			t.Fatal(n.Payload, err)
		}
		maps.DeleteFunc(changed, func(b int, _ bool) bool { return first <= b && b <= last })
	}
	if len(changed) > 0 {
		t.Errorf("nobody was told of the buckets %v", changed)
	}
}

func TestAListenerComesBackAfterItsConnectionIsCut(t *testing.T) {
	t.Parallel()
	store, url := fresh(t)
	writer := open(t, url, postgres.Options{MaxConns: 2})
	wakes := make(chan struct{}, 100)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- store.Listen(ctx, func(int, int) { wakes <- struct{}{} }) }()
	heard(t, wakes, "it has connected")

	trigger(t, writer, everySecond("first", noon))
	heard(t, wakes, "another process inserted a run")

	tag, err := connect(t, url).Exec(ctx, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
		WHERE datname = current_database() AND query = 'LISTEN carillon_wake'`)
	if err != nil || tag.RowsAffected() != 1 {
		t.Fatal(tag, err)
	}
	heard(t, wakes, "it has connected again: what happened between was not heard")
	trigger(t, writer, everySecond("second", noon))
	heard(t, wakes, "it hears again")

	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("Listen ends with %v, want context.Canceled", err)
	}
}

func TestNowIsTheDatabasesClockAndErrsLate(t *testing.T) {
	t.Parallel()
	store, url := fresh(t)
	conn := connect(t, url)
	for range 20 {
		before := store.Now()
		var database time.Time
		if err := conn.QueryRow(t.Context(), `SELECT clock_timestamp()`).Scan(&database); err != nil {
			t.Fatal(err)
		}
		if before.After(database) {
			t.Fatalf("Now was %s before the database's clock showed %s: it would fire early", before, database)
		}
	}
	skew, err := store.MeasureClock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if skew.Abs() > 2*time.Second { // one machine, one clock, but maybe a busy one
		t.Errorf("the skew on one machine is %s", skew)
	}
	if now := store.Now(); now.Location() != time.UTC || now.Nanosecond()%1000 != 0 {
		t.Errorf("Now is %s, want whole microseconds in UTC", now)
	}
}

func TestAStatementDoesNotWaitForALockForEver(t *testing.T) {
	t.Parallel()
	store, url := fresh(t)
	blocker := connect(t, url)
	if _, err := blocker.Exec(t.Context(), `BEGIN; LOCK TABLE instances`); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := store.Heartbeat(t.Context(), schedule.Instance{ID: "w", StartedAt: noon}); err == nil {
		t.Error("it got past the lock")
	}
	if waited := time.Since(began); waited < time.Second || waited > 30*time.Second {
		t.Errorf("it waited %s for the lock, want about 2 s", waited)
	}
}

func TestTheDSNMayChooseItsOwnLimits(t *testing.T) {
	t.Parallel()
	_, url := fresh(t)
	store := open(t, url+"&lock_timeout=1ms", postgres.Options{MaxConns: 1})
	blocker := connect(t, url)
	if _, err := blocker.Exec(t.Context(), `BEGIN; LOCK TABLE instances`); err != nil {
		t.Fatal(err)
	}
	fastest := time.Hour // of a few: on a busy machine one may be slow, but none is faster than the store's own limit of 2 s
	for range 5 {
		began := time.Now()
		if err := store.Heartbeat(t.Context(), schedule.Instance{ID: "w", StartedAt: noon}); err == nil {
			t.Fatal("it got past the lock")
		}
		fastest = min(fastest, time.Since(began))
	}
	if fastest > 1500*time.Millisecond {
		t.Errorf("it waited %s for the lock, want 1 ms", fastest)
	}
	if _, err := postgres.Open(t.Context(), url+"&statement_timeout=nonsense", postgres.Options{}); err == nil {
		t.Error("a limit that Postgres does not know is accepted")
	}
}

func TestTheSchemaIsChecked(t *testing.T) {
	t.Parallel()
	store, url := fresh(t)
	if err := store.CheckSchema(t.Context()); err != nil {
		t.Errorf("a migrated database is refused: %v", err)
	}
	if applied, err := store.Migrate(t.Context()); applied != 0 || err != nil {
		t.Errorf("migrating again applied %d, %v", applied, err)
	}
	if _, err := connect(t, url).Exec(t.Context(), `INSERT INTO goose_db_version (version_id, is_applied) VALUES (99999, true)`); err != nil {
		t.Fatal(err)
	}
	if err := store.CheckSchema(t.Context()); !errors.Is(err, schema.ErrUnknownSchema) {
		t.Errorf("a newer schema is accepted: %v", err)
	}
}
