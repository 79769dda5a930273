package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/carillon/carillon/internal/heartbeat"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/launcher"
	"github.com/carillon/carillon/launcher/executor/local"
	"github.com/carillon/carillon/launcher/launchqueue"
	"github.com/carillon/carillon/launcher/presence"
	"github.com/carillon/carillon/registrar"
	"github.com/carillon/carillon/registrar/api"
	"github.com/carillon/carillon/schema"
	"github.com/carillon/carillon/worker"
	"github.com/carillon/carillon/worker/leader"
)

// roleNeeds are the stores that each part of Carillon is given, and what of
// their statements it never comes to, with the reason.
var roleNeeds = []struct {
	role   string
	stores []reflect.Type
	never  map[string]string
}{
	{
		"sched_api",
		[]reflect.Type{
			reflect.TypeFor[registrar.ScheduleStore](), reflect.TypeFor[registrar.RunStore](), reflect.TypeFor[registrar.WorkflowStore](), reflect.TypeFor[registrar.GrantStore](),
			reflect.TypeFor[api.Workers](), reflect.TypeFor[api.AuditTrail](), reflect.TypeFor[registrar.AuditStore](), reflect.TypeFor[registrar.BackfillStore](), reflect.TypeFor[registrar.LogStore](), reflect.TypeFor[heartbeat.Store](), reflect.TypeFor[lagging](), reflect.TypeFor[kept](),
		},
		nil,
	},
	{
		"sched_worker",
		[]reflect.Type{
			reflect.TypeFor[worker.PlanStore](), reflect.TypeFor[worker.FireStore](), reflect.TypeFor[leader.LeaseStore](), reflect.TypeFor[leader.Roster](),
			reflect.TypeFor[worker.BackfillStore](), reflect.TypeFor[logPruner](), reflect.TypeFor[heartbeat.Store](), reflect.TypeFor[lagging](), reflect.TypeFor[kept](),
		},
		nil,
	},
	{
		"sched_launcher",
		[]reflect.Type{
			reflect.TypeFor[launcher.Store](), reflect.TypeFor[launcher.WorkflowStore](), reflect.TypeFor[launchqueue.Store](), reflect.TypeFor[registrar.RunStore](), reflect.TypeFor[local.LogStore](),
			reflect.TypeFor[heartbeat.Store](), reflect.TypeFor[presence.Store](), reflect.TypeFor[lagging](),
		},
		map[string]string{
			"sqlInsertRuns":        "of the changes of a run it only takes reports; triggers and retries are the registrar's",
			"sqlRaisePlannedUntil": "as above",
			"sqlFence":             "it settles under no term",
		},
	},
	{"sched_ro", nil, nil},
}

// logPruner is what a process with the worker role does besides its loops.
type logPruner interface {
	PruneRunLogs(ctx context.Context, before time.Time, limit int) (int, error)
	PruneRunResults(ctx context.Context, now time.Time, limit int) (int, error)
}

// lagging is what every process shows in its metrics.
type lagging interface {
	Lag(ctx context.Context, now time.Time) (schedule.Lag, error)
}

// kept is what registrars and workers show besides.
type kept interface {
	Upkeep(ctx context.Context, now time.Time) (schedule.Upkeep, error)
}

// withRoles is a database with the roles, and a connection of its owner.
func withRoles(t *testing.T) *pgx.Conn {
	t.Helper()
	_, url := fresh(t)
	conn := connect(t, url)
	for range 2 { // it may be run again
		if _, err := conn.Exec(t.Context(), schema.PostgresRoles, pgx.QueryExecModeSimpleProtocol); err != nil {
			t.Fatal(err)
		}
	}
	return conn
}

// uses are the identifiers that each function of this package names.
func uses(t *testing.T) map[string][]string {
	t.Helper()
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string][]string)
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok || f.Body == nil {
				continue
			}
			ast.Inspect(f.Body, func(n ast.Node) bool {
				if id, ok := n.(*ast.Ident); ok {
					all[f.Name.Name] = append(all[f.Name.Name], id.Name)
				}
				return true
			})
		}
	}
	return all
}

