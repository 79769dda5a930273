package sqlite

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/revision"
)

// Plan.
const (
	// By schedules_plan_at, in its order: what is not due costs nothing.
	sqlPlanDue = `SELECT ` + planColumns + ` FROM schedules s
 WHERE s.plan_at <= ?1 AND s.deleted_at IS NULL AND (NOT s.paused OR s.paused_until <= ?2)
   AND s.shard BETWEEN ?4 AND ?5
 ORDER BY s.plan_at, s.schedule_id LIMIT ?3`

	sqlAllSeen = `SELECT shard, seen_until FROM leaders WHERE seen_until IS NOT NULL`

	// unseen are the slots of ledger.UnseenSlots, ?1. A planned slot is due at fire_at.
	unseen = `json_each(?1) u CROSS JOIN open_runs o INDEXED BY open_runs_due
   ON o.state = 1 AND o.due_at > u.value ->> 0 AND o.due_at < u.value ->> 1 AND o.bucket BETWEEN u.value ->> 2 AND u.value ->> 3 AND o.trigger = 1`

	// Schedules that are not due to be planned, but have slots that no leader has seen.
	// One that is in quarantine waits for its own turn. The bucket is the schedule's: its
	// rows may be of another, from before an edit. ?2 = the horizon, ?3 = now.
	sqlPlanLate = `SELECT ` + planColumns + ` FROM (SELECT o.sid, min(o.run_at) AS oldest FROM ` + unseen + ` GROUP BY o.sid) late
 CROSS JOIN schedules s ON s.sid = late.sid
 WHERE (s.plan_at IS NULL OR s.plan_at > ?2) AND s.plan_failures = 0
   AND s.deleted_at IS NULL AND (NOT s.paused OR s.paused_until <= ?3)
   AND s.shard BETWEEN ?4 AND ?5
 ORDER BY late.oldest, s.schedule_id LIMIT ?6`

	// The slots since the beginning of an open backlog that have a row. ?1 = schedule_id.
	sqlPlanned = `SELECT o.run_at FROM open_runs o INDEXED BY open_runs_schedule
  WHERE o.sid = ` + sidOfFirst + ` AND o.run_at >= ?2 AND (?3 IS NULL OR o.run_at < ?3) AND o.trigger IN (1, 2)
 UNION SELECT e.run_at FROM ended_runs e INDEXED BY ended_runs_schedule
  WHERE e.sid = ` + sidOfFirst + ` AND e.run_at >= ?2 AND (?3 IS NULL OR e.run_at < ?3) AND e.trigger IN (1, 2)
 ORDER BY 1`
	// sidOfFirst is the number of the schedule ?1.
	sidOfFirst = `(SELECT sid FROM schedules WHERE schedule_id = ?1)`

	// It compares no revision or cursor: since the candidate was read, the write lock is held.
	sqlPlanSchedule = `UPDATE schedules SET next_run_at = ?, plan_at = ?, backlog_from = ?, backlog_until = ?,
 backlog_revision = ?, backlog_at = ?, plan_failures = 0,
 planned_until = COALESCE(max(planned_until, ?7), planned_until, ?7) WHERE schedule_id = ?8`
	sqlPlanFailed   = `UPDATE schedules SET plan_at = ?, plan_failures = ? WHERE schedule_id = ?`
	sqlPlanEndPause = `UPDATE schedules SET paused = 0, pause_note = NULL, paused_by = NULL, paused_until = NULL WHERE schedule_id = ? RETURNING shard`

	sqlLateFire = `UPDATE open_runs SET fire_at = ?2, due_at = ?3, trigger = ?4, updated_at = ?5 WHERE idempotency_key = ?1 AND state = 1`
)

var sqlPlanLateRuns = `SELECT ` + openRunColumns + ` FROM ` + unseen + ofOpen + `
 WHERE s.schedule_id IN (SELECT value FROM json_each(?2))
 ORDER BY o.run_at, o.idempotency_key`

