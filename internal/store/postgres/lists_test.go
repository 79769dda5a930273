package postgres_test

import (
	"crypto/sha256"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/postgres"
)

// A page must not read or sort a whole history.
func TestAPageOfRunsReadsWhatItShows(t *testing.T) {
	t.Parallel()
	h := newHistory(t)
	h.exec(`INSERT INTO schedules SELECT (json_populate_record(s, json_build_object('sid', g, 'schedule_id', 's' || g))).*
		FROM schedules s, generate_series(1000, 1099) g WHERE s.schedule_id = 's'`)
	h.exec(`INSERT INTO schedule_revisions SELECT (json_populate_record(r, json_build_object('schedule_id', 's' || g))).*
		FROM schedule_revisions r, generate_series(1000, 1099) g WHERE r.schedule_id = 's'`)
	h.exec(`INSERT INTO ended_runs (idempotency_key, sid, nth, revision, bucket, status, reason, trigger, policy, overlap_key, run_at, fire_at, priority, max_queued, attempt,
		deliveries, failed_attempts, epoch, created_at, completed_at, recorded_at, run_id, dead)
		SELECT sha256(g::text::bytea), 1000 + g % 100, 0, 1, 0, CASE WHEN g % 10 = 3 THEN 6 ELSE 5 END, 'x', CASE WHEN g % 10 = 7 THEN 3 ELSE 1 END, 1, 'u/s', at, at, 0, 1, 1, 1, 0, 1, at, at, at, 'r' || g, CASE WHEN g % 100 = 3 THEN true WHEN g % 10 = 3 THEN false END
		FROM (SELECT g, $1::timestamptz - g * interval '30 seconds' AS at FROM generate_series(1, 100000) g) p`, h.days(0))
	h.exec(`ANALYZE ended_runs`)
	h.openRuns(1000, 1)
	key := schedule.Key{1}
	for name, filter := range map[string]schedule.RunFilter{
		"all":                     {},
		"all, oldest first":       {Ascending: true},
		"all after a page":        {AfterRunAt: h.days(-20), AfterKey: key},
		"all of a day":            {From: h.days(-9), To: h.days(-8)},
		"a schedule":              {ScheduleID: "s1007"},
		"a schedule after a page": {ScheduleID: "s1007", AfterRunAt: h.days(-20), AfterKey: key},
		"failed":                  {Statuses: []schedule.Status{schedule.StatusFailed}},
		"failed of a schedule":    {ScheduleID: "s1003", Statuses: []schedule.Status{schedule.StatusFailed}},
		"dead":                    {Dead: true},
		"dead, oldest first":      {Dead: true, Ascending: true, AfterRunAt: h.days(-20), AfterKey: key},
		"dead of a schedule":      {Dead: true, ScheduleID: "s1003"},
		"dead of an owner":        {Dead: true, UserID: "nobody"},
		"dead runs by key":        {Dead: true, AnyOf: []schedule.Key{key}},
		"by hand":                 {Trigger: schedule.TriggerManual},
		"one run_id":              {RunID: "r777"},
		"a range of keys":         {Keys: schedule.KeyRange{First: schedule.Key{1}, Last: schedule.Key{1, 16}}},
		"the feed of now":         {UpdatedAfter: h.days(1)},
		"the feed":                {UpdatedAfter: h.days(-20), UpdatedKey: key},
		"the feed, long ago":      {UpdatedAfter: h.days(-34)},
		"the feed of failures":    {UpdatedAfter: h.days(-34), Statuses: []schedule.Status{schedule.StatusFailed}},
		"the feed of calls":       {UpdatedAfter: h.days(-34), Statuses: schedule.InFlight},
	} {
		filter.Now, filter.Limit = h.today, 50
		statement, args := postgres.ListStatement(&filter)
		if rows := h.rowsRead(statement, args); rows > 2000 {
			t.Errorf("%s: the database reads %d rows for a page of 50", name, rows)
		}
	}
	// A count and a redrive read dead runs only.
	all := statements(t)
	var keys [][]byte
	var at []time.Time
	for g := 3; len(keys) < 50; g += 100 {
		k := sha256.Sum256([]byte(strconv.Itoa(g)))
		keys, at = append(keys, k[:]), append(at, h.days(0).Add(-30*time.Second*time.Duration(g)))
	}
	for name, args := range map[string][]any{"sqlCountDead": {h.days(-60), 50}, "sqlStillDead": {keys, at}, "sqlRedriven": {keys, at}} {
		plan := h.plan(all[name], args)
		if rows := rowsIn(h, plan); rows > 1000 {
			t.Errorf("%s reads %d rows for 50 runs, with 1000 dead ones of 100,000:\n%s", name, rows, plan)
		}
		if !strings.Contains(plan, "rows=50 ") {
			t.Errorf("%s does not find 50 runs:\n%s", name, plan)
		}
	}
}

