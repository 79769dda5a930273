package sqlite_test

import (
	"bytes"
	"cmp"
	"database/sql"
	"fmt"
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

	"github.com/carillon/carillon/internal/store/sqlite"
)

// statements are the SQL of the package and of package tables by name, read from its source: none can be forgotten,
// and none is exported for a test. What is built of the table of columns is exported.
func statements(t *testing.T) map[string]string {
	t.Helper()
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	names = append(names, "../tables/sql.go", "../tables/sql_columns.go")
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
		inOne := bytes.ReplaceAll(source, []byte("tables."), nil)
		file, err := parser.ParseFile(files, name, inOne, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		file.Name = ast.NewIdent("sqlite") // also of package tables
		parsed = append(parsed, asConstants(file))
	}
	var built strings.Builder
	built.WriteString("package sqlite\n")
	for name, text := range sqlite.Built {
		fmt.Fprintf(&built, "const %s = %q\n", name, text)
	}
	file, err := parser.ParseFile(files, "built.go", built.String(), parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	parsed = append(parsed, file)
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

// asConstants turns the variables of a file into constants, without those that are built
// when the program starts.
func asConstants(file *ast.File) *ast.File {
	for _, d := range file.Decls {
		group, ok := d.(*ast.GenDecl)
		if !ok || group.Tok != token.VAR {
			continue
		}
		group.Tok = token.CONST
		group.Specs = slices.DeleteFunc(group.Specs, func(s ast.Spec) bool {
			_, built := sqlite.Built[s.(*ast.ValueSpec).Names[0].Name]
			return built
		})
	}
	return file
}

var (
	isStatement = regexp.MustCompile(`^(SELECT|INSERT|UPDATE|DELETE|WITH) `)
	isFilter    = regexp.MustCompile(`^ (AND|ORDER BY) `)
)

// completed closes a statement that is put together of several.
func completed(all map[string]string, name string) string {
	switch statement := all[name]; {
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
		case !strings.HasPrefix(name, "sql"): // a part of others
			continue
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
	"sqlHeartbeatLower":      "one row per worker",
	"sqlLastSeen":            "one row per worker",
	"sqlPing":                "the schema",
	"sqlHasWorkers":          "the schema",
	"sqlPruneTombstones":     "now and then, by the leader only",
	"sqlRewindLeases":        "a clock that steps back is rare",
	"sqlRewindRequestLeases": "a clock that steps back is rare",
	"sqlRewindBacklogs":      "a clock that steps back is rare",
	"sqlRewindWorkers":       "a clock that steps back is rare",
	"sqlBlockingOwner":       "asked once in a while, where no schedule has the overlap key any more",
	"sqlQueuesWaiting":       "one row per queue",
	"sqlCountQueuesOf":       "one row per queue, and queues are created now and then",
	"sqlFailureGroups":       "one row per failing schedule",
	"sqlFailureExamples":     "one row per failing schedule",
}

func TestNoStatementReadsAWholeTable(t *testing.T) {
	t.Parallel()
	db := migratedDB(t)
	scans := regexp.MustCompile(`^SCAN (r|o|e|s|q|v|w|f|open_runs|ended_runs|schedules|execution_requests|schedule_events|schedule_revisions)\b`)
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
	for _, m := range regexp.MustCompile(`\?(\d*)|\$(\d+)`).FindAllStringSubmatch(statement, -1) {
		n, err := strconv.Atoi(cmp.Or(m[1], m[2]))
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
		"sqlWaitingOfOwner":    "schedules_deleted_user",
		"sqlCountQueueDead":    "ended_runs_queue_dead",
		"sqlPlanLate":          "open_runs_due",
		"sqlPlanLateRuns":      "open_runs_due",
		"sqlPlanned":           "open_runs_schedule",
		"sqlAlreadyEnded":      "ended_runs_slot",
		"sqlOpenRows":          "sqlite_autoindex_open_runs_1",
		"sqlDeleteOpen":        "sqlite_autoindex_open_runs_1",
		"sqlEndedTwice":        "ended_runs_slot",
		"sqlDue":               "open_runs_due",
		"sqlClaimPlanned":      "sqlite_autoindex_open_runs_1",
		"sqlClaimInFlight":     "sqlite_autoindex_open_runs_1",
		"sqlClaim":             "sqlite_autoindex_open_runs_1",
		"sqlBeginRuns":         "sqlite_autoindex_open_runs_1",
		"sqlEndedRuns":         "ended_runs_key",
		"sqlBeginCall":         "sqlite_autoindex_open_runs_1",
		"sqlExtend":            "sqlite_autoindex_open_runs_1",
		"sqlOpenOfKeys":        "sqlite_autoindex_open_runs_1",
		"sqlPlannedOfSchedule": "open_runs_schedule",
		"sqlLoadGroups":        "open_runs_due",
		"sqlLoadPlanned":       "open_runs_due",
		"sqlCountInFlight":     "open_runs_overlap",
		"sqlResendable":        "sqlite_autoindex_open_runs_1",
		"sqlCancelRequests":    "sqlite_autoindex_open_runs_1",
		"sqlRewindInFlight":    "open_runs_due",
		"sqlRewindPlanned":     "open_runs_due",
		"sqlRewindDrop":        "open_runs_due",
		"sqlDropPlanned":       "sqlite_autoindex_open_runs_1",
		"sqlPlannedOf":         "open_runs_schedule",
		"sqlGetOpenRun":        "sqlite_autoindex_open_runs_1",
		"sqlGetEndedRun":       "ended_runs_key",
		"sqlFeedRuns":          "backfill_runs_unsettled",
		"sqlNewestSuccess":     "ended_runs_schedule",
		"sqlSlotRuns":          "ended_runs_schedule",
		"sqlBlockingNow":       "open_runs_overlap",
		"sqlBlockingKin":       "ended_runs_schedule",
		"sqlBlockingOwner":     "ended_runs_schedule",
		"sqlGroupsToSeal":      "queue_groups_sealing",
		"sqlLockSlotGroups":    "sqlite_autoindex_queue_groups_1",
		"sqlLag":               "open_runs_due",
		"sqlNextSlots":         "open_runs_due",
		"sqlCountPlanned":      "open_runs_due",
		"sqlCountFlying":       "open_runs_due",
		"sqlCountWaiting":      "open_runs_due",
		"sqlCountDue":          "open_runs_due",
		"sqlCountLaunching":    "open_runs_due",
		"sqlCountFailed":       "ended_runs_not_success",
		"sqlRecentOutcomes":    "ended_runs_schedule",
		"sqlFailures":          "ended_runs_key",
		"sqlCountEnded":        "ended_runs_recorded",
		"sqlCountDead":         "ended_runs_dead",
		"sqlRedriven":          "ended_runs_key",
		"sqlFlights":           "ended_runs_recorded",
		"sqlUpkeep":            "open_runs_due",
		"sqlCountCalls":        "ended_runs_recorded",
		"sqlRunsOfSlot":        "ended_runs_schedule",
		"sqlRunsOfSlots":       "ended_runs_schedule",
		"sqlRunsOfManySlots":   "ended_runs_schedule",
		"sqlLastSuccess":       "ended_runs_schedule",
		"sqlReadSlotStates":    "ended_runs_schedule",
		"sqlBackfillCounts":    "ended_runs_key",
		"sqlFeedGroup":         "open_runs_overlap",
		"sqlFeedPending":       "sqlite_autoindex_open_runs_1",
		"sqlListSchedules":     "sqlite_autoindex_schedules_1",
		"sqlGetSchedule":       "ended_runs_schedule",
		"sqlPeekSchedule":      "sqlite_autoindex_schedules_1",
		"sqlPruneLastRuns":     "ended_runs_recorded",
		"sqlPruneRuns":         "ended_runs_recorded",
		"sqlPruneRequests":     "execution_requests_created",
		"sqlPruneTombstones":   "ended_runs_schedule",
		"sqlQueuesWaiting":     "open_runs_ready",
		"sqlWaiting":           "open_runs_ready",
		"sqlAnyLimited":        "open_runs_limits",
		"sqlLimitSets":         "open_runs_limits",
		"sqlReadHeads":         "open_runs_limits",
		"sqlListWaiting":       "open_runs_ready",
		"sqlPlaces":            "open_runs_ready",
		"sqlPositionOf":        "open_runs_ready",
		"sqlFairBefore":        "open_runs_ready",
		"sqlLastFairOrder":     "open_runs_ready",
		"sqlQueueShares":       "open_runs_ready",
		"sqlFairTurns":         "open_runs_fair",
		"sqlWaitBefore":        "open_runs_ready",
		"sqlQueueFlights":      "open_runs_queue_in_flight",
		"sqlCopyWaiting":       "open_runs_ready",
		"sqlCopyDelayed":       "open_runs_delayed",
		"sqlCopyChained":       "open_runs_chained",
		"sqlCopyFlights":       "open_runs_queue_in_flight",
		"sqlRunTimes":          "ended_runs_queue",
		"sqlListDelayed":       "open_runs_delayed",
		"sqlCountQueue":        "open_runs_queue_in_flight",
		"sqlOldestWaiting":     "open_runs_ready",
		"sqlQueueInFlight":     "open_runs_queue_in_flight",
		"sqlQueuedDue":         "open_runs_due",
		"sqlNextQueuedDue":     "open_runs_due",
		"sqlDispatch":          "sqlite_autoindex_open_runs_1",
		"sqlMoveQueued":        "sqlite_autoindex_open_runs_1",
		"sqlChangeQueued":      "sqlite_autoindex_open_runs_1",
		"sqlOpenAmong":         "sqlite_autoindex_open_runs_1",
		"sqlMovePlace":         "sqlite_autoindex_open_runs_1",
	} {
		steps := explain(t, db, completed(all, name))
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

func TestEveryUpdateOfAnOpenRunNamesTheStatesItMayLeave(t *testing.T) {
	t.Parallel()
	names := regexp.MustCompile(`\b(state|status|queue_state) (=|<=|IN) [($]?\d`)
	for name, statement := range statements(t) {
		if !strings.HasPrefix(statement, "UPDATE open_runs") && !strings.HasPrefix(statement, "UPDATE OR IGNORE open_runs") {
			continue
		}
		if _, where, _ := strings.Cut(statement, "WHERE"); !names.MatchString(where) {
			t.Errorf("%s does not say which state it may leave:\n%s", name, statement)
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
