package registrar_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/plan"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/postgres"
	"github.com/carillon/carillon/internal/store/sqlite"
	"github.com/carillon/carillon/internal/test/services/migrated"
	"github.com/carillon/carillon/internal/test/storetest"
	"github.com/carillon/carillon/launcher/workflow"
	"github.com/carillon/carillon/registrar"
)

// store is the part of the ledger that a stage needs.
type store interface {
	registrar.ScheduleStore
	registrar.RunStore
	registrar.BackfillStore
	registrar.WorkflowStore
	registrar.ShareStore
	workflow.Versions
	registrar.GrantStore
	Takeover(ctx context.Context, req schedule.TakeoverRequest) (schedule.Term, bool, error)
	Plan(ctx context.Context, req schedule.PlanRequest, decide func([]schedule.PlanCandidate) []schedule.PlanDecision) (schedule.PlanResult, error)
	storetest.Claimer
	Settle(ctx context.Context, term schedule.Term, now time.Time, settlements []schedule.Settlement) ([]schedule.Moved, error)
	Close() error
}

// stage is a registrar and the steps of a worker on a real store, called one by one.
type stage struct {
	*testing.T
	*registrar.Registrar
	store store
	now   time.Time
	term  schedule.Term
}

// stores are an empty ledger of each kind.
var stores = map[string]func(*testing.T) (store, error){
	"sqlite": func(t *testing.T) (store, error) {
		return sqlite.Open(t.Context(), "sqlite:"+migrated.SQLite(t, filepath.Join(t.TempDir(), "carillon.db")), sqlite.Options{Logger: quiet})
	},
	"postgres": func(t *testing.T) (store, error) {
		return postgres.Open(t.Context(), migrated.Postgres(t), postgres.Options{Logger: quiet})
	},
}

var quiet = slog.New(slog.DiscardHandler)

// open opens an empty ledger until the test ends.
func open(t *testing.T, kind string) store {
	t.Helper()
	st, err := stores[kind](t)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	return st
}

// onStores runs a test on a stage over each store.
func onStores(t *testing.T, test func(*stage)) {
	t.Helper()
	for kind := range stores {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			st := open(t, kind)
			s := &stage{T: t, store: st, now: noon}
			s.Registrar = registrar.New(registrar.Options{
				Schedules: st, Runs: st, Backfills: st, Workflows: st, Shares: st, Now: func() time.Time { return s.now }, Logger: quiet,
			})
			s.must(s.lead())
			test(s)
		})
	}
}

func (s *stage) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *stage) lead() error {
	var err error
	s.term, _, err = s.store.Takeover(s.Context(), schedule.TakeoverRequest{Holder: "stage", TTL: 24 * time.Hour, LockHeld: true, Now: s.now})
	return err
}

// at sets the clock to d after noon.
func (s *stage) at(d time.Duration) { s.now = noon.Add(d) }

// deploy applies schedule s, minutely unless edited, with a version.
func (s *stage) deploy(version int32, edits ...func(*schedule.Definition)) {
	s.Helper()
	d := schedule.Definition{ScheduleID: "s", WorkflowID: "w", Version: version, UserID: "u", CronExpr: "* * * * *", Timezone: "UTC"}
	for _, edit := range edits {
		edit(&d)
	}
	_, err := s.ApplySchedules(s.Context(), registrar.ApplyInput{
		Set: "x", Prune: true, Schedules: []registrar.UpsertInput{{Definition: d, JitterMS: &d.JitterMS}}, Fields: []string{"schedules[0]."},
		Workflows: []registrar.WorkflowInput{{WorkflowID: "w", Version: version, DAG: json.RawMessage(`{}`), Field: "workflows[0]."}},
	})
	s.must(err)
}

// plan plans as a worker's tick does.
func (s *stage) plan() {
	s.Helper()
	cfg := plan.Config{Lookahead: time.Minute, Grace: time.Minute, Tick: time.Second, MaxCatchup: 100}
	req := schedule.PlanRequest{Term: s.term, Now: s.now, Horizon: s.now, Grace: cfg.Grace, Limit: 100}
	_, err := s.store.Plan(s.Context(), req, func(candidates []schedule.PlanCandidate) []schedule.PlanDecision {
		decisions := make([]schedule.PlanDecision, len(candidates))
		for i := range candidates {
			var err error
			if decisions[i], err = plan.Decide(&candidates[i], s.now, cfg); err != nil {
				s.Errorf("plan: %v", err)
			}
		}
		return decisions
	})
	s.must(err)
}

// claim claims due runs, and arms runs due within ahead. The launch must match the row.
func (s *stage) claim(ahead time.Duration) {
	s.Helper()
	result, err := storetest.ClaimOnce(s.Context(), s.store, s.term, s.now, storetest.Times{
		Grace: time.Minute, ClaimAhead: ahead, Lease: 30 * time.Second, RetryFor: 10 * time.Minute,
	})
	s.must(err)
	for i := range result.Launches {
		l := &result.Launches[i]
		if sent := l.StartRequest(); sent.Version != l.Run.Version || sent.WorkflowID != l.Run.WorkflowID {
			s.Errorf("%s@%d would be sent for a run of %s@%d", sent.WorkflowID, sent.Version, l.Run.WorkflowID, l.Run.Version)
		}
	}
}

// end ends all runs in flight.
func (s *stage) end(to schedule.Status) {
	s.Helper()
	var ends []schedule.Settlement
	for _, run := range s.runs() {
		if run.Status.InFlight() {
			ends = append(ends, schedule.Settlement{Key: run.Key, To: to, CompletedAt: s.now})
		}
	}
	_, err := s.store.Settle(s.Context(), s.term, s.now, ends)
	s.must(err)
}

// runs are all runs, future ones too, oldest first.
func (s *stage) runs() []schedule.Run {
	s.Helper()
	runs, err := s.store.ListRuns(s.Context(), schedule.RunFilter{UserID: "u", Now: noon.AddDate(1, 0, 0), Limit: 200})
	s.must(err)
	slices.Reverse(runs)
	return runs
}

// versions are the runs as short words, without future ones; each must read the same alone as in
// the list.
func (s *stage) versions() []string {
	s.Helper()
	var out []string
	for _, run := range s.runs() {
		alone, err := s.GetRun(s.Context(), run.Key)
		s.must(err)
		if alone.WorkflowID != run.WorkflowID || alone.Version != run.Version {
			s.Errorf("one run is %s@%d and %s@%d", run.WorkflowID, run.Version, alone.WorkflowID, alone.Version)
		}
		word := string(run.Trigger)
		if run.Status == schedule.StatusPlanned && run.RunAt.After(s.now) {
			word = "ahead"
		}
		out = append(out, fmt.Sprintf("%s %s@%d %s", run.RunAt.Format("15:04:05"), run.WorkflowID, run.Version, word))
	}
	return out
}