// statementsOf are the statements that the methods of a store may come to.
func statementsOf(named map[string][]string, store reflect.Type) []string {
	var found []string
	seen := make(map[string]bool)
	var visit func(name string)
	visit = func(name string) {
		if seen[name] {
			return
		}
		seen[name] = true
		if strings.HasPrefix(name, "sql") {
			found = append(found, name)
		}
		for _, used := range named[name] {
			switch used {
			case "Begin", "Release", "Open": // the driver's, a backlog's
			case "read", "write", "decide": // of several types; that of Begin has statements
				if name == "Begin" {
					visit(used)
				}
			default:
				visit(used)
			}
		}
	}
	for i := range store.NumMethod() {
		visit(store.Method(i).Name)
		if store.Method(i).Name == "ChangeSchedules" {
			visit("changeTogether") // through the batcher
		}
	}
	slices.Sort(found)
	return found
}

func TestEveryRoleMayDoWhatItsPartDoes(t *testing.T) {
	t.Parallel()
	conn := withRoles(t)
	texts, named := statements(t), uses(t)
	for _, part := range roleNeeds {
		needed := []string{"sqlNow", "sqlPing"}
		for _, store := range part.stores {
			needed = append(needed, statementsOf(named, store)...)
		}
		if len(part.stores) > 0 && len(needed) < 10 {
			t.Errorf("%s: only %v were found", part.role, needed)
		}
		for _, name := range slices.Compact(slices.Sorted(slices.Values(needed))) {
			text, ok := texts[name]
			if !ok || name == "sqlListen" || part.never[name] != "" {
				continue
			}
			if err := explain(t, conn, part.role, text); err != nil {
				t.Errorf("%s needs %s: %v", part.role, name, err)
			}
		}
	}
}

// explain has the server check everything but the rows: it plans the statement
// and asks who may run it.
func explain(t *testing.T, conn *pgx.Conn, role, statement string) error {
	t.Helper()
	ctx := t.Context()
	tx, err := conn.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(ctx) }()
	parsed, err := tx.Prepare(ctx, "", statement)
	if err != nil {
		t.Fatalf("%v:\n%s", err, statement)
	}
	nulls := strings.TrimSuffix(strings.Repeat("NULL,", len(parsed.ParamOIDs)), ",")
	if nulls != "" {
		nulls = "(" + nulls + ")"
	}
	_, err = tx.Exec(ctx, fmt.Sprintf("SET LOCAL ROLE %s; PREPARE asked AS %s; EXPLAIN EXECUTE asked%s; DEALLOCATE asked", role, statement, nulls), pgx.QueryExecModeSimpleProtocol)
	if err != nil { // the rollback does not forget it where it was prepared
		_ = tx.Rollback(ctx)
		_, _ = conn.Exec(ctx, "DEALLOCATE ALL", pgx.QueryExecModeSimpleProtocol)
		_ = conn.DeallocateAll(ctx)
	}
	return err
}

