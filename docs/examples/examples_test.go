package examples_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/carillon/carillon/docs/examples"
	"github.com/carillon/carillon/internal/safehttp"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/test/services/leaks"
	"github.com/carillon/carillon/launcher"
	"github.com/carillon/carillon/launcher/executor/local"
)

func TestMain(m *testing.M) { leaks.Main(m) }

var runAt = time.Date(2026, 3, 9, 7, 30, 0, 0, time.UTC)

// stand is a local executor with a Carillon that it can ask.
type stand struct {
	*local.Executor
	dir     string
	healthy bool
	reports chan report
	n       int
}

type report struct {
	status  schedule.Status
	message string
}

func (s *stand) ReportOutcome(_ context.Context, r schedule.ExecutorReport) error {
	if r.Status.Terminal() {
		s.reports <- report{r.Status, r.ErrorMessage}
	}
	return nil
}

func newStand(t *testing.T) *stand {
	t.Helper()
	s := &stand{dir: t.TempDir(), healthy: true, reports: make(chan report, 1)}
	carillon := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/readyz":
			if !s.healthy {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		case "/v1/schedules":
			_, _ = fmt.Fprint(w, `{"schedules": [{"schedule_id": "a"}]}`)
		default:
			t.Errorf("asked for %s", r.URL)
		}
	}))
	t.Cleanup(carillon.Close)
	loopback, err := safehttp.ParsePolicy("loopback")
	if err != nil {
		t.Fatal(err)
	}
	e, err := local.New(local.Config{Dir: s.dir, BaseURL: carillon.URL, Reporter: s, Log: slog.New(slog.DiscardHandler), Egress: loopback})
	if err != nil {
		t.Fatal(err)
	}
	s.Executor = e
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- e.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
		_ = e.Close()
	})
	return s
}

// play runs an example's next slot to its end.
func (s *stand) play(t *testing.T, w examples.Workflow, input string) report {
	t.Helper()
	at := runAt.Add(time.Duration(s.n) * time.Minute)
	s.n++
	o, err := s.Run(t.Context(), launcher.Call{
		StartRequest: schedule.StartRequest{
			Key: schedule.SlotKey(w.WorkflowID, at), ScheduleID: w.WorkflowID + ".tour", WorkflowID: w.WorkflowID, Version: w.Version,
			UserID: "dev", ScheduledFor: at, FireAt: at, Trigger: schedule.TriggerSchedule, Attempt: 1,
			Input: json.RawMessage(input), RunTimeout: time.Minute,
		},
		DAG: w.DAG,
	})
	if err != nil || o.Status != schedule.StatusEnqueued {
		t.Fatalf("Run() = %+v, %v, want it ENQUEUED", o, err)
	}
	select {
	case r := <-s.reports:
		return r
	case <-time.After(time.Minute):
		t.Fatal("no end within a minute")
		return report{}
	}
}

func (s *stand) work(workflowID string) string {
	return filepath.Join(s.dir, "work", "owners", "dev", workflowID)
}

func example(t *testing.T, workflowID string) examples.Workflow {
	t.Helper()
	workflows, err := examples.Workflows()
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range workflows {
		if w.WorkflowID == workflowID {
			return w
		}
	}
	t.Fatalf("there is no example %s", workflowID)
	return examples.Workflow{}
}

