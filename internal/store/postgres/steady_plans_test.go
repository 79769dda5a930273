package postgres_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// A statement is planned once for each connection, perhaps before there is any schedule.
// The plan must then read each row by its key, or it would read whole tables later.
func TestPlansOfAnEmptyDatabaseReadByKey(t *testing.T) {
	t.Parallel()
	_, url := fresh(t)
	conn := connect(t, url)
	exec := func(statement string) {
		t.Helper()
		if _, err := conn.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	exec(`ANALYZE`)
	exec(`SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off`)
	texts := statements(t)
	for _, name := range []string{
		"sqlLockKeys", "sqlLockPlannedOf", "sqlLockDue", "sqlWriteOpen", "sqlPostpone", "sqlEnd", "sqlFailed",
		"sqlInsertRuns", "sqlInsertNewRuns", "sqlDropInserted", "sqlClaim", "sqlClaimWait", "sqlClaimCancel", "sqlClaimLock", "sqlReclaim",
		"sqlChangedRuns", "sqlPlannedOfSchedules", "sqlInFlight", "sqlOpenPlanned", "sqlOpenOthers", "sqlPlanLateRuns", "sqlPlanLateOwners", "sqlPlanFire", "sqlDropPlanned", "sqlBeginRead", "sqlBeginReadEnded",
	} {
		parsed, err := conn.Prepare(t.Context(), name, texts[name])
		if err != nil {
			t.Fatal(err)
		}
		exec(`PREPARE asked AS ` + texts[name])
		nulls := strings.TrimSuffix(strings.Repeat("NULL,", len(parsed.ParamOIDs)), ",")
		rows, err := conn.Query(t.Context(), fmt.Sprintf(`EXPLAIN (COSTS OFF) EXECUTE asked(%s)`, nulls), pgx.QueryExecModeSimpleProtocol)
		if err != nil {
			t.Fatal(name, err)
		}
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(name, err)
		}
		exec(`DEALLOCATE asked`)
		for i, line := range lines {
			index := strings.Contains(line, "Index Scan") || strings.Contains(line, "Index Only Scan")
			small := strings.Contains(line, "schedule_failures") || strings.Contains(line, "on leaders")
			if strings.Contains(line, "Seq Scan") || index && !small && (i+1 == len(lines) || !strings.Contains(lines[i+1], "Index Cond")) {
				t.Errorf("%s reads a whole table:\n%s", name, strings.Join(lines, "\n"))
				break
			}
		}
	}
}
