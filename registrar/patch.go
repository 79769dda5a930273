package registrar

import (
	"context"
	"errors"

	"github.com/carillon/carillon/internal/schedule"
)

// patchTries bounds the retries of a patch without a revision after concurrent changes of the
// schedule.
const patchTries = 5

// PatchInput changes a schedule that exists.
type PatchInput struct {
	ScheduleID string
	IfRevision int64 // refuse with schedule.ErrStale if the schedule has another; 0: any
	// Edit makes the whole upsert from the current schedule. It may be called again.
	Edit func(current *schedule.Schedule) (UpsertInput, error)
}

// Patch is an Upsert of Edit's result. It never overwrites a concurrent change.
func (r *Registrar) Patch(ctx context.Context, p PatchInput) (UpsertResult, error) {
	for tries := 1; ; tries++ {
		current, err := r.living(ctx, p.ScheduleID)
		if err != nil {
			return UpsertResult{}, err
		}
		if p.IfRevision != 0 && p.IfRevision != current.Revision {
			return UpsertResult{}, stale(&current.Definition, p.IfRevision, current)
		}
		in, err := p.Edit(current)
		if err != nil {
			return UpsertResult{}, err
		}
		in.Definition.ScheduleID, in.IfRevision = current.ScheduleID, current.Revision
		result, err := r.Upsert(ctx, in)
		if errors.Is(err, schedule.ErrStale) && p.IfRevision == 0 && tries < patchTries {
			continue
		}
		return result, err
	}
}

// stale refuses a change of a revision that is not the current one.
func stale(d *schedule.Definition, want int64, current *schedule.Schedule) error {
	if current == nil || !current.Alive() || current.UserID != d.UserID {
		return schedule.Explain(schedule.ErrStale, "schedule %s was deleted since revision %d; read it again", schedule.Quote(d.ScheduleID), want)
	}
	return schedule.Explain(schedule.ErrStale, "schedule %s has revision %d, and the change is based on revision %d; read it again and repeat the change",
		schedule.Quote(current.ScheduleID), current.Revision, want)
}