// Plan gives schedules that are due for planning to decide and writes its decisions: rows
// and cursors are durable together.
func (s *Store) Plan(ctx context.Context, req schedule.PlanRequest, decide func([]schedule.PlanCandidate) []schedule.PlanDecision) (schedule.PlanResult, error) {
	var out schedule.PlanResult
	var candidates []schedule.PlanCandidate
	err := s.write(ctx, func(ctx context.Context, t tx) (err error) {
		out = schedule.PlanResult{}
		if err := fence(ctx, t, req.Term); err != nil {
			return err
		}
		if candidates, err = s.candidates(ctx, t, req); err != nil || len(candidates) == 0 {
			return err
		}
		out.Candidates = len(candidates)
		schedules, err := numbersOfCandidates(ctx, t, candidates)
		if err != nil {
			return err
		}
		p := planning{t: t, now: req.Now, out: &out}
		handed := make(map[string]bool, len(candidates))
		for i := range candidates {
			handed[candidates[i].Schedule.ScheduleID] = true
		}
		for _, d := range decide(candidates) {
			if !handed[d.ScheduleID] {
				return fmt.Errorf("a decision on schedule %q, which was not handed out", d.ScheduleID)
			}
			if err := p.write(ctx, &d); err != nil {
				return fmt.Errorf("schedule %s: %w", d.ScheduleID, err)
			}
		}
		if err := p.judgeLate(ctx); err != nil {
			return err
		}
		// Rows of one instant lie together, so that a claim of a thousand of them reads
		// few pages, and so does their settlement.
		schedule.SortRuns(out.Rows, schedule.ByFireAt)
		out.Inserted, err = insertPlanned(ctx, t, out.Rows, schedules, req.Now)
		return err
	})
	if err != nil {
		return schedule.PlanResult{}, fmt.Errorf("plan: %w", err)
	}
	s.definitions.KeepPlanned(candidates, out.Rows)
	return out, nil
}

// insertPlanned is insertRuns for slots; most lie far ahead. Slots after
// planned_until are not in history.
func insertPlanned(ctx context.Context, t tx, slots []schedule.Run, of map[string]numbers, now time.Time) (inserted int, err error) {
	for i := range slots {
		if r := &slots[i]; ledger.NamedInChanges(r, now) {
			t.changed.run(runChanged, r.Key, schedule.Bucket(r.OverlapKey))
		}
	}
	return insertNew(ctx, t, slots, of, func(r *schedule.Run) bool { return !r.RunAt.After(of[r.ScheduleID].plannedUntil) }, now)
}

func numbersOfCandidates(ctx context.Context, t tx, candidates []schedule.PlanCandidate) (map[string]numbers, error) {
	ids := make([]string, len(candidates))
	for i := range candidates {
		ids[i] = candidates[i].Schedule.ScheduleID
	}
	return readNumbers(ctx, t, ids)
}

// candidates returns the schedules that are due for planning, then those with late rows
// only, all with their late rows and the definition of an older backlog.
func (s *Store) candidates(ctx context.Context, t tx, req schedule.PlanRequest) ([]schedule.PlanCandidate, error) {
	first, last := req.Term.Buckets()
	unseen, err := unseenSlots(ctx, t, &req)
	if err != nil {
		return nil, err
	}
	rows, err := readSchedules(ctx, t, sqlPlanDue, req.Horizon.UnixMicro(), req.Now.UnixMicro(), req.Limit, first, last)
	if err != nil {
		return nil, fmt.Errorf("read schedules that are due: %w", err)
	}
	due := len(rows)
	if due < req.Limit && len(unseen) > 0 {
		more, err := readSchedules(ctx, t, sqlPlanLate, unseenArg(unseen), req.Horizon.UnixMicro(), req.Now.UnixMicro(), first, last, req.Limit-due)
		if err != nil {
			return nil, fmt.Errorf("read schedules with late runs: %w", err)
		}
		rows = append(rows, more...)
	}
	candidates := make([]schedule.PlanCandidate, len(rows))
	at := make(map[string]*schedule.PlanCandidate, len(rows))
	ids := make([]string, len(rows))
	for i := range rows {
		candidates[i] = schedule.PlanCandidate{Schedule: rows[i].Schedule, Unreadable: rows[i].problem}
		ids[i] = rows[i].ScheduleID
		at[ids[i]] = &candidates[i]
	}
	if len(rows) == 0 {
		return nil, nil
	}
	if len(unseen) > 0 {
		runs, err := readRuns(ctx, t, sqlPlanLateRuns, unseenArg(unseen), list(ids))
		if err != nil {
			return nil, fmt.Errorf("read late runs: %w", err)
		}
		for i := range runs {
			if c := at[runs[i].ScheduleID]; unseen.Missed(&runs[i]) {
				c.Late = append(c.Late, runs[i])
			}
		}
	}
	for i := len(candidates) - 1; i >= due; i-- {
		if len(candidates[i].Late) == 0 { // what was not seen is not missed yet
			candidates = slices.Delete(candidates, i, i+1)
		}
	}
	for i := range candidates {
		if err := attachPlanned(ctx, t, &candidates[i].Schedule); err != nil {
			return nil, err
		}
	}
	return candidates, s.attachBacklogs(ctx, t, candidates)
}

// unseenSlots returns where missed slots lie.
func unseenSlots(ctx context.Context, t tx, req *schedule.PlanRequest) (ledger.UnseenSlots, error) {
	seen, err := seenUntil(ctx, t)
	if err != nil {
		return nil, err
	}
	return ledger.UnseenBy(req.Term, req.Now, req.Grace, seen), nil
}

