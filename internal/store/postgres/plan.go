package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/revision"
	"github.com/carillon/carillon/internal/store/tables"
)

// Plan locks a batch of schedules, gives them to decide and writes rows and cursors in
// one transaction, so that no crash loses a slot between them. See worker.PlanStore.
func (s *Store) Plan(ctx context.Context, req schedule.PlanRequest, decide func([]schedule.PlanCandidate) []schedule.PlanDecision) (schedule.PlanResult, error) {
	var (
		result     schedule.PlanResult
		candidates []schedule.PlanCandidate
		insert     = insertNewRows
	)
	err := s.fenced(ctx, req.Term, func(tx pgx.Tx) error {
		result = schedule.PlanResult{}
		var err error
		places := make(map[string]runPlace)
		if candidates, err = s.planCandidates(ctx, tx, req, places); err != nil {
			return err
		}
		result.Candidates = len(candidates)
		if len(candidates) == 0 {
			return nil
		}
		decisions := decide(candidates)
		if err := ofCandidates(decisions, candidates); err != nil {
			return err
		}
		w := planWrite{tx: tx, now: req.Now, insert: insert, places: places, result: &result}
		insert = insertRows // if it is repeated
		return w.writePlan(ctx, decisions)
	})
	if err != nil {
		return schedule.PlanResult{}, fmt.Errorf("plan: %w", err)
	}
	s.definitions.KeepPlanned(candidates, result.Rows)
	return result, nil
}

// sqlPlanDue reads schedules_plan_at in order up to the limit; rows that others have
// locked do not count. An edit locks a schedule FOR UPDATE, so a plan never overwrites
// it. num_nulls hides the condition on deleted_at from partial indexes: while statistics
// lag, all of schedules_user looks as short as the due rows.
//
// The condition on a term's buckets is a CASE here and everywhere: for BETWEEN with
// parameters a generic plan estimates one row in 200, but without shards it matches all.
const sqlPlanDue = `
SELECT` + planColumns + `, s.sid, s.planned_until
FROM schedules s
WHERE s.plan_at <= $1 AND num_nulls(s.deleted_at) = 1
	AND (NOT s.paused OR s.paused_until <= $2)
	AND CASE WHEN s.shard < $4 THEN false ELSE s.shard <= $5 END
ORDER BY s.plan_at LIMIT $3
FOR NO KEY UPDATE SKIP LOCKED`

// planCandidates locks schedules that are due for planning, then schedules with late
// rows. It fills places.
func (s *Store) planCandidates(ctx context.Context, tx pgx.Tx, req schedule.PlanRequest, places map[string]runPlace) ([]schedule.PlanCandidate, error) {
	var (
		row        tables.ScheduleRow
		sid        int32
		until      time.Time
		candidates []schedule.PlanCandidate
		ids        []string

		first, last = req.Term.Buckets()
	)
	unseen, err := unseenSlots(ctx, tx, &req)
	if err != nil {
		return nil, fmt.Errorf("read seen_until: %w", err)
	}
	lock := func(statement string, args ...any) error {
		return queries{tx}.Each(ctx, statement, append(row.Targets(), &sid, &until), func(bad error) error {
			s, problem := row.Schedule(bad)
			places[s.ScheduleID] = runPlace{sid: sid, plannedUntil: until}
			if problem != nil { // only its id is reliable
				s = schedule.Schedule{Definition: schedule.Definition{ScheduleID: s.ScheduleID}, PlanFailures: s.PlanFailures}
			}
			candidates = append(candidates, schedule.PlanCandidate{Schedule: s, Unreadable: problem})
			ids = append(ids, s.ScheduleID)
			return nil
		}, args...)
	}
	if err := lock(sqlPlanDue, req.Horizon, req.Now, req.Limit, first, last); err != nil {
		return nil, fmt.Errorf("lock due schedules: %w", err)
	}
	due := len(candidates)
	for i := 0; i < len(unseen) && len(candidates) < req.Limit; i++ {
		others := append([]string{}, ids...) // not NULL
		if err := lock(sqlPlanLateOwners, append(unseenArgs(&unseen[i]), req.Now, others, req.Limit-len(candidates), first, last)...); err != nil {
			return nil, fmt.Errorf("lock schedules with late runs: %w", err)
		}
	}
	if len(candidates) == 0 {
		return nil, nil
	}
	if err := s.attachLate(ctx, tx, candidates, ids, unseen); err != nil {
		return nil, err
	}
	missed := candidates[:due]
	for _, c := range candidates[due:] {
		if len(c.Late) > 0 || c.Unreadable != nil { // else what was not seen is not missed yet
			missed = append(missed, c)
		}
	}
	return s.attachRest(ctx, tx, missed)
}

