package schedule

import (
	"fmt"
	"time"
)

// QueueExpect is what a queue promises. The zero value promises nothing.
type QueueExpect struct {
	WaitWithinMS uint32  `json:"wait_within_ms,omitempty"` // no run waits for longer once it may start; 0: not promised
	DeadAtMost   *uint32 `json:"dead_at_most,omitempty"`   // so many dead runs; nil: not promised
}

// MaxDeadAtMost bounds dead_at_most.
const MaxDeadAtMost = 100_000

// deadBeyond is how many dead runs beyond the promised ones are counted.
const deadBeyond = 1000

// Equal reports whether the promises are the same.
func (e QueueExpect) Equal(o QueueExpect) bool {
	same := e.DeadAtMost == o.DeadAtMost
	if e.DeadAtMost != nil && o.DeadAtMost != nil {
		same = *e.DeadAtMost == *o.DeadAtMost
	}
	return e.WaitWithinMS == o.WaitWithinMS && same
}

func (e QueueExpect) check(c *Collect) {
	checkBound(c, "expect.wait_within_ms", e.WaitWithinMS, "leave it out to promise nothing about waits")
	if n := e.DeadAtMost; n != nil && *n > MaxDeadAtMost {
		c.Add("expect.dead_at_most", *n, fmt.Sprintf("is above %d", MaxDeadAtMost), "leave it out to promise nothing about dead runs")
	}
}

// CountsDead is how far the dead runs of the queue are counted for its promise; 0: it has none.
func (e QueueExpect) CountsDead() int {
	if e.DeadAtMost == nil {
		return 0
	}
	return int(*e.DeadAtMost) + deadBeyond
}

// QueuePromise is a promise of a queue, and whether it is kept.
type QueuePromise struct {
	Field string // of QueueExpect, as its JSON form names it
	Kept  bool
	Says  string
}

// WaitsTooLong reports whether a run that waits since an instant has waited at another one for longer
// than promised. No run waits since the zero time.
func (e QueueExpect) WaitsTooLong(since, at time.Time) bool {
	limit := millis(e.WaitWithinMS)
	return limit > 0 && !since.IsZero() && at.Sub(since) > limit
}

// Promises are the promises of the queue at the instant at which its runs were read. since is when
// the run that waits longest could have started, zero if none waits, and dead how many runs are dead,
// counted as CountsDead says.
func (e QueueExpect) Promises(since time.Time, dead int, at time.Time) (promises []QueuePromise) {
	if limit := millis(e.WaitWithinMS); limit > 0 {
		p := QueuePromise{Field: "wait_within_ms", Kept: true, Says: fmt.Sprintf("no run has waited for more than %s", ShortDuration(limit))}
		if e.WaitsTooLong(since, at) {
			p.Kept, p.Says = false, fmt.Sprintf("a run has waited for %s, promised are at most %s", ShortDuration(at.Sub(since).Truncate(time.Second)), ShortDuration(limit))
		}
		promises = append(promises, p)
	}
	if e.DeadAtMost != nil {
		count := fmt.Sprint(dead)
		if dead >= e.CountsDead() {
			count += " or more"
		}
		p := QueuePromise{Field: "dead_at_most", Kept: dead <= int(*e.DeadAtMost), Says: fmt.Sprintf("dead runs: %s, promised are at most %d", count, *e.DeadAtMost)}
		promises = append(promises, p)
	}
	return promises
}