func wantSuccess(t *testing.T, r report) {
	t.Helper()
	if r.status != schedule.StatusSuccess {
		t.Fatalf("ended %s: %s", r.status, r.message)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func TestWeekdayPackageReport(t *testing.T) {
	logs := t.TempDir()
	newer := "2026-03-08 09:00:00 upgrade gzip:amd64 1.12-1 1.12-2\n2026-03-08 09:00:01 status installed gzip:amd64 1.12-2\n"
	older := ""
	for i := range 12 {
		older += fmt.Sprintf("2026-02-%02d 09:00:00 install package%d:amd64 <none> 1.%d\n", i+1, i+1, i)
	}
	for name, content := range map[string]string{"dpkg.log": newer, "dpkg.log.1": older} {
		if err := os.WriteFile(filepath.Join(logs, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.Command("gzip", filepath.Join(logs, "dpkg.log.1")).CombinedOutput(); err != nil {
		t.Fatalf("gzip: %v: %s", err, out)
	}
	s, w := newStand(t), example(t, "weekday-package-report")
	path := filepath.Join(s.work(w.WorkflowID), "report-2026-03-09.txt")

	wantSuccess(t, s.play(t, w, `{"log_dir": "`+logs+`"}`))
	got := read(t, path)
	for _, want := range []string{
		", 2026-03-09\n", "\n  install      12\n", "\n  upgrade       1\n", "\n  remove        0\n",
		"Last installs:\n  2026-02-03 09:00:00 package3:amd64 1.2\n", "\n  2026-02-12 09:00:00 package12:amd64 1.11\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the report lacks %q:\n%s", want, got)
		}
	}

	wantSuccess(t, s.play(t, w, `{"log_dir": "/nowhere"}`))
	if got := read(t, path); !strings.Contains(got, "There is no dpkg.log here.") {
		t.Errorf("without a log the report says:\n%s", got)
	}

	wantSuccess(t, s.play(t, w, "null")) // this machine, as it is
}

func TestDatabaseBackup(t *testing.T) {
	s, w := newStand(t), example(t, "database-backup")
	wantSuccess(t, s.play(t, w, "null")) // this machine, as it is
	for range 3 {
		wantSuccess(t, s.play(t, w, `{"keep": 2}`))
	}
	found, err := filepath.Glob(filepath.Join(s.work(w.WorkflowID), "*"))
	if err != nil || len(found) != 2 || filepath.Base(found[0]) != "backup-20260309T073200Z.tar.gz" || filepath.Base(found[1]) != "backup-20260309T073300Z.tar.gz" {
		t.Fatalf("kept: %v, %v, want the newest two", found, err)
	}
	list, err := exec.Command("tar", "-xzOf", found[1], "backup/schedules.json", "backup/SHA256SUMS").CombinedOutput()
	if err != nil || !strings.Contains(string(list), `{"schedule_id": "a"}`) || !strings.Contains(string(list), "  schedules.json\n") {
		t.Errorf("in the backup: %v\n%s", err, list)
	}
}

func TestHealthCheck(t *testing.T) {
	s, w := newStand(t), example(t, "health-check")
	wantSuccess(t, s.play(t, w, "null"))
	s.healthy = false
	wantSuccess(t, s.play(t, w, "null"))
	wantSuccess(t, s.play(t, w, "null"))
	if r := s.play(t, w, "null"); r.status != schedule.StatusFailed || !strings.Contains(r.message, `step "alarm" ended with exit code 1: `) {
		t.Errorf("after three failures: %+v, want an alarm", r)
	}
	want := "run_at,result,http_status\n2026-03-09T07:30:00Z,SUCCESS,200\n2026-03-09T07:31:00Z,FAILED,503\n" +
		"2026-03-09T07:32:00Z,FAILED,503\n2026-03-09T07:33:00Z,FAILED,503\n"
	if got := read(t, filepath.Join(s.work(w.WorkflowID), "health.csv")); got != want {
		t.Errorf("health.csv:\n%s\nwant:\n%s", got, want)
	}
	s.healthy = true
	wantSuccess(t, s.play(t, w, "null"))
}

func TestDiskSpaceWatch(t *testing.T) {
	s, w := newStand(t), example(t, "disk-space-watch")
	wantSuccess(t, s.play(t, w, `{"path": "/", "max_percent": 100}`))
	if r := s.play(t, w, `{"path": "`+s.dir+`", "max_percent": -1}`); r.status != schedule.StatusFailed || !strings.Contains(r.message, "% full, more than -1 %") {
		t.Errorf("above the limit: %+v, want an alarm", r)
	}
	if got := read(t, filepath.Join(s.work(w.WorkflowID), "disk.csv")); strings.Count(got, "\n") != 2 || !strings.HasPrefix(got, "2026-03-09T07:30:00Z,/,") {
		t.Errorf("disk.csv:\n%s", got)
	}
}

func TestTheReadmesDAGIsOne(t *testing.T) {
	_, rest, found := strings.Cut(read(t, "README.md"), "```json\n")
	dag, _, closed := strings.Cut(rest, "```")
	if !found || !closed {
		t.Fatal("README.md has no JSON in it")
	}
	s := newStand(t)
	wantSuccess(t, s.play(t, examples.Workflow{WorkflowID: "my-workflow", Version: 1, DAG: []byte(dag)}, "null"))
	if _, err := os.Stat(filepath.Join(s.work("my-workflow"), "packed")); err != nil {
		t.Error(err)
	}
}