// A list of open runs has no index by its order. It then reads the table as it is: by
// an index it would read each row's page again.
func TestAListOfOpenRunsReadsTheTableOnce(t *testing.T) {
	t.Parallel()
	h := newHistory(t)
	h.openRuns(1000, 3)
	h.openRuns(100_000, 1)
	for name, filter := range map[string]schedule.RunFilter{
		"all":                   {},
		"planned":               {Statuses: []schedule.Status{schedule.StatusPlanned}},
		"planned, oldest first": {Statuses: []schedule.Status{schedule.StatusPlanned}, Ascending: true},
		"planned after a page":  {Statuses: []schedule.Status{schedule.StatusPlanned}, AfterRunAt: h.days(1)},
		"by hand":               {Trigger: schedule.TriggerManual},
		"of an owner":           {UserID: "u"},
		"the feed":              {UpdatedAfter: h.days(-1)},
	} {
		filter.Now, filter.Limit = h.today, 50
		plan := h.plan(postgres.ListStatement(&filter))
		if !strings.Contains(plan, "Seq Scan on open_runs") || strings.Contains(plan, "Sort Method: external") {
			t.Errorf("%s:\n%s", name, plan)
		}
	}
	filter := schedule.RunFilter{Statuses: schedule.InFlight, Now: h.today, Limit: 50}
	if rows := h.rowsRead(postgres.ListStatement(&filter)); rows > 1000 {
		t.Errorf("the database reads %d rows for 1000 runs in flight", rows)
	}
}

// openRuns inserts runs of schedule s in a state.
func (h *history) openRuns(runs, state int) {
	h.Helper()
	h.exec(`INSERT INTO open_runs (idempotency_key, sid, nth, revision, bucket, state, status, trigger, policy, overlap_key,
			run_at, fire_at, due_at, priority, max_queued, attempt, deliveries, failed_attempts, epoch, created_at, updated_at)
		SELECT sha256(format('%s %s', $2::int, g)::bytea), s.sid, 0, 1, 0, $2, $2, 1, 1, 'u/s', at, at, at, 0, 1, 1, 0, 0, 0, $3::timestamptz, $3
		FROM schedules s, (SELECT g, $3::timestamptz + g * interval '1 second' AS at FROM generate_series(1, $1::int) g) p WHERE s.schedule_id = 's'`, runs, state, h.today)
	h.exec(`ANALYZE open_runs`)
}

// rowsRead is the largest number of rows that a step of a plan returned.
func (h *history) rowsRead(statement string, args []any) (most int) {
	h.Helper()
	return rowsIn(h, h.plan(statement, args))
}

func rowsIn(h *history, plan string) (most int) {
	h.Helper()
	for _, m := range regexp.MustCompile(`actual rows=(\d+)|Rows Removed by Filter: (\d+)`).FindAllStringSubmatch(plan, -1) {
		n, err := strconv.Atoi(m[1] + m[2])
		if err != nil {
			h.Fatal(err)
		}
		most = max(most, n)
	}
	return most
}

// plan runs a statement with the settings of the pool, and explains it.
func (h *history) plan(statement string, args []any) string {
	h.Helper()
	ctx := h.Context()
	tx, err := h.conn.Begin(ctx)
	if err != nil {
		h.Fatal(err)
	}
	defer func() { _ = tx.Rollback(ctx) }()
	h.exec(`SET LOCAL plan_cache_mode = force_generic_plan; SET LOCAL enable_bitmapscan = off; SET LOCAL jit = off`)
	h.exec(`PREPARE page AS ` + statement)
	defer h.exec(`DEALLOCATE page`)
	place := make([]string, len(args))
	for i := range args {
		place[i] = fmt.Sprintf("$%d", i+1)
	}
	rows, err := tx.Query(ctx, `EXPLAIN (ANALYZE, TIMING OFF) EXECUTE page(`+strings.Join(place, ", ")+`)`, append([]any{pgx.QueryExecModeSimpleProtocol}, args...)...)
	if err != nil {
		h.Fatal(err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		h.Fatal(err)
	}
	return strings.Join(lines, "\n")
}