// refusedTo is what a role must not do, whatever its part asks for.
var refusedTo = map[string][]string{
	"sched_api": {
		`DELETE FROM schedules`, `DELETE FROM ended_runs`, `UPDATE ended_runs SET status = 5`, `SELECT carillon_drop_partition(NULL, NULL)`, `DELETE FROM schedule_events`, `UPDATE schedule_events SET actor = 'x'`, `DELETE FROM schedule_revisions`,
		`UPDATE schedule_revisions SET definition = ''`, `UPDATE workflow_versions SET dag = ''`, `DELETE FROM workflow_versions`,
		`INSERT INTO execution_requests DEFAULT VALUES`, `UPDATE execution_requests SET calls = 1`, `DELETE FROM execution_requests`,
		`INSERT INTO leaders DEFAULT VALUES`, `UPDATE leaders SET epoch = 1`, `UPDATE leaders SET holder = 'x'`, `DELETE FROM leaders`, `DELETE FROM instances`,
		`UPDATE audit_log SET subject = 'x'`, `DELETE FROM audit_log`, `DELETE FROM backfills`, `INSERT INTO backfill_runs DEFAULT VALUES`,
		`UPDATE settings SET value = '9'`, `INSERT INTO settings DEFAULT VALUES`,
		`UPDATE execution_grants SET scopes = '{}'`, `UPDATE execution_grants SET user_id = 'x'`, `DELETE FROM execution_grants`,
	},
	"sched_worker": {
		`INSERT INTO schedules DEFAULT VALUES`, `UPDATE schedules SET user_id = 'x'`, `UPDATE schedules SET cron_expr = 'x'`, `UPDATE schedules SET input = 'x'`,
		`UPDATE schedules SET workflow_id = 'x'`, `UPDATE schedules SET execution_grant_id = 'x'`, `UPDATE schedules SET deleted_at = NULL`,
		`INSERT INTO schedule_revisions DEFAULT VALUES`, `UPDATE schedule_revisions SET definition = ''`, `UPDATE schedule_events SET note = ''`,
		`INSERT INTO workflow_versions DEFAULT VALUES`, `UPDATE workflow_versions SET dag = ''`, `SELECT dag FROM workflow_versions`,
		`INSERT INTO deploys DEFAULT VALUES`, `INSERT INTO execution_grants DEFAULT VALUES`, `UPDATE execution_grants SET revoked_at = NULL`,
		`INSERT INTO audit_log DEFAULT VALUES`, `UPDATE audit_log SET subject = 'x'`, `UPDATE ended_runs SET status = 5`, `DELETE FROM ended_runs`,
	},
	"sched_launcher": {
		`INSERT INTO schedules DEFAULT VALUES`, `UPDATE schedules SET paused = true`, `UPDATE schedules SET next_run_at = NULL`, `DELETE FROM schedules`,
		`DELETE FROM ended_runs`, `UPDATE ended_runs SET status = 5`, `SELECT carillon_add_partition(NULL, NULL)`, `DELETE FROM execution_requests`, `DELETE FROM schedule_events`,
		`UPDATE schedule_events SET note = ''`, `UPDATE schedule_revisions SET definition = ''`, `INSERT INTO workflow_versions DEFAULT VALUES`,
		`SELECT epoch FROM leaders`, `UPDATE leaders SET epoch = 1`, `DELETE FROM instances`, `UPDATE settings SET value = '9'`, `SELECT 1 FROM deploys`,
		`INSERT INTO execution_grants DEFAULT VALUES`, `UPDATE execution_grants SET expires_at = NULL`,
		`SELECT 1 FROM audit_log`, `DELETE FROM audit_log`, `UPDATE audit_log SET subject = 'x'`, `SELECT 1 FROM backfills`, `UPDATE backfills SET state = 'paused'`,
	},
	"sched_ro": {
		`INSERT INTO schedules DEFAULT VALUES`, `UPDATE schedules SET paused = true`, `DELETE FROM schedules`, `UPDATE open_runs SET status = 5`,
		`DELETE FROM open_runs`, `DELETE FROM ended_runs`, `SELECT carillon_drop_partition(NULL, NULL)`, `INSERT INTO schedule_events DEFAULT VALUES`, `UPDATE execution_requests SET calls = 1`, `UPDATE leaders SET epoch = 1`,
		`SELECT 1 FROM schedules FOR UPDATE`,
	},
}

// nobody's but the owner's.
var refusedToAll = []string{
	`CREATE TABLE public.mine (x int)`, `DROP TABLE schedules`, `ALTER TABLE schedules ADD COLUMN mine int`, `TRUNCATE ended_runs`,
	`CREATE FUNCTION public.f() RETURNS int LANGUAGE sql AS 'SELECT 1'`, `UPDATE goose_db_version SET version_id = 1`, `ALTER TABLE open_runs DISABLE TRIGGER ALL`,
}

