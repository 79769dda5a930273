package postgres_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/postgres"
	"github.com/carillon/carillon/internal/test/storetest"
)

// Two transactions that end two runs of one schedule at once do not see each other.
func TestRunsThatEndAtOnceLeaveTheRightFailure(t *testing.T) {
	t.Parallel()
	slot := noon.Add(-time.Minute)
	for name, c := range map[string]struct {
		succeededSlot, succeededAt time.Time // of the run that succeeds; the other one fails for slot at noon
		failing                    bool
	}{
		"a run of a newer slot succeeds":                                {slot.Add(time.Second), noon, false},
		"a run of a newer slot succeeds, and ended before":              {slot.Add(time.Second), noon.Add(-time.Millisecond), false},
		"another run of the slot succeeds in the same millisecond":      {slot, noon, false},
		"another run of the slot succeeds a millisecond later":          {slot, noon.Add(time.Millisecond), false},
		"another run of the slot succeeds, and ended before":            {slot, noon.Add(-time.Millisecond), true},
		"a run of an older slot succeeds, and ended later: it is stale": {slot.Add(-time.Second), noon.Add(time.Millisecond), true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newFailureRace(t, slot, c.succeededSlot)
			r.interleave(t, c.succeededAt)
			if got := r.failing(t); got != c.failing {
				t.Errorf("it fails: %t, want %t", got, c.failing)
			}
		})
	}
}

func TestAScheduleThatFailedBeforeIsWellWhicheverRunEndsFirst(t *testing.T) {
	t.Parallel()
	slot := noon.Add(-time.Minute)
	r := newFailureRace(t, slot, slot.Add(time.Second))
	for n := range 150 {
		r.begin(t)
		if n%2 == 0 { // it has a failure that both change
			r.exec(t, `INSERT INTO schedule_failures SELECT schedule_id, 1, run_at - interval '1 hour', updated_at, run_at - interval '1 hour', updated_at,
				idempotency_key, '', '' FROM schedule_runs WHERE idempotency_key = $1`, r.failed[:])
		}
		g, ctx := errgroup.WithContext(t.Context())
		g.Go(func() error { return r.end(ctx, r.failed, schedule.StatusFailed, noon) })
		g.Go(func() error { return r.end(ctx, r.succeeded, schedule.StatusSuccess, noon) })
		if err := g.Wait(); err != nil {
			t.Fatal(err)
		}
		if r.failing(t) {
			t.Fatalf("after race %d it fails although its newest run succeeded", n)
		}
	}
}

// failureRace is two runs of one schedule that are about to end.
type failureRace struct {
	store             *postgres.Store
	other             *pgx.Conn
	id                string
	failed, succeeded schedule.Key
}

func newFailureRace(t *testing.T, failedSlot, succeededSlot time.Time) *failureRace {
	t.Helper()
	store, url := fresh(t)
	s := everySecond("raced", noon)
	s.OverlapPolicy = schedule.OverlapAllow
	create(t, store, noon, s)
	failed, succeeded := slotOf(&s, failedSlot), slotOf(&s, succeededSlot)
	if succeeded.Key == failed.Key {
		succeeded.Key, succeeded.Trigger, succeeded.RetryOf, succeeded.Attempt = schedule.RetryKey(failed.Key, "again"), schedule.TriggerRetry, failed.Key, 2
	}
	req := schedule.ChangeRequest{ScheduleIDs: []string{s.ScheduleID}}
	err := store.ChangeSchedules(t.Context(), req, func([]schedule.ChangeInput) ([]schedule.Change, error) {
		return []schedule.Change{{ScheduleID: s.ScheduleID, Runs: []schedule.Run{failed, succeeded}, Now: noon}}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	r := &failureRace{store: store, other: connect(t, url), id: s.ScheduleID, failed: failed.Key, succeeded: succeeded.Key}
	r.begin(t)
	return r
}

// begin starts both runs, again if they have ended.
func (r *failureRace) begin(t *testing.T) {
	t.Helper()
	r.exec(t, `INSERT INTO open_runs (idempotency_key, sid, nth, revision, bucket, state, status, trigger, policy, overlap_key, run_at, fire_at, due_at,
			priority, max_queued, attempt, deliveries, failed_attempts, epoch, retry_of, created_at, updated_at)
		SELECT idempotency_key, sid, nth, revision, bucket, 3, 4, trigger, policy, overlap_key, run_at, fire_at, 'infinity',
			priority, max_queued, attempt, deliveries, failed_attempts, epoch, retry_of, created_at, recorded_at FROM ended_runs`)
	r.exec(t, `DELETE FROM ended_runs`)
	r.exec(t, `UPDATE open_runs SET state = 3, status = 4`)
	r.exec(t, `DELETE FROM schedule_failures`)
}

func (r *failureRace) exec(t *testing.T, statement string, args ...any) {
	t.Helper()
	if _, err := r.other.Exec(t.Context(), statement, args...); err != nil {
		t.Fatal(err)
	}
}

func (r *failureRace) end(ctx context.Context, key schedule.Key, to schedule.Status, at time.Time) error {
	_, err := r.store.SettleLaunched(ctx, noon, []schedule.Settlement{{Key: key, To: to, CompletedAt: at}})
	return err
}

// interleave has one run fail in a transaction that begins before the success of
// the other is visible and commits after it. An uncommitted row for the same schedule
// holds up the insert of the failure.
func (r *failureRace) interleave(t *testing.T, succeededAt time.Time) {
	t.Helper()
	r.exec(t, `BEGIN`)
	r.exec(t, `INSERT INTO schedule_failures SELECT schedule_id, 1, run_at, updated_at, run_at, updated_at, idempotency_key, '', ''
		FROM schedule_runs WHERE idempotency_key = $1`, r.failed[:])
	g, ctx := errgroup.WithContext(t.Context())
	g.Go(func() error { return r.end(ctx, r.failed, schedule.StatusFailed, noon) })
	awaitLockWait(t, r.other)
	if err := r.end(t.Context(), r.succeeded, schedule.StatusSuccess, succeededAt); err != nil {
		t.Fatal(err)
	}
	r.exec(t, `ROLLBACK`)
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
}

// failing reports whether the schedule fails once failures are judged.
func (r *failureRace) failing(t *testing.T) bool {
	t.Helper()
	if err := r.store.WakeFailures(t.Context(), noon.Add(2*time.Second), 100); err != nil {
		t.Fatal(err)
	}
	recent, err := r.store.RecentOutcomes(t.Context(), []string{r.id}, 2)
	if err != nil {
		t.Fatal(err)
	}
	of := recent[r.id]
	if byRule := storetest.FailureOf(r.id, of.Outcomes) != nil; byRule != (of.Failure != nil) {
		t.Errorf("by storetest.FailureOf it fails: %t, in the store: %t", byRule, of.Failure != nil)
	}
	return of.Failure != nil
}
