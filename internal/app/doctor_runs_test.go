package app_test

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/app"
	"github.com/carillon/carillon/internal/schedule"
)

// finding is what the doctor says of one check, each finding on a line.
func finding(t *testing.T, cfg app.Config, check string) string {
	t.Helper()
	var lines []string
	for _, f := range app.Examine(t.Context(), cfg, nil) {
		if f.Check == check {
			lines = append(lines, string(f.Health)+" "+f.Says)
			if (f.Health != app.HealthOK) != (f.Do != "") {
				t.Errorf("%s %s: what to do is %q", f.Health, f.Says, f.Do)
			}
		}
	}
	return strings.Join(lines, "\n")
}

func TestTheDoctorSaysWhatFails(t *testing.T) {
	cfg := onDatabase(t, "sqlite:"+filepath.Join(t.TempDir(), "carillon.db"))
	store := emptyStore(t, cfg)
	for check, want := range map[string]string{
		"outcomes": "ok no runs ended in the last 15 minutes", "failing": "ok no schedule is failing",
		"launching": "ok no run is LAUNCHING for over a minute", "alerts": "ok no open alerts",
	} {
		if got := finding(t, cfg, check); got != want {
			t.Errorf("%s of an empty database: %q, want %q", check, got, want)
		}
	}
	now := store.Now().Truncate(time.Second)
	for n, name := range []string{"a", "b"} {
		row := schedule.Schedule{
			Definition: schedule.Definition{
				ScheduleID: name, WorkflowID: "w", Version: 1, UserID: "u", CronExpr: "0 * * * *", Timezone: "UTC", DST: schedule.DSTVixie,
				OverlapPolicy: schedule.OverlapAllow, OverlapKey: name, CatchupPolicy: schedule.CatchupNone, RunTimeoutMS: 3_600_000,
			},
			Revision: 1, RevisedAt: now.Add(-time.Hour), CreatedAt: now.Add(-time.Hour), UpdatedAt: now,
		}
		var runs []schedule.Run
		for i := range 2 - n {
			slot := now.Add(time.Duration(i-10) * time.Minute)
			runs = append(runs, schedule.Run{
				Key: schedule.SlotKey(name, slot), ScheduleID: name, Revision: 1, RunAt: slot, FireAt: slot, Status: schedule.StatusPlanned,
				Trigger: schedule.TriggerSchedule, OverlapKey: row.QualifiedOverlapKey(), OverlapPolicy: schedule.OverlapAllow, MaxQueued: 1, Attempt: 1,
			})
		}
		err := store.ChangeSchedules(t.Context(), schedule.ChangeRequest{ScheduleIDs: []string{name}}, func([]schedule.ChangeInput) ([]schedule.Change, error) {
			return []schedule.Change{{ScheduleID: name, Row: &row, NewRevision: true, Runs: runs, Now: now}}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, run := range runs {
			_, err := store.SettleLaunched(t.Context(), now, []schedule.Settlement{{
				Key: run.Key, To: schedule.StatusFailed, Reason: schedule.ReasonWorkflowFailed, ErrorCode: "exit",
			}})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	if got, want := finding(t, cfg, "outcomes"), "fail 3 of 3 runs that ended in the last 15 minutes FAILED(workflow_failed: exit), most of a (2), b (1)"; got != want {
		t.Errorf("outcomes: %q, want %q", got, want)
	}
	if got := finding(t, cfg, "failing"); !strings.HasPrefix(got, "warn schedules that fail with workflow_failed: exit: 2, since ") {
		t.Errorf("failing: %q", got)
	}
}

func TestTheDoctorAsksWhetherTheExecutorAnswers(t *testing.T) {
	for _, c := range []struct {
		name   string
		answer http.HandlerFunc
		want   string // in what it says
	}{
		{"one that knows no OPTIONS", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusMethodNotAllowed) }, "ok "},
		{"one that is broken", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }, "fail "},
		{"a page for people", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			_, _ = w.Write([]byte("<html>welcome</html>"))
		}, "it is not an executor"},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
				if req.Method != http.MethodOptions {
					t.Errorf("%s could start a run", req.Method)
				}
				c.answer(w, req)
			}))
			defer server.Close()
			cfg := onDatabase(t, "sqlite:"+filepath.Join(t.TempDir(), "carillon.db"))
			cfg.Roles, cfg.Executor, cfg.ExecutorURL = "registrar,worker,launcher", "http", server.URL+"/w/{workflow_id}"
			if got := finding(t, cfg, "executor"); !strings.Contains(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
			server.Close()
			if got := finding(t, cfg, "executor"); !strings.HasPrefix(got, "fail ") {
				t.Errorf("once it is away: %q", got)
			}
		})
	}
}
