package ledger

import (
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// Bound is an instant at which a run in flight ends if nothing has ended it earlier.
type Bound int

// The bounds, in the order in which a sweep looks at them.
const (
	CancelBound  Bound = iota + 1 // no confirmation of the cancel within CancelWait
	LaunchBound                   // no launch within its time
	TimeoutBound                  // no sign of life within the run timeout
)

// Bounds lists all bounds in this order.
var Bounds = []Bound{CancelBound, LaunchBound, TimeoutBound}

// Since returns the column that a bound is compared with. It orders the candidates.
func (b Bound) Since(r *schedule.Run) time.Time {
	if b == CancelBound {
		return r.CancelRequestedAt
	}
	return r.TimeoutAt
}

// Until returns the latest Since that counts as passed.
func (b Bound) Until(req *schedule.SweepRequest) time.Time {
	if b == CancelBound {
		return req.Now.Add(-req.CancelWait)
	}
	return req.Now
}

// Candidate is a run in flight that may be past a bound.
type Candidate struct {
	Run    schedule.Run
	Record *schedule.ExecutionRequest // of the run's key; nil: none
}

// Sweep decides which runs end: at most req.Limit, cancels first, then launches,
// then timeouts, the oldest of each first. read returns one page: up to req.Limit runs
// past Until, ordered by Since and key, after the given one (nil: from the first). It
// may leave out runs that another transaction has locked.
func Sweep(req *schedule.SweepRequest, read func(b Bound, after *Candidate) ([]Candidate, error)) (ended []schedule.Ended, err error) {
	over := make(map[schedule.Key]bool)
	for _, b := range Bounds {
		for after := (*Candidate)(nil); len(ended) < req.Limit; {
			page, err := read(b, after)
			if err != nil {
				return nil, err
			}
			for i := range page {
				run, past := SweepRun(req, page[i].Run, page[i].Record)
				if !past || over[run.Key] {
					continue
				}
				over[run.Key] = true
				ended = append(ended, schedule.Ended{Run: run, Before: page[i].Run.Status})
				if len(ended) == req.Limit {
					return ended, nil
				}
			}
			if len(page) < req.Limit {
				break
			}
			after = &page[len(page)-1]
		}
	}
	return ended, nil
}

// SweepRun ends a run if it is past a bound. The cancel bound is checked first.
func SweepRun(req *schedule.SweepRequest, r schedule.Run, record *schedule.ExecutionRequest) (after schedule.Run, past bool) {
	bound := pastBound(req, &r, record)
	if bound == 0 {
		return r, false
	}
	r.Deliveries = max(r.Deliveries, callsMade(&r, record))
	switch bound {
	case CancelBound:
		r.Status, r.Reason = schedule.StatusCancelled, cancelled(r.CancelReason)
	case LaunchBound:
		r.GiveUp(record != nil && (record.Sent || record.Done))
	case TimeoutBound:
		r.Status, r.Reason = schedule.StatusFailed, schedule.ReasonTimeout
	}
	r.ClaimedUntil, r.CompletedAt, r.UpdatedAt = time.Time{}, stored(req.Now), stored(req.Now)
	return r, true
}

// pastBound returns the bound that a run is past; 0: none.
func pastBound(req *schedule.SweepRequest, r *schedule.Run, record *schedule.ExecutionRequest) Bound {
	now := stored(req.Now)
	launching := r.Status == schedule.StatusLaunching
	// The last bound of a launch applies whatever its record says. A run of an earlier
	// term is tried once more in this term first.
	last := launching && passed(r.TimeoutAt, now.Add(-req.RetryFor)) && r.Epoch >= req.Term.Epoch
	switch {
	case !r.Status.InFlight():
		return 0
	case passed(r.CancelRequestedAt, now.Add(-req.CancelWait)) && (!launching || last || !answered(record)):
		return CancelBound
	case !passed(r.TimeoutAt, now):
		return 0
	case !launching:
		return TimeoutBound
	case last || !stillTried(r, record, req.Term.Epoch, now):
		return LaunchBound
	}
	return 0
}

// recheckDelay is when a sweep looks again at a run that is past a bound and may not end
// yet: a call of it is open, or its recorded outcome is still to be settled.
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
		if r.Status == schedule.StatusLaunching {
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

// answered reports whether the outcome of a key is recorded. If it is, the next
// delivery settles the run.
func answered(record *schedule.ExecutionRequest) bool { return record != nil && record.Done }

// stillTried reports whether a launch past its timeout may still get an answer: its
// outcome is recorded, a call is open, or an earlier call may have reached the executor
// and the next call of this term is still to come (the executor is asked by key).
func stillTried(r *schedule.Run, record *schedule.ExecutionRequest, epoch int64, now time.Time) bool {
	if record == nil {
		return false
	}
	return record.Done || record.LeaseUntil.After(now) || record.Sent && (r.Epoch < epoch || r.ClaimedUntil.After(now))
}

// CancelTimedOut is the event of a run that ended without a confirmed cancel: it
// may still be running, and overlap the next run.
func CancelTimedOut(r *schedule.Run) schedule.Event {
	return schedule.Event{
		ScheduleID: r.ScheduleID, Time: r.CompletedAt, Kind: schedule.EventCancelTimedOut, From: r.RunAt, To: r.RunAt, Count: 1,
		Reason: r.Reason, Note: r.Key.String(), Revision: r.Revision,
	}
}
