package ledger

import (
	"fmt"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/schedule/describe"
)

const (
	// MaxCopied is how many runs of a queue an estimate copies.
	MaxCopied = 10_000
	// estimateWithin is how far an estimate looks ahead.
	estimateWithin = 366 * 24 * time.Hour
)

// CopiedRun is an open run of a queue as an estimate sees it.
type CopiedRun struct {
	WaitingRun
	FairKey  string // what it counts for in a fair queue
	QueueNo  int32
	Workflow string
	State    schedule.QueueState
	Ready    time.Time // its start is not earlier
	GroupNo  int32
	Seq      int32     // in the group
	Began    time.Time // of an admitted one: since when it is in flight
}

// HeldLimit is a use of a limit by a run or a reservation of another queue.
type HeldLimit struct {
	Ref   schedule.LimitRef
	Run   CopiedRun // the run
	Waits bool      // the run keeps the limit and has not started again: when it gives it back is unknown
	Until time.Time // of a reservation: it ends then
}

// QueueCopy is a queue with its open runs, as an estimate needs it.
type QueueCopy struct {
	QueueFacts             // Limits are those of all runs; without heads
	Runs       []CopiedRun // not admitted: those that wait, in order, then delayed and chained ones
	More       bool        // there are others
	Flights    []CopiedRun
	Elsewhere  []HeldLimit
	UsesCut    map[schedule.LimitRef]bool // not all uses of these limits are in Elsewhere
	Ended      []RunTime                  // newest first, also of the queues of Elsewhere
}

// Estimate is when a waiting run would start if nothing came before it.
type Estimate struct {
	P50, P90 time.Time // zero: it is unknown
	Assumes  []string  // what it takes for granted; without a time the first says why there is none
}

// Known reports whether there is a time.
func (e *Estimate) Known() bool { return !e.P50.IsZero() }

// NoEstimate says why a start cannot be estimated.
func NoEstimate(why string) Estimate { return Estimate{Assumes: []string{why}} }

// EstimateStart estimates when a waiting run of the copy starts: it plays the admissions of the queue
// twice, with the medians of the last run times and with their 90th percentiles. spend counts the work;
// false ends it.
func EstimateStart(c *QueueCopy, key schedule.Key, now time.Time, spend func(steps int) bool) Estimate {
	stop := slices.IndexFunc(c.Runs, func(r CopiedRun) bool { return r.Key == key })
	if stop < 0 {
		return NoEstimate(fmt.Sprintf("No estimate of its start: more than %d runs of the queue come before it", MaxCopied))
	}
	if c.stall().Level > 0 {
		return NoEstimate("No estimate of its start: it is not known when the executor can be reached again")
	}
	times := NewRunTimes(c.Ended)
	var out Estimate
	starts := [2]time.Time{}
	for i, q := range [2]float64{0.5, 0.9} {
		p := c.Play(now, func(r *CopiedRun) (time.Duration, bool) { return times.Of(r, now, q) })
		p.Stop, p.Until, p.Spend = stop, now.Add(estimateWithin), spend
		p.Play()
		if starts[i] = p.Runs[stop].Started; starts[i].IsZero() {
			return NoEstimate("No estimate of its start: " + c.noStart(p))
		}
	}
	out.P50, out.P90 = starts[0], schedule.Later(starts[0], starts[1])
	out.Assumes = c.assumes(times, &c.Runs[stop], now)
	return out
}

// Of is At or Left of a run, by whether it is in flight.
func (t *RunTimes) Of(r *CopiedRun, now time.Time, q float64) (took time.Duration, known bool) {
	if r.State.Admitted() {
		return t.Left(r.QueueNo, r.Workflow, now.Sub(r.Began), q)
	}
	return t.At(r.QueueNo, r.Workflow, q)
}

