package postgres_test

import (
	"crypto/sha256"
	"fmt"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/postgres"
)

// Each benchmark is one transaction of 1,000 rows, of as many schedules under
// policy skip. Against the throw-away server of `make test`, which does not
// sync, they show the statements' work; against one with Postgres' defaults
// (TEST_DATABASE_URL), what a slot costs.

const batch = 1000

var noon = time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)

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

func BenchmarkFinish(b *testing.B) {
	h := newBurst(b)
	for b.Loop() {
		b.StopTimer()
		h.plan(b)
		h.claim(b)
		h.begin(b)
		b.StartTimer()
		h.finish(b)
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
		if _, err := h.leaseRenewer.claim(b.Context(), h.now); err != nil {
			b.Fatal(err)
		}
	}
}

func perRow(b *testing.B) {
	b.Helper()
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*batch), "µs/row")
}

// burst is a store with 1,000 schedules that are all due each second.
type burst struct {
	store        *postgres.Store
	term         schedule.Term
	leaseRenewer *leaseRenewer
	now          time.Time
	launches     []schedule.Launch
}

func newBurst(b *testing.B) *burst {
	b.Helper()
	store, _ := fresh(b)
	term := lead(b, store)
	h := &burst{store: store, term: term, leaseRenewer: newLeaseRenewer(store, term), now: noon}
	schedules := make([]schedule.Schedule, batch)
	for i := range schedules {
		schedules[i] = everySecond(fmt.Sprintf("schedule-%04d", i), h.now)
	}
	create(b, store, h.now, schedules...)
	return h
}

// create stores schedules with their first revisions.
func create(t testing.TB, store *postgres.Store, now time.Time, schedules ...schedule.Schedule) {
	t.Helper()
	ids := make([]string, len(schedules))
	changes := make([]schedule.Change, len(schedules))
	for i := range schedules {
		ids[i] = schedules[i].ScheduleID
		changes[i] = schedule.Change{ScheduleID: ids[i], Row: &schedules[i], NewRevision: true, Now: now}
	}
	err := store.ChangeSchedules(t.Context(), schedule.ChangeRequest{ScheduleIDs: ids}, func([]schedule.ChangeInput) ([]schedule.Change, error) {
		return changes, nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func (h *burst) plan(b *testing.B) {
	b.Helper()
	h.now = h.now.Add(time.Second)
	req := schedule.PlanRequest{Term: h.term, Now: h.now, Horizon: h.now, Grace: time.Minute, Limit: batch}
	result, err := h.store.Plan(b.Context(), req, planOne)
	if err != nil || result.Inserted != batch {
		b.Fatal(result.Inserted, err)
	}
}

func (h *burst) claim(b *testing.B) {
	b.Helper()
	result, err := h.leaseRenewer.claim(b.Context(), h.now)
	if err != nil || len(result.Launches) != batch {
		b.Fatal(len(result.Launches), err)
	}
	h.launches = result.Launches
}

func (h *burst) begin(b *testing.B) {
	b.Helper()
	reqs := make([]schedule.BeginRequest, len(h.launches))
	for i := range reqs {
		reqs[i] = beginRequest(&h.launches[i])
	}
	results, err := h.store.Begin(b.Context(), reqs, h.now)
	if err != nil || results[0].Permission != schedule.Granted {
		b.Fatal(results, err)
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
	b.Helper()
	done := make([]schedule.FinishRequest, len(h.launches))
	for i := range done {
		done[i] = schedule.FinishRequest{
			Key: h.launches[i].Run.Key, Outcome: schedule.Outcome{Status: schedule.StatusSuccess, RunID: "run-1"},
		}
	}
	if _, err := h.store.Finish(b.Context(), done, h.now); err != nil {
		b.Fatal(err)
	}
}

func (h *burst) settle(b *testing.B) {
	b.Helper()
	settlements := make([]schedule.Settlement, len(h.launches))
	for i := range settlements {
		settlements[i] = schedule.Settlement{
			Key: h.launches[i].Run.Key, To: schedule.StatusSuccess, RunID: "run-1", LaunchedAt: h.now, CompletedAt: h.now,
		}
	}
	moved, err := h.store.Settle(b.Context(), h.term, h.now, settlements)
	if err != nil || moved[0].To == "" {
		b.Fatal(moved, err)
	}
}

// planOne plans one slot of each candidate, due now, and comes back a second
// later.
func planOne(candidates []schedule.PlanCandidate) []schedule.PlanDecision {
	decisions := make([]schedule.PlanDecision, len(candidates))
	for i := range candidates {
		s := &candidates[i].Schedule
		decisions[i] = schedule.PlanDecision{
			ScheduleID: s.ScheduleID, NextRunAt: s.NextRunAt.Add(time.Second), PlanAt: s.NextRunAt.Add(time.Second),
			Rows: []schedule.Run{slotOf(s, s.NextRunAt)},
		}
	}
	return decisions
}

// everySecond is a schedule whose next slot is one second after now.
func everySecond(id string, now time.Time) schedule.Schedule {
	next := now.Add(time.Second)
	return schedule.Schedule{
		Definition: schedule.Definition{
			ScheduleID: id, WorkflowID: "workflow", Version: 1, UserID: "owner", CronExpr: "* * * * * *", Timezone: "UTC",
			DST: schedule.DSTVixie, OverlapPolicy: schedule.OverlapSkip, OverlapKey: id, MaxQueued: 100,
			CatchupPolicy: schedule.CatchupNone, CatchupWindowMS: 86_400_000, RunTimeoutMS: 3_600_000,
		},
		Revision: 1, RevisedAt: now, NextRunAt: next, PlanAt: next, CreatedAt: now, UpdatedAt: now,
	}
}

// slotOf is the planned run of s at runAt.
func slotOf(s *schedule.Schedule, runAt time.Time) schedule.Run {
	return schedule.Run{
		Key: schedule.SlotKey(s.ScheduleID, runAt), ScheduleID: s.ScheduleID, Revision: s.Revision,
		RunAt: runAt, FireAt: runAt, Status: schedule.StatusPlanned, Trigger: schedule.TriggerSchedule,
		OverlapKey: s.QualifiedOverlapKey(), OverlapPolicy: s.OverlapPolicy, Exclusive: s.OverlapPolicy.Exclusive(),
		MaxQueued: s.MaxQueued, Attempt: 1, Priority: s.Priority,
	}
}
