package ledger

import "github.com/carillon/carillon/internal/schedule"

// ChangesPlanned reports whether a change of a schedule drops or ends planned runs of it.
func ChangesPlanned(c *schedule.Change) bool {
	return !c.DropPlannedAfter.IsZero() || c.EndDue.To != ""
}

// ChangePlanned decides what a change of its schedule does to a planned run. A slot that
// lies later than DropPlannedAfter was only a plan: it is dropped without a trace. Other
// slots end if EndDue says so, and runs of other triggers with EndRest. end = nil and
// drop = false: the run stays.
func ChangePlanned(c *schedule.Change, r *schedule.Run) (drop bool, end *schedule.Settlement) {
	slot := r.Trigger.FromSpec()
	switch {
	case r.Status != schedule.StatusPlanned:
	case slot && !c.DropPlannedAfter.IsZero() && r.RunAt.After(stored(c.DropPlannedAfter)):
		return true, nil
	case c.EndDue.To != "" && (slot || c.EndRest):
		return false, &schedule.Settlement{Key: r.Key, To: c.EndDue.To, Reason: c.EndDue.Reason, CompletedAt: c.Now}
	}
	return false, nil
}
