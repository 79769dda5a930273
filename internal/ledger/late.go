package ledger

import (
	"cmp"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// JudgeLate returns a missed slot after the planner's verdict: it ends as SKIPPED, and skip
// says so, or it stays planned with another fire_at and trigger. ok = false: somebody has
// seen, ended or claimed it since it was read, and the verdict is void.
func JudgeLate(r schedule.Run, v *schedule.LateVerdict, now time.Time) (after schedule.Run, skip *schedule.Skip, ok bool) {
	if RowStateOf(&r) != RowPlanned {
		return r, nil, false
	}
	if v.Fire {
		r.FireAt, r.Trigger = cmp.Or(stored(v.FireAt), r.FireAt), cmp.Or(v.Trigger, r.Trigger)
		r.UpdatedAt = stored(now)
		return r, nil, true
	}
	end := schedule.Settlement{Key: r.Key, To: schedule.StatusSkipped, Reason: v.Reason, CompletedAt: now}
	after, ok = Settle(r, schedule.KeyLease{}, &end, now)
	return after, &schedule.Skip{Settlement: end, ScheduleID: r.ScheduleID, RunAt: r.RunAt}, ok
}

// Launched returns a planned run as its claim leaves it: LAUNCHING, to be sent again after
// the lease.
func (req *ClaimRequest) Launched(r schedule.Run, d *schedule.Definition) schedule.Run {
	now := stored(req.Now)
	r.Status, r.WaitingSince, r.Epoch, r.ClaimedAt, r.UpdatedAt = schedule.StatusLaunching, time.Time{}, req.Term.Epoch, now, now
	r.ClaimedUntil = stored(req.Now.Add(req.Lease))
	r.TimeoutAt = stored(schedule.LaunchUntil(d, r.FireAt, req.Now, req.RetryFor))
	return r
}
