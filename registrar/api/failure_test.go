package api_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// end puts a run of the past down and ends it, one for each status, oldest first.
func (r *rig) end(t *testing.T, scheduleID string, ends ...schedule.Settlement) {
	t.Helper()
	now := time.Now().UTC().Truncate(time.Second)
	for i, e := range ends {
		slot := now.Add(time.Duration(i-len(ends)) * time.Minute)
		e.Key = schedule.SlotKey(scheduleID, slot)
		run := schedule.Run{
			Key: e.Key, ScheduleID: scheduleID, Revision: 1, RunAt: slot, FireAt: slot, Status: schedule.StatusPlanned,
			Trigger: schedule.TriggerSchedule, OverlapKey: "u/" + scheduleID, OverlapPolicy: schedule.OverlapAllow, MaxQueued: 1, Attempt: 1,
		}
		err := r.store.ChangeSchedules(t.Context(), schedule.ChangeRequest{ScheduleIDs: []string{scheduleID}}, func([]schedule.ChangeInput) ([]schedule.Change, error) {
			return []schedule.Change{{ScheduleID: scheduleID, Runs: []schedule.Run{run}, Now: now}}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if moved, err := r.store.SettleLaunched(t.Context(), now, []schedule.Settlement{e}); err != nil || moved[0].To == "" {
			t.Fatalf("settle %s: %v, %v", e.To, moved, err)
		}
	}
}

func TestListsSayHowSchedulesDo(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, id := range []string{"ill", "new", "well"} {
		r.must(http.MethodPut, "/v1/schedules/"+id, `{"workflow_id":"w","version":1,"user_id":"u","cron_expr":"0 * * * *"}`)
	}
	failed := schedule.Settlement{To: schedule.StatusFailed, Reason: schedule.ReasonWorkflowFailed, ErrorCode: "exit", ErrorMessage: "status 3"}
	skipped := schedule.Settlement{To: schedule.StatusSkipped, Reason: schedule.ReasonOverlap}
	r.end(t, "ill", failed, failed, skipped)
	r.end(t, "well", skipped)

	type shown struct {
		Schedules []struct {
			ScheduleID     string   `json:"schedule_id"`
			RecentOutcomes []string `json:"recent_outcomes"`
			LastOutcome    *struct {
				Status, Reason string
			} `json:"last_outcome"`
			Failure *struct {
				Failures     int
				Reason       string
				ErrorCode    string `json:"error_code"`
				ErrorMessage string `json:"error_message"`
			}
		}
	}
	list := func(query string) (s shown) {
		t.Helper()
		if err := json.Unmarshal([]byte(r.must(http.MethodGet, "/v1/schedules"+query, "")), &s); err != nil {
			t.Fatal(err)
		}
		return s
	}
	all := list("").Schedules
	if len(all) != 3 || all[1].LastOutcome != nil || all[1].Failure != nil || len(all[1].RecentOutcomes) != 0 {
		t.Fatalf("of a schedule that never ran nothing is said: %+v", all)
	}
	ill := all[0]
	if !slices.Equal(ill.RecentOutcomes, []string{"SKIPPED", "FAILED", "FAILED"}) || ill.LastOutcome.Status != "SKIPPED" || ill.LastOutcome.Reason != "overlap" {
		t.Errorf("outcomes, newest first: %+v", ill)
	}
	if f := ill.Failure; f == nil || f.Failures != 2 || f.Reason != "workflow_failed" || f.ErrorCode != "exit" || f.ErrorMessage != "status 3" {
		t.Errorf("a skipped run does not end a failure: %+v", f)
	}
	if all[2].Failure != nil {
		t.Errorf("a schedule whose runs were all skipped does not fail: %+v", all[2])
	}
	if got := list("?failing=true").Schedules; len(got) != 1 || got[0].ScheduleID != "ill" {
		t.Errorf("failing over REST: %+v", got)
	}
	resp, err := carillonv1.NewScheduleServiceClient(r.conn).ListSchedules(t.Context(), &carillonv1.ListSchedulesRequest{Failing: true, UserId: "u"})
	if err != nil || len(resp.GetSchedules()) != 1 || resp.GetSchedules()[0].GetFailure().GetFailures() != 2 {
		t.Errorf("failing over gRPC: %v, %v", resp, err)
	}
	var one struct{ Schedule map[string]any }
	if err := json.Unmarshal([]byte(r.must(http.MethodGet, "/v1/schedules/ill", "")), &one); err != nil || one.Schedule["failure"] == nil {
		t.Errorf("GetSchedule says it too: %v, %v", one, err)
	}
	groups, err := carillonv1.NewScheduleServiceClient(r.conn).GroupFailures(t.Context(), &carillonv1.GroupFailuresRequest{})
	if err != nil || groups.GetSchedules() != 1 || len(groups.GetGroups()) != 1 || groups.GetGroups()[0].GetFailures() != 2 || groups.GetGroups()[0].GetExamples()[0] != "ill" {
		t.Errorf("groups over gRPC: %v, %v", groups, err)
	}
	var over struct{ Schedules int }
	if err := json.Unmarshal([]byte(r.must(http.MethodGet, "/v1/failures?user_id=somebody", "")), &over); err != nil || over.Schedules != 0 {
		t.Errorf("of another owner there are none: %v, %v", over, err)
	}
}
