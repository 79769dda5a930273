package graphapi_test

import (
	"context"
	"log/slog"
	"net/http"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/postgres"
	"github.com/carillon/carillon/internal/store/sqlite"
	"github.com/carillon/carillon/internal/test/services"
	"github.com/carillon/carillon/internal/test/services/migrated"
	"github.com/carillon/carillon/launcher"
	"github.com/carillon/carillon/launcher/graphapi"
)

// database is one process' connection to a store that others share.
type database interface {
	launcher.Store
	Now() time.Time
	Close() error
}

// onBothStores runs test with a function that connects one more process.
func onBothStores(t *testing.T, test func(t *testing.T, connect func() database)) {
	quiet := slog.New(slog.DiscardHandler)
	t.Run("sqlite", func(t *testing.T) {
		url := "sqlite:" + migrated.SQLite(t, filepath.Join(t.TempDir(), "carillon.db"))
		test(t, func() database {
			s, err := sqlite.Open(t.Context(), url, sqlite.Options{Logger: quiet})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = s.Close() })
			return s
		})
	})
	t.Run("postgres", func(t *testing.T) {
		url := services.Postgres(t, migratePostgres)
		test(t, func() database {
			s, err := postgres.Open(t.Context(), url, postgres.Options{Logger: quiet})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = s.Close() })
			return s
		})
	})
}

func migratePostgres(ctx context.Context, url string) error {
	s, err := postgres.Open(ctx, url, postgres.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	defer s.Close()
	_, err = s.Migrate(ctx)
	return err
}

// effects is an executor that honours no key, so that each call counts.
type effects struct {
	took time.Duration

	mu    sync.Mutex
	calls int
}

func (e *effects) Run(_ context.Context, call launcher.Call) (schedule.Outcome, error) {
	e.mu.Lock()
	e.calls++
	e.mu.Unlock()
	<-time.After(e.took) // what a graph takes
	return schedule.Outcome{Status: schedule.StatusFailed, RunID: "run-" + call.Key.String()[:8], TraceID: "t", ErrorCode: "rate_limit"}, nil
}

func (e *effects) Cancel(context.Context, schedule.CancelRequest) error {
	return launcher.ErrUnsupported
}

func (e *effects) GetByKey(context.Context, schedule.RunRef) (schedule.Outcome, error) {
	return schedule.Outcome{}, launcher.ErrUnsupported
}

func (e *effects) counted() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.calls
}

// noDAG gives none; with a channel it closes that, and does not even say so.
type noDAG struct{ asked chan struct{} }

func (d noDAG) LoadDAG(ctx context.Context, _, _ string, _ int32) ([]byte, error) {
	if d.asked != nil {
		close(d.asked)
		<-ctx.Done()
	}
	return nil, ctx.Err()
}

// process is one process' launcher behind its own HTTP listener.
func process(t *testing.T, db database, e launcher.Executor, w launcher.WorkflowStore) (base string) {
	l := launcher.New(launcher.Options{
		Store: db, Workflows: w, Executor: e, Now: db.Now, Logger: slog.New(slog.DiscardHandler),
		Latest: func(context.Context, string, string) (int32, error) { return 1, nil },
		Config: launcher.Config{Feedback: true, CallTimeout: time.Second},
	})
	return serve(t, graphapi.Options{Launcher: l, Token: token}).URL
}

func TestManyCallsOfOneKeyInTwoProcessesHaveOneEffect(t *testing.T) {
	onBothStores(t, func(t *testing.T, connect func() database) {
		e := &effects{took: 200 * time.Millisecond}
		bases := []string{process(t, connect(), e, noDAG{}), process(t, connect(), e, noDAG{})}
		const calls = 16
		var answers [calls]string
		var all sync.WaitGroup
		for i := range calls {
			req := request(t, bases[i%2], nil)
			all.Go(func() {
				status, _, answer := do(t, req)
				if answers[i] = answer; status != http.StatusOK {
					t.Errorf("call %d was answered %d %s", i, status, answer)
				}
			})
		}
		all.Wait()
		for i, answer := range answers {
			if answer != answers[0] {
				t.Errorf("call %d was answered %s, the first %s", i, answer, answers[0])
			}
		}
		if status, _, answer := do(t, request(t, bases[0], body(`{"executionGrantId":"g-1","input":{"n":2}}`))); status != http.StatusUnprocessableEntity {
			t.Errorf("the key of another request was answered %d %s", status, answer)
		}
		if e.counted() != 1 {
			t.Errorf("the executor was called %d times", e.counted())
		}
	})
}

// The process dies between recording the key and calling: nothing of it can
// reach its store any more.
func TestAKeyOfAProcessThatDiedIsTakenOver(t *testing.T) {
	onBothStores(t, func(t *testing.T, connect func() database) {
		t.Parallel()
		dying, living, e := connect(), connect(), &effects{}
		recorded := make(chan struct{})
		dead, alive := process(t, dying, e, noDAG{recorded}), process(t, living, e, noDAG{})
		var first sync.WaitGroup
		first.Go(func() {
			if status, _, answer := do(t, request(t, dead, nil)); status != http.StatusServiceUnavailable {
				t.Errorf("the process that died answered %d %s", status, answer)
			}
		})
		<-recorded
		if err := dying.Close(); err != nil {
			t.Fatal(err)
		}
		status, _, answer := do(t, request(t, alive, nil))
		if status != http.StatusOK || e.counted() != 1 {
			t.Errorf("taken over, it was answered %d %s after %d calls", status, answer, e.counted())
		}
		first.Wait()
	})
}
