package ledger_test

import (
	"testing"
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

// attemptCase changes a slot that has failed on its first of three attempts. Its schedule
// waits 10 s, then 20 s, and has a catch-up window of an hour.
type attemptCase struct {
	name  string
	run   func(*schedule.Run)
	facts func(*ledger.AttemptFacts)

	attempt int32         // of the next one; 0: there is none
	wait    time.Duration // before it, ± 10 %
	startBy time.Duration // after run_at; 0: no limit
	why     string        // if there is none
}

var attemptRunAt = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func inForce(edit func(*schedule.Definition)) func(*ledger.AttemptFacts) {
	return func(f *ledger.AttemptFacts) {
		d := *f.InForce
		edit(&d)
		f.InForce = &d
	}
}

var attempts = []attemptCase{
	{name: "the first failure has a second attempt", attempt: 2, wait: 10 * time.Second, startBy: time.Hour},
	{
		name: "the second failure has a third attempt, after twice the time", attempt: 3, wait: 20 * time.Second, startBy: time.Hour,
		run: func(r *schedule.Run) { secondAttempt(r) },
	},
	{
		name: "the third failure is the last one", why: "attempt 3 of 3 was the last one",
		run: func(r *schedule.Run) { secondAttempt(r); r.Attempt = 3 },
	},
	{name: "a run with one attempt has no other", why: "the run has one attempt", run: func(r *schedule.Run) { r.MaxAttempts = 1 }},
	{name: "a run of before the migration has one attempt", why: "the run has one attempt", run: func(r *schedule.Run) { r.MaxAttempts = 0 }},
	{
		name: "a timeout is retried", attempt: 2, wait: 10 * time.Second, startBy: time.Hour,
		run: func(r *schedule.Run) { r.Reason = schedule.ReasonTimeout },
	},
	{
		name: "a lost run is retried", attempt: 2, wait: 10 * time.Second, startBy: time.Hour,
		run: func(r *schedule.Run) { r.Reason = schedule.ReasonLost },
	},
	{
		name: "a class outside retry.on is not retried", why: "class logic is not in retry.on",
		run: func(r *schedule.Run) { r.FailureClass = schedule.ClassLogic },
	},
	{
		name: "a reason has its class if none is reported", why: "class logic is not in retry.on",
		run: func(r *schedule.Run) { r.Reason = schedule.ReasonLaunchRefused },
	},
	{
		name: "a class that retry.on names is retried", attempt: 2, wait: 10 * time.Second, startBy: time.Hour,
		run:   func(r *schedule.Run) { r.FailureClass = schedule.ClassLogic },
		facts: inForce(func(d *schedule.Definition) { d.Retry.On = schedule.RetryOnOf(schedule.ClassLogic) }),
	},
	{
		name: "a run whose cancel was requested is not retried", why: "its cancel was requested",
		run: func(r *schedule.Run) { r.CancelRequestedAt = r.CompletedAt },
	},
	{
		name: "a run of a deleted schedule is not retried", why: "the schedule was deleted",
		facts: func(f *ledger.AttemptFacts) { f.InForce = nil },
	},

	{
		name: "the attempts are those of the plan, though the schedule has fewer now", attempt: 3, wait: 20 * time.Second, startBy: time.Hour,
		run: func(r *schedule.Run) { secondAttempt(r) }, facts: inForce(func(d *schedule.Definition) { d.Retry.MaxAttempts = 1 }),
	},
	{
		name: "the attempts are those of the plan, though the schedule has more now", why: "attempt 3 of 3 was the last one",
		run: func(r *schedule.Run) { secondAttempt(r); r.Attempt = 3 }, facts: inForce(func(d *schedule.Definition) { d.Retry.MaxAttempts = 25 }),
	},
	{
		name: "the backoff is that of the definition in force", attempt: 2, wait: time.Minute, startBy: time.Hour,
		facts: inForce(func(d *schedule.Definition) { d.Retry.BackoffMS = 60_000 }),
	},
	{
		name: "the backoff is at most max_backoff_ms", attempt: 3, wait: 15 * time.Second, startBy: time.Hour,
		run: func(r *schedule.Run) { secondAttempt(r) }, facts: inForce(func(d *schedule.Definition) { d.Retry.MaxBackoffMS = 15_000 }),
	},
	{
		name: "a schedule that has lost its policy keeps the one of the plan for runs that were planned with it", attempt: 2, wait: 10 * time.Second, startBy: time.Hour,
		facts: inForce(func(d *schedule.Definition) { d.Retry = schedule.RetryPolicy{} }),
	},
	{
		name: "a definition of the plan that cannot be read leaves the one in force", attempt: 2, wait: 10 * time.Second, startBy: time.Hour,
		facts: func(f *ledger.AttemptFacts) { f.Planned = nil },
	},

	{
		name: "a retry by hand with a renewed budget begins again with the first backoff", attempt: 6, wait: 10 * time.Second,
		run: func(r *schedule.Run) { byHand(r, 5, 7) },
	},
	{
		name: "and then goes on with the second", attempt: 7, wait: 20 * time.Second,
		run: func(r *schedule.Run) {
			byHand(r, 6, 7)
			r.RetryOf, r.Key = r.Key, schedule.AttemptKey(r.Key)
		},
	},
	{
		name: "a retry by hand without one has no automatic retry", why: "attempt 4 of 4 was the last one",
		run: func(r *schedule.Run) { byHand(r, 4, 4) },
	},

	{
		name: "a catch-up run has the catch-up window too", attempt: 2, wait: 10 * time.Second, startBy: time.Hour,
		run: func(r *schedule.Run) { r.Trigger = schedule.TriggerCatchup },
	},
	{
		name: "the window is that of the definition in force", attempt: 2, wait: 10 * time.Second, startBy: 2 * time.Hour,
		facts: inForce(func(d *schedule.Definition) { d.CatchupWindowMS = 7_200_000 }),
	},
	{
		name: "no retry is planned for later than the catch-up window", why: "the next attempt would start later than catchup_window_ms after run_at",
		run: func(r *schedule.Run) { r.CompletedAt = attemptRunAt.Add(time.Hour - 8*time.Second) },
	},
	{
		name: "nor is the retry of a retry", why: "the next attempt would start later than catchup_window_ms after run_at",
		run: func(r *schedule.Run) { secondAttempt(r); r.CompletedAt = attemptRunAt.Add(time.Hour - 15*time.Second) },
	},
	{
		name: "a backfill of an old slot has no catch-up window", attempt: 2, wait: 10 * time.Second,
		run: func(r *schedule.Run) {
			r.Trigger = schedule.TriggerBackfill
			r.CompletedAt = attemptRunAt.Add(999 * time.Hour)
		},
	},
	{
		name: "nor has the retry of its retry, though the key began as that of the slot", attempt: 3, wait: 20 * time.Second,
		run: func(r *schedule.Run) {
			secondAttempt(r)
			r.StartBy, r.CompletedAt = time.Time{}, attemptRunAt.Add(999*time.Hour)
		},
	},
	{
		name: "a run by hand has no catch-up window", attempt: 2, wait: 10 * time.Second,
		run: func(r *schedule.Run) {
			r.Trigger = schedule.TriggerManual
			r.CompletedAt = attemptRunAt.Add(999 * time.Hour)
		},
	},
}

// secondAttempt makes a slot its automatic retry.
func secondAttempt(r *schedule.Run) {
	r.Trigger, r.RetryOf, r.Key, r.Attempt = schedule.TriggerRetry, r.Key, schedule.AttemptKey(r.Key), 2
	r.StartBy = attemptRunAt.Add(time.Hour)
}

// byHand makes a slot a retry by hand.
func byHand(r *schedule.Run, attempt, most int32) {
	r.Trigger, r.RetryOf, r.Key, r.Attempt, r.MaxAttempts = schedule.TriggerRetry, r.Key, schedule.RetryKey(r.Key, "again"), attempt, most
}

// failedSlot is the run of attemptCase, with the facts about it.
func failedSlot() (schedule.Run, ledger.AttemptFacts) {
	d := schedule.Definition{ScheduleID: "s", CatchupWindowMS: 3_600_000, Retry: schedule.RetryPolicy{MaxAttempts: 3}.Resolved()}
	return schedule.Run{
		Key: schedule.SlotKey("s", attemptRunAt), ScheduleID: "s", Revision: 4, UserID: "u", WorkflowID: "w", Version: 2, RunAt: attemptRunAt, FireAt: attemptRunAt,
		Status: schedule.StatusFailed, Reason: schedule.ReasonWorkflowFailed, Trigger: schedule.TriggerSchedule, OverlapKey: "u/k", OverlapPolicy: schedule.OverlapQueue,
		Exclusive: true, MaxQueued: 3, Attempt: 1, MaxAttempts: 3, Input: []byte(`{"n":1}`), Priority: 5, CompletedAt: attemptRunAt.Add(time.Minute),
	}, ledger.AttemptFacts{Planned: &d, InForce: &d}
}

func TestWhichFailedRunsHaveANextAttempt(t *testing.T) {
	t.Parallel()
	for _, c := range attempts {
		t.Run(c.name, func(t *testing.T) {
			r, facts := failedSlot()
			if c.run != nil {
				c.run(&r)
			}
			if c.facts != nil {
				c.facts(&facts)
			}
			ended := r
			next := ledger.Conclude(&ended, &facts)
			r.FailureClass = ended.FailureClass
			_, why := ledger.NextAttempt(&r, &facts)
			if why != c.why || (next == nil) != (c.attempt == 0) || ended.IsDead() != (next == nil) || !ended.StartBy.IsZero() {
				t.Fatalf("next %+v, %q, dead %t; want attempt %d, %q", next, why, ended.IsDead(), c.attempt, c.why)
			}
			if next == nil {
				return
			}
			if key, ok := ended.RetriedBy(); !ok || key != next.Key || next.Key != schedule.RetryKey(r.Key, "/auto") {
				t.Errorf("the key is %s, and the run says %s, %t", next.Key, key, ok)
			}
			wait := next.FireAt.Sub(r.CompletedAt)
			if wait < c.wait*9/10 || wait > c.wait*11/10 {
				t.Errorf("it waits %s, want %s ± 10 %%", wait, c.wait)
			}
			var startBy time.Time
			if c.startBy > 0 {
				startBy = attemptRunAt.Add(c.startBy)
			}
			if !next.StartBy.Equal(startBy) {
				t.Errorf("it starts by %s, want %s", next.StartBy, startBy)
			}
			if next.Attempt != c.attempt || next.MaxAttempts != r.MaxAttempts || next.RetryOf != r.Key || next.Trigger != schedule.TriggerRetry || next.Status != schedule.StatusPlanned {
				t.Errorf("the next attempt is %+v", next)
			}
			if !next.RunAt.Equal(r.RunAt) || next.Revision != r.Revision || string(next.Input) != string(r.Input) || next.Priority != r.Priority ||
				next.OverlapKey != r.OverlapKey || next.OverlapPolicy != r.OverlapPolicy || next.Exclusive != r.Exclusive || next.MaxQueued != r.MaxQueued {
				t.Errorf("it is not what the failed run was: %+v", next)
			}
		})
	}
}

func TestWhichEndsAreDead(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		run  func(*schedule.Run)
		dead bool
	}{
		{"a failure that has a retry is not dead", func(*schedule.Run) {}, false},
		{"a failure without one is dead", func(r *schedule.Run) { r.MaxAttempts = 1 }, true},
		{"a success is not dead", func(r *schedule.Run) { r.Status, r.Reason = schedule.StatusSuccess, "" }, false},
		{"a cancelled run is not dead", func(r *schedule.Run) { r.Status, r.Reason = schedule.StatusCancelled, schedule.ReasonCancelled }, false},
		{"a slot that was missed is not dead", func(r *schedule.Run) { r.Status, r.Reason = schedule.StatusSkipped, schedule.ReasonMissed }, false},
		{"an automatic retry that was missed is dead", func(r *schedule.Run) {
			secondAttempt(r)
			r.Status, r.Reason = schedule.StatusSkipped, schedule.ReasonMissed
		}, true},
		{"an automatic retry that a newer slot has replaced is not dead", func(r *schedule.Run) {
			secondAttempt(r)
			r.Status, r.Reason = schedule.StatusSkipped, schedule.ReasonCoalesced
		}, false},
		{"a retry by hand that was missed is not dead", func(r *schedule.Run) {
			byHand(r, 2, 2)
			r.Status, r.Reason = schedule.StatusSkipped, schedule.ReasonMissed
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, facts := failedSlot()
			c.run(&r)
			before := r.Status
			r.FailureClass = schedule.ClassTransient
			next := ledger.Conclude(&r, &facts)
			if r.IsDead() != c.dead || (r.Dead != nil) != c.dead {
				t.Errorf("dead: %v, want %t", r.Dead, c.dead)
			}
			if r.Status != before || (r.FailureClass != "") != (before == schedule.StatusFailed) {
				t.Errorf("it ended %s with class %q", r.Status, r.FailureClass)
			}
			if next != nil && before != schedule.StatusFailed {
				t.Errorf("a run that is %s has a retry", before)
			}
		})
	}
}

