package alert_test

import (
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/registrar/alert"
)

// end brings a run of each schedule to its end, past all that a worker does.
func (s *site) end(t testing.TB, slot time.Time, settlement schedule.Settlement, of ...*schedule.Schedule) {
	t.Helper()
	var req schedule.ChangeRequest
	var changes []schedule.Change
	var settlements []schedule.Settlement
	for _, one := range of {
		run := schedule.Run{
			Key: schedule.SlotKey(one.ScheduleID, slot), ScheduleID: one.ScheduleID, Revision: one.Revision, RunAt: slot, FireAt: slot, Status: schedule.StatusPlanned,
			Trigger: schedule.TriggerSchedule, OverlapKey: one.QualifiedOverlapKey(), OverlapPolicy: one.OverlapPolicy, MaxQueued: 1, Attempt: 1,
		}
		req.ScheduleIDs = append(req.ScheduleIDs, one.ScheduleID)
		changes = append(changes, schedule.Change{ScheduleID: one.ScheduleID, Runs: []schedule.Run{run}, Now: s.now()})
		settlement.Key = run.Key
		settlements = append(settlements, settlement)
	}
	err := s.store.ChangeSchedules(t.Context(), req, func([]schedule.ChangeInput) ([]schedule.Change, error) { return changes, nil })
	if err != nil {
		t.Fatal(err)
	}
	s.exec(t, "UPDATE open_runs SET state = 3, status = 2, exclusive_flight = (policy <> 1) WHERE status = 1")
	moved, err := s.store.SettleLaunched(t.Context(), s.now(), settlements)
	if err != nil || slices.Contains(moved, schedule.Moved{}) {
		t.Fatalf("moved %v, %v", moved, err)
	}
}

// define makes schedules.
func (s *site) define(t testing.TB, rows ...*schedule.Schedule) {
	t.Helper()
	var req schedule.ChangeRequest
	var changes []schedule.Change
	for _, row := range rows {
		req.ScheduleIDs = append(req.ScheduleIDs, row.ScheduleID)
		changes = append(changes, schedule.Change{ScheduleID: row.ScheduleID, Row: row, NewRevision: true, Now: s.now()})
	}
	if err := s.store.ChangeSchedules(t.Context(), req, func([]schedule.ChangeInput) ([]schedule.Change, error) { return changes, nil }); err != nil {
		t.Fatal(err)
	}
}

func TestAFailureAndItsRecoveryAreSentOnce(t *testing.T) {
	t.Parallel()
	for _, e := range engines {
		t.Run(e.name+": its workflow failed", func(t *testing.T) {
			t.Parallel()
			toldOnce(t, newSite(t, e), schedule.Settlement{To: schedule.StatusFailed, Reason: schedule.ReasonWorkflowFailed, ErrorCode: "exit", ErrorMessage: "status 3"},
				"exit: status 3", "Schedule nightly failed: workflow_failed, exit: status 3 (slot ")
		})
		t.Run(e.name+": its launch failed", func(t *testing.T) {
			t.Parallel()
			toldOnce(t, newSite(t, e), schedule.Settlement{To: schedule.StatusFailed, Reason: schedule.ReasonLaunchUnavailable, ErrorCode: "executor_unreachable", ErrorMessage: "connection refused"},
				"executor_unreachable: connection refused", "Schedule nightly failed: executor_unreachable: connection refused (slot ")
		})
	}
}

// toldOnce ends two runs with failed and one with success, and expects one message
// of the failure and one of the recovery.
func toldOnce(t *testing.T, s *site, failed schedule.Settlement, detail, sentence string) {
	t.Helper()
	now := time.Now().Truncate(time.Second)
	s.now = func() time.Time { return now }
	row := hourly("nightly", now.Add(-48*time.Hour))
	row.Expect = schedule.Expect{}
	quiet := hourly("quiet", now.Add(-48*time.Hour))
	quiet.Expect = schedule.Expect{OnFailure: schedule.OnFailureIgnore, AlertAfter: 1}
	s.define(t, &row, &quiet)
	w := alert.New(alert.Options{
		Expectations: s.store, Outbox: s.store, Routes: routesTo(t, "http://127.0.0.1:9/hook"), Client: http.DefaultClient, Now: s.now, Logger: slog.New(slog.DiscardHandler),
		Registry: prometheus.NewRegistry(), OnFailure: schedule.OnFailureAlert,
	})
	evaluate := func() {
		t.Helper()
		now = now.Add(2 * time.Second)
		if err := w.Evaluate(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	first := now.Add(-24 * time.Hour)
	for i, to := range []schedule.Settlement{failed, failed, {To: schedule.StatusSuccess}} {
		slot := first.Add(time.Duration(i) * time.Hour)
		s.end(t, slot, to, &row, &quiet)
		evaluate()
		evaluate()
	}
	open := true
	if still, err := s.store.ListAlerts(t.Context(), schedule.AlertFilter{Open: &open, Limit: 10}); err != nil || len(still) > 0 {
		t.Errorf("open alerts: %+v, %v", still, err)
	}
	all, err := s.store.ListAlerts(t.Context(), schedule.AlertFilter{Limit: 10})
	if err != nil || len(all) != 1 || all[0].ScheduleID != "nightly" || all[0].Late != 2 || all[0].Detail != detail {
		t.Errorf("alerts: %+v, %v", all, err)
	}
	sent, err := s.store.ListDeliveries(t.Context(), schedule.DeliveryFilter{Limit: 10})
	if err != nil || len(sent) != 2 {
		t.Fatalf("%d messages, %v, want one of the failure and one of the recovery", len(sent), err)
	}
	for i, want := range []string{
		"Schedule nightly recovered: its run succeeded after 2 failed runs.",
		sentence,
	} {
		if !strings.Contains(sent[i].Payload, want) {
			t.Errorf("message %d does not say %q: %s", i, want, sent[i].Payload)
		}
	}
	if want := schedule.SlotKey("nightly", first).String(); !strings.Contains(sent[1].Payload, want) || !strings.Contains(sent[1].Payload, detail) {
		t.Errorf("the message does not name the run %s and its error: %s", want, sent[1].Payload)
	}
}
