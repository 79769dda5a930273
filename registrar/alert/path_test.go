package alert_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/postgres"
	"github.com/carillon/carillon/internal/test/storetest"
)

// oneSchedule inserts an hourly schedule with its planned run of noon and a due expectation.
func (s *site) oneSchedule(t *testing.T) schedule.Schedule {
	t.Helper()
	row := hourly("s", noon.Add(-time.Hour+time.Second))
	row.NextRunAt, row.PlanAt = noon, noon
	err := s.store.ChangeSchedules(t.Context(), schedule.ChangeRequest{ScheduleIDs: []string{"s"}}, func([]schedule.ChangeInput) ([]schedule.Change, error) {
		return []schedule.Change{{ScheduleID: "s", Row: &row, NewRevision: true, Now: row.CreatedAt}}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return row
}

// While a check holds its locks, the leader plans, claims and settles the same schedule.
func TestACheckDoesNotBlockTheLeader(t *testing.T) {
	s := newSite(t, engines[1])
	row := s.oneSchedule(t)
	store := s.store.(*postgres.Store)
	now := noon.Add(6 * time.Minute)
	term, ok, err := store.Takeover(t.Context(), schedule.TakeoverRequest{Holder: "leader", TTL: time.Hour, LockHeld: true, Now: now})
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	lead := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		run := schedule.Run{
			Key: schedule.SlotKey("s", noon), ScheduleID: "s", Revision: 1, RunAt: noon, FireAt: noon, Status: schedule.StatusPlanned,
			Trigger: schedule.TriggerSchedule, Attempt: 1, OverlapKey: row.QualifiedOverlapKey(), OverlapPolicy: schedule.OverlapAllow,
		}
		plan, err := store.Plan(ctx, schedule.PlanRequest{Term: term, Now: now, Horizon: now, Grace: time.Hour, Limit: 10}, func(c []schedule.PlanCandidate) []schedule.PlanDecision {
			return []schedule.PlanDecision{{ScheduleID: "s", NextRunAt: noon.Add(time.Hour), PlanAt: noon.Add(time.Hour), Rows: []schedule.Run{run}}}
		})
		if err != nil || plan.Inserted != 1 {
			return errors.Join(errors.New("it is not planned"), err)
		}
		claimed, err := storetest.ClaimOnce(ctx, store, term, now, storetest.Times{Grace: time.Hour, Lease: time.Minute, RetryFor: time.Hour})
		if err != nil || len(claimed.Launches) != 1 {
			return errors.Join(errors.New("it is not claimed"), err)
		}
		moved, err := store.Settle(ctx, term, now, []schedule.Settlement{{Key: run.Key, To: schedule.StatusSuccess, LaunchedAt: now, CompletedAt: now}})
		if err != nil || moved[0].To == "" {
			return errors.Join(errors.New("it is not settled"), err)
		}
		return nil
	}
	evaluated, err := s.store.EvaluateExpectations(t.Context(), schedule.EvaluateRequest{Now: now, Limit: 10, MaxRuns: 10, MaxHistory: 10},
		func(cases []schedule.ExpectationCase) []schedule.ExpectationVerdict {
			if err := lead(); err != nil {
				t.Errorf("while an evaluation holds its rows: %v", err)
			}
			return []schedule.ExpectationVerdict{{State: cases[0].State}}
		})
	if err != nil || evaluated != 1 {
		t.Fatal(evaluated, err)
	}
}

// Without any leader the expectation is checked on each store, and sent once however often it is
// checked.
func TestALateSlotIsSentWithoutAnyLeader(t *testing.T) {
	for _, e := range engines {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, e)
			s.oneSchedule(t)
			s.now = func() time.Time { return noon.Add(6 * time.Minute) }
			one, two := s.newWatch(t, nil, "http://127.0.0.1/hook"), s.newWatch(t, nil, "http://127.0.0.1/hook")
			for range 2 {
				for _, w := range []interface{ Evaluate(context.Context) error }{one, two} {
					if err := w.Evaluate(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
			}
			open, err := s.store.ListAlerts(t.Context(), schedule.AlertFilter{Limit: 10})
			if err != nil || len(open) != 1 || open[0].Cause != schedule.CauseNotPlanned || !open[0].LastSlot.Equal(noon) {
				t.Fatalf("the alerts are %+v, %v", open, err)
			}
			told, err := s.store.ListDeliveries(t.Context(), schedule.DeliveryFilter{Limit: 10})
			if err != nil || len(told) != 1 || told[0].Type != "alert.opened" {
				t.Errorf("told %+v, %v", told, err)
			}
		})
	}
}
