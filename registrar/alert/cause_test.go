package alert_test

import (
	"strings"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/test/storetest"
	"github.com/carillon/carillon/registrar"
)

// stuck brings the slot of eleven to an executor that never reports, and skips
// that of twelve for it.
func (s *site) stuck(t *testing.T) {
	t.Helper()
	eleven := noon.Add(-time.Hour)
	row := hourly("s", eleven.Add(-time.Hour+time.Second))
	row.NextRunAt, row.PlanAt = eleven, eleven
	err := s.store.ChangeSchedules(t.Context(), schedule.ChangeRequest{ScheduleIDs: []string{"s"}}, func([]schedule.ChangeInput) ([]schedule.Change, error) {
		return []schedule.Change{{ScheduleID: "s", Row: &row, NewRevision: true, Now: row.CreatedAt}}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	term, ok, err := s.store.Takeover(t.Context(), schedule.TakeoverRequest{Holder: "leader", TTL: 24 * time.Hour, LockHeld: true, Now: eleven.Add(-time.Hour)})
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	runs := make([]schedule.Run, 2)
	for i := range runs {
		at := eleven.Add(time.Duration(i) * time.Hour)
		runs[i] = schedule.Run{
			Key: schedule.SlotKey("s", at), ScheduleID: "s", Revision: 1, RunAt: at, FireAt: at, Status: schedule.StatusPlanned, CreatedAt: at.Add(-time.Minute),
			Trigger: schedule.TriggerSchedule, Attempt: 1, OverlapKey: row.QualifiedOverlapKey(), OverlapPolicy: schedule.OverlapSkip, Exclusive: true,
		}
	}
	plan := schedule.PlanRequest{Term: term, Now: eleven, Horizon: eleven, Grace: time.Hour, Limit: 10}
	_, err = s.store.Plan(t.Context(), plan, func([]schedule.PlanCandidate) []schedule.PlanDecision {
		return []schedule.PlanDecision{{ScheduleID: "s", NextRunAt: noon.Add(time.Hour), PlanAt: noon.Add(time.Hour), Rows: runs}}
	})
	if err != nil {
		t.Fatal(err)
	}
	for i := range runs { // the first is claimed, the second is skipped for it
		at := runs[i].RunAt
		_, err := storetest.ClaimOnce(t.Context(), s.store, term, at, storetest.Times{Grace: time.Hour, Lease: time.Minute, RetryFor: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			settle := []schedule.Settlement{{Key: runs[0].Key, To: schedule.StatusEnqueued, LaunchedAt: at.Add(time.Second), TimeoutAt: noon.Add(24 * time.Hour)}}
			if moved, err := s.store.Settle(t.Context(), term, at, settle); err != nil || moved[0].To == "" {
				t.Fatal(moved, err)
			}
		}
	}
}

func TestAnAlertNamesWhyTheBlockingRunWasInFlight(t *testing.T) {
	for _, e := range engines {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, e)
			s.stuck(t)
			s.now = func() time.Time { return noon.Add(6 * time.Minute) }
			s.explainer = registrar.New(registrar.Options{Schedules: s.store, Runs: s.store, Grants: s.store, Terms: s.store, Now: s.now})
			w := s.newWatch(t, nil, "http://127.0.0.1/hook")
			if err := w.Evaluate(t.Context()); err != nil {
				t.Fatal(err)
			}
			open, err := s.store.ListAlerts(t.Context(), schedule.AlertFilter{Limit: 10})
			if err != nil || len(open) != 1 || open[0].Cause != schedule.CauseNoReport || !open[0].LastSlot.Equal(noon) {
				t.Fatalf("the alerts are %+v, %v", open, err)
			}
			if want := "which was accepted at 2026-03-02T11:00:01Z and has not reported since"; !strings.Contains(open[0].Detail, want) {
				t.Errorf("the detail is %q, want %q in it", open[0].Detail, want)
			}
			told, err := s.store.ListDeliveries(t.Context(), schedule.DeliveryFilter{Limit: 10})
			if err != nil || len(told) != 1 || !strings.Contains(told[0].Payload, "(no_report): Blocked by run ") {
				t.Errorf("told %+v, %v", told, err)
			}
		})
	}
}
