package alert_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/registrar/alert"
)

// BenchmarkEvaluate is one pass over schedules that meet their expectation, with one slot and run
// each. "nothing due" is the pass of every two seconds; "all due" is the pass after an instant at
// which all of them have a slot.
func BenchmarkEvaluate(b *testing.B) {
	for _, engine := range engines {
		for _, n := range []int{10_000, 100_000} {
			b.Run(fmt.Sprintf("%s/%d", engine.name, n), func(b *testing.B) {
				h := newBurst(b, engine, n)
				b.Run("all due", func(b *testing.B) {
					for b.Loop() {
						h.evaluate(b)
						b.StopTimer()
						h.rewind(b)
						b.StartTimer()
					}
					b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*n), "µs/schedule")
				})
				h.evaluate(b)
				b.Run("nothing due", func(b *testing.B) {
					for b.Loop() {
						h.evaluate(b)
					}
				})
			})
		}
	}
}

// burst is a store full of hourly schedules with start_within of five minutes, at six minutes past
// noon, with all slots at noon on time.
type burst struct {
	*site
	watch *alert.Watch
}

var noon = time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)

const perChange = 1000

func newBurst(b *testing.B, e engine, n int) *burst {
	b.Helper()
	h := &burst{site: newSite(b, e)}
	h.now = func() time.Time { return noon.Add(6 * time.Minute) }
	for first := 0; first < n; first += perChange {
		h.add(b, first, min(perChange, n-first))
	}
	h.exec(b, `INSERT INTO ended_runs (idempotency_key, sid, nth, revision, bucket, status, trigger, policy, overlap_key, run_at, fire_at, priority, max_queued,
		attempt, deliveries, failed_attempts, epoch, claimed_at, launched_at, started_at, completed_at, recorded_at, created_at)
		SELECT idempotency_key, sid, nth, revision, bucket, 5, trigger, policy, overlap_key, run_at, fire_at, priority, max_queued,
			attempt, 1, 0, 1, run_at, run_at, run_at, run_at, run_at, created_at FROM open_runs`)
	h.exec(b, `DELETE FROM open_runs`)
	h.exec(b, `ANALYZE`)
	h.watch = h.newWatch(b, nil)
	return h
}

func (h *burst) add(b *testing.B, first, n int) {
	b.Helper()
	made := noon.Add(-time.Hour + time.Second)
	ids := make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprintf("s-%06d", first+i)
	}
	err := h.store.ChangeSchedules(b.Context(), schedule.ChangeRequest{ScheduleIDs: ids}, func([]schedule.ChangeInput) ([]schedule.Change, error) {
		changes := make([]schedule.Change, n)
		for i, id := range ids {
			s := hourly(id, made)
			changes[i] = schedule.Change{ScheduleID: id, Row: &s, NewRevision: true, Now: made, Runs: []schedule.Run{{
				Key: schedule.SlotKey(id, noon), ScheduleID: id, Revision: 1, RunAt: noon, FireAt: noon, Status: schedule.StatusPlanned,
				Trigger: schedule.TriggerSchedule, Attempt: 1, OverlapKey: s.UserID + "/" + s.OverlapKey, OverlapPolicy: schedule.OverlapSkip,
			}}}
		}
		return changes, nil
	})
	if err != nil {
		b.Fatal(err)
	}
}

func (h *burst) evaluate(b *testing.B) {
	b.Helper()
	if err := h.watch.Evaluate(b.Context()); err != nil {
		b.Fatal(err)
	}
	if unmet, err := h.store.UnmetExpectations(context.Background()); err != nil || len(unmet) > 0 {
		b.Fatalf("%v are late, %v: they all keep their promise", unmet, err)
	}
}

// rewind makes every slot due for a check again.
func (h *burst) rewind(b *testing.B) {
	b.Helper()
	h.exec(b, `UPDATE expectations SET judge_at = watched_since, judged_until = watched_since`)
}
