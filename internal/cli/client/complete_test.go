package client_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/cli/clitest"
	"github.com/carillon/carillon/internal/cli/render"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

func TestCompletionAsksTheServer(t *testing.T) {
	f := clitest.NewAnsweringServer(t)
	poll := clitest.Schedule()
	poll.ScheduleId, poll.WorkflowId, poll.ManagedBy = "poll", "fetch", "set:box"
	f.Answer("ListBackfills", &carillonv1.ListBackfillsResponse{Backfills: []*carillonv1.Backfill{{BackfillId: "b1", ScheduleId: "nightly", State: "running"}}})
	f.Answer("ListAlerts", &carillonv1.ListAlertsResponse{Alerts: []*carillonv1.Alert{{AlertId: "al-1", ScheduleId: "nightly", Kind: "start", LimitMs: 5000}}})
	f.Answer("ListAlertDeliveries", &carillonv1.ListAlertDeliveriesResponse{Deliveries: []*carillonv1.AlertDelivery{
		{DeliveryId: "msg_1", ScheduleId: "nightly", Type: "alert.opened", State: "DEAD"},
	}})
	f.Answer("ListSchedules", &carillonv1.ListSchedulesResponse{Schedules: []*carillonv1.Schedule{clitest.Schedule(), poll}})
	f.Answer("ListGrants", &carillonv1.ListGrantsResponse{Grants: []*carillonv1.Grant{{GrantId: "ada-reports"}, {GrantId: "bob"}}})
	f.Answer("ListRuns", &carillonv1.ListRunsResponse{Runs: []*carillonv1.Run{clitest.FailedRun()}})
	for _, tt := range []struct {
		name string
		args []string
		want []string
	}{
		{"schedules", []string{"schedule", "get", ""}, []string{"nightly", "poll"}},
		{"schedules that begin so", []string{"schedule", "pause", "n"}, []string{"nightly"}},
		{"of explain", []string{"explain", ""}, []string{"nightly", "poll"}},
		{"not a second argument", []string{"explain", "nightly", ""}, nil},
		{"grants", []string{"grant", "revoke", "a"}, []string{"ada-reports"}},
		{"workflows", []string{"workflow", "list", ""}, []string{"fetch", "report"}},
		{"a flag", []string{"run", "list", "--schedule", "p"}, []string{"poll"}},
		{"backfills, with what they are", []string{"backfill", "get", "b"}, []string{"b1\tnightly running"}},
		{"alerts", []string{"alert", "ack", ""}, []string{"al-1\tnightly start within 5s"}},
		{"messages", []string{"alert", "redeliver", "m"}, []string{"msg_1\talert.opened nightly DEAD"}},
		{"schedules to backfill", []string{"backfill", "n"}, []string{"nightly"}},
		{"owners", []string{"forecast", "--user", ""}, []string{"ada"}},
		{"who manages", []string{"schedule", "list", "--managed-by", ""}, []string{"set:box", "workflow:report"}},
		{"sets", []string{"export", "--set", ""}, []string{"box"}},
		{"runs, with what they are", []string{"run", "get", ""}, []string{render.ShortKey(clitest.KeyA) + "\tnightly 2026-03-08T07:00:00Z FAILED"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := f.Run(t, append([]string{"__complete"}, tt.args...)...)
			lines := strings.Split(strings.TrimSpace(got.Out), "\n")
			if lines = lines[:len(lines)-1]; !slices.Equal(lines, tt.want) { // the last says how to go on
				t.Errorf("%q, want %q (%s)", lines, tt.want, got.ErrOut)
			}
		})
	}
	t.Run("nothing without a server", func(t *testing.T) {
		began := time.Now()
		got := clitest.Run(t, clitest.Env{Vars: map[string]string{"CARILLON_SERVER": "127.0.0.1:1"}}, "__complete", "schedule", "get", "")
		if lines := strings.Split(got.Out, "\n"); !strings.HasPrefix(lines[0], ":") || time.Since(began) > 5*time.Second {
			t.Errorf("after %s: %q", time.Since(began), got.Out)
		}
	})
}
