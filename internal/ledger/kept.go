package ledger

import (
	"slices"

	"github.com/carillon/carillon/internal/schedule"
)

// HeldUse is a use of a limit as the end of its run finds it.
type HeldUse struct {
	LimitUse
	LimitID string
	Ordered bool // the limit, now
}

// UsePass gives a use to the run that follows the one that had it.
type UsePass struct {
	LimitUse
	To schedule.Key
}

// MayPassUses reports whether an ended run may leave uses of limits to the run that follows it; nil:
// none does.
func MayPassUses(ended, next *schedule.Run) bool {
	return next != nil && next.Queue.In() && ended.Queue.Limits != ""
}

// PassUses decides which uses of ended runs go to the runs that follow them: those of ordered limits,
// whatever the next run follows, a failure, a snooze or an interruption. Until it is over no other run
// of the key starts. next returns the run that follows a run, and notes in it what it keeps; all other
// uses are freed with the end.
func PassUses(uses []HeldUse, next func(ended schedule.Key) *schedule.Run) (passes []UsePass) {
	for _, u := range uses {
		ref := schedule.LimitRef{ID: u.LimitID, Key: u.Key}
		run := next(u.UsedBy)
		if !u.Ordered || run == nil || !run.Queue.Limits.Has(ref) {
			continue
		}
		run.Queue.Kept = run.Queue.Kept.With(ref)
		passes = append(passes, UsePass{LimitUse: u.LimitUse, To: run.Key})
	}
	return passes
}

// FreedUses are the uses that a run does not have any more once it is not in flight: all of them, or,
// if it waits again, all but those that it keeps.
func FreedUses(r *schedule.Run) (freed []schedule.LimitRef, all bool) {
	if r.Status.Terminal() || r.Queue.Kept == "" {
		return nil, true
	}
	kept := r.Queue.Kept.Refs()
	return slices.DeleteFunc(r.Queue.Limits.Refs(), func(ref schedule.LimitRef) bool { return slices.Contains(kept, ref) }), false
}
