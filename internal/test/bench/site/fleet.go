package site

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"time"

	"google.golang.org/protobuf/proto"

	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// Fleet is what a console looks at: schedules of many kinds, and their past.
type Fleet struct {
	Schedules, Runs int
}

// fleetOwners is how many owners share the schedules. fleetSmall owns a single
// schedule, of workflow fleetRare: reads of either find little.
const (
	fleetOwners = 9
	fleetSmall  = "owner-small"
	fleetRare   = "workflow-rare"
)

// RegisterFleet makes the schedules: of ten, one fires every 5 minutes, six
// every hour and three every day, at their own minutes. Each has the label team,
// every fifth a jitter of 30 s, and every hundredth is paused.
func (s *Site) RegisterFleet(ctx context.Context, f Fleet) error {
	if err := s.putFleetWorkflows(ctx); err != nil {
		return err
	}
	i := -1
	return s.registerEach(ctx, "fleet-", f.Schedules, func() *carillonv1.UpsertScheduleRequest {
		i++
		r := &carillonv1.UpsertScheduleRequest{
			WorkflowId: fmt.Sprint("workflow-", i%fleetWorkflows), Version: 1, OverlapPolicy: &s.o.Overlap, CronExpr: proto.String(fleetRule(i)),
			Labels: map[string]string{"team": fmt.Sprint("team-", i%20)}, UserId: fmt.Sprint("owner-", i%fleetOwners),
		}
		if i%5 == 4 {
			r.JitterMs = proto.Uint32(30_000)
		}
		if i == f.Schedules/2 {
			r.UserId, r.WorkflowId = fleetSmall, fleetRare
		}
		if i%100 == 99 {
			r.Paused = proto.Bool(true)
		}
		return r
	})
}

// fleetWorkflows is how many workflows most of the schedules start.
const fleetWorkflows = 100

