package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/carillon/carillon/internal/schedule"
)

// backfillRow is a row as backfillColumns list it.
type backfillRow struct {
	id, scheduleID, requestID, user, overlapKey, reprocess, order, policy, state string
	note, createdBy, reason, stateNote, changedBy                                pgtype.Text
	hash                                                                         []byte
	concurrency, rate                                                            int32
	revision                                                                     int64
	counts                                                                       schedule.BackfillCounts
	unfinished                                                                   bool
	from, to, cursor, next, created, updated, ended                              pgtype.Timestamptz
}

func (w *backfillRow) targets() []any {
	c := &w.counts
	return []any{
		&w.id, &w.scheduleID, &w.requestID, &w.hash, &w.user, &w.revision, &w.overlapKey,
		&w.from, &w.to, &w.reprocess, &w.order, &w.policy, &w.concurrency, &w.rate, &w.note, &w.createdBy,
		&w.state, &w.reason, &w.stateNote, &w.changedBy, &w.cursor, &w.next, &c.Slots, &c.ToRun, &c.PassedOver, &c.Inserted,
		&c.Succeeded, &c.Failed, &c.Skipped, &c.Cancelled, &w.unfinished, &w.created, &w.updated, &w.ended,
	}
}

func (w *backfillRow) backfill() (schedule.Backfill, error) {
	var d decoding
	b := schedule.Backfill{
		BackfillID: w.id, ScheduleID: w.scheduleID, RequestID: w.requestID, RequestHash: d.key("request_hash", w.hash),
		UserID: w.user, Revision: w.revision, OverlapKey: w.overlapKey, From: d.time("from_at", w.from), To: d.time("to_at", w.to),
		Reprocess: schedule.Reprocess(w.reprocess), Order: schedule.BackfillOrder(w.order), OverlapPolicy: schedule.OverlapPolicy(w.policy),
		Concurrency: w.concurrency, RatePerMinute: w.rate, Note: w.note.String, CreatedBy: w.createdBy.String,
		State: schedule.BackfillState(w.state), Reason: schedule.Reason(w.reason.String), StateNote: w.stateNote.String,
		ChangedBy: w.changedBy.String, Cursor: d.time("cursor_at", w.cursor), NextAt: d.time("next_at", w.next), BackfillCounts: w.counts,
		Open: w.unfinished, CreatedAt: d.time("created_at", w.created), UpdatedAt: d.time("updated_at", w.updated), EndedAt: d.time("ended_at", w.ended),
	}
	return b, d.err
}

// writeBackfill inserts the row, or updates its variable columns.
func writeBackfill(ctx context.Context, tx pgx.Tx, b *schedule.Backfill, lookedAt time.Time) error {
	_, err := tx.Exec(ctx, sqlWriteBackfill, b.BackfillID, b.ScheduleID, b.RequestID, b.RequestHash[:], b.UserID, b.Revision, b.OverlapKey,
		b.From, b.To, string(b.Reprocess), string(b.Order), string(b.OverlapPolicy), b.Concurrency, b.RatePerMinute,
		noneOrText(b.Note), noneOrText(b.CreatedBy), string(b.State), noneOrText(b.Reason), noneOrText(b.StateNote), noneOrText(b.ChangedBy),
		b.Cursor, noneOrTime(b.NextAt), b.Slots, b.ToRun, b.PassedOver, b.Inserted, b.Succeeded, b.Failed, b.Skipped, b.Cancelled, b.Open,
		b.CreatedAt, b.UpdatedAt, noneOrTime(b.EndedAt), int32(schedule.Bucket(b.OverlapKey)), lookedAt)
	if err != nil {
		return fmt.Errorf("write backfill %s: %w", b.BackfillID, err)
	}
	return nil
}

func collectBackfills(ctx context.Context, q querier, statement string, args ...any) ([]schedule.Backfill, error) {
	var (
		row  backfillRow
		rows []schedule.Backfill
	)
	err := each(ctx, q, row.targets(), func() error {
		b, err := row.backfill()
		rows = append(rows, b)
		return err
	}, statement, args...)
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
	var (
		id             string
		status, reason pgtype.Text
		n              int64
	)
	return each(ctx, q, []any{&id, &status, &reason, &n}, func() error {
		at[id].Count(schedule.Status(status.String), schedule.Reason(reason.String), n)
		return nil
	}, sqlBackfillCounts, ids)
}

// GetBackfill returns one backfill with its current counts.
func (s *Store) GetBackfill(ctx context.Context, backfillID string) (*schedule.Backfill, error) {
	rows, err := collectBackfills(ctx, s.pool, sqlGetBackfill, backfillID)
	if err == nil && len(rows) == 0 {
		err = schedule.ErrNotFound
	}
	if err == nil {
		err = countOpen(ctx, s.pool, rows)
	}
	if err != nil {
		return nil, fmt.Errorf("get backfill %s: %w", backfillID, err)
	}
	return &rows[0], nil
}

// ListBackfills returns backfills, newest first.
func (s *Store) ListBackfills(ctx context.Context, f schedule.BackfillFilter) ([]schedule.Backfill, error) {
	limit := f.Limit
	if limit <= 0 {
		limit = schedule.DefaultPageSize
	}
	rows, err := collectBackfills(ctx, s.pool, sqlListBackfills, f.ScheduleID, f.UserID, string(f.State), noneOrTime(f.BeforeAt), f.BeforeID, limit)
	if err == nil {
		err = countOpen(ctx, s.pool, rows)
	}
	if err != nil {
		return nil, fmt.Errorf("list backfills: %w", err)
	}
	return rows, nil
}

