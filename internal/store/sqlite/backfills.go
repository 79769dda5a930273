package sqlite

import (
	"context"
	"fmt"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// backfillRow and backfillColumns belong together.
type backfillRow struct {
	id, scheduleID, requestID, user, overlapKey, reprocess, order, policy   text
	note, createdBy, state, reason, stateNote, changedBy                    text
	hash                                                                    key
	revision, concurrency, rate                                             number
	slots, toRun, passedOver, putDown, succeeded, failed, skipped, canceled number
	unfinished                                                              flag
	from, to, cursor, next, created, updated, ended                         instant
}

func (r *backfillRow) columns() []any {
	return []any{
		&r.id, &r.scheduleID, &r.requestID, &r.hash, &r.user, &r.revision, &r.overlapKey,
		&r.from, &r.to, &r.reprocess, &r.order, &r.policy, &r.concurrency, &r.rate, &r.note, &r.createdBy,
		&r.state, &r.reason, &r.stateNote, &r.changedBy, &r.cursor, &r.next, &r.slots, &r.toRun, &r.passedOver, &r.putDown,
		&r.succeeded, &r.failed, &r.skipped, &r.canceled, &r.unfinished, &r.created, &r.updated, &r.ended,
	}
}

func (r *backfillRow) backfill() schedule.Backfill {
	return schedule.Backfill{
		BackfillID: string(r.id), ScheduleID: string(r.scheduleID), RequestID: string(r.requestID), RequestHash: r.hash,
		UserID: string(r.user), Revision: int64(r.revision), OverlapKey: string(r.overlapKey), From: r.from.Time, To: r.to.Time,
		Reprocess: schedule.Reprocess(r.reprocess), Order: schedule.BackfillOrder(r.order), OverlapPolicy: schedule.OverlapPolicy(r.policy),
		Concurrency: int32(r.concurrency), RatePerMinute: int32(r.rate), Note: string(r.note), CreatedBy: string(r.createdBy),
		State: schedule.BackfillState(r.state), Reason: schedule.Reason(r.reason), StateNote: string(r.stateNote), ChangedBy: string(r.changedBy),
		Cursor: r.cursor.Time, NextAt: r.next.Time,
		BackfillCounts: schedule.BackfillCounts{
			Slots: int64(r.slots), ToRun: int64(r.toRun), PassedOver: int64(r.passedOver), Inserted: int64(r.putDown),
			Succeeded: int64(r.succeeded), Failed: int64(r.failed), Skipped: int64(r.skipped), Cancelled: int64(r.canceled),
		},
		Open: bool(r.unfinished), CreatedAt: r.created.Time, UpdatedAt: r.updated.Time, EndedAt: r.ended.Time,
	}
}

// writeBackfill inserts the row, or updates its variable columns.
func writeBackfill(ctx context.Context, t tx, b *schedule.Backfill, lookedAt time.Time) error {
	_, err := t.exec(ctx, sqlWriteBackfill, b.BackfillID, b.ScheduleID, b.RequestID, b.RequestHash[:], b.UserID, b.Revision, b.OverlapKey,
		b.From.UnixMicro(), b.To.UnixMicro(), string(b.Reprocess), string(b.Order), string(b.OverlapPolicy),
		int64(b.Concurrency), int64(b.RatePerMinute), word(b.Note), word(b.CreatedBy),
		string(b.State), word(b.Reason), word(b.StateNote), word(b.ChangedBy), b.Cursor.UnixMicro(), micros(b.NextAt),
		b.Slots, b.ToRun, b.PassedOver, b.Inserted, b.Succeeded, b.Failed, b.Skipped, b.Cancelled, b.Open,
		b.CreatedAt.UnixMicro(), b.UpdatedAt.UnixMicro(), micros(b.EndedAt), schedule.Bucket(b.OverlapKey), lookedAt.UnixMicro())
	if err != nil {
		return fmt.Errorf("write backfill %s: %w", b.BackfillID, err)
	}
	return nil
}

func readBackfills(ctx context.Context, q querier, statement string, args ...any) ([]schedule.Backfill, error) {
	var row backfillRow
	columns := row.columns()
	var rows []schedule.Backfill
	err := q.query(ctx, statement, func(scan scan) error {
		if err := scan(columns...); err != nil {
			return err
		}
		rows = append(rows, row.backfill())
		return nil
	}, args...)
	return rows, err
}

// countOpen adds runs that the backfill's row does not count yet.
func countOpen(ctx context.Context, q querier, rows []schedule.Backfill) error {
	at := make(map[string]*schedule.Backfill, len(rows))
	ids := make([]string, 0, len(rows))
	for i := range rows {
		if rows[i].Open {
			at[rows[i].BackfillID] = &rows[i]
			ids = append(ids, rows[i].BackfillID)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	var id, reason text
	var status status
	var n number
	return q.query(ctx, sqlBackfillCounts, func(scan scan) error {
		if err := scan(&id, &status, &reason, &n); err != nil {
			return err
		}
		at[string(id)].Count(schedule.Status(status), schedule.Reason(reason), int64(n))
		return nil
	}, list(ids))
}

// GetBackfill returns one backfill with its current counts.
func (s *Store) GetBackfill(ctx context.Context, backfillID string) (*schedule.Backfill, error) {
	rows, err := readBackfills(ctx, s.readers, sqlGetBackfill, backfillID)
	if err == nil && len(rows) == 0 {
		err = schedule.ErrNotFound
	}
	if err == nil {
		err = countOpen(ctx, s.readers, rows)
	}
	if err != nil {
		return nil, fmt.Errorf("get backfill %s: %w", backfillID, err)
	}
	return &rows[0], nil
}

// ListBackfills returns backfills, newest first.
func (s *Store) ListBackfills(ctx context.Context, f schedule.BackfillFilter) ([]schedule.Backfill, error) {
	var q conditions
	base := sqlListBackfills
	switch {
	case f.ScheduleID != "":
		base, q.args = sqlListBackfillsSchedule, append(q.args, f.ScheduleID)
		q.add(f.UserID != "", sqlBackfillsUser, f.UserID)
	case f.UserID != "":
		base, q.args = sqlListBackfillsUser, append(q.args, f.UserID)
	}
	q.add(f.State != "", sqlBackfillsState, string(f.State))
	q.add(!f.BeforeAt.IsZero(), sqlBackfillsBefore, f.BeforeAt.UnixMicro(), f.BeforeID)
	rows, err := readBackfills(ctx, s.readers, base+q.where.String()+sqlBackfillsOrder, append(q.args, limitOf(f.Limit))...)
	if err == nil {
		err = countOpen(ctx, s.readers, rows)
	}
	if err != nil {
		return nil, fmt.Errorf("list backfills: %w", err)
	}
	return rows, nil
}

// SlotStates returns the state of the given slots, in their order.
func (s *Store) SlotStates(ctx context.Context, scheduleID string, slots []time.Time) ([]schedule.SlotState, error) {
	found, err := standings(ctx, s.readers, scheduleID, slots)
	if err != nil {
		return nil, fmt.Errorf("read how the slots of %s stand: %w", scheduleID, err)
	}
	return found, nil
}

func standings(ctx context.Context, q querier, scheduleID string, slots []time.Time) ([]schedule.SlotState, error) {
	out := make([]schedule.SlotState, len(slots))
	if len(slots) == 0 {
		return out, nil
	}
	at := make(map[int64]int, len(slots))
	for i, slot := range slots {
		at[slot.UnixMicro()] = i
	}
	var runAt number
	var onWay, success, failed flag
	err := q.query(ctx, sqlStandings, func(scan scan) error {
		if err := scan(&runAt, &onWay, &success, &failed); err != nil {
			return err
		}
		out[at[int64(runAt)]] = schedule.SlotState{Rows: true, OnWay: bool(onWay), Success: bool(success), Failed: bool(failed)}
		return nil
	}, scheduleID, instants(slots))
	return out, err
}

// ChangeBackfill reads one backfill, or that there is none, with its schedule, gives them
// to decide and writes its decision, in one transaction.
func (s *Store) ChangeBackfill(ctx context.Context, ref schedule.BackfillRef, decide func(schedule.BackfillInput) (schedule.BackfillChange, error)) (*schedule.Backfill, error) {
	var refused error
	var after []schedule.Backfill
	err := s.write(ctx, func(ctx context.Context, t tx) error {
		refused = nil
		in, err := backfillInput(ctx, t, ref)
		if err != nil {
			return err
		}
		change, err := decide(in)
		if err != nil {
			refused = err
			return err
		}
		if err := writeBackfillChange(ctx, t, ref, &change); err != nil {
			return err
		}
		if after, err = readBackfills(ctx, t, sqlGetBackfill, ref.BackfillID); err != nil {
			return err
		}
		return countOpen(ctx, t, after)
	})
	switch {
	case refused != nil:
		return nil, refused
	case err != nil:
		return nil, fmt.Errorf("change backfill %s: %w", ref.BackfillID, err)
	case len(after) == 0:
		return nil, fmt.Errorf("change backfill %s: %w", ref.BackfillID, schedule.ErrNotFound)
	}
	s.wakes.call()
	return &after[0], nil
}

func backfillInput(ctx context.Context, t tx, ref schedule.BackfillRef) (in schedule.BackfillInput, err error) {
	found, err := readSchedules(ctx, t, sqlGetSchedule, ref.ScheduleID)
	if err != nil {
		return in, fmt.Errorf("read schedule %s: %w", ref.ScheduleID, err)
	}
	owner := ""
	if len(found) == 1 {
		in.Schedule, owner = &found[0].Schedule, found[0].UserID
		if in.InFlight, err = countInFlight(ctx, t, found[0].QualifiedOverlapKey()); err != nil {
			return in, err
		}
	}
	rows, err := readBackfills(ctx, t, sqlGetBackfill, ref.BackfillID)
	if err != nil {
		return in, err
	}
	if len(rows) == 1 {
		in.Backfill = &rows[0] // unmodified, because it is written again
	}
	err = t.query(ctx, sqlCountBackfills, func(scan scan) error { return scan(&in.OfSchedule, &in.OfOwner) }, ref.ScheduleID, owner, ref.BackfillID)
	return in, err
}

func writeBackfillChange(ctx context.Context, t tx, ref schedule.BackfillRef, c *schedule.BackfillChange) error {
	if c.Row == nil {
		return nil
	}
	if err := writeBackfill(ctx, t, c.Row, c.Now); err != nil {
		return err
	}
	if c.DropPlanned {
		if err := t.query(ctx, sqlBackfillDrop, t.changed.returned(runEnded), ref.BackfillID); err != nil {
			return fmt.Errorf("take planned runs back: %w", err)
		}
	}
	if c.EndPlanned != "" {
		end := schedule.Settlement{To: schedule.StatusCancelled, Reason: c.EndPlanned, CompletedAt: c.Now}
		if err := endBy(ctx, t, end, c.Now, sqlPlannedOfBackfill, ref.BackfillID); err != nil {
			return fmt.Errorf("end planned runs: %w", err)
		}
	}
	if c.AskCancel != "" {
		err := t.query(ctx, sqlBackfillAskCancel, t.changed.returned(cancelRequested), ref.BackfillID, string(c.AskCancel), c.Now.UnixMicro())
		if err != nil {
			return fmt.Errorf("ask for the cancel of runs: %w", err)
		}
	}
	if err := t.insertEvents(ctx, ref.ScheduleID, c.Events, c.Now); err != nil {
		return err
	}
	return t.insertAudit(ctx, c.Audit, c.Now)
}
