package registrar

import (
	"context"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// BackfillInput requests a backfill; zero fields take their defaults.
type BackfillInput struct {
	ScheduleID    string
	From, To      time.Time // [From, To); no To: now
	Reprocess     schedule.Reprocess
	Order         schedule.BackfillOrder
	OverlapPolicy schedule.OverlapPolicy // empty: the schedule's
	Concurrency   int32
	RatePerMinute int32 // 0: as the runs before end
	Note          string
	RequestID     string // empty: generated
	DryRun        bool
	Actor         string
}

// BackfillResult describes an accepted backfill.
type BackfillResult struct {
	Backfill    *schedule.Backfill // nil: a dry run
	Slots       int                // in the range
	Count       int                // slots that would run now
	First, Last time.Time          // of those; zero: there are none
}

// BackfillChangeInput pauses, resumes or cancels a backfill.
type BackfillChangeInput struct {
	BackfillID string
	Note       string
	CancelRuns bool // cancel: those in flight, too
	Actor      string
}

// GetBackfill is one backfill with its progress.
func (r *Registrar) GetBackfill(ctx context.Context, backfillID string) (*schedule.Backfill, error) {
	return r.backfills.GetBackfill(ctx, backfillID)
}

// ListBackfills returns backfills, newest first.
func (r *Registrar) ListBackfills(ctx context.Context, f schedule.BackfillFilter) ([]schedule.Backfill, error) {
	var err error
	if f.ScheduleID, err = r.named(ctx, f.ScheduleID); err != nil {
		return nil, err
	}
	return r.backfills.ListBackfills(ctx, f)
}

// PauseBackfill pauses a backfill: slots that are not claimed yet are removed and
// inserted again when it is resumed; runs in flight continue. Pausing again changes
// nothing.
func (r *Registrar) PauseBackfill(ctx context.Context, in BackfillChangeInput) (*schedule.Backfill, error) {
	return r.changeBackfill(ctx, in, func(b *schedule.Backfill, c *schedule.BackfillChange) error {
		switch b.State {
		case schedule.BackfillPaused:
			c.Row = nil
			return nil
		case schedule.BackfillRunning:
			b.State, c.DropPlanned = schedule.BackfillPaused, true
			c.Events = append(c.Events, backfillEvent(b, schedule.EventBackfillPaused, in.Actor, in.Note, c.Now))
			return nil
		}
		return ended(b)
	})
}

// ResumeBackfill resumes a paused backfill.
func (r *Registrar) ResumeBackfill(ctx context.Context, in BackfillChangeInput) (*schedule.Backfill, error) {
	return r.changeBackfill(ctx, in, func(b *schedule.Backfill, c *schedule.BackfillChange) error {
		switch b.State {
		case schedule.BackfillRunning:
			c.Row = nil
			return nil
		case schedule.BackfillPaused:
			b.State = schedule.BackfillRunning
			c.Events = append(c.Events, backfillEvent(b, schedule.EventBackfillResumed, in.Actor, in.Note, c.Now))
			return nil
		}
		return ended(b)
	})
}

// CancelBackfill ends a backfill: unclaimed runs end CANCELLED. Runs in flight continue unless
// their cancel is requested, too. It is idempotent.
func (r *Registrar) CancelBackfill(ctx context.Context, in BackfillChangeInput) (*schedule.Backfill, error) {
	return r.changeBackfill(ctx, in, func(b *schedule.Backfill, c *schedule.BackfillChange) error {
		if in.CancelRuns {
			c.AskCancel = schedule.ReasonCancelled
		}
		switch b.State {
		case schedule.BackfillFinished:
			return ended(b)
		case schedule.BackfillCancelled:
			if !in.CancelRuns {
				c.Row = nil
			}
			return nil
		}
		b.State, b.Reason, b.EndedAt, c.EndPlanned = schedule.BackfillCancelled, schedule.ReasonCancelled, c.Now, schedule.ReasonCancelled
		e := backfillEvent(b, schedule.EventBackfillCancelled, in.Actor, in.Note, c.Now)
		e.Reason = schedule.ReasonCancelled
		c.Events = append(c.Events, e)
		return nil
	})
}

func ended(b *schedule.Backfill) error {
	return schedule.Explain(schedule.ErrPrecondition, "backfill %s has ended: it is %s; start a new one", b.BackfillID, b.State)
}

// changeBackfill changes one backfill; decide edits its row in place, or clears it from the change
// if there is nothing to write.
func (r *Registrar) changeBackfill(ctx context.Context, in BackfillChangeInput, decide func(*schedule.Backfill, *schedule.BackfillChange) error) (*schedule.Backfill, error) {
	if err := checkNote(in.Note); err != nil {
		return nil, err
	}
	known, err := r.backfills.GetBackfill(ctx, in.BackfillID)
	if err != nil {
		return nil, err
	}
	ref := schedule.BackfillRef{ScheduleID: known.ScheduleID, BackfillID: known.BackfillID}
	after, err := r.backfills.ChangeBackfill(ctx, ref, func(found schedule.BackfillInput) (schedule.BackfillChange, error) {
		if found.Backfill == nil {
			return schedule.BackfillChange{}, noBackfill(in.BackfillID)
		}
		b := *found.Backfill
		c := schedule.BackfillChange{Row: &b, Now: r.now()}
		if err := decide(&b, &c); err != nil || c.Row == nil {
			return schedule.BackfillChange{}, err
		}
		b.StateNote, b.ChangedBy, b.UpdatedAt = in.Note, in.Actor, c.Now
		return c, nil
	})
	if err != nil {
		return nil, err
	}
	r.log.InfoContext(ctx, "backfill changed", "schedule_id", after.ScheduleID, "backfill_id", after.BackfillID, "state", string(after.State))
	return after, nil
}
