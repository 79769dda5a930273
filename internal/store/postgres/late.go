package postgres

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/revision"
)

// sqlPlanLateOwners finds schedules with slots that no leader has seen and that sqlPlanDue
// did not return. A schedule in quarantine waits for its plan_at. The bucket is the
// schedule's: its rows may be of another, from before an edit.
const sqlPlanLateOwners = `
SELECT` + planColumns + `, s.sid, s.planned_until
FROM schedules s
WHERE s.schedule_id = ANY (ARRAY(SELECT DISTINCT ` + scheduleOfOpen + ` FROM open_runs o WHERE ` + unseen + `))
	AND s.schedule_id <> ALL($6::text[])
	AND num_nulls(s.deleted_at) = 1 AND (NOT s.paused OR s.paused_until <= $5)
	AND (s.plan_failures = 0 OR s.plan_at <= $5)
	AND CASE WHEN s.shard < $8 THEN false ELSE s.shard <= $9 END
ORDER BY s.schedule_id LIMIT $7
FOR NO KEY UPDATE SKIP LOCKED`

// unseen are the slots of one ledger.Unseen, $1 to $4. A planned slot is due at fire_at.
const unseen = `o.state = 1 AND o.due_at > $1 AND o.due_at < $2 AND o.trigger = 1
	AND CASE WHEN o.bucket < $3 THEN false ELSE o.bucket <= $4 END`

// sqlSeenUntil: a shard without a row was never led.
const sqlSeenUntil = `
SELECT l.shard, l.seen_until FROM leaders l WHERE l.seen_until IS NOT NULL`

var sqlPlanLateRuns = `
SELECT` + openColumns + fromOpen + `
WHERE o.sid = ANY(ARRAY(SELECT s.sid FROM schedules s WHERE s.schedule_id = ANY($5::text[]))) AND ` + unseen + `
ORDER BY o.run_at, o.idempotency_key`

// unseenSlots returns where missed slots lie.
func unseenSlots(ctx context.Context, tx pgx.Tx, req *schedule.PlanRequest) (ledger.UnseenSlots, error) {
	seen, err := seenUntil(ctx, tx)
	return ledger.UnseenBy(req.Term, req.Now, req.Grace, seen), err
}

// seenUntil reads until when the slots of each shard were seen in time.
func seenUntil(ctx context.Context, q querier) (map[int]time.Time, error) {
	var (
		shard int
		until time.Time
		seen  = make(map[int]time.Time)
	)
	err := each(ctx, q, []any{&shard, &until}, func() error {
		seen[shard] = until.UTC()
		return nil
	}, sqlSeenUntil)
	return seen, err
}

// unseenArgs are the arguments of unseen.
func unseenArgs(u *ledger.Unseen) []any {
	after := noneOrTime(u.After)
	if u.After.IsZero() {
		after = pgtype.Timestamptz{InfinityModifier: pgtype.NegativeInfinity, Valid: true}
	}
	return []any{after, u.Before, u.FirstBucket, u.LastBucket}
}

// attachLate adds their missed slots to the candidates. An unreadable row makes only its
// schedule unreadable.
func (s *Store) attachLate(ctx context.Context, tx pgx.Tx, candidates []schedule.PlanCandidate, ids []string, unseen ledger.UnseenSlots) error {
	byID := make(map[string]*schedule.PlanCandidate, len(candidates))
	for i := range candidates {
		byID[candidates[i].Schedule.ScheduleID] = &candidates[i]
	}
	var row openRow
	for i := range unseen {
		err := eachRun(ctx, tx, &row, runTargets(&row), func() error {
			c := byID[row.ScheduleID]
			if err := row.unreadable(); err != nil && c.Unreadable == nil {
				c.Unreadable = err
			}
			if unseen.Missed(&row.Run) {
				c.Late = append(c.Late, row.Run)
			}
			return nil
		}, sqlPlanLateRuns, append(unseenArgs(&unseen[i]), ids)...)
		if err != nil {
			return fmt.Errorf("read late runs: %w", err)
		}
	}
	refs := make(map[revision.ID]struct{})
	for i := range candidates {
		slices.SortFunc(candidates[i].Late, func(a, b schedule.Run) int {
			return cmp.Or(a.RunAt.Compare(b.RunAt), slices.Compare(a.Key[:], b.Key[:]))
		})
		for j := range candidates[i].Late {
			refs[revision.Of(&candidates[i].Late[j])] = struct{}{}
		}
	}
	definitions, err := s.definitionsOf(ctx, tx, refs)
	if err != nil {
		return err
	}
	for i := range candidates {
		for j := range candidates[i].Late {
			run := &candidates[i].Late[j]
			identify(run, definitions[revision.Of(run)])
		}
	}
	return nil
}

// sqlPlanFire gives late rows that still fire their new fire_at and trigger.
const sqlPlanFire = `
WITH changed AS (
UPDATE open_runs o SET fire_at = u.fire_at, due_at = u.fire_at, trigger = u.trigger, updated_at = $1
FROM unnest($2::bytea[], $3::timestamptz[], $4::smallint[]) AS u(key, fire_at, trigger)
WHERE o.idempotency_key = ANY(ARRAY[u.key]) AND o.status = 1 AND o.waiting_since IS NULL
RETURNING o.idempotency_key, o.bucket
)` + noteChanged

// writeJudgements writes the verdicts on missed slots and returns those that ended.
func writeJudgements(ctx context.Context, tx pgx.Tx, now time.Time, judged []schedule.LateVerdict) ([]schedule.Skip, error) {
	if len(judged) == 0 {
		return nil, nil
	}
	rows, err := lockKeys(ctx, tx, column(judged, func(v *schedule.LateVerdict) schedule.Key { return v.Key }))
	if err != nil {
		return nil, err
	}
	if err := nameSchedules(ctx, tx, rows); err != nil {
		return nil, err
	}
	open := rowsByKey(rows)
	var (
		skips         []schedule.Skip
		ended, firing []*openRow
	)
	for i := range judged {
		r := open[judged[i].Key]
		if r == nil {
			continue
		}
		after, skip, ok := ledger.JudgeLate(r.Run, &judged[i], now)
		switch {
		case !ok:
		case skip != nil:
			r.Run = after
			ended, skips = append(ended, r), append(skips, *skip)
		default:
			r.Run = after
			firing = append(firing, r)
		}
	}
	if len(firing) > 0 {
		_, err := tx.Exec(ctx, sqlPlanFire, now, column(firing, rowKey),
			column(firing, func(r **openRow) time.Time { return (*r).FireAt }),
			column(firing, func(r **openRow) pgtype.Int2 { return noneOrCode((*r).Trigger.Code()) }))
		if err != nil {
			return nil, fmt.Errorf("let late runs fire: %w", err)
		}
	}
	return skips, endRuns(ctx, tx, ended, now)
}
