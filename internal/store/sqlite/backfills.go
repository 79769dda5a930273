package sqlite

import (
	"context"
	"fmt"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/tables"
)

// ChangeBackfill reads one backfill, or that there is none, with its schedule, gives them
// to decide and writes its decision, in one transaction.
func (s *Store) ChangeBackfill(ctx context.Context, ref schedule.BackfillRef, decide func(schedule.BackfillInput) (schedule.BackfillChange, error)) (*schedule.Backfill, error) {
	var refused error
	var after *schedule.Backfill
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
		after, err = dialect.CurrentBackfill(ctx, queries{t}, ref.BackfillID)
		return err
	})
	switch {
	case refused != nil:
		return nil, refused
	case err != nil:
		return nil, fmt.Errorf("change backfill %s: %w", ref.BackfillID, err)
	}
	s.wakes.call()
	return after, nil
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
	rows, err := tables.Backfills(ctx, queries{t}, sqlGetBackfill, ref.BackfillID)
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
	if err := dialect.PutBackfill(ctx, queries{t}, c.Row, c.Now); err != nil {
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
