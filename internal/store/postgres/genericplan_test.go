package postgres_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// A statement is planned once for each connection, perhaps while open_runs is empty. The
// plan must read rows by their keys all the same, or it would read whole tables later.
func TestPlansOfFewRunsReadByKey(t *testing.T) {
	t.Parallel()
	_, url := fresh(t)
	conn := connect(t, url)
	exec := func(statement string) {
		t.Helper()
		if _, err := conn.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	exec(`SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off`)
	texts := statements(t)
	byKey := []string{
		"sqlLockKeys", "sqlTakePlanned", "sqlTakeLaunching", "sqlRemoveRuns", "sqlLockPlannedOf", "sqlLockPlannedOfBackfill", "sqlWriteOpen", "sqlPostpone", "sqlNewestSuccesses", "sqlSlotEnded",
		"sqlInsertRuns", "sqlDropInserted", "sqlDropPlanned", "sqlClaim", "sqlClaimWait", "sqlClaimCancel", "sqlClaimLock",
		"sqlLockResent", "sqlResend", "sqlChangedRuns", "sqlPlannedOfSchedules", "sqlInFlight", "sqlPlanFire", "sqlTakeKeys", "sqlLockBegun", "sqlWriteCalls", "sqlExtend", "sqlMoveKeys",
		"sqlEndedRuns", "sqlStopped", "sqlStatesNamed",
	}
	byTime := []string{"sqlLockDue", "sqlOpenPlanned", "sqlOpenOthers", "sqlPlanLateRuns", "sqlPlanLateOwners"}
	for _, runs := range []int{0, 1, 1000} {
		exec(fmt.Sprintf(`INSERT INTO open_runs (idempotency_key, sid, nth, revision, bucket, state, status, trigger, policy, overlap_key,
			run_at, fire_at, due_at, priority, max_queued, attempt, deliveries, failed_attempts, epoch, created_at, updated_at)
		SELECT sha256(n::text::bytea), n, 0, 1, 0, 1, 1, 1, 1, 'o', now(), now(), now(), 0, 0, 1, 0, 0, 0, now(), now()
		FROM generate_series(1, %d) n ON CONFLICT DO NOTHING`, runs))
		exec(`ANALYZE`)
		for i, name := range append(byKey, byTime...) {
			lines := steadyPlan(t, conn, texts[name])
			if line := wholeTable(lines, i < len(byKey)); line != "" {
				t.Errorf("with %d open runs %s reads too much: %s in\n%s", runs, name, line, strings.Join(lines, "\n"))
			}
		}
	}
}

func steadyPlan(t *testing.T, conn *pgx.Conn, statement string) []string {
	t.Helper()
	parsed, err := conn.Prepare(t.Context(), "", statement)
	if err != nil {
		t.Fatal(err)
	}
	nulls := strings.TrimSuffix(strings.Repeat("NULL,", len(parsed.ParamOIDs)), ",")
	if _, err := conn.Exec(t.Context(), `PREPARE asked AS `+statement); err != nil {
		t.Fatal(err)
	}
	rows, err := conn.Query(t.Context(), fmt.Sprintf(`EXPLAIN (COSTS OFF) EXECUTE asked(%s)`, nulls), pgx.QueryExecModeSimpleProtocol)
	if err != nil {
		t.Fatal(err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), `DEALLOCATE asked`); err != nil {
		t.Fatal(err)
	}
	return lines
}

// wholeTable returns the line of a plan that reads all of a table, or, where rows come
// by key, all runs that are due. The tables of failures and leaders are small.
func wholeTable(lines []string, byKey bool) string {
	for i, line := range lines {
		index := strings.Contains(line, "Index Scan") || strings.Contains(line, "Index Only Scan")
		all := index && (i+1 == len(lines) || !strings.Contains(lines[i+1], "Index Cond"))
		small := strings.Contains(line, "schedule_failures") || strings.Contains(line, " leaders")
		if strings.Contains(line, "Seq Scan") || all && !small || byKey && strings.Contains(line, "open_runs_due") {
			return strings.TrimSpace(line)
		}
	}
	return ""
}