func (s *Store) attachRest(ctx context.Context, tx pgx.Tx, candidates []schedule.PlanCandidate) ([]schedule.PlanCandidate, error) {
	if err := s.attachBacklogs(ctx, tx, candidates); err != nil {
		return nil, err
	}
	found := make(map[string]*schedule.Schedule, len(candidates))
	for i := range candidates {
		found[candidates[i].Schedule.ScheduleID] = &candidates[i].Schedule
	}
	return candidates, attachPlanned(ctx, tx, found)
}

// attachBacklogs adds the definition under which an older backlog was due.
func (s *Store) attachBacklogs(ctx context.Context, tx pgx.Tx, candidates []schedule.PlanCandidate) error {
	refs := make(map[revision.ID]struct{})
	ref := func(c *schedule.PlanCandidate) (revision.ID, bool) {
		b := c.Schedule.Backlog
		return revision.ID{ScheduleID: c.Schedule.ScheduleID, Revision: b.Revision}, b.Open() && b.Revision != c.Schedule.Revision
	}
	for i := range candidates {
		if older, ok := ref(&candidates[i]); ok {
			refs[older] = struct{}{}
		}
	}
	definitions, err := s.definitionsOf(ctx, tx, refs)
	if err != nil {
		return err
	}
	for i := range candidates {
		c := &candidates[i]
		older, ok := ref(c)
		if !ok {
			continue
		}
		if c.BacklogDefinition = definitions[older]; c.BacklogDefinition == nil {
			s.log.WarnContext(ctx, "revision of a backlog missing", "schedule_id", older.ScheduleID, "revision", older.Revision)
		}
	}
	return nil
}

// ofCandidates refuses decisions on schedules that are not locked.
func ofCandidates(decisions []schedule.PlanDecision, candidates []schedule.PlanCandidate) error {
	locked := make(map[string]bool, len(candidates))
	for i := range candidates {
		locked[candidates[i].Schedule.ScheduleID] = true
	}
	for i := range decisions {
		if !locked[decisions[i].ScheduleID] {
			return fmt.Errorf("a decision on %s, which is no candidate", schedule.Quote(decisions[i].ScheduleID))
		}
	}
	return nil
}

// planWrite writes the decisions of one plan.
type planWrite struct {
	tx     pgx.Tx
	now    time.Time
	insert func(context.Context, pgx.Tx, []*openRow, time.Time) (int, error)
	places map[string]runPlace // of the candidates
	result *schedule.PlanResult
}

// runPlace is where the tables of runs have the runs of a schedule.
type runPlace struct {
	sid          int32
	plannedUntil time.Time // before this plan: later slots are not in history
}

func (w *planWrite) writePlan(ctx context.Context, decisions []schedule.PlanDecision) error {
	tx, now, result := w.tx, w.now, w.result
	var (
		planned, failed []schedule.PlanDecision
		judged          []schedule.LateVerdict
		events          []schedule.Event
		rows            int
	)
	for i := range decisions {
		rows += len(decisions[i].Rows)
	}
	result.Rows = make([]schedule.Run, 0, rows)
	for i := range decisions {
		d := &decisions[i]
		events = append(events, eventsOf(d.ScheduleID, d.Events, now)...)
		if d.Failures > 0 { // its rows and cursor are not reliable
			failed = append(failed, *d)
			result.Failed = append(result.Failed, d.ScheduleID)
			continue
		}
		planned = append(planned, *d)
		result.Rows = append(result.Rows, d.Rows...)
		judged = append(judged, d.LateVerdicts...)
	}
	if err := writeCursors(ctx, tx, planned, failed); err != nil {
		return err
	}
	if err := w.insertRows(ctx); err != nil {
		return err
	}
	skipped, err := writeJudgements(ctx, tx, now, judged)
	if err != nil {
		return err
	}
	result.Skipped = skipped
	return insertEvents(ctx, tx, events)
}

