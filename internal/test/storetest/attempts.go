package storetest

import (
	"fmt"
	"strings"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

var attempts = []check{
	{"a failed attempt to launch a run is kept and counted", attemptsKept},
	{"the last ten attempts of a run are kept, and all are counted", attemptsBounded},
	{"a settlement without an attempt leaves the attempts as they are", attemptsUntouched},
	{"attempts stay when the run is launched", attemptsAfterLaunch},
	{"an attempt that fails after the launch time ends the run, unless its key is held", attemptsAfterTheLaunchTime},
	{"attempts go with their run", attemptsPruned},
	{"an unknown key has no attempts", attemptsOfNone},
	{"deliveries only grow", deliveriesGrow},
	{"executor calls are counted by result, each in the time that it was made", callsByResult},
	{"of very many runs the calls of the newest are counted", callsOfTheNewest},
	{"a run that ends before its launcher has the answer counts the calls that were made", deliveriesBeforeTheAnswer},
}

func (r *rig) attempted(key schedule.Key, n int) schedule.LaunchAttempt {
	r.Helper()
	a := schedule.LaunchAttempt{
		At: r.at(time.Duration(n) * time.Second), Took: time.Duration(n) * time.Millisecond, Result: schedule.LaunchNotSent,
		ErrorCode: fmt.Sprint("code_", n), ErrorMessage: awkward, NextAt: r.at(time.Duration(n+1) * time.Second),
	}
	moved := r.settle(schedule.Settlement{Key: key, To: schedule.StatusLaunching, ClaimedUntil: a.NextAt, ErrorCode: a.ErrorCode, ErrorMessage: a.ErrorMessage, Attempt: &a})
	r.hold(moved[0], "an attempt is noted")
	return a
}

func (r *rig) attemptsOf(key schedule.Key) []schedule.LaunchAttempt {
	r.Helper()
	found, err := r.LaunchAttempts(r.ctx, key)
	r.ok(err, "launch attempts")
	return found
}

func attemptsKept(r *rig) {
	r.lead()
	run := r.bring(r.slot(r.create("kept"), r.now), schedule.StatusLaunching)
	equal(r, "attempts of a run that nobody has tried", r.attemptsOf(run.Key), nil)
	want := []schedule.LaunchAttempt{r.attempted(run.Key, 1), r.attempted(run.Key, 2)}
	equal(r, "attempts", r.attemptsOf(run.Key), want)
	got := r.ledger(run.Key)
	r.hold(got.FailedAttempts == 2, "two are counted, got %d", got.FailedAttempts)
	r.hold(got.Status == schedule.StatusLaunching && got.ErrorCode == "code_2", "the run says the last error, got %s %q", got.Status, got.ErrorCode)
}

func attemptsBounded(r *rig) {
	r.lead()
	run := r.bring(r.slot(r.create("many"), r.now), schedule.StatusLaunching)
	var want []schedule.LaunchAttempt
	for n := range 13 {
		want = append(want, r.attempted(run.Key, n))
	}
	equal(r, "attempts", r.attemptsOf(run.Key), want[len(want)-schedule.KeptAttempts:])
	r.hold(r.ledger(run.Key).FailedAttempts == 13, "all are counted, got %d", r.ledger(run.Key).FailedAttempts)

	long := schedule.LaunchAttempt{At: r.now, Result: schedule.LaunchUnknown, ErrorMessage: strings.Repeat("ü", schedule.MaxAttemptMessage)}
	r.settle(schedule.Settlement{Key: run.Key, To: schedule.StatusLaunching, Attempt: &long})
	found := r.attemptsOf(run.Key)
	got := found[len(found)-1].ErrorMessage
	r.hold(len(got) == schedule.MaxAttemptMessage, "a message has at most %d bytes, got %d", schedule.MaxAttemptMessage, len(got))
}

func attemptsUntouched(r *rig) {
	r.lead()
	run := r.bring(r.slot(r.create("untouched"), r.now), schedule.StatusLaunching)
	want := []schedule.LaunchAttempt{r.attempted(run.Key, 1)}
	r.settle(schedule.Settlement{Key: run.Key, To: schedule.StatusLaunching, ClaimedUntil: r.now})
	equal(r, "attempts", r.attemptsOf(run.Key), want)
	got := r.ledger(run.Key)
	r.hold(got.FailedAttempts == 1 && got.ErrorCode == "code_1" && got.ClaimedUntil.Equal(r.now), "only the next attempt moves, got %+v", got)
}

func attemptsAfterLaunch(r *rig) {
	r.lead()
	run := r.bring(r.slot(r.create("launched"), r.now), schedule.StatusLaunching)
	want := []schedule.LaunchAttempt{r.attempted(run.Key, 1)}
	r.settle(schedule.Settlement{Key: run.Key, To: schedule.StatusSuccess, LaunchedAt: r.now, Deliveries: 1})
	equal(r, "attempts", r.attemptsOf(run.Key), want)
	got := r.ledger(run.Key)
	r.hold(got.FailedAttempts == 1 && got.Attempts() == 2 && got.ErrorCode == "", "one failed of two, got %+v", got)
}

func attemptsPruned(r *rig) {
	r.lead()
	run := r.bring(r.slot(r.create("pruned"), r.now), schedule.StatusLaunching)
	r.attempted(run.Key, 1)
	r.settle(schedule.Settlement{Key: run.Key, To: schedule.StatusSuccess})
	_, err := r.Prune(r.ctx, r.term, r.at(time.Hour), 100)
	r.ok(err, "prune")
	equal(r, "attempts of a run that is gone", r.attemptsOf(run.Key), nil)
}

func attemptsOfNone(r *rig) {
	equal(r, "attempts", r.attemptsOf(schedule.ManualKey("no", "run")), nil)
}

func deliveriesGrow(r *rig) {
	r.lead()
	run := r.bring(r.slot(r.create("delivered"), r.now), schedule.StatusLaunching)
	r.hold(r.ledger(run.Key).Deliveries == 0, "a claim delivers nothing")
	for _, step := range []struct{ said, want int32 }{{0, 0}, {2, 2}, {1, 2}, {0, 2}} {
		r.settle(schedule.Settlement{Key: run.Key, To: schedule.StatusLaunching, Deliveries: step.said})
		r.hold(r.ledger(run.Key).Deliveries == step.want, "after %d: want %d, got %d", step.said, step.want, r.ledger(run.Key).Deliveries)
	}
	for _, step := range []struct {
		to         schedule.Status
		said, want int32
	}{{schedule.StatusEnqueued, 3, 3}, {schedule.StatusStarted, 0, 3}, {schedule.StatusSuccess, 1, 3}} {
		r.settle(schedule.Settlement{Key: run.Key, To: step.to, Deliveries: step.said})
		r.hold(r.ledger(run.Key).Deliveries == step.want, "%s with %d: want %d, got %d", step.to, step.said, step.want, r.ledger(run.Key).Deliveries)
	}
}

func deliveriesBeforeTheAnswer(r *rig) {
	r.lead()
	for name, c := range map[string]struct {
		calls int32
		to    schedule.Status
		said  int32
		want  int32
	}{
		"reported at once":         {1, schedule.StatusSuccess, 0, 1},
		"reported as started":      {1, schedule.StatusStarted, 0, 1},
		"reported in another call": {2, schedule.StatusFailed, 0, 2},
		"cancelled":                {1, schedule.StatusCancelled, 0, 1},
		"cancelled unsent":         {0, schedule.StatusCancelled, 0, 0},
		"answered":                 {2, schedule.StatusSuccess, 1, 2},
	} {
		run := r.bring(r.slot(r.create(name), r.now), schedule.StatusLaunching)
		for n := range c.calls {
			lease := r.begin(r.beginRequest(run))[0].Request.Lease.Until
			if n+1 < c.calls {
				r.releaseHeld(run.Key, lease, n+1, "release")
			}
		}
		r.settle(schedule.Settlement{Key: run.Key, To: c.to, Deliveries: c.said})
		r.hold(r.ledger(run.Key).Deliveries == c.want, "%s: want %d, got %d", name, c.want, r.ledger(run.Key).Deliveries)
	}
}

func callsCounted(r *rig) {
	req := r.strange("called")
	first := r.permits(req, schedule.Granted).Request
	r.hold(first.Calls == 1, "the first call is one, got %d", first.Calls)
	r.releaseHeld(req.Key, first.Lease.Until, 0, "release a call that was not sent")
	again := r.permits(req, schedule.Granted)
	r.hold(again.Request.Calls == 1 && !again.Sent, "a call that was not sent does not count, got %+v", again)
	r.releaseHeld(req.Key, again.Request.Lease.Until, 1, "release a call that was sent")
	again = r.permits(req, schedule.GrantedAgain)
	r.hold(again.Request.Calls == 2 && again.Sent, "one that was sent does, got %+v", again)
	r.now = again.Request.Lease.Until // its sender died
	again = r.permits(req, schedule.GrantedAgain)
	r.hold(again.Request.Calls == 3, "and so does one whose sender died, got %d", again.Request.Calls)
	r.finish(req.Key, accepted)
	r.hold(r.permits(req, schedule.Recorded).Request.Calls == 3, "the record keeps the number")

	closed := r.strange("closed")
	_, row := r.closeKey(closed.Key)
	r.hold(row.Calls == 0, "a key that was closed unsent has none, got %d", row.Calls)
}

// attemptsAfterTheLaunchTime: K7, with the lease that the row has.
func attemptsAfterTheLaunchTime(r *rig) {
	r.lead()
	s := r.create("given up", func(s *schedule.Schedule) { s.LaunchTimeoutMS = 5000 })
	for _, settler := range []struct {
		name   string
		settle func(schedule.Settlement) ([]schedule.Moved, error)
	}{
		{"Settle", func(e schedule.Settlement) ([]schedule.Moved, error) {
			return r.Settle(r.ctx, r.term, r.now, []schedule.Settlement{e})
		}},
		{"SettleLaunched", func(e schedule.Settlement) ([]schedule.Moved, error) {
			return r.SettleLaunched(r.ctx, r.now, []schedule.Settlement{e})
		}},
	} {
		unsent, sent := r.slot(s, r.now), r.slot(s, r.at(-time.Second))
		r.add(unsent, sent)
		r.claim()
		unsent, sent = r.ledger(unsent.Key), r.ledger(sent.Key)
		r.now = r.at(5 * time.Second)
		r.granted(r.beginRequest(sent))
		step := func(run schedule.Run, want schedule.Moved, why string) {
			r.Helper()
			attempt := schedule.LaunchAttempt{At: r.now, Result: schedule.LaunchNotSent, ErrorCode: "executor_unreachable", NextAt: r.at(time.Second)}
			moved, err := settler.settle(schedule.Settlement{
				Key: run.Key, To: schedule.StatusLaunching, ClaimedUntil: attempt.NextAt, ErrorCode: attempt.ErrorCode, Attempt: &attempt, GivesUp: true,
			})
			r.ok(err, settler.name)
			equal(r, settler.name+", "+why, moved, []schedule.Moved{want})
			got := r.ledger(run.Key)
			r.hold(got.Moved() == want && got.ErrorCode == attempt.ErrorCode, "%s, %s: it is %s(%s) with code %q", settler.name, why, got.Status, got.Reason, got.ErrorCode)
			r.hold(got.CompletedAt.Equal(r.now) == want.To.Terminal(), "%s, %s: it completed at %s", settler.name, why, got.CompletedAt)
			attempts := r.attemptsOf(run.Key)
			r.hold(int(got.FailedAttempts) == len(attempts) && attempts[len(attempts)-1] == attempt, "%s, %s: the attempt is kept, got %+v", settler.name, why, attempts)
		}
		step(unsent, schedule.Moved{To: schedule.StatusFailed, Reason: schedule.ReasonLaunchUnavailable}, "nothing was sent")
		step(sent, schedule.Moved{To: schedule.StatusLaunching}, "another call is open")
		r.now = r.at(lease)
		step(sent, schedule.Moved{To: schedule.StatusFailed, Reason: schedule.ReasonLost}, "that call got no answer")
		equal(r, "left open", r.load().state.Counts().InFlight, 0)
		r.now = r.at(time.Minute)
	}
}

// countedCalls are the executor calls since an instant.
func (r *rig) countedCalls(since time.Time, limit int) schedule.CallCounts {
	r.Helper()
	counts, err := r.CountCalls(r.ctx, since, limit)
	r.ok(err, "count calls")
	return counts
}

func callsByResult(r *rig) {
	r.lead()
	s := r.create("called")
	launching := func(minutes int) schedule.Run {
		return r.bring(r.slot(s, r.at(time.Duration(minutes-60)*time.Minute)), schedule.StatusLaunching)
	}
	attempt := func(run schedule.Run, after time.Duration, result schedule.LaunchResult, code schedule.ErrorCode, message string) {
		a := schedule.LaunchAttempt{At: r.at(after), Result: result, ErrorCode: string(code), ErrorMessage: message}
		r.settle(schedule.Settlement{Key: run.Key, To: schedule.StatusLaunching, ErrorCode: a.ErrorCode, ErrorMessage: message, Attempt: &a})
	}
	retried, gone, planned := launching(1), launching(2), r.slot(s, r.at(time.Hour))
	r.add(planned)
	early := launching(3)
	r.settleOne(early, schedule.StatusEnqueued, func(e *schedule.Settlement) { e.LaunchedAt = r.now })
	attempt(retried, 0, schedule.LaunchNotSent, schedule.CodeExecutorUnreachable, "before")
	equal(r, "calls of an hour", r.countedCalls(r.at(-time.Hour), 100).Calls, []schedule.CallCount{
		{Result: schedule.LaunchAccepted, Calls: 1, Last: r.now, ScheduleID: s.ScheduleID},
		{Result: schedule.LaunchNotSent, ErrorCode: string(schedule.CodeExecutorUnreachable), Calls: 1, Last: r.now, ScheduleID: s.ScheduleID, ErrorMessage: "before"},
	})

	r.now = r.at(time.Hour)
	since := r.now
	equal(r, "nothing since", r.countedCalls(since, 100), schedule.CallCounts{Since: since})
	r.settleOne(early, schedule.StatusSuccess) // its call is older
	attempt(gone, 0, schedule.LaunchUnknown, schedule.CodeExecutorError, "HTTP 500")
	attempt(retried, 2*time.Second, schedule.LaunchUnknown, schedule.CodeExecutorError, awkward)
	attempt(retried, time.Second, schedule.LaunchUnknown, schedule.CodeExecutorTimeout, "")
	r.now = r.at(3 * time.Second)
	r.settleOne(retried, schedule.StatusSuccess, func(e *schedule.Settlement) { e.LaunchedAt, e.Deliveries = r.now, 3 })
	refused := launching(4)
	r.settleOne(refused, schedule.StatusFailed, func(e *schedule.Settlement) {
		e.Reason, e.ErrorCode, e.ErrorMessage, e.Deliveries = schedule.ReasonLaunchRefused, "http_404", "no such workflow", 1
	})
	for _, reason := range []schedule.Reason{schedule.ReasonWorkflowNotFound, schedule.ReasonLaunchRefused} { // without a call
		r.settleOne(launching(len(reason)), schedule.StatusFailed, func(e *schedule.Settlement) { e.Reason, e.ErrorCode = reason, "unsent" })
	}
	equal(r, "calls", r.countedCalls(since, 100), schedule.CallCounts{Since: since, Calls: []schedule.CallCount{
		{Result: schedule.LaunchUnknown, ErrorCode: string(schedule.CodeExecutorError), Calls: 2, Last: since.Add(2 * time.Second), ScheduleID: s.ScheduleID, ErrorMessage: awkward},
		{Result: schedule.LaunchAccepted, Calls: 1, Last: r.now, ScheduleID: s.ScheduleID},
		{Result: schedule.LaunchRefused, ErrorCode: "http_404", Calls: 1, Last: r.now, ScheduleID: s.ScheduleID, ErrorMessage: "no such workflow"},
		{Result: schedule.LaunchUnknown, ErrorCode: string(schedule.CodeExecutorTimeout), Calls: 1, Last: since.Add(time.Second), ScheduleID: s.ScheduleID},
	}})
}

func callsOfTheNewest(r *rig) {
	r.lead()
	s, since := r.create("many"), r.now
	for i := range 5 {
		run := r.bring(r.slot(s, r.at(time.Duration(i-60)*time.Minute)), schedule.StatusLaunching)
		r.now = r.at(time.Second)
		r.settleOne(run, schedule.StatusEnqueued, func(e *schedule.Settlement) { e.LaunchedAt = r.now })
	}
	counts := r.countedCalls(since, 3)
	r.hold(len(counts.Calls) == 1 && counts.Calls[0].Calls == 3, "three, got %+v", counts)
	r.hold(counts.Since.Equal(r.at(-2*time.Second)), "since the oldest of them, %s, got %s", r.at(-2*time.Second), counts.Since)
}
