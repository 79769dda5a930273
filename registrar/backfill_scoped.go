package registrar

import (
	"context"
	"errors"
	"time"

	"github.com/carillon/carillon/internal/auth"
	"github.com/carillon/carillon/internal/schedule"
)

// auditedBackfills writes the audit trail of a change with it, see audited.go.
type auditedBackfills struct{ BackfillStore }

func (s auditedBackfills) ChangeBackfill(ctx context.Context, ref schedule.BackfillRef, decide func(schedule.BackfillInput) (schedule.BackfillChange, error)) (*schedule.Backfill, error) {
	call := auth.CallFrom(ctx)
	if call == nil || !call.Audited {
		return s.BackfillStore.ChangeBackfill(ctx, ref, decide)
	}
	after, err := s.BackfillStore.ChangeBackfill(ctx, ref, func(found schedule.BackfillInput) (schedule.BackfillChange, error) {
		change, err := decide(found)
		if change.Row != nil {
			target := ref.BackfillID
			if found.Backfill == nil {
				target = ref.ScheduleID // the request names the schedule
			}
			change.Audit = entry(call, target, change.Now)
			change.Audit.UserID = change.Row.UserID
		}
		return change, err
	})
	if err == nil {
		call.Recorded = true
	}
	return after, err
}

// scopedBackfills limits a caller with an owner to that owner's backfills, see
// owner.go.
type scopedBackfills struct{ BackfillStore }

func (s scopedBackfills) ChangeBackfill(ctx context.Context, ref schedule.BackfillRef, decide func(schedule.BackfillInput) (schedule.BackfillChange, error)) (*schedule.Backfill, error) {
	id := auth.FromContext(ctx)
	return s.BackfillStore.ChangeBackfill(ctx, ref, func(found schedule.BackfillInput) (schedule.BackfillChange, error) {
		if found.Backfill != nil && !id.Sees(found.Backfill.UserID) {
			return schedule.BackfillChange{}, noBackfill(ref.BackfillID)
		}
		if found.Schedule != nil && !id.Sees(found.Schedule.UserID) {
			found.Schedule = nil
		}
		return decide(found)
	})
}

func (s scopedBackfills) GetBackfill(ctx context.Context, backfillID string) (*schedule.Backfill, error) {
	found, err := s.BackfillStore.GetBackfill(ctx, backfillID)
	if errors.Is(err, schedule.ErrNotFound) || err == nil && !auth.FromContext(ctx).Sees(found.UserID) {
		return nil, noBackfill(backfillID)
	}
	return found, err
}

func (s scopedBackfills) ListBackfills(ctx context.Context, f schedule.BackfillFilter) ([]schedule.Backfill, error) {
	if !ownOnly(ctx, &f.UserID) {
		return nil, nil
	}
	return s.BackfillStore.ListBackfills(ctx, f)
}

func (s scopedBackfills) SlotStates(ctx context.Context, scheduleID string, slots []time.Time) ([]schedule.SlotState, error) {
	return s.BackfillStore.SlotStates(ctx, scheduleID, slots) // of a schedule that was read before
}

func noBackfill(backfillID string) error {
	return schedule.Explain(schedule.ErrNotFound, "there is no backfill %s", schedule.Quote(backfillID))
}
