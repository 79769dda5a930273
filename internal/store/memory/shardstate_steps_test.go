package memory_test

import (
	"fmt"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

func draw[T any](w *shardWorld, name string, of ...T) T { return rapid.SampledFrom(of).Draw(w.T, name) }

// steps are what happens between two passes.
var shardSteps = map[string]func(*shardWorld){
	"clock": func(w *shardWorld) {
		w.now = w.now.Add(draw(w, "step", time.Millisecond, 200*time.Millisecond, time.Second, time.Second, 3*time.Second, 8*time.Second, 70*time.Second))
	},
	"plan":     (*shardWorld).plan,
	"plan 2":   (*shardWorld).plan, // it comes more often
	"edit":     func(w *shardWorld) { w.edit(rapid.IntRange(0, shardNames-1).Draw(w.T, "schedule")) },
	"pause":    (*shardWorld).pause,
	"delete":   (*shardWorld).deleteOne,
	"trigger":  (*shardWorld).trigger,
	"report":   (*shardWorld).report,
	"report 2": (*shardWorld).report,
	"report 3": (*shardWorld).report,
	"cancel":   (*shardWorld).cancel,
	"backoff":  (*shardWorld).backoff,
	"retry":    (*shardWorld).retry,
	"revoke": func(w *shardWorld) {
		_, err := w.store.RevokeGrant(w.ctx, schedule.GrantRevocation{
			Grant: schedule.GrantRef{UserID: draw(w, "owner", "ada", "bob", "eve"), GrantID: draw(w, "grant", "g0", "g2")}, At: w.now,
		})
		w.must(err)
	},
	"sweep": (*shardWorld).sweep,
	"defect": func(w *shardWorld) {
		if draw(w, "defect", true, false, false, false) {
			w.remember()
		}
	},
	"takeover": func(w *shardWorld) {
		if draw(w, "takes over", true, false, false, false) {
			w.made++
			w.takeOver()
		}
	},
	"clock set back": func(w *shardWorld) {
		if draw(w, "set back", true, false, false, false) {
			w.now = w.now.Add(-draw(w, "back", 10*time.Millisecond, time.Second))
		}
	},
}

func (w *shardWorld) scheduleID(i int) string { return fmt.Sprint("s", i) }

func (w *shardWorld) change(c schedule.Change) {
	c.Now = w.now
	w.must(w.store.ChangeSchedules(w.ctx, schedule.ChangeRequest{ScheduleIDs: []string{c.ScheduleID}}, func([]schedule.ChangeInput) ([]schedule.Change, error) {
		return []schedule.Change{c}, nil
	}))
}

// edit makes a schedule, or a new revision of it that takes its planned slots
// away.
func (w *shardWorld) edit(i int) {
	id := w.scheduleID(i)
	owner := []string{"ada", "bob", "eve", "ada", "bob"}[i]
	d := schedule.Definition{
		ScheduleID: id, UserID: owner, WorkflowID: draw(w, "workflow", "flow", "flow", "flow", "else"), Version: 1,
		OverlapPolicy: draw(w, "policy", schedule.OverlapPolicies...), OverlapKey: draw(w, "overlap key", id, id, "shared"),
		MaxQueued: rapid.Uint32Range(1, 3).Draw(w.T, "max_queued"), Priority: draw(w, "priority", int32(0), 0, 1),
		ExecutionGrantID: draw(w, "grant", "", "", "", "g0", "g1", "g2"), RunTimeoutMS: 20_000, Timezone: "UTC",
		CatchupWindowMS: draw(w, "catch-up window", uint32(3000), 20_000, 3_600_000),
	}
	if draw(w, "has retries", true, false) {
		d.Retry = schedule.RetryPolicy{MaxAttempts: 3, BackoffMS: 1000}.Resolved()
	}
	row := &schedule.Schedule{Definition: d, Revision: 1, PlanAt: w.now, NextRunAt: w.now}
	if before, err := w.store.GetSchedule(w.ctx, id); err == nil {
		row.Revision, row.Pause = before.Revision+1, before.Pause
	}
	w.change(schedule.Change{ScheduleID: id, Row: row, NewRevision: true, DropPlannedAfter: w.now})
}

// pause and resume: what is due ends with the pause.
func (w *shardWorld) pause() {
	i := rapid.IntRange(0, shardNames-1).Draw(w.T, "schedule")
	row, err := w.store.GetSchedule(w.ctx, w.scheduleID(i))
	w.must(err)
	c := schedule.Change{ScheduleID: row.ScheduleID, Row: row, DropPlannedAfter: w.now}
	if row.Pause.Paused {
		row.Pause = schedule.Pause{}
	} else {
		row.Pause = schedule.Pause{Paused: true, Until: draw(w, "until", time.Time{}, w.now.Add(2*time.Second), w.now.Add(time.Minute))}
		// The claim is the second check of a pause, so sometimes the first one fails.
		if draw(w, "ends what is due", true, true, false) {
			c.EndDue.To, c.EndDue.Reason = schedule.StatusSkipped, schedule.ReasonPaused
		}
	}
	w.change(c)
}

func (w *shardWorld) deleteOne() {
	i := rapid.IntRange(0, shardNames-1).Draw(w.T, "schedule")
	row, err := w.store.GetSchedule(w.ctx, w.scheduleID(i))
	w.must(err)
	row.DeletedAt = w.now
	c := schedule.Change{ScheduleID: row.ScheduleID, Row: row, DropPlannedAfter: w.now, EndRest: true}
	if draw(w, "ends what is due", true, true, false) {
		c.EndDue.To, c.EndDue.Reason = schedule.StatusCancelled, schedule.ReasonDeleted
	}
	w.change(c)
}

// plan inserts slots and judges late ones, at random.
func (w *shardWorld) plan() {
	w.planning = true
	_, err := w.store.Plan(w.ctx, schedule.PlanRequest{Term: w.term, Now: w.now, Horizon: w.now, Grace: shardGrace, Limit: 100},
		func(candidates []schedule.PlanCandidate) (out []schedule.PlanDecision) {
			for i := range candidates {
				out = append(out, w.decide(&candidates[i]))
			}
			return out
		})
	w.planning = false
	w.must(err)
}

func (w *shardWorld) decide(c *schedule.PlanCandidate) schedule.PlanDecision {
	d := schedule.PlanDecision{ScheduleID: c.Schedule.ScheduleID, NextRunAt: w.now, PlanAt: w.now}
	for range rapid.IntRange(0, 3).Draw(w.T, "slots") {
		runAt := w.now.Truncate(time.Second).Add(time.Duration(rapid.IntRange(-40, 12).Draw(w.T, "run_at")) * time.Second)
		r := w.runOf(&c.Schedule, schedule.SlotKey(c.Schedule.ScheduleID, runAt), draw(w, "trigger", schedule.TriggerSchedule, schedule.TriggerSchedule, schedule.TriggerCatchup))
		r.RunAt = runAt
		if r.FireAt = runAt.Add(draw(w, "jitter", 0, 0, 300*time.Millisecond, -300*time.Millisecond)); r.Trigger == schedule.TriggerCatchup {
			r.FireAt = w.now.Add(draw(w, "spread", 0, time.Second))
		}
		d.Rows = append(d.Rows, r)
	}
	for i := range c.Late {
		j := schedule.LateVerdict{Key: c.Late[i].Key, Reason: schedule.ReasonMissed}
		if draw(w, "fires late", true, false) {
			j = schedule.LateVerdict{Key: c.Late[i].Key, Fire: true, FireAt: w.now.Add(draw(w, "spread", 0, time.Second)), Trigger: schedule.TriggerCatchup}
		}
		d.LateVerdicts = append(d.LateVerdicts, j)
	}
	return d
}

func (w *shardWorld) runOf(s *schedule.Schedule, key schedule.Key, trigger schedule.Trigger) schedule.Run {
	return schedule.Run{
		Key: key, ScheduleID: s.ScheduleID, Revision: s.Revision, Trigger: trigger, OverlapKey: s.QualifiedOverlapKey(), OverlapPolicy: s.OverlapPolicy,
		Exclusive: s.OverlapPolicy.Exclusive(), MaxQueued: s.MaxQueued, Priority: s.Priority, RunAt: w.now, FireAt: w.now,
		Attempt: 1, MaxAttempts: s.Retry.Attempts(),
	}
}

// trigger asks for runs by hand or by a backfill.
func (w *shardWorld) trigger() {
	i := rapid.IntRange(0, shardNames-1).Draw(w.T, "schedule")
	row, err := w.store.GetSchedule(w.ctx, w.scheduleID(i))
	w.must(err)
	c := schedule.Change{ScheduleID: row.ScheduleID}
	for range rapid.IntRange(1, 3).Draw(w.T, "runs") {
		w.made++
		r := w.runOf(row, schedule.ManualKey(row.ScheduleID, fmt.Sprint(w.made)), draw(w, "trigger", schedule.TriggerManual, schedule.TriggerBackfill))
		r.RunAt = r.RunAt.Add(-draw(w, "older", 0, time.Hour))
		r.Revision += draw(w, "definition", int64(0), 0, 0, 0, 0, 1000) // sometimes it is missing
		c.Runs = append(c.Runs, r)
	}
	w.change(c)
}

func (w *shardWorld) pick(so func(schedule.Status) bool) (picked schedule.Run, ok bool) {
	return w.pickRun(func(r *schedule.Run) bool { return so(r.Status) })
}

func (w *shardWorld) pickRun(so func(*schedule.Run) bool) (picked schedule.Run, ok bool) {
	runs := w.open(schedule.RunFilter{})
	runs = slices.DeleteFunc(runs, func(r schedule.Run) bool { return !so(&r) })
	if len(runs) == 0 {
		return picked, false
	}
	return rapid.SampledFrom(runs).Draw(w.T, "run"), true
}

// report is one of an executor, which moves a run in flight.
func (w *shardWorld) report() {
	r, ok := w.pick(schedule.Status.InFlight)
	if !ok {
		return
	}
	to := draw(w, "report", schedule.StatusSuccess, schedule.StatusSuccess, schedule.StatusFailed, schedule.StatusEnqueued, schedule.StatusStarted)
	e := schedule.Settlement{Key: r.Key, To: to, CompletedAt: w.now, TimeoutAt: w.now.Add(20 * time.Second)}
	if to == schedule.StatusFailed {
		e.Reason = schedule.ReasonWorkflowFailed
	}
	_, err := w.store.SettleLaunched(w.ctx, w.now, []schedule.Settlement{e})
	w.must(err)
}

// cancel ends what is planned and requests the cancel of what is in flight.
func (w *shardWorld) cancel() {
	r, ok := w.pick(func(schedule.Status) bool { return true })
	if !ok {
		return
	}
	c := schedule.RunChange{Now: w.now, AskCancel: schedule.ReasonCancelled}
	if r.Status == schedule.StatusPlanned {
		c = schedule.RunChange{Now: w.now, Settle: &schedule.Settlement{To: schedule.StatusCancelled, Reason: schedule.ReasonCancelled, CompletedAt: w.now}}
	}
	w.changeRun(r.Key, c)
}

// retry makes another attempt of a run.
func (w *shardWorld) retry() {
	r, ok := w.pick(schedule.Status.InFlight)
	if !ok {
		return
	}
	w.made++
	again := r
	again.Key, again.Trigger, again.RetryOf, again.FireAt = schedule.RetryKey(r.Key, fmt.Sprint(w.made)), schedule.TriggerRetry, r.Key, w.now
	again.Status, again.Reason, again.WaitingSince = schedule.StatusPlanned, "", time.Time{}
	w.changeRun(r.Key, schedule.RunChange{
		Now: w.now, Insert: &again, Settle: &schedule.Settlement{To: schedule.StatusFailed, Reason: schedule.ReasonWorkflowFailed, CompletedAt: w.now},
	})
}

func (w *shardWorld) changeRun(key schedule.Key, c schedule.RunChange) {
	_, _, err := w.store.ChangeRun(w.ctx, key, schedule.Key{}, func(schedule.RunInput) (schedule.RunChange, error) { return c, nil })
	w.must(err)
}

// backoff moves the next send of a launch that has no answer, later or earlier.
func (w *shardWorld) backoff() {
	r, ok := w.pick(func(s schedule.Status) bool { return s == schedule.StatusLaunching })
	if !ok {
		return
	}
	until := w.now.Add(draw(w, "backoff", 0, 300*time.Millisecond, time.Second, 30*time.Second))
	_, err := w.store.SettleLaunched(w.ctx, w.now, []schedule.Settlement{{Key: r.Key, To: schedule.StatusLaunching, ClaimedUntil: until}})
	w.must(err)
}

// sweep ends runs, and keeps those that stay open for the next pass.
func (w *shardWorld) sweep() {
	swept, err := w.store.Sweep(w.ctx, schedule.SweepRequest{Term: w.term, Now: w.now, CancelWait: 5 * time.Second, RetryFor: time.Minute, Limit: 100})
	w.must(err)
	w.swept = swept.Open
}

// forget makes the state forget a run that a sweep has left open: a defect.
func (w *shardWorld) forget() {
	if len(w.swept) > 0 && draw(w, "forgets", true, false, false, false) {
		forgotten := rapid.SampledFrom(w.swept).Draw(w.T, "forgotten")
		w.state.Apply(ledger.Changes{Ended: []schedule.Key{forgotten}})
		w.defects[forgotten] = true
	}
}

// remember makes the state believe that a run which is over is in flight, in front of a
// run that waits: a defect. Ten seconds later a pass notices, as long as the run waits.
func (w *shardWorld) remember() {
	waiting, ok := w.pickRun(func(r *schedule.Run) bool { return !r.WaitingSince.IsZero() })
	if !ok {
		return
	}
	over, err := w.store.ListRuns(w.ctx, schedule.RunFilter{Statuses: []schedule.Status{schedule.StatusSuccess, schedule.StatusSkipped}, Limit: 1, Now: w.now})
	w.must(err)
	if len(over) == 0 {
		return
	}
	phantom := ledger.RunOf(&over[0])
	phantom.Status, phantom.OverlapKey, phantom.Exclusive, phantom.CancelRequested = schedule.StatusStarted, waiting.OverlapKey, true, false
	w.state.Load(&ledger.Open{Runs: []ledger.Run{phantom}})
	w.defects[phantom.Key] = true
	w.now = w.now.Add(11 * time.Second)
	w.pass()
}