func (s *Site) putFleetWorkflows(ctx context.Context) error {
	conn, err := s.connect(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	names := []string{fleetRare}
	for i := range fleetWorkflows {
		names = append(names, fmt.Sprint("workflow-", i))
	}
	for _, name := range names {
		_, err := carillonv1.NewWorkflowServiceClient(conn).PutWorkflowVersion(ctx, &carillonv1.PutWorkflowVersionRequest{
			WorkflowId: name, Version: 1, Dag: []byte(`{"steps":[]}`),
		})
		if err != nil {
			return fmt.Errorf("store %s: %w", name, err)
		}
	}
	return nil
}

func fleetRule(i int) string {
	switch {
	case i%10 == 0:
		return fmt.Sprintf("%d-59/5 * * * *", i/10%5)
	case i%10 < 7:
		return fmt.Sprintf("%d * * * *", i*7%60)
	}
	return fmt.Sprintf("%d %d * * *", i*11%60, i*13%24)
}

// The past of a fleet: the same number of runs for each schedule, at most a day old, an
// hour apart; 2 of 100 failed and 1 was skipped. One statement inserts the rows: a
// million through the API would take an hour.
const (
	fleetPostgres = `
INSERT INTO ended_runs (idempotency_key, sid, nth, revision, run_at, fire_at, status, reason, trigger, overlap_key, policy,
	max_queued, attempt, deliveries, failed_attempts, priority, run_id, trace_id, epoch, claimed_at, launched_at, started_at, completed_at,
	error_code, error_message, created_at, recorded_at, bucket)
SELECT sha256(convert_to(schedule_id || '/past/' || g, 'UTF8')), sid, g, revision, at, at,
	CASE WHEN w < 2 THEN 6 WHEN w = 2 THEN 7 ELSE 5 END,
	CASE WHEN w < 2 THEN 'workflow_failed' WHEN w = 2 THEN 'overlap' END,
	CASE WHEN (i + g) % 1000 = 7 THEN 3 ELSE 1 END,
	user_id || '/' || overlap_key, array_position(ARRAY['allow','skip','queue','replace'], overlap_policy), max_queued, 1, 1, 0, 0,
	CASE WHEN w <> 2 THEN 'run-' || i || '-' || g END, CASE WHEN w <> 2 THEN md5(schedule_id || g) END, 1, CASE WHEN w <> 2 THEN at END,
	CASE WHEN w <> 2 THEN at END, CASE WHEN w <> 2 THEN at END, at + interval '2 seconds',
	CASE WHEN w < 2 THEN 'exit_1' END, CASE WHEN w < 2 THEN 'the step failed' END, at, at, shard
FROM (SELECT s.*, g, (i * 37 + g * 11) % 100 AS w,
		date_trunc('second', now()) - make_interval(secs => g * 86000.0 / $1::integer - i % 3600) AS at
	FROM (SELECT s.*, row_number() OVER (ORDER BY schedule_id) AS i FROM schedules s) s, generate_series(1, $1::integer) g) p
WHERE at < now()
ON CONFLICT DO NOTHING`
	fleetSQLite = `
WITH RECURSIVE c(g) AS (SELECT 1 UNION ALL SELECT g + 1 FROM c WHERE g < ?1),
p AS (SELECT s.*, g, (i * 37 + g * 11) % 100 AS w, (unixepoch() - (g * 86000 / ?1) + i % 3600) * 1000000 AS at
	FROM (SELECT s.*, row_number() OVER (ORDER BY schedule_id) AS i FROM schedules s) s, c)
INSERT OR IGNORE INTO ended_runs (idempotency_key, sid, nth, revision, run_at, fire_at, status, reason, trigger, overlap_key, policy,
	max_queued, attempt, deliveries, failed_attempts, priority, run_id, trace_id, epoch, claimed_at, launched_at, started_at, completed_at,
	error_code, error_message, created_at, recorded_at, bucket)
SELECT randomblob(32), sid, g, revision, at, at,
	CASE WHEN w < 2 THEN 6 WHEN w = 2 THEN 7 ELSE 5 END,
	CASE WHEN w < 2 THEN 'workflow_failed' WHEN w = 2 THEN 'overlap' END,
	CASE WHEN (i + g) % 1000 = 7 THEN 3 ELSE 1 END,
	user_id || '/' || overlap_key, CASE overlap_policy WHEN 'allow' THEN 1 WHEN 'skip' THEN 2 WHEN 'queue' THEN 3 ELSE 4 END, max_queued, 1, 1, 0, 0,
	CASE WHEN w <> 2 THEN 'run-' || i || '-' || g END, CASE WHEN w <> 2 THEN lower(hex(randomblob(16))) END, 1, CASE WHEN w <> 2 THEN at END,
	CASE WHEN w <> 2 THEN at END, CASE WHEN w <> 2 THEN at END, at + 2000000,
	CASE WHEN w < 2 THEN 'exit_1' END, CASE WHEN w < 2 THEN 'the step failed' END, at, at, 0
FROM p WHERE at < unixepoch() * 1000000`
)

// FleetPast writes the runs of a fleet that is registered, and lets the database
// gather its statistics. It returns how many runs there are.
func (s *Site) FleetPast(ctx context.Context, f Fleet) (runs int, err error) {
	each := (f.Runs + f.Schedules - 1) / f.Schedules
	if s.db != nil {
		if _, err := s.db.Pool.Exec(ctx, fleetPostgres, each); err != nil {
			return 0, fmt.Errorf("write the past: %w", err)
		}
		if err := s.db.Rest(ctx); err != nil {
			return 0, err
		}
		return runs, s.db.Pool.QueryRow(ctx, "SELECT count(*) FROM schedule_runs").Scan(&runs)
	}
	db, err := sql.Open("sqlite", "file:"+filepath.Join(s.folder, "carillon.db")+"?_pragma=busy_timeout(60000)&_txlock=immediate")
	if err != nil {
		return 0, err
	}
	defer db.Close()
	if _, err := db.ExecContext(ctx, fleetSQLite, each); err != nil {
		return 0, fmt.Errorf("write the past: %w", err)
	}
	return runs, db.QueryRowContext(ctx, "SELECT count(*) FROM schedule_runs").Scan(&runs)
}

// fleetSample is a run of the fleet that failed, to look at.
const fleetSample = `SELECT idempotency_key, run_id, schedule_id FROM schedule_runs WHERE run_id IS NOT NULL AND status = 'FAILED' AND run_at < %s LIMIT 1`

// Sample names one run that failed.
func (s *Site) Sample(ctx context.Context) (key []byte, runID, scheduleID string, err error) {
	if s.db != nil {
		err = s.db.Pool.QueryRow(ctx, fmt.Sprintf(fleetSample, "$1"), time.Now()).Scan(&key, &runID, &scheduleID)
		return key, runID, scheduleID, err
	}
	db, err := s.openSQLite()
	if err != nil {
		return nil, "", "", err
	}
	defer db.Close()
	err = db.QueryRowContext(ctx, fmt.Sprintf(fleetSample, "?1"), time.Now().UnixMicro()).Scan(&key, &runID, &scheduleID)
	return key, runID, scheduleID, err
}

// HTTP is the address of the console, where all roles are in one process.
func (s *Site) HTTP() string { return s.metrics[0] }