func TestFactsAreReadOnlyForRunsThatMayHaveARetry(t *testing.T) {
	t.Parallel()
	r, _ := failedSlot()
	for name, edit := range map[string]func(*schedule.Run){
		"one attempt":      func(r *schedule.Run) { r.MaxAttempts = 1 },
		"the last attempt": func(r *schedule.Run) { r.Attempt = 3 },
		"a success":        func(r *schedule.Run) { r.Status = schedule.StatusSuccess },
		"a cancel":         func(r *schedule.Run) { r.CancelRequestedAt = r.CompletedAt },
	} {
		other := r
		edit(&other)
		if ledger.NeedsAttemptFacts(&other) {
			t.Errorf("%s needs facts", name)
		}
	}
	if !ledger.NeedsAttemptFacts(&r) {
		t.Error("a failure with attempts left needs no facts")
	}
}

// A request to a queue can name more attempts than the schedule of its run, which may have no
// policy at all.
func TestARunOfAQueueHasTheAttemptsOfItsRequest(t *testing.T) {
	t.Parallel()
	r, facts := failedSlot()
	none := *facts.Planned
	none.Retry = schedule.RetryPolicy{}
	facts.Planned, facts.InForce = &none, &none
	r.Trigger, r.Queue = schedule.TriggerJob, schedule.QueuePlace{No: 1, State: schedule.QueueRunning, Position: 7}
	for n, want := range []time.Duration{10 * time.Second, 20 * time.Second} {
		next := ledger.Conclude(&r, &facts)
		if next == nil || r.IsDead() {
			t.Fatalf("attempt %d of %d has failed, and there is no next one (dead: %t)", r.Attempt, r.MaxAttempts, r.IsDead())
		}
		if wait := next.FireAt.Sub(r.CompletedAt); wait < want*9/10 || wait > want*11/10 || next.Attempt != int32(n)+2 || next.Queue.Position != 7 {
			t.Errorf("attempt %d at position %d follows after %s, want %s", next.Attempt, next.Queue.Position, wait, want)
		}
		ended := *next
		ended.Status, ended.Reason, ended.CompletedAt = schedule.StatusFailed, schedule.ReasonWorkflowFailed, next.FireAt.Add(time.Minute)
		r = ended
	}
	if next := ledger.Conclude(&r, &facts); next != nil || !r.IsDead() {
		t.Errorf("after attempt %d of %d comes %+v", r.Attempt, r.MaxAttempts, next)
	}
	r.Queue, r.Attempt = schedule.QueuePlace{}, 1
	if next := ledger.Conclude(&r, &facts); next != nil {
		t.Errorf("a run outside queues has the policy of its schedule, which has none: %+v", next)
	}
}
