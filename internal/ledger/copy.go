package ledger

import (
	"slices"
	"strings"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// InFlightSince is since when an admitted run has its place: from its call on, if one was made.
func InFlightSince(claimed, launched time.Time) time.Time {
	if launched.IsZero() {
		return claimed
	}
	return launched
}

// TellsRunTime reports whether an ended run of a queue says how long runs take. claimed is its first
// admission. A cancelled run says nothing, and one that was never admitted either.
func TellsRunTime(s schedule.Status, claimed time.Time) bool {
	return s != schedule.StatusCancelled && !claimed.IsZero()
}

// DropRepeated leaves each run in one place, also if it has moved while the rows were read: one that
// was admitted meanwhile is in flight, any other where it was found first.
func (c *QueueCopy) DropRepeated() {
	seen := make(map[schedule.Key]bool, len(c.Runs)+len(c.Flights))
	repeated := func(r CopiedRun) bool {
		again := seen[r.Key]
		seen[r.Key] = true
		return again
	}
	c.Flights = slices.DeleteFunc(c.Flights, repeated)
	c.Runs = slices.DeleteFunc(c.Runs, repeated)
}

// HeadsOfSets are heads of one run for each of the limit sets of runs, and of more.
func HeadsOfSets(runs []CopiedRun, more []schedule.Limits) (heads []Head) {
	seen := make(map[string]bool)
	add := func(r WaitingRun) {
		if !seen[r.Set] {
			seen[r.Set] = true
			heads = append(heads, Head{Runs: []WaitingRun{r}})
		}
	}
	for i := range runs {
		add(runs[i].WaitingRun)
	}
	for _, limits := range more {
		add(WaitingRun{Set: string(limits), Limits: limits.Refs()})
	}
	return heads
}

// AddElsewhere adds a run that uses a limit, unless it is one of the queue that was copied.
func (c *QueueCopy) AddElsewhere(ref schedule.LimitRef, run CopiedRun) (added bool) {
	if c.Queue != nil && run.QueueNo == c.Queue.No {
		same := func(r CopiedRun) bool { return r.Key == run.Key }
		if run.State.Admitted() || slices.ContainsFunc(c.Runs, same) || slices.ContainsFunc(c.Flights, same) {
			return false
		}
	}
	held := HeldLimit{Ref: ref, Run: run, Waits: !run.State.Admitted()}
	held.Run.State = schedule.QueueRunning
	c.Elsewhere = append(c.Elsewhere, held)
	return true
}

// UsedElsewhere are the limits that something besides the runs and reservations of the copy uses, in
// order.
func (c *QueueCopy) UsedElsewhere() (refs []schedule.LimitRef) {
	own := make(map[schedule.LimitRef]int)
	for i := range c.Flights {
		for _, ref := range c.Flights[i].Limits {
			own[ref]++
		}
	}
	for i := range c.Runs {
		for _, ref := range c.Runs[i].Kept {
			own[ref]++
		}
	}
	for i := range c.Reserved {
		if r := &c.Reserved[i]; r.Granted() {
			for _, ref := range r.Limits.Refs() {
				own[ref]++
			}
		}
	}
	for ref, l := range c.Limits {
		if l.Used > own[ref] {
			refs = append(refs, ref)
		}
	}
	slices.SortFunc(refs, func(a, b schedule.LimitRef) int { return strings.Compare(a.String(), b.String()) })
	return refs
}
