package check

import (
	"slices"
	"time"

	"github.com/carillon/carillon/internal/test/chaos/record"
)

// stretch is a run's time in flight as the executor saw it: from its first
// call until the first definite word on its end left.
type stretch struct {
	row         record.Run
	from, until time.Time
}

// overlap is I5 and I6: no two runs of one overlap key are in flight together, waiting
// runs start in order, and each slot skipped for an overlap had one.
func (c *checker) overlap() {
	groups := make(map[string][]record.Run)
	for _, r := range c.Runs {
		groups[r.OverlapKey] = append(groups[r.OverlapKey], r)
	}
	for _, rows := range groups {
		c.disjoint(rows)
		c.trueSkips(rows)
	}
	for _, rows := range c.rows {
		c.inOrder(rows)
	}
}

func (c *checker) disjoint(rows []record.Run) {
	var flights []stretch
	for _, r := range rows {
		if e := c.effects[r.Key]; e != nil && r.Overlap != "allow" {
			flights = append(flights, stretch{r, e.first(), until(r, e)})
		}
	}
	slices.SortFunc(flights, func(a, b stretch) int { return a.from.Compare(b.from) })
	var longest stretch
	for _, now := range flights {
		// One that was given up as lost while its call was on its way begins late.
		late := now.row.Reason == "lost" && !now.until.After(now.from)
		if now.from.Before(longest.until) && !late && !c.cancelTimedOut(longest.row) {
			c.violate("I5", now.row, "its first call came at %s, while another run was in flight from %s until %s: %s",
				clock(now.from), clock(longest.from), clock(longest.until), describe(longest.row))
		}
		if now.until.After(longest.until) {
			longest = now
		}
	}
}

// until is when a run was over: when the executor said so, or when a bound
// ended it before.
func until(r record.Run, e *effect) time.Time {
	end := e.said
	bounded := r.Reason == "timeout" || r.Reason == "lost" || r.Reason == "launch_unavailable"
	if bounded && (end.IsZero() || r.CompletedAt.Before(end)) {
		end = r.CompletedAt
	}
	if end.IsZero() {
		end = r.CompletedAt // cancelled before the executor had begun with it
	}
	return end
}

// cancelTimedOut: the schedule's log says that an overlap is possible.
func (c *checker) cancelTimedOut(r record.Run) bool {
	return slices.ContainsFunc(c.events[r.ScheduleID], func(e record.Event) bool {
		return e.Kind == "cancel_timed_out" && e.From.Equal(r.RunAt)
	})
}

// skipSlack is how far the instant at which a run ended may lie from that at
// which its end was committed and seen.
const skipSlack = time.Second

func (c *checker) trueSkips(rows []record.Run) {
	for _, skipped := range rows {
		if skipped.Reason != "overlap" {
			continue
		}
		// It was judged between these two: a process that is stopped meanwhile takes its time.
		from, until := skipped.CompletedAt, c.ended(skipped)
		if c.Settings.Store == "sqlite" {
			until = until.Add(skipSlack) // the commit comes after this write
		}
		if !slices.ContainsFunc(rows, func(r record.Run) bool {
			return r.Key != skipped.Key && r.Epoch > 0 && !c.begun(r).After(until) && c.ended(r).After(from.Add(-skipSlack-c.rose))
		}) {
			c.report.Counts.WrongSkips++
			c.violate("I6", skipped, "it was skipped at %s, when nothing else was in flight", clock(from))
		}
	}
}

// begun is from when on a run counts as in flight: its claim, which may come before its fire_at.
func (c *checker) begun(r record.Run) time.Time {
	if at, known := c.claimed[r.Key]; known {
		return at
	}
	return r.FireAt.Add(-arming)
}

// ended is when the end of a run was committed, and could be seen: completed_at is what the writer
// believed when it began to write, and that may take its time.
func (c *checker) ended(r record.Run) time.Time { return later(r.CompletedAt, c.endings[r.Key]) }

// inOrder: the queued runs of one schedule start in order of fire_at. Slots planned by an
// edit come after runs that were claimed before it.
func (c *checker) inOrder(rows []record.Run) {
	var started []stretch
	for _, r := range rows {
		if e := c.effects[r.Key]; e != nil && r.Overlap == "queue" && r.Trigger == "schedule" {
			started = append(started, stretch{row: r, from: e.first()})
		}
	}
	slices.SortStableFunc(started, func(a, b stretch) int { return a.from.Compare(b.from) })
	for i := 1; i < len(started); i++ {
		before := started[i-1].row
		if started[i].row.FireAt.Before(before.FireAt) && !c.planned[started[i].row.Key].After(c.claimed[before.Key]) {
			c.violate("I5", started[i].row, "it was queued before %s, and started after it", describe(before))
		}
	}
}
