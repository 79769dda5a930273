package sqlite_test

import (
	"database/sql"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/sqlite"
)

// statements are the package's string constants by name, read from its source:
// none can be forgotten, and none is exported for a test.
func statements(t *testing.T) map[string]string {
	t.Helper()
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	files := token.NewFileSet()
	var parsed []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		source, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		file, err := parser.ParseFile(files, name, source, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		parsed = append(parsed, file)
	}
	// Imports stay unresolved; constants do not need them.
	defs := types.Info{Defs: make(map[*ast.Ident]types.Object)}
	conf := types.Config{Error: func(error) {}}
	_, _ = conf.Check("sqlite", files, parsed, &defs)
	out := make(map[string]string)
	for _, def := range defs.Defs {
		c, ok := def.(*types.Const)
		if ok && c.Parent() == c.Pkg().Scope() && c.Val().Kind() == constant.String {
			out[c.Name()] = constant.StringVal(c.Val())
		}
	}
	return out
}

var (
	isStatement = regexp.MustCompile(`^(SELECT|INSERT|UPDATE|DELETE|WITH) `)
	isFilter    = regexp.MustCompile(`^ (AND|ORDER BY) `)
)

// completed closes a statement that is put together of several.
func completed(all map[string]string, name string) string {
	switch statement := all[name]; {
	case strings.HasPrefix(name, "sqlRecentRuns"):
		return statement + ")" + all["ofRows"]
	case name == "sqlNextSlots":
		return statement + ` SELECT 1 FROM next`
	case name == "sqlListUpcomingOrder":
		return all["sqlNextSlots"] + all["sqlListUpcoming"] + statement
	case name == "sqlWhereAfterNext":
		return all["sqlNextSlots"] + ` SELECT 1 FROM next JOIN schedules s USING (schedule_id) WHERE 1` + statement
	default:
		return statement
	}
}

func TestEveryStatementPreparesOnTheMigratedSchema(t *testing.T) {
	t.Parallel()
	db := migratedDB(t)
	all := statements(t)
	prepared := 0
	for name := range all {
		statement := completed(all, name)
		switch {
		case isFilter.MatchString(statement) && strings.HasPrefix(name, "sqlRuns"):
			statement = all["sqlListRuns"] + statement
		case isFilter.MatchString(statement) && strings.HasPrefix(name, "sqlAudit"):
			statement = all["sqlListAudit"] + statement
		case isFilter.MatchString(statement) && strings.HasPrefix(name, "sqlBackfills"):
			statement = all["sqlListBackfills"] + statement
		case isFilter.MatchString(statement) && strings.HasPrefix(name, "sqlAlert"):
			statement = all["sqlListAlerts"] + statement
		case isFilter.MatchString(statement) && strings.HasPrefix(name, "sqlDeliver"):
			statement = all["sqlListDeliveries"] + statement
		case isFilter.MatchString(statement):
			statement = all["sqlListSchedules"] + statement
		case !isStatement.MatchString(statement):
			continue
		}
		prepared++
		stmt, err := db.PrepareContext(t.Context(), statement)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if err := stmt.Close(); err != nil { //nolint:sqlclosecheck // in a loop
			t.Error(err)
		}
	}
	if prepared < 70 {
		t.Errorf("%d statements were found, want at least 70", prepared)
	}
}

// whole are the statements that may read a whole table, and why.
var whole = map[string]string{
	"sqlHeartbeatLower":  "one row per worker",
	"sqlLastSeen":        "one row per worker",
	"sqlPing":            "the schema",
	"sqlHasWorkers":      "the schema",
	"sqlPruneTombstones": "now and then, by the leader only",
	"sqlRewindLeases":    "a clock that steps back is rare",
	"sqlRewindBacklogs":  "a clock that steps back is rare",
	"sqlSweepTimedOut":   "its index covers what is in flight",
	"sqlBlockingOwner":   "asked once in a while, where no schedule has the overlap key any more",
	"sqlFailureGroups":   "one row per failing schedule",
	"sqlFailureExamples": "one row per failing schedule",
	"sqlListRuns":        "gets an order, and its index, behind it",
}

func TestNoStatementReadsAWholeTable(t *testing.T) {
	t.Parallel()
	db := migratedDB(t)
	scans := regexp.MustCompile(`^SCAN (r|s|q|v|w|f|schedule_runs|schedules|execution_requests|schedule_events|schedule_revisions)\b`)
	all := statements(t)
	for name := range all {
		statement := completed(all, name)
		if !isStatement.MatchString(statement) || whole[name] != "" {
			continue
		}
		for _, step := range explain(t, db, statement) {
			if scans.MatchString(step) && !strings.Contains(step, "USING INDEX") && !strings.Contains(step, "USING COVERING INDEX") {
				t.Errorf("%s reads a whole table: %s", name, step)
			}
		}
	}
}

func explain(t *testing.T, db *sql.DB, statement string) []string {
	t.Helper()
	args := make([]any, 0, 50)
	for range numbered(statement) {
		args = append(args, nil)
	}
	rows, err := db.QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+statement, args...)
	if err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
	defer rows.Close()
	var steps []string
	for rows.Next() {
		var id, parent, unused int
		var step string
		if err := rows.Scan(&id, &parent, &unused, &step); err != nil {
			t.Fatal(err)
		}
		steps = append(steps, step)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return steps
}

// numbered is how many arguments a statement takes.
func numbered(statement string) int {
	highest := 0
	for _, m := range regexp.MustCompile(`\?(\d*)`).FindAllStringSubmatch(statement, -1) {
		n, err := strconv.Atoi(m[1])
		if err != nil { // a bare one is the next
			n = highest + 1
		}
		highest = max(highest, n)
	}
	return highest
}

