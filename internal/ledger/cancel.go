package ledger

import (
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// CancelOrder says which of the found runs a cancel is meant for.
type CancelOrder struct {
	Named   bool // the runs are named by their keys
	Waiting bool // only runs that wait in a dispatch queue
	Now     time.Time
}

// Cancelled is what a cancel of many runs does to the found ones, in their order.
type Cancelled struct {
	Change schedule.CancelChange
	Ended  []schedule.Run // as found
	Asked  []schedule.Run // in flight: the executor is asked
}

// CancelEach decides what a cancel does to each of the found runs; see RequestCancel. It passes over
//
//   - runs that have ended since they were listed,
//   - runs whose cancel was requested before, so that a repeat counts none twice,
//   - slots that are still to come, unless they are named: they would be a few of many, and only a
//     pause stops the others.
func CancelEach(found []schedule.Run, o *CancelOrder) Cancelled {
	c := Cancelled{Change: schedule.CancelChange{Reason: schedule.ReasonCancelled, Now: o.Now}}
	for i := range found {
		r := &found[i]
		waits := r.Queue.In() && r.Stage() == schedule.StatusPlanned
		ahead := r.Status == schedule.StatusPlanned && !r.Queue.In() && r.RunAt.After(o.Now)
		if o.Waiting && !waits || ahead && !o.Named {
			continue
		}
		end, request, _ := RequestCancel(r, schedule.ReasonCancelled, o.Now)
		switch {
		case end != nil:
			c.Change.End, c.Ended = append(c.Change.End, *end), append(c.Ended, *r)
		case request != "" && r.CancelRequestedAt.IsZero():
			c.Change.Ask, c.Asked = append(c.Change.Ask, r.Key), append(c.Asked, *r)
		}
	}
	return c
}
