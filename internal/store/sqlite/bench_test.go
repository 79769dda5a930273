package sqlite_test

import (
	"crypto/sha256"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/sqlite"
)

// Each benchmark is one transaction of 1,000 rows, of as many schedules under
// policy skip: the four that a slot goes through between plan and end. Together
// they are what a slot costs the one writer.

const batch = 1000

func BenchmarkPlan(b *testing.B) {
	h := newBurst(b)
	for b.Loop() {
		h.plan(b)
	}
	perRow(b)
}

func BenchmarkClaim(b *testing.B) {
	h := newBurst(b)
	for b.Loop() {
		b.StopTimer()
		h.plan(b)
		b.StartTimer()
		h.claim(b)
		b.StopTimer()
		h.settle(b)
		b.StartTimer()
	}
	perRow(b)
}

func BenchmarkBegin(b *testing.B) {
	h := newBurst(b)
	for b.Loop() {
		b.StopTimer()
		h.plan(b)
		h.claim(b)
		b.StartTimer()
		h.begin(b)
		b.StopTimer()
		h.settle(b)
		b.StartTimer()
	}
	perRow(b)
}

func BenchmarkSettle(b *testing.B) {
	h := newBurst(b)
	for b.Loop() {
		b.StopTimer()
		h.plan(b)
		h.claim(b)
		b.StartTimer()
		h.settle(b)
	}
	perRow(b)
}

// BenchmarkLife is all of it: plan, claim, begin, finish.
func BenchmarkLife(b *testing.B) {
	h := newBurst(b)
	for b.Loop() {
		h.plan(b)
		h.claim(b)
		h.begin(b)
		h.finish(b)
	}
	perRow(b)
}

func BenchmarkIdleClaim(b *testing.B) {
	h := newBurst(b)
	for b.Loop() {
		h.leader.claim(b, h.now)
	}
}

func perRow(b *testing.B) {
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*batch), "µs/row")
}

// burst is a store with 1,000 schedules that are all due each second.
type burst struct {
	store    *sqlite.Store
	term     schedule.Term
	leader   shard
	now      time.Time
	launches []schedule.Launch
}

func newBurst(b *testing.B) *burst {
	b.Helper()
	h := &burst{store: open(b, filepath.Join(b.TempDir(), "carillon.db"), sqlite.Options{}), now: noon}
	term, ok, err := h.store.Takeover(b.Context(), schedule.TakeoverRequest{Holder: "bench", TTL: 1000 * time.Hour, LockHeld: true, Now: h.now})
	if err != nil || !ok {
		b.Fatal(ok, err)
	}
	h.term, h.leader = term, shard{store: h.store, term: term}
	ids := make([]string, batch)
	for i := range ids {
		ids[i] = fmt.Sprintf("schedule-%04d", i)
	}
	err = h.store.ChangeSchedules(b.Context(), schedule.ChangeRequest{ScheduleIDs: ids}, func([]schedule.ChangeInput) ([]schedule.Change, error) {
		changes := make([]schedule.Change, len(ids))
		for i, id := range ids {
			s := everySecond(id, h.now)
			changes[i] = schedule.Change{ScheduleID: id, Row: &s, NewRevision: true, Now: h.now}
		}
		return changes, nil
	})
	if err != nil {
		b.Fatal(err)
	}
	return h
}

func (h *burst) plan(b *testing.B) {
	h.now = h.now.Add(time.Second)
	ahead := h.now.Add(-time.Minute) // slots are planned so long before they fire
	result, err := h.store.Plan(b.Context(), schedule.PlanRequest{Term: h.term, Now: ahead, Horizon: h.now, Grace: time.Minute, Limit: batch}, planOne)
	if err != nil || result.Inserted != batch {
		b.Fatal(result.Inserted, err)
	}
}

func (h *burst) claim(b *testing.B) {
	if h.launches = h.leader.claim(b, h.now).Launches; len(h.launches) != batch {
		b.Fatal(len(h.launches))
	}
}

