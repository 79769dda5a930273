package local_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/safehttp"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/launcher"
	"github.com/carillon/carillon/launcher/executor/local"
)

// testTimeout bounds each wait of a test.
const testTimeout = 20 * time.Second

var noon = time.Date(2026, 3, 8, 12, 0, 0, 0, time.UTC)

// callOf is the call of the n-th slot of a schedule.
func callOf(n int, dag string) launcher.Call {
	runAt := noon.Add(time.Duration(n) * time.Second)
	return launcher.Call{
		StartRequest: schedule.StartRequest{
			Key: schedule.SlotKey("s", runAt), ScheduleID: "s", WorkflowID: "w", Version: 2, UserID: "u",
			ScheduledFor: runAt, FireAt: runAt, Trigger: schedule.TriggerSchedule, Attempt: 1, RunTimeout: time.Minute,
		},
		DAG: json.RawMessage(dag),
	}
}

// report is one call of the Reporter.
type report struct {
	key     schedule.Key
	status  schedule.Status
	runID   string
	code    string
	message string
}

// ledger records reports; it is the registrar of these tests.
type ledger struct {
	mu      sync.Mutex
	reports []report
	refuse  error         // answered instead
	more    chan struct{} // capacity 1: something came in
}

func (l *ledger) ReportOutcome(_ context.Context, r schedule.ExecutorReport) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer func() {
		select {
		case l.more <- struct{}{}:
		default:
		}
	}()
	if l.refuse != nil {
		return l.refuse
	}
	l.reports = append(l.reports, report{r.Key, r.Status, r.RunID, r.ErrorCode, r.ErrorMessage})
	return nil
}

// of lists the reports of a key.
func (l *ledger) of(key schedule.Key) []report {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []report
	for _, r := range l.reports {
		if r.key == key {
			out = append(out, r)
		}
	}
	return out
}

func (l *ledger) setRefuse(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refuse = err
}

// await waits until done; it looks at every report, and now and then.
func (l *ledger) await(t testing.TB, what string, done func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(testTimeout)
	for !done() {
		select {
		case <-l.more:
		case <-tick.C:
		case <-deadline:
			t.Fatalf("no %s in %s; reports: %+v", what, testTimeout, l.reports)
		}
	}
}

// show is an executor that serves, and its ledger.
type show struct {
	*local.Executor
	*ledger
	dir  string
	stop func() // ends Serve and waits for it
}

// stage starts an executor in a folder of its own (or cfg.Dir).
func stage(t testing.TB, cfg local.Config) *show {
	t.Helper()
	s := rehearse(t, cfg)
	s.serve(t)
	return s
}

// rehearse makes one that does not serve yet.
func rehearse(t testing.TB, cfg local.Config) *show {
	t.Helper()
	if cfg.Dir == "" {
		cfg.Dir = t.TempDir()
	}
	if reflect.ValueOf(cfg.Egress).IsZero() { // the servers of tests are on loopback
		cfg.Egress = egress(t, "loopback")
	}
	l := &ledger{more: make(chan struct{}, 1)}
	if cfg.Reporter == nil {
		cfg.Reporter = l
	}
	e, err := local.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	var once sync.Once
	s := &show{Executor: e, ledger: l, dir: cfg.Dir}
	s.stop = func() { once.Do(func() { _ = e.Close() }) }
	t.Cleanup(func() { s.stop() })
	return s
}

func egress(t testing.TB, list string) safehttp.Policy {
	t.Helper()
	p, err := safehttp.ParsePolicy(list)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func (s *show) serve(t testing.TB) {
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx) }()
	var once sync.Once
	s.stop = func() {
		once.Do(func() {
			cancel()
			if err := <-served; err != nil {
				t.Errorf("Serve: %v", err)
			}
			if err := s.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
		})
	}
}

// run hands a call over, which must be accepted.
func (s *show) run(t testing.TB, call launcher.Call) {
	t.Helper()
	o, err := s.Run(t.Context(), call)
	if err != nil || o.Status != schedule.StatusEnqueued || o.RunID != call.Key.String()[:16] {
		t.Fatalf("Run() = %+v, %v, want it ENQUEUED", o, err)
	}
}

// end waits for the report of a run's end.
func (s *show) end(t testing.TB, key schedule.Key) report {
	t.Helper()
	var last report
	s.await(t, "end of the run", func() bool {
		for _, r := range s.of(key) {
			if r.status.Terminal() {
				last = r
				return true
			}
		}
		return false
	})
	return last
}

// play runs a DAG to its end.
func (s *show) play(t testing.TB, call launcher.Call) report {
	t.Helper()
	s.run(t, call)
	return s.end(t, call.Key)
}

func (s *show) runDir(key schedule.Key) string {
	return filepath.Join(s.dir, "runs", key.String()[:2], key.String())
}

func (s *show) work(name string) string {
	return filepath.Join(s.dir, "work", "owners", "u", "w", name)
}

func (s *show) result(t testing.TB, key schedule.Key) local.Result {
	t.Helper()
	var r local.Result
	if err := json.Unmarshal([]byte(read(t, filepath.Join(s.runDir(key), "result.json"))), &r); err != nil {
		t.Fatal(err)
	}
	return r
}

func read(t testing.TB, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// awaitFile waits until a file holds at least one line.
func awaitFile(t testing.TB, path string) string {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(testTimeout)
	for {
		content, _ := os.ReadFile(path)
		if strings.HasSuffix(string(content), "\n") {
			return string(content)
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("no line in %s within %s", path, testTimeout)
		}
	}
}

func quoteJSON(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}

// shell is a DAG of one shell step.
func shell(script string) string {
	return `{"steps":[{"id":"only","shell":` + quoteJSON(script) + `}]}`
}