// seenUntil reads until when the slots of each shard were seen in time.
func seenUntil(ctx context.Context, q querier) (map[int]time.Time, error) {
	seen := make(map[int]time.Time)
	var shard number
	var until instant
	err := q.query(ctx, sqlAllSeen, func(scan scan) error {
		err := scan(&shard, &until)
		seen[int(shard)] = until.Time
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read what was seen in time: %w", err)
	}
	return seen, nil
}

// unseenArg is the argument of unseen.
func unseenArg(unseen ledger.UnseenSlots) string {
	rows := make([][4]int64, len(unseen))
	for i, u := range unseen {
		rows[i] = [4]int64{max(0, u.After.UnixMicro()), u.Before.UnixMicro(), int64(u.FirstBucket), int64(u.LastBucket)}
	}
	return jsonArg(rows)
}

// attachBacklogs adds the definitions of backlogs of an older revision.
func (s *Store) attachBacklogs(ctx context.Context, t tx, candidates []schedule.PlanCandidate) error {
	var wanted []revision.ID
	for i := range candidates {
		if id, ok := backlogRevision(&candidates[i].Schedule); ok {
			wanted = append(wanted, id)
		}
	}
	definitions, err := s.definitionsOf(ctx, t, wanted)
	if err != nil {
		return err
	}
	for i := range candidates {
		c := &candidates[i]
		id, ok := backlogRevision(&c.Schedule)
		if !ok {
			continue
		}
		if c.BacklogDefinition = definitions[id]; c.BacklogDefinition == nil {
			s.log.Warn("revision of a backlog missing", "schedule_id", id.ScheduleID, "revision", id.Revision)
		}
	}
	return nil
}

func backlogRevision(s *schedule.Schedule) (id revision.ID, older bool) {
	return revision.ID{ScheduleID: s.ScheduleID, Revision: s.Backlog.Revision}, s.Backlog.Open() && s.Backlog.Revision != s.Revision
}

// planning writes the decisions of one plan transaction.
type planning struct {
	t    tx
	now  time.Time
	out  *schedule.PlanResult
	late []schedule.LateVerdict // on late runs
}

func (p *planning) write(ctx context.Context, d *schedule.PlanDecision) error {
	if d.Failures > 0 {
		p.out.Failed = append(p.out.Failed, d.ScheduleID)
		if _, err := p.t.exec(ctx, sqlPlanFailed, micros(d.PlanAt), d.Failures, d.ScheduleID); err != nil {
			return fmt.Errorf("put in quarantine: %w", err)
		}
		return p.t.insertEvents(ctx, d.ScheduleID, d.Events, p.now)
	}
	_, err := p.t.exec(ctx, sqlPlanSchedule, micros(d.NextRunAt), micros(d.PlanAt), micros(d.Backlog.From), micros(d.Backlog.Until),
		count(d.Backlog.Revision), micros(d.Backlog.At), micros(lastSlots(d.Rows)[d.ScheduleID]), d.ScheduleID)
	if err != nil {
		return fmt.Errorf("move cursor: %w", err)
	}
	if d.EndPause {
		err := p.t.query(ctx, sqlPlanEndPause, func(scan scan) error {
			var bucket int
			err := scan(&bucket)
			p.t.changed.schedule(d.ScheduleID, bucket)
			return err
		}, d.ScheduleID)
		if err != nil {
			return fmt.Errorf("end pause: %w", err)
		}
	}
	p.out.Rows = append(p.out.Rows, d.Rows...) // inserted together, once all is decided
	p.late = append(p.late, d.LateVerdicts...)
	return p.t.insertEvents(ctx, d.ScheduleID, d.Events, p.now)
}

// judgeLate writes the decisions on late runs: they end or still fire.
func (p *planning) judgeLate(ctx context.Context) error {
	keys := make([]schedule.Key, len(p.late))
	for i := range p.late {
		keys[i] = p.late[i].Key
	}
	rows, err := openRowsOf(ctx, p.t, keys)
	if err != nil {
		return err
	}
	var ended []*openRow
	for i := range p.late {
		r := rows[p.late[i].Key]
		if r == nil {
			continue
		}
		after, skip, ok := ledger.JudgeLate(r.Run, &p.late[i], p.now)
		if !ok {
			continue
		}
		r.Run = after
		if skip != nil {
			ended = append(ended, r)
			p.out.Skipped = append(p.out.Skipped, *skip)
			continue
		}
		p.t.changed.run(runChanged, r.Key, schedule.Bucket(r.OverlapKey))
		if _, err := p.t.exec(ctx, sqlLateFire, keyArg(r.Key), r.FireAt.UnixMicro(), dueAt(&r.Run), int64(r.Trigger.Code()), p.now.UnixMicro()); err != nil {
			return fmt.Errorf("launch late run %s: %w", r.Key, err)
		}
	}
	return endRuns(ctx, p.t, ended, p.now)
}