func TestHotStatementsFindTheirIndex(t *testing.T) {
	t.Parallel()
	db := migratedDB(t)
	all := statements(t)
	for name, index := range map[string]string{
		"sqlPlanDue":           "schedules_plan_at",
		"sqlPlanLate":          "schedule_runs_due",
		"sqlPlanLateRuns":      "schedule_runs_due",
		"sqlClaimPlanned":      "sqlite_autoindex_schedule_runs_1",
		"sqlClaimInFlight":     "sqlite_autoindex_schedule_runs_1",
		"sqlOpenOfKeys":        "sqlite_autoindex_schedule_runs_1",
		"sqlPlannedOfSchedule": "schedule_runs_planned",
		"sqlLoadFlying":        "schedule_runs_one_in_flight",
		"sqlLoadWaiting":       "schedule_runs_waiting",
		"sqlLoadPlanned":       "schedule_runs_due",
		"sqlCountInFlight":     "schedule_runs_in_flight",
		"sqlReclaimable":       "sqlite_autoindex_schedule_runs_1",
		"sqlRewindInFlight":    "schedule_runs_launching",
		"sqlSweepLaunching":    "schedule_runs_launching",
		"sqlSweepTimedOut":     "schedule_runs_timeout",
		"sqlSweepCancelled":    "schedule_runs_cancel",
		"sqlCancelRequests":    "sqlite_autoindex_schedule_runs_1",
		"sqlDropPlanned":       "schedule_runs_history",
		"sqlEndDue":            "schedule_runs_planned",
		"sqlRewindPlanned":     "schedule_runs_planned",
		"sqlListRuns":          "schedule_runs_run_at",
		"sqlListRunsSchedule":  "schedule_runs_history",
		"sqlListRunsUpdated":   "schedule_runs_updated",
		"sqlListSchedules":     "sqlite_autoindex_schedules_1",
		"sqlGetSchedule":       "schedule_runs_history",
		"sqlPruneLastRuns":     "schedule_runs_updated",
		"sqlPruneRuns":         "schedule_runs_updated",
	} {
		steps := explain(t, db, all[name])
		if !slices.ContainsFunc(steps, func(step string) bool { return strings.Contains(step+" ", index+" ") }) {
			t.Errorf("%s does not use %s:\n%s", name, index, strings.Join(steps, "\n"))
		}
	}
}

func TestListsNeedNoSorting(t *testing.T) {
	t.Parallel()
	db := migratedDB(t)
	all := statements(t)
	for _, list := range [][]string{
		{"sqlListRuns", "sqlRunsOrder"},
		{"sqlListRuns", "sqlRunsUser", "sqlRunsWorkflow", "sqlRunsStatuses", "sqlRunsNotAhead", "sqlRunsBefore", "sqlRunsOrder"},
		{"sqlListRunsSchedule", "sqlRunsFrom", "sqlRunsTo", "sqlRunsReason", "sqlRunsTrigger", "sqlRunsOrder"},
		{"sqlListRunsSchedule", "sqlRunsUser", "sqlRunsBefore", "sqlRunsOrder"},
		{"sqlListRuns", "sqlRunsUser", "sqlRunsNotAhead", "sqlRunsBehind", "sqlRunsAscending"},
		{"sqlListRunsSchedule", "sqlRunsFrom", "sqlRunsBehind", "sqlRunsAscending"},
		{"sqlListRunsUpdated", "sqlRunsSchedule", "sqlRunsUser", "sqlRunsUpdatedOrder"},
		{"sqlPlanDue"},
		{"sqlListSchedules", "sqlListSchedulesOrder"},
		{"sqlListSchedules", "sqlWhereUser", "sqlWhereLabelValue", "sqlWherePaused", "sqlListSchedulesOrder"},
		{"sqlListSchedules", "sqlWhereWorkflow", "sqlWhereManagedBy", "sqlWhereActive", "sqlListSchedulesOrder"},
	} {
		var statement strings.Builder
		for _, name := range list {
			statement.WriteString(all[name])
		}
		for _, step := range explain(t, db, statement.String()) {
			if strings.Contains(step, "TEMP B-TREE") {
				t.Errorf("%v: %s", list, step)
			}
		}
	}
}

func TestEveryUpdateOfARunNamesTheStatusesItMayLeave(t *testing.T) {
	t.Parallel()
	for name, statement := range statements(t) {
		if !strings.HasPrefix(statement, "UPDATE schedule_runs") {
			continue
		}
		_, where, ok := strings.Cut(statement, "WHERE")
		if !ok || !strings.Contains(where, "status = '") {
			t.Errorf("%s does not say which status it may leave:\n%s", name, statement)
		}
	}
}

func TestSettlementsLeaveTheStatusesThatTheDomainAllows(t *testing.T) {
	t.Parallel()
	all := statements(t)
	word := regexp.MustCompile(`status = '([A-Z]+)'`)
	for _, to := range schedule.Statuses {
		if to == schedule.StatusPlanned || to == schedule.StatusLaunching {
			continue
		}
		name := "settle" + string(to[0]) + strings.ToLower(string(to[1:]))
		_, where, ok := strings.Cut(all[name], "WHERE")
		if !ok {
			t.Errorf("there is no statement %s", name)
			continue
		}
		var got []schedule.Status
		for _, m := range word.FindAllStringSubmatch(where, -1) {
			got = append(got, schedule.Status(m[1]))
		}
		want := to.Predecessors()
		if to == schedule.StatusStarted { // a heartbeat
			want = append(want, to)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s leaves %v, want %v", name, got, want)
		}
	}
}

// migratedDB is a plain connection to a migrated file.
func migratedDB(t *testing.T) *sql.DB {
	t.Helper()
	path := filepath.Join(t.TempDir(), "carillon.db")
	open(t, path, sqlite.Options{})
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}