func TestEveryRoleIsRefusedWhatIsNotItsPart(t *testing.T) {
	t.Parallel()
	conn := withRoles(t)
	for role, statements := range refusedTo {
		for _, statement := range append(statements, refusedToAll...) {
			_, err := conn.Exec(t.Context(), fmt.Sprintf("BEGIN; SET LOCAL ROLE %s; %s", role, statement), pgx.QueryExecModeSimpleProtocol)
			if _, rollback := conn.Exec(t.Context(), "ROLLBACK"); rollback != nil {
				t.Fatal(rollback)
			}
			var refused *pgconn.PgError
			if !errors.As(err, &refused) || refused.Code != "42501" {
				t.Errorf("%s: %s ended with %v; want 42501", role, statement, err)
			}
		}
	}
}

func TestTheWorkersRoleAddsPartitionsAndKeepsRecentOnes(t *testing.T) {
	t.Parallel()
	conn := withRoles(t)
	today := time.Now().UTC().Truncate(day)
	for _, c := range []struct {
		statement string
		args      []any
		allowed   bool
	}{
		{`SELECT carillon_add_partition($1, $2)`, []any{today, today.Add(day)}, true},
		{`SELECT carillon_drop_partition($1, $2)`, []any{"ended_runs_" + today.Format("20060102"), today.Add(2 * day)}, false},
		{`SELECT carillon_drop_partition('ended_runs_before', $1)`, []any{today.Add(-40 * day)}, false},
		{`SELECT carillon_prune_history($1, 1, $1, $1)`, []any{today.Add(-30 * day)}, true},
	} {
		if _, err := conn.Exec(t.Context(), `SET ROLE sched_worker`); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Exec(t.Context(), c.statement, c.args...); (err == nil) != c.allowed {
			t.Errorf("%s with %v: %v", c.statement, c.args, err)
		}
	}
}

func TestTheRolesKnowEveryTable(t *testing.T) {
	t.Parallel()
	conn := withRoles(t)
	rows, err := conn.Query(t.Context(), `SELECT c.relname, pg_get_userbyid(c.relowner),
		has_table_privilege('sched_api', c.oid, 'SELECT') OR has_table_privilege('sched_worker', c.oid, 'SELECT') OR has_table_privilege('sched_launcher', c.oid, 'SELECT'),
		has_table_privilege('sched_ro', c.oid, 'SELECT')
		FROM pg_class c WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p', 'v') AND NOT c.relispartition`)
	if err != nil {
		t.Fatal(err)
	}
	var name, owner string
	var known, seen bool
	_, err = pgx.ForEachRow(rows, []any{&name, &owner, &known, &seen}, func() error {
		if owner != "sched_owner" || !known || !seen {
			t.Errorf("table %s belongs to %s; a part of Carillon uses it: %v, sched_ro reads it: %v: see schema/roles/postgres.sql", name, owner, known, seen)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestEveryPartThatEndsRunsWritesMessages: the end of a run reads its queue and writes to the
// outbox.
func TestEveryPartThatEndsRunsWritesMessages(t *testing.T) {
	t.Parallel()
	conn := withRoles(t)
	for _, role := range []string{"sched_api", "sched_worker", "sched_launcher"} {
		for _, statement := range []string{
			"SET ROLE " + role,
			"SELECT webhook FROM queues",
			`INSERT INTO alert_deliveries (delivery_id, type, target, host, payload, idempotency_key, state, round_at, next_at, created_at)
VALUES ('` + role + `', 'run.failed', 'webhook:billing', '', '', '\x01', 'PENDING', now(), now(), now()) ON CONFLICT (delivery_id) DO NOTHING`,
			"RESET ROLE",
		} {
			if _, err := conn.Exec(t.Context(), statement); err != nil {
				t.Errorf("%s: %s: %v", role, statement, err)
			}
		}
	}
}
