package ledger

import (
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// Bound is an instant at which a run in flight ends if nothing ends it before.
type Bound int

// The bounds, in the order in which a sweep looks at them.
const (
	CancelBound  Bound = iota + 1 // the cancel was not confirmed within CancelWait
	LaunchBound                   // its launch is not tried any longer
	TimeoutBound                  // no sign of life within the run timeout
)

// Bounds is the closed set, in that order.
var Bounds = []Bound{CancelBound, LaunchBound, TimeoutBound}

// Since is the column that a bound is measured from, and that orders its runs.
func (b Bound) Since(r *schedule.Run) time.Time {
	if b == CancelBound {
		return r.CancelRequestedAt
	}
	return r.TimeoutAt
}

// Until is the latest Since that has passed.
func (b Bound) Until(req *schedule.SweepRequest) time.Time {
	if b == CancelBound {
		return req.Now.Add(-req.CancelWait)
	}
	return req.Now
}

// Candidate is a run in flight that may be past a bound.
type Candidate struct {
	Run    schedule.Run
	Record *schedule.ExecutionRequest // of its key; nil: there is none
}

// Sweep decides which runs end: at most req.Limit, cancels first, then launches,
// then timeouts, the oldest of each first. read gives up to req.Limit runs whose
// Since of the bound has passed, by Since and key, those after the given one; nil:
// from the first. It may leave runs out that another transaction holds.
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

// SweepRun ends a run if it is past a bound. A cancel comes before the others.
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

// pastBound is the bound that a run is past; 0: none.
func pastBound(req *schedule.SweepRequest, r *schedule.Run, record *schedule.ExecutionRequest) Bound {
	now := stored(req.Now)
	launching := r.Status == schedule.StatusLaunching
	// The last bound of a launch, whatever is known of its key. A run of an earlier
	// term is tried once more in this one first.
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

// passed reports whether an instant is set and has come.
func passed(t, now time.Time) bool { return !t.IsZero() && !t.After(now) }

// answered reports whether the outcome of a key is recorded: the next delivery of
// its run settles it.
func answered(record *schedule.ExecutionRequest) bool { return record != nil && record.Done }

// stillTried reports whether something is still done for the launch of a run whose
// time to be launched is over: its outcome is recorded, a call is open, or it may
// have reached the executor and was not yet tried in this term, where an executor
// that can be asked by key is asked.
func stillTried(r *schedule.Run, record *schedule.ExecutionRequest, epoch int64, now time.Time) bool {
	if record == nil {
		return false
	}
	return record.Done || record.LeaseUntil.After(now) || record.Sent && (r.Epoch < epoch || r.ClaimedUntil.After(now))
}

// CancelTimedOut is the event of a run that ended without a confirmed cancel: it
// may still be running, and overlap the next.
func CancelTimedOut(r *schedule.Run) schedule.Event {
	return schedule.Event{
		ScheduleID: r.ScheduleID, Time: r.CompletedAt, Kind: schedule.EventCancelTimedOut, From: r.RunAt, To: r.RunAt, Count: 1,
		Reason: r.Reason, Note: r.Key.String(), Revision: r.Revision,
	}
}