// insertRows inserts the planned runs.
func (w *planWrite) insertRows(ctx context.Context) error {
	rows := w.result.Rows
	if len(rows) == 0 {
		return nil
	}
	// Rows of one instant are stored together: a claim of a thousand reads few pages, and
	// so does their settlement.
	schedule.SortRuns(rows, schedule.ByFireAt)
	inserted, err := w.insert(ctx, w.tx, openRowsOf(rows, func(r *schedule.Run) int32 { return w.places[r.ScheduleID].sid }, w.now), w.now)
	if err != nil {
		return err
	}
	var lookUp []schedule.Run
	for i := range rows {
		if !rows[i].RunAt.After(w.places[rows[i].ScheduleID].plannedUntil) {
			lookUp = append(lookUp, rows[i])
		}
	}
	gone, err := dropEnded(ctx, w.tx, lookUp)
	w.result.Inserted = inserted - gone
	return err
}

// sqlPlanSchedules moves the cursors. The rows are locked, and updated_at is the
// user's: planning leaves it. The end of a pause is a change that the leader reads.
const sqlPlanSchedules = `
WITH planned AS (
UPDATE schedules s SET next_run_at = u.next_run_at, plan_at = u.plan_at,
	backlog_from = u.backlog_from, backlog_until = u.backlog_until,
	backlog_revision = u.backlog_revision, backlog_at = u.backlog_at, plan_failures = 0,
	planned_until = greatest(s.planned_until, u.planned_until),
	paused = s.paused AND NOT u.end_pause,
	pause_note = CASE WHEN NOT u.end_pause THEN s.pause_note END,
	paused_by = CASE WHEN NOT u.end_pause THEN s.paused_by END,
	paused_until = CASE WHEN NOT u.end_pause THEN s.paused_until END
FROM unnest($1::text[], $2::timestamptz[], $3::timestamptz[], $4::timestamptz[], $5::timestamptz[],
	$6::bigint[], $7::timestamptz[], $8::boolean[], $9::timestamptz[])
	AS u(schedule_id, next_run_at, plan_at, backlog_from, backlog_until, backlog_revision, backlog_at, end_pause, planned_until)
WHERE s.schedule_id = u.schedule_id
RETURNING s.schedule_id, s.shard, u.end_pause
)
INSERT INTO changes (kind, first_bucket, last_bucket, schedule_ids)
SELECT 1, min(shard), max(shard), array_agg(schedule_id) FROM planned WHERE end_pause HAVING count(*) > 0`

const sqlPlanFailures = `
UPDATE schedules s SET plan_at = u.plan_at, plan_failures = u.failures
FROM unnest($1::text[], $2::timestamptz[], $3::integer[]) AS u(schedule_id, plan_at, failures)
WHERE s.schedule_id = u.schedule_id`

func writeCursors(ctx context.Context, tx pgx.Tx, planned, failed []schedule.PlanDecision) error {
	type decision = schedule.PlanDecision
	id := func(d *decision) string { return d.ScheduleID }
	planAt := func(d *decision) pgtype.Timestamptz { return noneOrTime(d.PlanAt) }
	if len(planned) > 0 {
		_, err := tx.Exec(ctx, sqlPlanSchedules, column(planned, id),
			column(planned, func(d *decision) pgtype.Timestamptz { return noneOrTime(d.NextRunAt) }),
			column(planned, planAt),
			column(planned, func(d *decision) pgtype.Timestamptz { return noneOrTime(d.Backlog.From) }),
			column(planned, func(d *decision) pgtype.Timestamptz { return noneOrTime(d.Backlog.Until) }),
			column(planned, func(d *decision) pgtype.Int8 { return noneOrInt(d.Backlog.Revision) }),
			column(planned, func(d *decision) pgtype.Timestamptz { return noneOrTime(d.Backlog.At) }),
			column(planned, func(d *decision) bool { return d.EndPause }),
			column(planned, func(d *decision) pgtype.Timestamptz { return noneOrTime(lastSlot(d.Rows)) }))
		if err != nil {
			return fmt.Errorf("move cursors: %w", err)
		}
	}
	if len(failed) > 0 {
		_, err := tx.Exec(ctx, sqlPlanFailures, column(failed, id), column(failed, planAt),
			column(failed, func(d *decision) int64 { return int64(d.Failures) }))
		if err != nil {
			return fmt.Errorf("postpone what failed: %w", err)
		}
	}
	return nil
}

// lastSlot is the greatest run_at; zero: there are no runs.
func lastSlot(runs []schedule.Run) (last time.Time) {
	for i := range runs {
		if runs[i].RunAt.After(last) {
			last = runs[i].RunAt
		}
	}
	return last
}
