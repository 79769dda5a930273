package check

import (
	"time"

	"github.com/carillon/carillon/internal/test/chaos/record"
)

// tolerance is what clocks of one machine may differ by, in their rounding.
const tolerance = time.Millisecond

var rank = map[string]int{"PLANNED": 0, "LAUNCHING": 1, "ENQUEUED": 2, "STARTED": 3, "SUCCESS": 4, "FAILED": 4, "SKIPPED": 4, "CANCELLED": 4}

const terminal = 4

// row checks a row by itself and against what the executor knows of its key.
func (c *checker) row(r record.Run) {
	e := c.effects[r.Key]
	if rank[r.Status] != terminal {
		c.violate("I1", r, "it has not ended")
	}
	if r.Trigger == "schedule" || r.Trigger == "catchup" {
		if want := slotKey(r.ScheduleID, r.RunAt); r.Key != want {
			c.violate("I2", r, "its key is not sha256 of schedule_id:epoch_seconds, %s", want)
		}
		c.placed(r)
	}
	if !r.LaunchedAt.IsZero() && r.LaunchedAt.Before(r.FireAt) {
		c.violate("I4", r, "launched_at is before fire_at")
	}
	if late := r.CompletedAt.Sub(later(r.FireAt, r.RunAt)); r.Reason == "missed" && late <= c.Settings.Grace-tolerance {
		c.report.Counts.WrongSkips++
		c.violate("I6", r, "it is missed after %s, within the grace of %s", late, c.Settings.Grace)
	}
	c.words(r, e)
}

// placed is I4's second half: fire_at is the documented jittered instant, the same for
// each planner.
func (c *checker) placed(r record.Run) {
	l := c.lives[r.ScheduleID]
	if l == nil {
		c.violate("I3", r, "nobody registered its schedule")
		return
	}
	def := l.revisions[r.Revision]
	if def == nil {
		return // of an edit whose answer nobody saw
	}
	jitter := time.Duration(def.JitterMS) * time.Millisecond
	off := r.FireAt.Sub(r.RunAt)
	if off < -jitter || r.Trigger == "schedule" && off > jitter {
		c.violate("I4", r, "fire_at is %s off run_at; jitter_ms is %d", off, def.JitterMS)
		return
	}
	clamped := l.changedNear(r.RunAt, jitter+time.Second) ||
		!def.EndAt.IsZero() && def.EndAt.Sub(r.RunAt) <= jitter || !def.StartAt.IsZero() && r.RunAt.Sub(def.StartAt) <= jitter
	if want := jittered(def, r.RunAt); r.Trigger == "schedule" && !clamped && names(def, l.anchor, r.RunAt) && !r.FireAt.Equal(want) {
		c.violate("I4", r, "fire_at is not the jittered instant that its key gives, %s", clock(want))
	}
}

// words: what the row says is what the executor knows.
func (c *checker) words(r record.Run, e *effect) {
	ended := e != nil && e.status != ""
	switch {
	case r.Status == "SKIPPED" && e != nil:
		c.report.Counts.WrongSkips++
		c.violate("I3", r, "it is SKIPPED, and the executor was called")
	case r.Status == "SUCCESS" && (!ended || e.status != "SUCCESS"):
		c.violate("I2", r, "the executor does not know of this success")
	case r.Reason == "workflow_failed" && (!ended || e.status != "FAILED") && (e == nil || !e.cancelled):
		c.violate("I2", r, "the executor does not know of this failure")
	case r.Reason == "launch_refused" && (e == nil || !e.refused):
		c.violate("I2", r, "the executor did not refuse it")
	case r.Status == "CANCELLED" && r.Reason == "replaced" && r.Overlap != "replace":
		c.violate("I3", r, "only a replacing run can end so")
	case r.Reason == "timeout" || r.Reason == "lost" || r.Reason == "launch_unavailable":
		c.givenUp(r)
	}
}

// givenUp: no run of the workload lasts as long as the bounds, a report is
// repeated until it is taken, and what a crash left open is asked for again; so
// only an outage explains it, or a pause that forbids to ask. So does a cancel,
// from when it was requested: a launch that has no answer is then not repeated. It
// does not explain a run that the executor accepted and never reported.
func (c *checker) givenUp(r record.Run) {
	if l := c.lives[r.ScheduleID]; l != nil && l.restedBetween(r.FireAt.Add(-arming), r.CompletedAt) {
		return
	}
	if !c.explained(r.FireAt.Add(-arming), r.CompletedAt, r.CancelAsked, r.Reason) {
		c.violate("I12", r, "it was given up without an outage that explains it")
	}
}

// explained reports whether outages and a cancel explain that a run was given up.
func (c *checker) explained(from, completed, cancelAsked time.Time, reason string) bool {
	lasted := c.broken(from, completed) + c.rose
	if !cancelAsked.IsZero() && reason != "timeout" {
		lasted += completed.Sub(cancelAsked)
	}
	return lasted >= c.Settings.RunTimeout/2
}

// executor is I2, I3, I4 and I8: each call has a row, and does not come early, late after
// a stop, twice in effect, or changed.
func (c *checker) executor() {
	for key, e := range c.effects {
		c.report.Counts.Redelivered += len(e.calls) - 1
		if e.begun > 1 {
			c.report.Counts.Doubled++
			c.violate("I2", c.ledger[key], "it took effect %d times", e.begun)
		}
		r, known := c.ledger[key]
		if !known {
			c.violate("I8", record.Run{Key: key, ScheduleID: e.scheduleID, RunAt: e.calls[0].ScheduledFor}, "the executor was called, and there is no row")
			continue
		}
		if e.scheduleID != r.ScheduleID || !e.calls[0].ScheduledFor.Truncate(time.Second).Equal(r.RunAt.Truncate(time.Second)) {
			c.violate("I2", r, "the executor was called for %s at %s under this key", e.scheduleID, clock(e.calls[0].ScheduledFor))
		}
		for i, got := range e.calls {
			c.call(r, e, i, got)
		}
	}
	for _, line := range c.Executor {
		if line.Kind == record.Wrong {
			c.report.Violations = append(c.report.Violations, Violation{Invariant: "I2", At: line.At, Key: line.Key, Text: "the executor saw: " + line.Text})
		}
	}
}

// sloppiness is for comparisons of the executor's clock with the ledger's that
// need no precision.
const sloppiness = time.Second

func (c *checker) call(r record.Run, e *effect, i int, got record.Executor) {
	if early := r.FireAt.Sub(got.At); early > tolerance+c.fell {
		c.report.Counts.Early++
		c.violate("I4", r, "call %d came at %s, %s before fire_at", i+1, clock(got.At), early)
	}
	if l := c.lives[r.ScheduleID]; l != nil {
		allowed := time.Second + slack + c.rose + c.fell + c.stall
		if since, quiet := l.quietAt(got.At, r.Trigger); quiet && got.At.After(since.Add(allowed)) {
			c.violate("I3", r, "call %d came at %s, more than a second after the answer to a pause or deletion at %s", i+1, clock(got.At), clock(since))
		}
	}
	if i == 0 {
		if !r.CompletedAt.IsZero() && got.At.After(r.CompletedAt.Add(sloppiness+c.rose+c.stall)) {
			c.violate("I3", r, "its first call came at %s, after its end", clock(got.At))
		}
		return
	}
	if got.Body != e.calls[0].Body {
		c.violate("I2", r, "call %d is another request than the first", i+1)
	}
}
