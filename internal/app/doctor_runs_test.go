package app_test

import (
	"context"
	"database/sql"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillon/carillon/internal/app"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/test/storetest"
)

// finding joins the doctor's findings of one check, one per line.
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

// addRuns creates a schedule with planned runs.
func addRuns(t *testing.T, store app.Store, name string, n int) (runs []schedule.Run) {
	t.Helper()
	now := store.Now().Truncate(time.Second)
	row := schedule.Schedule{
		Definition: schedule.Definition{
			ScheduleID: name, WorkflowID: "w", Version: 1, UserID: "u", CronExpr: "0 * * * *", Timezone: "UTC", DST: schedule.DSTVixie,
			OverlapPolicy: schedule.OverlapAllow, OverlapKey: name, CatchupPolicy: schedule.CatchupNone, RunTimeoutMS: 3_600_000,
		},
		Revision: 1, RevisedAt: now.Add(-time.Hour), CreatedAt: now.Add(-time.Hour), UpdatedAt: now,
	}
	for i := range n {
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
	return runs
}

func claimAll(t *testing.T, store app.Store, now time.Time) {
	t.Helper()
	term, ok, err := store.Takeover(t.Context(), schedule.TakeoverRequest{Holder: "h", TTL: time.Hour, LockHeld: true, Now: now})
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	_, err = storetest.ClaimOnce(t.Context(), store, term, now, storetest.Times{Grace: time.Hour, Lease: time.Hour, RetryFor: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
}

func settleRun(t *testing.T, store app.Store, now time.Time, s schedule.Settlement) {
	t.Helper()
	if moved, err := store.SettleLaunched(t.Context(), now, []schedule.Settlement{s}); err != nil || moved[0].To == "" {
		t.Fatal(moved, err)
	}
}

func TestTheDoctorReportsFailedCallsOfTheExecutor(t *testing.T) {
	t.Parallel()
	const check = "executor calls"
	cfg := onDatabase(t, "sqlite:"+filepath.Join(t.TempDir(), "carillon.db"))
	store := emptyStore(t, cfg)
	runs := addRuns(t, store, "s", 4)
	now := store.Now()
	claimAll(t, store, now)
	accept := func(i int, at time.Time) {
		settleRun(t, store, store.Now(), schedule.Settlement{Key: runs[i].Key, To: schedule.StatusEnqueued, LaunchedAt: at, Deliveries: 1})
	}
	fail := func(i int, at time.Time, code schedule.ErrorCode, message string) {
		settleRun(t, store, store.Now(), schedule.Settlement{Key: runs[i].Key, To: schedule.StatusLaunching, Attempt: &schedule.LaunchAttempt{
			At: at, Result: schedule.LaunchUnknown, ErrorCode: string(code), ErrorMessage: message,
		}})
	}
	for _, step := range []struct {
		name string
		do   func()
		want string
	}{
		{"no calls", func() {}, "ok no calls in the last 15 minutes"},
		{"an old call is not counted", func() { fail(0, now.Add(-time.Hour), schedule.CodeExecutorTimeout, "old") }, "ok no calls in the last 15 minutes"},
		{"all are accepted", func() { accept(1, now.Add(-2*time.Minute)) }, "ok 1 call in the last 15 minutes, all accepted"},
		{
			"half fail, the newest among them", func() {
				fail(2, now.Add(-time.Minute), schedule.CodeExecutorError, "HTTP 500 {\"error\":\n \"database is full\"}")
			},
			`fail 1 of 2 calls in the last 15 minutes failed: executor_error 1; last: HTTP 500 {"error": "database is full"}`,
		},
		{
			"by result, the most frequent first", func() {
				for range 2 {
					fail(3, now.Add(-50*time.Second), schedule.CodeExecutorTimeout, "")
				}
			},
			"fail 3 of 4 calls in the last 15 minutes failed: executor_timeout 2, executor_error 1; last: executor_timeout",
		},
		{
			"the newest is accepted again", func() { accept(3, now.Add(-time.Second)) },
			"warn 3 of 5 calls in the last 15 minutes failed: executor_timeout 2, executor_error 1; last: executor_timeout; the newest call was accepted",
		},
	} {
		if step.do(); finding(t, cfg, check) != step.want {
			t.Errorf("%s: %q, want %q", step.name, finding(t, cfg, check), step.want)
		}
	}
}

func TestTheDoctorReportsFailedRuns(t *testing.T) {
	t.Parallel()
	cfg := onDatabase(t, "sqlite:"+filepath.Join(t.TempDir(), "carillon.db"))
	store := emptyStore(t, cfg)
	for check, want := range map[string]string{
		"outcomes": "ok no runs ended in the last 15 minutes", "failing": "ok no schedule is failing",
		"dead runs": "ok no run of the last day failed for good",
		"launching": "ok no run is LAUNCHING for over a minute", "alerts": "ok no open alerts",
	} {
		if got := finding(t, cfg, check); got != want {
			t.Errorf("%s of an empty database: %q, want %q", check, got, want)
		}
	}
	now := store.Now().Truncate(time.Second)
	for n, name := range []string{"a", "b"} {
		for _, run := range addRuns(t, store, name, 2-n) {
			settleRun(t, store, now, schedule.Settlement{
				Key: run.Key, To: schedule.StatusFailed, Reason: schedule.ReasonWorkflowFailed, ErrorCode: "exit",
			})
		}
	}
	if got, want := finding(t, cfg, "outcomes"), "fail 3 of 3 runs that ended in the last 15 minutes FAILED(workflow_failed: exit), most of a (2), b (1)"; got != want {
		t.Errorf("outcomes: %q, want %q", got, want)
	}
	newest := schedule.SlotKey("a", now.Add(-9*time.Minute)).String()[:12]
	wantDo := "`carillon explain " + newest + "` says why of the newest; `carillon run list --schedule a --status FAILED --reason workflow_failed` lists them"
	for _, f := range app.Examine(t.Context(), cfg, nil) {
		if f.Check == "outcomes" && f.Do != wantDo {
			t.Errorf("outcomes: do %q, want %q", f.Do, wantDo)
		}
	}
	if got, want := finding(t, cfg, "dead runs"), "warn runs of the last day that failed for good: 3, most of a (2)"; got != want {
		t.Errorf("dead runs: %q, want %q", got, want)
	}
	if got := finding(t, cfg, "failing"); !strings.HasPrefix(got, "warn schedules that fail with workflow_failed: exit: 2, since ") {
		t.Errorf("failing: %q", got)
	}
}

// Reads succeed while another process holds SQLite's lock. No worker can lead then.
func TestTheDoctorNoticesAFileThatIsLocked(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "carillon.db")
	cfg := onDatabase(t, "sqlite:"+path)
	emptyStore(t, cfg)
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.ExecContext(t.Context(), `UPDATE leaders SET expires_at = 0`); err != nil {
		t.Fatal(err)
	}
	if got, want := finding(t, cfg, "database"), "fail unavailable: another process has held the database's lock for 2s"; !strings.HasPrefix(got, want) {
		t.Errorf("while it is locked: %q, want %q", got, want)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	if got := finding(t, cfg, "database"); !strings.HasPrefix(got, "ok answers in ") {
		t.Errorf("once it is free: %q", got)
	}
}

// A file on a network disk may be slow for every answer.
func TestTheDoctorAcceptsADatabaseThatStaysSlow(t *testing.T) {
	t.Parallel()
	for _, answer := range []time.Duration{10 * time.Millisecond, 70 * time.Millisecond, 400 * time.Millisecond} {
		t.Run(answer.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				got, err := app.MedianPing(t.Context(), func(ctx context.Context) error {
					select {
					case <-time.After(answer):
						return nil
					case <-ctx.Done():
						return ctx.Err()
					}
				})
				if err != nil || got != answer {
					t.Errorf("%s, %v", got, err)
				}
			})
		})
	}
}

func TestTheDoctorChecksThatTheExecutorAnswers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		answer http.HandlerFunc
		want   string // in the finding
	}{
		{"one that knows no OPTIONS", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusMethodNotAllowed) }, "ok "},
		{"one whose server has no handler for OPTIONS", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotImplemented) }, "ok "},
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