// SlotStates returns the state of the given slots, in their order.
func (s *Store) SlotStates(ctx context.Context, scheduleID string, slots []time.Time) ([]schedule.SlotState, error) {
	found, err := standings(ctx, s.pool, scheduleID, slots)
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
	var (
		runAt                  time.Time
		onWay, success, failed bool
	)
	err := each(ctx, q, []any{&runAt, &onWay, &success, &failed}, func() error {
		out[at[runAt.UnixMicro()]] = schedule.SlotState{Rows: true, OnWay: onWay, Success: success, Failed: failed}
		return nil
	}, sqlStandings, scheduleID, slots)
	return out, err
}

// ChangeBackfill locks one backfill, or that there is none, behind its schedule, gives
// them to decide and writes its decision, in one transaction.
func (s *Store) ChangeBackfill(ctx context.Context, ref schedule.BackfillRef, decide func(schedule.BackfillInput) (schedule.BackfillChange, error)) (*schedule.Backfill, error) {
	var (
		refusal error
		after   []schedule.Backfill
	)
	err := s.transact(ctx, func(tx pgx.Tx) error {
		refusal = nil
		in, err := backfillInput(ctx, tx, ref)
		if err != nil {
			return err
		}
		change, err := decide(in)
		if err != nil {
			refusal = err
			return err
		}
		if err := writeBackfillChange(ctx, tx, ref, &change); err != nil {
			return err
		}
		if after, err = collectBackfills(ctx, tx, sqlGetBackfill, ref.BackfillID); err != nil {
			return err
		}
		return countOpen(ctx, tx, after)
	})
	switch {
	case refusal != nil:
		return nil, refusal // as it is
	case err != nil:
		return nil, fmt.Errorf("change backfill %s: %w", ref.BackfillID, err)
	case len(after) == 0:
		return nil, fmt.Errorf("change backfill %s: %w", ref.BackfillID, schedule.ErrNotFound)
	}
	return &after[0], nil
}

func backfillInput(ctx context.Context, tx pgx.Tx, ref schedule.BackfillRef) (in schedule.BackfillInput, err error) {
	locked, err := collectSchedules(ctx, tx, sqlChangeLock, []string{ref.ScheduleID})
	if err != nil {
		return in, fmt.Errorf("lock schedule: %w", err)
	}
	owner := ""
	if len(locked) == 1 {
		in.Schedule, owner = &locked[0], locked[0].UserID
		counts, err := countInFlight(ctx, tx, locked)
		if err != nil {
			return in, err
		}
		in.InFlight = counts[locked[0].QualifiedOverlapKey()]
	}
	rows, err := collectBackfills(ctx, tx, sqlLockBackfills, []string{ref.BackfillID})
	if err != nil {
		return in, fmt.Errorf("lock: %w", err)
	}
	if len(rows) == 1 {
		in.Backfill = &rows[0] // unmodified, because it is written again
	}
	if err := tx.QueryRow(ctx, sqlCountBackfills, ref.ScheduleID, owner, ref.BackfillID).Scan(&in.OfSchedule, &in.OfOwner); err != nil {
		return in, fmt.Errorf("count others: %w", err)
	}
	return in, nil
}

func writeBackfillChange(ctx context.Context, tx pgx.Tx, ref schedule.BackfillRef, c *schedule.BackfillChange) error {
	if c.Row == nil {
		return nil
	}
	if err := writeBackfill(ctx, tx, c.Row, c.Now); err != nil {
		return err
	}
	if c.DropPlanned {
		if _, err := tx.Exec(ctx, sqlBackfillDrop, ref.BackfillID); err != nil {
			return fmt.Errorf("take planned runs back: %w", err)
		}
	}
	if c.EndPlanned != "" {
		if err := endPlannedOfBackfill(ctx, tx, ref.BackfillID, c); err != nil {
			return fmt.Errorf("end planned runs: %w", err)
		}
	}
	if c.AskCancel != "" {
		if _, err := tx.Exec(ctx, sqlBackfillAskCancel, ref.BackfillID, string(c.AskCancel), c.Now); err != nil {
			return fmt.Errorf("ask for the cancel of runs: %w", err)
		}
	}
	if err := insertEvents(ctx, tx, eventsOf(ref.ScheduleID, c.Events, c.Now)); err != nil {
		return err
	}
	if c.Audit != nil {
		if err := insertAudit(ctx, tx, []schedule.AuditEntry{*c.Audit}); err != nil {
			return err
		}
	}
	wakeListeners(tx)
	return nil
}

func endPlannedOfBackfill(ctx context.Context, tx pgx.Tx, backfillID string, c *schedule.BackfillChange) error {
	rows, err := lockOpen(ctx, tx, sqlLockPlannedOfBackfill, backfillID)
	if err != nil {
		return err
	}
	for _, r := range rows {
		r.settle(&schedule.Settlement{Key: r.Key, To: schedule.StatusCancelled, Reason: c.EndPlanned, CompletedAt: c.Now}, c.Now)
	}
	_, err = writeMoved(ctx, tx, rows, c.Now)
	return err
}
