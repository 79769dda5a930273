package registrar

import (
	"fmt"
	"time"

	"github.com/carillon/carillon/internal/plan"
	"github.com/carillon/carillon/internal/schedule"
)

// resolveExpect defaults alert_after if there is any expectation.
func resolveExpect(e schedule.Expect) schedule.Expect {
	if len(e.Kinds()) > 0 || e.OnFailure != "" {
		e.AlertAfter = max(e.AlertAfter, 1)
	}
	return e
}

// checkExpect refuses limits out of bounds and limits that no run could meet.
func (r *Registrar) checkExpect(c *schedule.Collect, d *schedule.Definition) {
	e := d.Expect
	if e == (schedule.Expect{}) {
		return
	}
	if len(e.Kinds()) == 0 && e.OnFailure == "" {
		c.Note("expect", "has no expectation", "set start_within_ms, finish_within_ms, success_every_ms or on_failure, or leave expect out")
		return
	}
	within(c, "expect.start_within_ms", e.StartWithinMS, schedule.MinExpectation, schedule.MaxExpectWithin)
	within(c, "expect.finish_within_ms", e.FinishWithinMS, schedule.MinExpectation, schedule.MaxExpectWithin)
	within(c, "expect.success_every_ms", e.SuccessEveryMS, schedule.MinExpectation, schedule.MaxSuccessEvery)
	within(c, "expect.remind_every_ms", e.RemindEveryMS, schedule.MinRemindEvery, schedule.MaxSuccessEvery)
	if e.OnFailure != "" && e.OnFailure != schedule.OnFailureAlert && e.OnFailure != schedule.OnFailureIgnore {
		c.Add("expect.on_failure", e.OnFailure, "is neither alert nor ignore", "leave it out for what DEFAULT_EXPECT says")
	}
	if e.AlertAfter > schedule.MaxAlertAfter {
		c.Add("expect.alert_after", e.AlertAfter, fmt.Sprintf("is over %d", schedule.MaxAlertAfter), "")
	}
	checkSlotLimits(c, d)
	if e.SuccessEveryMS > 0 {
		r.checkSuccessEvery(c, d)
	}
}

func within(c *schedule.Collect, field string, ms uint32, least, most time.Duration) {
	if at := time.Duration(ms) * time.Millisecond; ms != 0 && (at < least || at > most) {
		c.Add(field, ms, fmt.Sprintf("is not within %s to %s", schedule.Milliseconds(least), schedule.Milliseconds(most)), "")
	}
}

// checkSlotLimits checks the two limits that apply to each slot.
func checkSlotLimits(c *schedule.Collect, d *schedule.Definition) {
	start, finish := d.Expect.StartWithinMS, d.Expect.FinishWithinMS
	byHand := d.ByHand()
	for _, l := range []struct {
		field string
		ms    uint32
	}{{"expect.start_within_ms", start}, {"expect.finish_within_ms", finish}} {
		switch {
		case l.ms == 0:
		case byHand:
			c.Add(l.field, l.ms, "is measured from run_at, which a manual schedule does not have", "set success_every_ms, or cron_expr, interval_ms or once_at")
		case l.ms <= d.JitterMS:
			c.Add(l.field, l.ms, fmt.Sprintf("is not over jitter_ms %s, the latest start after run_at", schedule.Milliseconds(time.Duration(d.JitterMS)*time.Millisecond)), "allow for jitter and start time")
		}
	}
	if start > 0 && finish > 0 && finish < start {
		c.Add("expect.finish_within_ms", finish, fmt.Sprintf("is below start_within_ms %s: both count from run_at", schedule.Milliseconds(time.Duration(start)*time.Millisecond)), "")
	}
}

// checkSuccessEvery refuses a limit shorter than a gap in the rule.
func (r *Registrar) checkSuccessEvery(c *schedule.Collect, d *schedule.Definition) {
	const field = "expect.success_every_ms"
	limit := d.Expect.Limit(schedule.ExpectSuccess)
	switch {
	case !d.OnceAt.IsZero():
		c.Add(field, d.Expect.SuccessEveryMS, "does not apply to a single run", "set finish_within_ms")
		return
	case d.CronExpr == "" && d.IntervalMS == 0:
		return
	}
	now := r.now()
	tt, err := plan.NewTimetable(d, now, now)
	if err != nil {
		return // the rule itself is refused
	}
	if from, until, ok := tt.Gap(now, now.AddDate(1, 0, 0), limit); ok {
		c.Add(field, d.Expect.SuccessEveryMS, fmt.Sprintf("is not over the time from the slot of %s to the next, %s (%s)",
			from.Format(time.RFC3339), until.Format(time.RFC3339), schedule.ShortDuration(until.Sub(from))),
			"allow for the longest gap and the run duration")
	}
}
