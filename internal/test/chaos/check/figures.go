package check

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/carillon/carillon/internal/test/chaos/record"
)

// Figure is a distribution of times.
type Figure struct {
	Name   string          `json:"name"`
	Values []time.Duration `json:"values"` // sorted
}

// String is what a summary prints.
func (f Figure) String() string {
	return fmt.Sprintf("%-34s n %4d  median %8s  p99 %8s  max %8s", f.Name, len(f.Values), f.At(50), f.At(99), f.At(100))
}

// At is the nearest-rank percentile.
func (f Figure) At(percent int) time.Duration {
	if len(f.Values) == 0 {
		return 0
	}
	place := (len(f.Values)*percent + 99) / 100
	return f.Values[max(0, place-1)].Round(100 * time.Microsecond)
}

// Probe begins the ids of the schedules whose lateness is measured: they
// overlap freely, and together something of them is due every few milliseconds.
const Probe = "probe-"

// lateEnoughToCount: a slot launched later than this after its fire_at counts
// as late.
const lateEnoughToCount = 250 * time.Millisecond

func (c *checker) figures() {
	var calls []record.Executor
	for _, line := range c.Executor {
		if line.Kind == record.Call && line.Number == 1 {
			calls = append(calls, line)
		}
	}
	figures := make(map[string][]time.Duration)
	var faults []record.Fault
	for _, f := range c.Faults {
		if f.Kind != record.Clock && f.Kind != record.Stopped {
			faults = append(faults, f)
		}
	}
	c.report.Counts.Faults = len(faults)
	for i, f := range faults {
		c.report.Struck[f.Kind]++
		if f.Leader && strings.HasPrefix(f.Kind, "kill") {
			c.report.Counts.Kills++
		}
		if f.Leader && strings.HasPrefix(f.Kind, "stop") {
			c.report.Counts.Pauses++
		}
		figures["takeover after "+f.Kind] = append(figures["takeover after "+f.Kind], c.takeovers(f, calls)...)
		next := c.stopped
		if i+1 < len(faults) {
			next = faults[i+1].Began
		}
		if took, measured := c.recovery(f, next, calls); measured {
			figures["on time again after "+f.Kind] = append(figures["on time again after "+f.Kind], took)
		}
		if late := c.lateness(calls, func(r record.Run, _ time.Time) bool { return !r.FireAt.Before(f.Began) && r.FireAt.Before(next) }); len(late) > 0 {
			figures["latest slot after "+f.Kind] = append(figures["latest slot after "+f.Kind], slices.Max(late))
		}
	}
	figures["lateness"] = c.lateness(calls, func(record.Run, time.Time) bool { return true })
	figures["lateness 5 s after a fault"] = c.lateness(calls, func(_ record.Run, called time.Time) bool { return settled(called, faults) })
	for name, values := range figures {
		if len(values) == 0 {
			continue
		}
		slices.Sort(values)
		c.report.Figures = append(c.report.Figures, Figure{name, values})
	}
	slices.SortFunc(c.report.Figures, func(a, b Figure) int { return strings.Compare(a.Name, b.Name) })
}

// takeovers is the time from a fault to the next slot launched, for each shard
// that was hit: of a newer epoch if its leader was; from when the database is
// back if that was away.
func (c *checker) takeovers(f record.Fault, calls []record.Executor) (took []time.Duration) {
	from := f.Began
	if !f.Leader {
		if f.Ended.IsZero() || !strings.HasPrefix(f.Kind, "restart") {
			return nil
		}
		from = f.Ended
	}
	hit := f.Shards
	if len(hit) == 0 || !f.Leader {
		hit = []int{0}
	}
	for _, shard := range hit {
		for _, call := range calls {
			mine := !f.Leader || call.Epoch > f.Epoch && c.shardOf(c.ledger[call.Key].Bucket) == shard
			if call.At.After(from) && mine {
				took = append(took, call.At.Sub(from))
				break
			}
		}
	}
	return took
}

// recovery is how long after a fault's end slots are still late; one in a
// hundred may be.
func (c *checker) recovery(f record.Fault, next time.Time, calls []record.Executor) (time.Duration, bool) {
	end := later(f.Began, f.Ended)
	var late []time.Duration // after the end
	seen := 0
	for _, call := range calls {
		r := c.ledger[call.Key]
		if !strings.HasPrefix(r.ScheduleID, Probe) || r.FireAt.Before(f.Began) || !r.FireAt.Before(next) || r.Trigger != "schedule" {
			continue
		}
		seen++
		if call.At.Sub(r.FireAt) > lateEnoughToCount {
			late = append(late, max(0, call.At.Sub(end)))
		}
	}
	if seen == 0 {
		return 0, false
	}
	slices.Sort(late)
	if excused := seen / 100; excused < len(late) {
		return late[len(late)-1-excused], true
	}
	return 0, true
}

// lateness is how late the probes' slots were that count.
func (c *checker) lateness(calls []record.Executor, counts func(r record.Run, called time.Time) bool) []time.Duration {
	var late []time.Duration
	for _, call := range calls {
		if r := c.ledger[call.Key]; strings.HasPrefix(r.ScheduleID, Probe) && r.Trigger == "schedule" && counts(r, call.At) {
			late = append(late, call.At.Sub(r.FireAt))
		}
	}
	return late
}

// settled: no fault was going on within the five seconds before.
func settled(at time.Time, faults []record.Fault) bool {
	const rest = 5 * time.Second
	return !slices.ContainsFunc(faults, func(f record.Fault) bool {
		return !at.Before(f.Began) && at.Before(later(f.Began, f.Ended).Add(rest))
	})
}
