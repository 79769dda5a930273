package site

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// sleepers is how many schedules are registered by the API before the rest is
// copied from them.
const sleepers = 1000

// Sleep makes n schedules that are not due for the next hours: daily ones,
// at different minutes of the day. The first thousand come through the API; on
// Postgres the others are copied from those, row by row with its revision, in
// SQL: a million by the API would take longer than the run. They are copied once
// the planner has looked at them, and so the copies are as it left them; the
// workers rest meanwhile, since the indexes do.
func (s *Site) Sleep(ctx context.Context, n int) error {
	from := time.Now().UTC().Add(3 * time.Hour)
	i := 0
	define := func() *carillonv1.UpsertScheduleRequest {
		at := from.Add(time.Duration(i) * 18 * time.Hour / sleepers)
		i++
		daily := fmt.Sprintf("%d %d * * *", at.Minute(), at.Hour())
		return &carillonv1.UpsertScheduleRequest{WorkflowId: workflow, Version: 1, OverlapPolicy: &s.o.Overlap, CronExpr: &daily}
	}
	if s.db == nil || n <= sleepers {
		return s.Register(ctx, "sleeper-", n, define)
	}
	if err := s.Register(ctx, "sleeper-", sleepers, define); err != nil {
		return err
	}
	if err := errors.Join(s.AllPlanned(ctx), s.StopWorkers()); err != nil {
		return err
	}
	copies := (n - sleepers) / sleepers
	for _, c := range []clone{
		{
			table: "schedules", where: "schedule_id LIKE 'sleeper-%'", copies: copies,
			set: map[string]string{
				"schedule_id": "o.schedule_id || '-' || g",
				"sid":         "nextval('schedules_sid_seq')",
				"overlap_key": "o.schedule_id || '-' || g",
				"shard":       bucket("o.user_id || '/' || o.schedule_id || '-' || g"),
				"managed_by":  "NULL",
			},
		},
		{
			table: "schedule_revisions", where: "schedule_id LIKE 'sleeper-%'", copies: copies,
			set: map[string]string{
				"schedule_id": "o.schedule_id || '-' || g",
				"definition":  "replace(o.definition, o.schedule_id, o.schedule_id || '-' || g)",
			},
		},
	} {
		if err := s.clone(ctx, c); err != nil {
			return err
		}
	}
	return s.StartWorkers(nil)
}

// AllPlanned waits until the planner has looked at every schedule: to each new
// one it comes once.
func (s *Site) AllPlanned(ctx context.Context) error {
	if s.db == nil {
		return nil
	}
	for look := time.NewTicker(time.Second); ; {
		var left bool
		err := s.db.Pool.QueryRow(ctx, "SELECT EXISTS (SELECT FROM schedules WHERE plan_at <= now())").Scan(&left)
		if err != nil || !left {
			look.Stop()
			return err
		}
		<-look.C
	}
}

// bucket is the hash bucket of an overlap key, as schedule.Bucket has it.
func bucket(key string) string {
	return fmt.Sprintf("(256 * get_byte(sha256(convert_to(%[1]s, 'UTF8')), 0) + get_byte(sha256(convert_to(%[1]s, 'UTF8')), 1)) %% 1024", key)
}

// expired is how many days old the expired part of a ledger is, past the usual
// RETENTION_DAYS; keepAll is a RETENTION_DAYS, the longest, that keeps it.
const (
	expired = 3000
	keepAll = "3650"
)

// Ledger makes rows of history by copying those of the runs that have ended, a
// minute further back for each copy; of these, so many are older than
// RETENTION_DAYS.
func (s *Site) Ledger(ctx context.Context, rows, old int) error {
	var ended int
	if err := s.db.Pool.QueryRow(ctx, "SELECT count(*) FROM ended_runs WHERE status = 5").Scan(&ended); err != nil {
		return err
	}
	if ended == 0 {
		return fmt.Errorf("no run has ended: there is nothing to copy a ledger from")
	}
	copies := max(1, rows/ended)
	recent := fmt.Sprintf("make_interval(mins => g, days => CASE WHEN g > %d THEN %d ELSE 0 END)", copies-copies*old/max(rows, 1), expired)
	key := map[string]string{"idempotency_key": "sha256(o.idempotency_key || convert_to(g::text, 'UTF8'))", "nth": "g"} // a slot has one of each nth
	return s.clone(ctx, clone{table: "ended_runs", where: "status = 5", copies: copies, set: key, back: recent})
}

// KeepAll are the settings of a worker that deletes none of a ledger.
func KeepAll() map[string]string { return map[string]string{"RETENTION_DAYS": keepAll} }

// Expired counts the runs that are older than retention, under any setting.
func (s *Site) Expired(ctx context.Context) (n int, err error) {
	err = s.db.Pool.QueryRow(ctx, "SELECT count(*) FROM ended_runs WHERE run_at < $1", time.Now().AddDate(0, 0, -expired+1)).Scan(&n)
	return n, err
}

// clone copies rows of a table with some columns set.
type clone struct {
	table, where string
	copies       int
	set          map[string]string // column: expression of o, the original, and g, the copy's number
	back         string            // interval by which instants lie before the original's; "": none
}

const columnsOf = `SELECT column_name, data_type FROM information_schema.columns
	WHERE table_schema = 'public' AND table_name = $1 AND is_identity = 'NO' ORDER BY ordinal_position`

// statement uses the table's actual columns.
func (c clone) statement(ctx context.Context, s *Site) (string, error) {
	rows, err := s.db.Pool.Query(ctx, columnsOf, c.table)
	if err != nil {
		return "", err
	}
	var into, from []string
	for rows.Next() {
		var name, kind string
		if err := rows.Scan(&name, &kind); err != nil {
			return "", err
		}
		value := "o." + name
		if given, there := c.set[name]; there {
			value = given
		} else if c.back != "" && strings.HasPrefix(kind, "timestamp") {
			value += " - " + c.back
		}
		into, from = append(into, name), append(from, value)
	}
	return fmt.Sprintf("INSERT INTO %s (%s) SELECT %s FROM (SELECT * FROM %s WHERE %s) o, generate_series(1, %d) g",
		c.table, strings.Join(into, ", "), strings.Join(from, ", "), c.table, c.where, c.copies), rows.Err()
}

const indexesOf = `SELECT c.relname, pg_get_indexdef(i.indexrelid) FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
	WHERE i.indrelid = $1::regclass AND NOT i.indisprimary`

// clone inserts without the indexes, and makes them again: several times as
// fast with ten of them.
func (s *Site) clone(ctx context.Context, c clone) error {
	insert, err := c.statement(ctx, s)
	if err != nil {
		return fmt.Errorf("copy rows of %s: %w", c.table, err)
	}
	rows, err := s.db.Pool.Query(ctx, indexesOf, c.table)
	if err != nil {
		return err
	}
	statements, again := []string{}, []string{}
	for rows.Next() {
		var name, definition string
		if err := rows.Scan(&name, &definition); err != nil {
			return err
		}
		statements, again = append(statements, "DROP INDEX "+name), append(again, strings.Replace(definition, " ON ONLY ", " ON ", 1)) // of a partitioned table
	}
	if err := rows.Err(); err != nil {
		return err
	}
	for _, statement := range append(append(statements, insert), again...) {
		if _, err := s.db.Pool.Exec(ctx, statement); err != nil {
			return fmt.Errorf("copy rows of %s: %w", c.table, err)
		}
	}
	return nil
}
