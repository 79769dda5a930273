package alert_test

import (
	"context"
	"database/sql"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/carillon/carillon/internal/safehttp"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/postgres"
	"github.com/carillon/carillon/internal/store/sqlite"
	"github.com/carillon/carillon/internal/test/services/migrated"
	"github.com/carillon/carillon/internal/test/storetest"
	"github.com/carillon/carillon/registrar"
	"github.com/carillon/carillon/registrar/alert"
	"github.com/carillon/carillon/registrar/notify"
	"github.com/carillon/carillon/schema"
)

// ledger is the part of a store that a Watch, its Desk and the tests need.
type ledger interface {
	alert.ExpectationStore
	alert.Ledger
	alert.Outbox
	registrar.ScheduleStore
	registrar.RunStore
	registrar.GrantStore
	registrar.TermStore
	Takeover(ctx context.Context, req schedule.TakeoverRequest) (schedule.Term, bool, error)
	Plan(ctx context.Context, req schedule.PlanRequest, decide func([]schedule.PlanCandidate) []schedule.PlanDecision) (schedule.PlanResult, error)
	storetest.Claimer
	Settle(ctx context.Context, term schedule.Term, now time.Time, settlements []schedule.Settlement) ([]schedule.Moved, error)
	SettleLaunched(ctx context.Context, now time.Time, settlements []schedule.Settlement) ([]schedule.Moved, error)
	Migrate(ctx context.Context, progress ...schema.Progress) (int, error)
}

// engine is one of the two stores.
type engine struct {
	name string
	open func(t testing.TB) (store ledger, driver, source string)
}

var engines = []engine{
	{name: "SQLite", open: func(t testing.TB) (ledger, string, string) {
		path := migrated.SQLite(t, filepath.Join(t.TempDir(), "carillon.db"))
		s, err := sqlite.Open(t.Context(), "sqlite:"+path, sqlite.Options{Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		return s, "sqlite", path + "?_pragma=busy_timeout(10000)"
	}},
	{name: "Postgres", open: func(t testing.TB) (ledger, string, string) {
		dsn := migrated.Postgres(t)
		s, err := postgres.Open(t.Context(), dsn, postgres.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		return s, "pgx", dsn
	}},
}

// site is a store with a test clock.
type site struct {
	store ledger
	db    *sql.DB
	now   func() time.Time

	explainer alert.Explainer
}

func newSite(t testing.TB, e engine) *site {
	t.Helper()
	store, driver, source := e.open(t)
	db, err := sql.Open(driver, source)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return &site{store: store, db: db, now: time.Now}
}

// exec is one statement that both engines understand.
func (s *site) exec(t testing.TB, statement string) {
	t.Helper()
	if _, err := s.db.ExecContext(t.Context(), statement); err != nil {
		t.Fatalf("%s: %v", strings.Fields(statement)[0], err)
	}
}

// routesTo send every message to the receivers at these URLs, which share a secret.
func routesTo(t testing.TB, urls ...string) func() *notify.Routes {
	t.Helper()
	policy, err := safehttp.ParsePolicy("loopback")
	if err != nil {
		t.Fatal(err)
	}
	targets, err := notify.ParseTargets(strings.Join(urls, ","), secret, policy)
	if err != nil {
		t.Fatal(err)
	}
	routes, err := notify.Read("", targets, policy)
	if err != nil {
		t.Fatal(err)
	}
	return func() *notify.Routes { return routes }
}

// newWatch is a Watch over the site, as one registrar has it.
func (s *site) newWatch(t testing.TB, client *http.Client, urls ...string) *alert.Watch {
	t.Helper()
	return alert.New(alert.Options{
		Expectations: s.store, Explainer: s.explainer, Outbox: s.store, Routes: routesTo(t, urls...), Client: client, Now: func() time.Time { return s.now() },
		Logger: slog.New(slog.DiscardHandler), Registry: prometheus.NewRegistry(), PublicURL: "https://carillon.example.org/",
	})
}

// hourly is a schedule at every full hour with start_within of five minutes.
func hourly(id string, made time.Time) schedule.Schedule {
	return schedule.Schedule{
		Definition: schedule.Definition{
			ScheduleID: id, WorkflowID: "report", Version: 1, UserID: "ada", CronExpr: "0 * * * *", Timezone: "UTC", DST: schedule.DSTVixie,
			OverlapPolicy: schedule.OverlapSkip, OverlapKey: id, CatchupPolicy: schedule.CatchupNone, RunTimeoutMS: 3_600_000,
			Expect: schedule.Expect{StartWithinMS: 300_000, AlertAfter: 1},
		},
		Revision: 1, RevisedAt: made, CreatedAt: made,
	}
}