// Play is the play of a copy from now on. takes says how long a run is in flight, or how much longer;
// known = false: it is not known.
func (c *QueueCopy) Play(now time.Time, takes func(*CopiedRun) (took time.Duration, known bool)) *Play {
	p := &Play{Facts: c.QueueFacts, Now: now, Stop: -1}
	used := make(map[schedule.LimitRef]int)
	for _, runs := range [][]CopiedRun{c.Runs, c.Flights} {
		for i := range runs {
			r := &runs[i]
			played := PlayedRun{WaitingRun: r.WaitingRun, FairKey: r.FairKey, State: r.State, Ready: r.Ready, GroupNo: r.GroupNo, Seq: r.Seq}
			took, known := takes(r)
			played.Takes, played.Unknown = took, !known
			p.Runs = append(p.Runs, played)
			for _, ref := range r.Limits {
				if r.State.Admitted() || slices.Contains(r.Kept, ref) {
					used[ref]++
				}
			}
		}
	}
	for i := range c.Reserved {
		if r := &c.Reserved[i]; r.Granted() && !r.Over(now) {
			for _, ref := range r.Limits.Refs() {
				used[ref]++
			}
		}
	}
	for i := range c.Elsewhere {
		h := &c.Elsewhere[i]
		used[h.Ref]++
		use := PlayedUse{Limits: []schedule.LimitRef{h.Ref}, From: now, Until: h.Until}
		if h.Until.IsZero() && !h.Waits {
			if left, known := takes(&h.Run); known {
				use.Until = now.Add(left)
			}
		}
		p.Uses = append(p.Uses, use)
	}
	// The rows were not read at one instant: the runs are what counts, of the queue and of its limits.
	p.Facts.InFlight = len(c.Flights)
	p.Facts.Limits = make(map[schedule.LimitRef]*LimitNow, len(c.Limits))
	for ref, l := range c.Limits {
		own := *l
		if !c.UsesCut[ref] { // a run that was admitted before the limit was made does not use it
			own.Used = min(own.Used, used[ref])
		}
		p.Facts.Limits[ref] = &own
	}
	return p
}

// noStart says why a play has no start of its run.
func (c *QueueCopy) noStart(p *Play) string {
	r := &p.Runs[p.Stop]
	b := p.Last
	switch {
	case p.Spent:
		return "the runs that come before it take too much work to play"
	case !p.Stuck:
		return "it would not start within a year"
	case r.State == schedule.QueueChained:
		return "it is not known how long the members of its group that come before it take"
	case b == nil:
		return "it is not known what lets it start"
	case b.What == BlockedByPause:
		return "the queue is paused until somebody resumes it"
	case b.What == BlockedByLimit && b.Max == 0:
		return fmt.Sprintf("limit %s allows no run", b.Limit)
	case b.What == BlockedByLimit && slices.ContainsFunc(c.Elsewhere, func(h HeldLimit) bool { return h.Waits && h.Ref == b.Limit }):
		return fmt.Sprintf("limit %s is kept by a run that is to be tried again, and it is not known when that ends", b.Limit)
	case b.What == BlockedByLimit:
		return fmt.Sprintf("limit %s is full, and it is not known how long the runs take that use it: no run of their queue has ended yet", b.Limit)
	}
	return "it is not known how long the runs take that come before it: no run of the queue has ended yet"
}

// assumes is what an estimate takes for granted.
func (c *QueueCopy) assumes(times *RunTimes, r *CopiedRun, now time.Time) (texts []string) {
	say := func(format string, args ...any) { texts = append(texts, fmt.Sprintf(format, args...)) }
	if c.Queue != nil && c.Queue.Pulled() {
		say("Nothing comes before it that is not in the queue now")
		say("Workers fetch its runs as soon as they may start")
	} else {
		say("Nothing comes before it that is not in the queue now, and a launcher has free calls")
	}
	if own := times.ofWorkflow[workflowIn{r.QueueNo, r.Workflow}]; len(own) > 0 {
		say("Runs take as long as the last ones of their workflow in this queue: %s of %s", describe.Count(len(own), "run"), r.Workflow)
	} else if all := times.ofQueue[r.QueueNo]; len(all) > 0 {
		say("Runs take as long as the last ones of their workflow in this queue; a workflow without an ended run as long as the last %s of the queue", describe.Count(len(all), "run"))
	}
	if stall := c.stall(); stall.Until.After(now) {
		say("The executor takes work again at %s", describe.Instant(stall.Until))
	}
	if len(c.Reserved) > 0 {
		say("Each reservation is held for its whole time")
	}
	if len(r.Limits) > 0 {
		say("No run of another queue that still waits takes its limits first")
	}
	if r.State == schedule.QueueChained {
		say("The members of its group that come before it succeed")
	}
	if c.Queue != nil && c.Queue.ExpiresMS > 0 {
		say("No run before it expires")
	}
	if c.More {
		say("Of the runs of the queue only the first %d count", MaxCopied)
	}
	return texts
}