func (h *burst) begin(b *testing.B) {
	reqs := make([]schedule.BeginRequest, len(h.launches))
	for i := range reqs {
		reqs[i] = beginRequest(&h.launches[i])
	}
	results, err := h.store.Begin(b.Context(), reqs, h.now)
	if err != nil || results[0].Permission != schedule.Granted {
		b.Fatal(results[0].Permission, err)
	}
}

// beginRequest asks for the key of a launch, as the launcher does.
func beginRequest(l *schedule.Launch) schedule.BeginRequest {
	req := l.StartRequest()
	return schedule.BeginRequest{
		Key: req.Key, RequestHash: sha256.Sum256(req.Key[:]), ScheduleID: req.ScheduleID, ScheduledFor: req.ScheduledFor, Trigger: req.Trigger,
		Version: req.Version, Input: req.Input, Grant: req.GrantUse(false), FireAt: req.FireAt, Lease: time.Minute,
	}
}

func (h *burst) finish(b *testing.B) {
	done := make([]schedule.FinishRequest, len(h.launches))
	for i := range done {
		done[i] = schedule.FinishRequest{Key: h.launches[i].Run.Key, Outcome: schedule.Outcome{Status: schedule.StatusSuccess, RunID: "run-1"}}
	}
	if _, err := h.store.Finish(b.Context(), done, h.now); err != nil {
		b.Fatal(err)
	}
}

func (h *burst) settle(b *testing.B) {
	settlements := make([]schedule.Settlement, len(h.launches))
	for i := range settlements {
		settlements[i] = schedule.Settlement{
			Key: h.launches[i].Run.Key, To: schedule.StatusSuccess, RunID: "run-1", LaunchedAt: h.now, CompletedAt: h.now,
		}
	}
	moved, err := h.store.Settle(b.Context(), h.term, h.now, settlements)
	if err != nil || moved[0].To == "" {
		b.Fatal(moved[0], err)
	}
}

// planOne plans one slot of each candidate, due now, and comes back a second later.
func planOne(candidates []schedule.PlanCandidate) []schedule.PlanDecision {
	decisions := make([]schedule.PlanDecision, len(candidates))
	for i := range candidates {
		s := &candidates[i].Schedule
		at := s.NextRunAt
		decisions[i] = schedule.PlanDecision{
			ScheduleID: s.ScheduleID, NextRunAt: at.Add(time.Second), PlanAt: at.Add(time.Second),
			Rows: []schedule.Run{slotOf(s, at)},
		}
	}
	return decisions
}

var noon = time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)

// everySecond is a schedule whose next slot is one second after now.
func everySecond(id string, now time.Time) schedule.Schedule {
	return schedule.Schedule{
		Definition: schedule.Definition{
			ScheduleID: id, WorkflowID: "workflow", Version: 1, UserID: "owner", CronExpr: "* * * * * *", Timezone: "UTC",
			DST: schedule.DSTVixie, OverlapPolicy: schedule.OverlapSkip, OverlapKey: id, MaxQueued: 100,
			CatchupPolicy: schedule.CatchupNone, CatchupWindowMS: 86_400_000, RunTimeoutMS: 3_600_000,
		},
		Revision: 1, RevisedAt: now, NextRunAt: now.Add(time.Second), PlanAt: now.Add(time.Second), CreatedAt: now, UpdatedAt: now,
	}
}

func slotOf(s *schedule.Schedule, at time.Time) schedule.Run {
	return schedule.Run{
		Key: schedule.SlotKey(s.ScheduleID, at), ScheduleID: s.ScheduleID, Revision: s.Revision, RunAt: at, FireAt: at,
		Status: schedule.StatusPlanned, Trigger: schedule.TriggerSchedule, OverlapKey: s.QualifiedOverlapKey(),
		OverlapPolicy: s.OverlapPolicy, Exclusive: s.OverlapPolicy.Exclusive(), MaxQueued: s.MaxQueued, Attempt: 1,
	}
}
