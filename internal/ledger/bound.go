package ledger

import (
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// boundKind is an instant at which a run in flight ends if nothing has ended it earlier.
type boundKind int

// The bounds, in the order in which a sweep looks at them.
const (
	cancelBound   boundKind = iota + 1 // no confirmation of the cancel within CancelWait
	launchBound                        // no launch within its time
	deadlineBound                      // no end within max_run_ms
	timeoutBound                       // no sign of life within the run timeout
)

// Swept is the result of one sweep transaction.
type Swept struct {
	Ended []schedule.Ended
	Open  []schedule.Key // in flight, and left open: the leader's state must know them
	More  bool           // the sweep has reached its limit
}

// SweepRun ends a run if it is past a bound. The cancel bound is checked first. lease is
// that of its key.
func SweepRun(req *schedule.SweepRequest, r schedule.Run, lease schedule.KeyLease) (after schedule.Run, past bool) {
	bound := pastBound(req, &r, lease)
	if bound == 0 {
		return r, false
	}
	switch bound {
	case cancelBound:
		r.Status, r.Reason = schedule.StatusCancelled, cancelled(r.CancelReason)
	case launchBound:
		giveUp(&r, req.Now)
		return r, true
	case deadlineBound:
		r.Status, r.Reason = schedule.StatusFailed, schedule.ReasonDeadline
	case timeoutBound:
		r.Status, r.Reason = schedule.StatusFailed, schedule.ReasonTimeout
	}
	r.ClaimedUntil, r.DeadlineAt, r.CompletedAt, r.UpdatedAt = time.Time{}, time.Time{}, stored(req.Now), stored(req.Now)
	return r, true
}

// giveUp ends a launch: it may have reached the executor, or certainly has not (K7).
func giveUp(r *schedule.Run, now time.Time) {
	r.GiveUp(r.Deliveries > 0)
	r.ClaimedUntil, r.CompletedAt, r.UpdatedAt = time.Time{}, stored(now), stored(now)
}

// launchOver reports whether an attempt that has failed was the last one of its run: the
// launch time is over, and nobody holds the key. The holder of the key may get an answer;
// if not, its own attempt is the last one.
func launchOver(r *schedule.Run, lease schedule.KeyLease, now time.Time) bool {
	return passed(r.TimeoutAt, stored(now)) && !lease.Until.After(stored(now))
}

// pastBound returns the bound that a run is past; 0: none.
func pastBound(req *schedule.SweepRequest, r *schedule.Run, lease schedule.KeyLease) boundKind {
	now := stored(req.Now)
	launching := r.Stage() == schedule.StatusLaunching
	// The last bound of a launch applies also while a call is open. A run of an earlier
	// term is tried once more in this term first.
	last := launching && passed(r.TimeoutAt, now.Add(-req.RetryFor)) && r.Epoch >= req.Term.Epoch
	switch {
	case !r.Stage().InFlight():
		return 0
	case passed(r.CancelRequestedAt, now.Add(-req.CancelWait)):
		return cancelBound
	case !passed(r.TimeoutAt, now):
		return 0
	case !launching && passed(r.DeadlineAt, now):
		return deadlineBound
	case !launching:
		return timeoutBound
	case last || !stillTried(r, lease, req.Term.Epoch, now):
		return launchBound
	}
	return 0
}

// recheckDelay is when a sweep looks again at a run that is past a bound and may not end
// yet: a call of it is open, or the next one is still to come.
const recheckDelay = time.Second

// NextDue returns the due_at of a run in flight that a sweep has looked at and SweepRun
// has not ended. The zero time means never.
func NextDue(req *schedule.SweepRequest, r *schedule.Run) time.Time {
	now := stored(req.Now)
	bounds := make([]time.Time, 0, 3)
	if !r.CancelRequestedAt.IsZero() {
		bounds = append(bounds, r.CancelRequestedAt.Add(req.CancelWait))
	}
	if !r.TimeoutAt.IsZero() {
		bounds = append(bounds, r.TimeoutAt)
		if r.Stage() == schedule.StatusLaunching {
			bounds = append(bounds, r.TimeoutAt.Add(req.RetryFor))
		}
	}
	var next time.Time
	for _, at := range bounds {
		if passed(at, now) {
			at = now.Add(recheckDelay)
		}
		if next.IsZero() || at.Before(next) {
			next = at
		}
	}
	return next
}

// passed reports whether an instant is set and has come.
func passed(t, now time.Time) bool { return !t.IsZero() && !t.After(now) }

// stillTried reports whether a launch past its timeout may still get an answer: a call is
// open, or an earlier call may have reached the executor and the next call of this term is
// still to come (the executor is asked by key).
func stillTried(r *schedule.Run, lease schedule.KeyLease, epoch int64, now time.Time) bool {
	return lease.Until.After(now) || r.Deliveries > 0 && (r.Epoch < epoch || r.ClaimedUntil.After(now))
}

// CancelTimedOut is the event of a run that ended without a confirmed cancel: it
// may still be running, and overlap the next run.
func CancelTimedOut(r *schedule.Run) schedule.Event {
	return schedule.Event{
		ScheduleID: r.ScheduleID, Time: r.CompletedAt, Kind: schedule.EventCancelTimedOut, From: r.RunAt, To: r.RunAt, Count: 1,
		Reason: r.Reason, Note: r.Key.String(), Revision: r.Revision,
	}
}
