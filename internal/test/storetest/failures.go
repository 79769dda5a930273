package storetest

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

var failing = []check{
	{"a schedule fails from its first failed run to its next success", failUntilSuccess},
	{"whoever ends a run, a failure counts", failHoweverEnded},
	{"a deleted schedule does not fail, and neither does its successor", failDeleted},
	{"of runs that end together the successes count first, then the failures by slot", failTogether},
	{"a random history fails as the rule says", failRandomly},
	{"failing schedules are listed and grouped, of one owner and of all", failGrouped},
	{"recent outcomes are the newest that ended, newest slot first", recentOutcomes},
	{"runs that ended lately are counted by how they ended", countEnded},
	{"failures are judged when they begin, grow and end", failuresWoken},
}

// FailureOf is how a schedule fails by a whole history; nil: it does not, as
// schedule.Failure defines. The stores keep it one ended run at a time.
func FailureOf(scheduleID string, history []schedule.EndedRun) *schedule.Failure {
	decided := slices.DeleteFunc(slices.Clone(history), func(o schedule.EndedRun) bool {
		return o.Status != schedule.StatusSuccess && (o.Status != schedule.StatusFailed || o.Retried)
	})
	slices.SortStableFunc(decided, func(a, b schedule.EndedRun) int {
		return cmp.Or(b.RunAt.Compare(a.RunAt), b.EndedAt.Compare(a.EndedAt), cmp.Compare(b.Status, a.Status)) // a success wins a tie
	})
	var f *schedule.Failure
	for i := range decided {
		o := &decided[i]
		if o.Status == schedule.StatusSuccess {
			break
		}
		if f == nil {
			f = &schedule.Failure{ScheduleID: scheduleID, LastRunAt: o.RunAt, LastEndedAt: o.EndedAt, LastKey: o.Key, Reason: o.Reason, ErrorCode: o.ErrorCode}
		}
		f.Failures++
		f.FirstRunAt, f.FirstEndedAt = o.RunAt, o.EndedAt
	}
	return f
}

// failure is how a schedule fails by the store; nil: it does not.
func (r *rig) failure(s schedule.Schedule) *schedule.Failure {
	r.Helper()
	recent, err := r.RecentOutcomes(r.ctx, []string{s.ScheduleID}, 1)
	r.ok(err, "read recent outcomes")
	return recent[s.ScheduleID].Failure
}

func (r *rig) settleOne(run schedule.Run, to schedule.Status, edits ...func(*schedule.Settlement)) {
	r.Helper()
	e := schedule.Settlement{Key: run.Key, To: to}
	for _, edit := range edits {
		edit(&e)
	}
	r.hold(r.settle(e)[0], "%s becomes %s", run.Key, to)
}

func workflowFailed(message string) func(*schedule.Settlement) {
	return func(e *schedule.Settlement) {
		e.Reason, e.ErrorCode, e.ErrorMessage = schedule.ReasonWorkflowFailed, "exit", message
	}
}

func failUntilSuccess(r *rig) {
	r.lead()
	s := r.create("s")
	begin := func(minutes int) schedule.Run {
		return r.bring(r.slot(s, r.at(time.Duration(minutes-60)*time.Minute)), schedule.StatusStarted)
	}
	want := func(what string, n int64, first, last schedule.Run, message string) {
		r.Helper()
		f := r.failure(s)
		if n == 0 {
			r.hold(f == nil, "%s: it does not fail, got %+v", what, f)
			return
		}
		r.hold(f != nil, "%s: it fails", what)
		equal(r, what, *f, schedule.Failure{
			ScheduleID: s.ScheduleID, Failures: n, FirstRunAt: first.RunAt, FirstEndedAt: r.ledger(first.Key).CompletedAt,
			LastRunAt: last.RunAt, LastEndedAt: r.ledger(last.Key).CompletedAt, LastKey: last.Key,
			Reason: schedule.ReasonWorkflowFailed, ErrorCode: "exit", ErrorMessage: message,
		})
	}
	none := schedule.Run{}
	first, second, third, fourth := begin(1), begin(2), begin(3), begin(4)
	want("nothing ended", 0, none, none, "")
	r.settleOne(first, schedule.StatusFailed, workflowFailed("one"))
	want("the first failure", 1, first, first, "one")
	r.now = r.at(time.Second)
	r.settleOne(third, schedule.StatusFailed, workflowFailed("three"))
	want("one more", 2, first, third, "three")
	r.settleOne(second, schedule.StatusFailed, workflowFailed("two"))
	want("one of an older slot", 3, first, third, "three")
	r.now = r.at(time.Second)
	r.settleOne(fourth, schedule.StatusSuccess)
	want("a success", 0, none, none, "")
	late := begin(0)
	r.settleOne(late, schedule.StatusFailed, workflowFailed("late"))
	want("a failure of a slot before the success", 0, none, none, "")
	fifth, sixth := begin(5), begin(6)
	r.settleOne(sixth, schedule.StatusFailed, workflowFailed("six"))
	want("it fails again", 1, sixth, sixth, "six")
	r.settleOne(fifth, schedule.StatusSuccess)
	want("a success of an older slot", 1, sixth, sixth, "six")
	r.now = r.at(time.Second)
	retry := r.bring(r.slot(s, sixth.RunAt, func(run *schedule.Run) {
		run.Key, run.Trigger, run.RetryOf, run.Attempt = schedule.RetryKey(sixth.Key, "again"), schedule.TriggerRetry, sixth.Key, 2
	}), schedule.StatusStarted)
	r.settleOne(retry, schedule.StatusSuccess)
	want("a retry that succeeds", 0, none, none, "")
}

func failHoweverEnded(r *rig) {
	r.lead()
	slot := func(name string, to schedule.Status, edits ...func(*schedule.Settlement)) (schedule.Schedule, schedule.Run) {
		s := r.create(name)
		return s, r.bring(r.slot(s, r.at(-time.Minute)), to, edits...)
	}
	reported, byReport := slot("reported", schedule.StatusStarted)
	_, _, err := r.ChangeRun(r.ctx, byReport.Key, schedule.Key{}, func(schedule.RunInput) (schedule.RunChange, error) {
		return schedule.RunChange{Settle: &schedule.Settlement{To: schedule.StatusFailed, Reason: schedule.ReasonWorkflowFailed}, Now: r.now}, nil
	})
	r.ok(err, "report")
	launched, byLauncher := slot("launched", schedule.StatusLaunching)
	_, err = r.SettleLaunched(r.ctx, r.now, []schedule.Settlement{{Key: byLauncher.Key, To: schedule.StatusFailed, Reason: schedule.ReasonLaunchRefused}})
	r.ok(err, "settle launched")
	silent, _ := slot("silent", schedule.StatusStarted, func(e *schedule.Settlement) { e.TimeoutAt = r.at(time.Second) })
	skipped, _ := slot("skipped", schedule.StatusSkipped, func(e *schedule.Settlement) { e.Reason = schedule.ReasonOverlap })
	cancelled, _ := slot("cancelled", schedule.StatusCancelled, func(e *schedule.Settlement) { e.Reason = schedule.ReasonCancelled })
	r.now = r.at(2 * time.Second)
	_, err = r.Sweep(r.ctx, schedule.SweepRequest{Term: r.term, Now: r.now, RetryFor: retryFor, CancelWait: time.Minute, Limit: 100})
	r.ok(err, "sweep")
	for _, c := range []struct {
		s    schedule.Schedule
		want schedule.Reason // empty: it does not fail
	}{
		{reported, schedule.ReasonWorkflowFailed},
		{launched, schedule.ReasonLaunchRefused},
		{silent, schedule.ReasonTimeout},
		{skipped, ""},
		{cancelled, ""},
	} {
		f := r.failure(c.s)
		r.hold((f != nil) == (c.want != ""), "%s fails: %v, got %+v", c.s.ScheduleID, c.want != "", f)
		r.hold(f == nil || f.Reason == c.want, "%s fails with %s, got %+v", c.s.ScheduleID, c.want, f)
	}
}

func failDeleted(r *rig) {
	r.lead()
	s := r.create("s")
	r.settleOne(r.bring(r.slot(s, r.at(-time.Minute)), schedule.StatusStarted), schedule.StatusFailed)
	r.hold(r.failure(s) != nil, "it fails")
	r.rewrite(s, func(s *schedule.Schedule) { s.DeletedAt = r.now })
	listed := func() int {
		found, err := r.ListSchedules(r.ctx, schedule.ScheduleFilter{UserID: r.user, Failing: true, Now: r.now, Limit: 10})
		r.ok(err, "list")
		return len(found)
	}
	r.hold(r.failure(s) == nil && listed() == 0, "deleted it does not")
	r.now = r.at(time.Hour)
	r.rewrite(s, func(s *schedule.Schedule) { s.CreatedAt, s.Revision, s.RevisedAt = r.now, 2, r.now })
	r.hold(r.failure(s) == nil && listed() == 0, "and neither does one that is created again")

	flying := r.bring(r.slot(s, r.at(-time.Second)), schedule.StatusStarted)
	r.rewrite(s, func(s *schedule.Schedule) { s.DeletedAt = r.now })
	r.settleOne(flying, schedule.StatusFailed)
	r.hold(listed() == 0, "a run that fails after the deletion is not listed")
	s.CreatedAt, s.Revision, s.RevisedAt = r.at(time.Second), 3, r.at(time.Second)
	r.change(schedule.Change{Row: &s, Created: true, NewRevision: true, ChangedBy: s.UserID})
	r.hold(r.failure(s) == nil && listed() == 0, "and what is created again begins without it")
}

func failTogether(r *rig) {
	r.lead()
	s := r.create("s")
	n := 0
	end := func(outcomes ...schedule.EndedRun) {
		settlements := make([]schedule.Settlement, len(outcomes))
		for i, o := range outcomes {
			n++
			run := r.bring(r.manual(s, fmt.Sprint(n), o.RunAt), schedule.StatusStarted)
			settlements[i] = schedule.Settlement{Key: run.Key, To: o.Status, ErrorCode: fmt.Sprint(n)}
		}
		for i, moved := range r.settle(settlements...) {
			r.hold(moved, "settlement %d moves its run", i)
		}
	}
	slot := func(minutes int, status schedule.Status) schedule.EndedRun {
		return schedule.EndedRun{RunAt: r.at(time.Duration(minutes-60) * time.Minute), Status: status}
	}
	want := func(what string, failures int64, first, last int, code string) {
		r.Helper()
		f := r.failure(s)
		r.hold(f != nil && f.Failures == failures && f.ErrorCode == code && f.FirstRunAt.Equal(slot(first, "").RunAt) && f.LastRunAt.Equal(slot(last, "").RunAt),
			"%s: %d failures from slot %d to slot %d, the last with code %s: got %+v", what, failures, first, last, code, f)
	}
	end(slot(3, schedule.StatusFailed), slot(1, schedule.StatusFailed), slot(2, schedule.StatusFailed))
	want("three failures at once", 3, 1, 3, "1")
	end(slot(7, schedule.StatusFailed), slot(5, schedule.StatusSuccess), slot(4, schedule.StatusFailed))
	want("a success between two failures", 1, 7, 7, "4")
	end(slot(8, schedule.StatusFailed), slot(9, schedule.StatusSuccess))
	r.hold(r.failure(s) == nil, "a failure and a newer success: it does not fail, got %+v", r.failure(s))
	end(slot(10, schedule.StatusSuccess), slot(10, schedule.StatusFailed))
	r.hold(r.failure(s) == nil, "a success wins over a failure of its slot and instant, got %+v", r.failure(s))
}

// failRandomly ends runs in any order, several of one slot among them.
func failRandomly(r *rig) {
	r.lead()
	dice := rand.New(rand.NewPCG(20, 26))
	for i := range 12 {
		s := r.create(fmt.Sprintf("s%d", i))
		var open []schedule.Run
		var ended []schedule.EndedRun
		for n := range 14 {
			slot := r.at(time.Duration(dice.IntN(8)-100) * time.Hour).Truncate(time.Hour)
			open = append(open, r.bring(r.manual(s, fmt.Sprint(i, "-", n), slot), schedule.StatusStarted))
		}
		for len(open) > 0 {
			n := dice.IntN(len(open))
			run := open[n]
			open = slices.Delete(open, n, n+1)
			r.now = r.at(time.Duration(dice.IntN(3)) * time.Second)
			to := []schedule.Status{schedule.StatusFailed, schedule.StatusFailed, schedule.StatusSuccess, schedule.StatusCancelled}[dice.IntN(4)]
			r.settleOne(run, to)
			ended = append(ended, schedule.EndedRun{Key: run.Key, RunAt: run.RunAt, EndedAt: r.now, Status: to})
			want, got := FailureOf(s.ScheduleID, ended), r.failure(s)
			r.hold((got != nil) == (want != nil), "after %+v: fails %v, got %+v", ended, want, got)
			if want != nil {
				r.hold(got.LastRunAt.Equal(want.LastRunAt) && got.LastEndedAt.Equal(want.LastEndedAt), "the newest failure of %+v is %+v, got %+v", ended, want, got)
			}
		}
	}
}

func failGrouped(r *rig) {
	r.lead()
	fail := func(name string, minutes int, reason schedule.Reason, code string, edits ...func(*schedule.Schedule)) {
		s := r.create(name, edits...)
		r.settleOne(r.bring(r.slot(s, r.at(time.Duration(minutes)*time.Minute)), schedule.StatusStarted), schedule.StatusFailed,
			func(e *schedule.Settlement) {
				e.Reason, e.ErrorCode, e.CompletedAt = reason, code, r.at(time.Duration(minutes)*time.Minute)
			})
	}
	r.create("well")
	for i, name := range []string{"a", "b", "c", "d", "e", "f"} {
		fail(name, i-10, schedule.ReasonWorkflowFailed, "exit")
	}
	fail("g", -3, schedule.ReasonTimeout, "")
	fail("foreign", -2, schedule.ReasonTimeout, "", func(s *schedule.Schedule) { s.UserID = r.id("foreign") })
	short := func(ids []string) (out []string) {
		for _, id := range ids {
			out = append(out, id[len(r.name)+1:])
		}
		return out
	}
	groups, err := r.FailureGroups(r.ctx, r.user)
	r.ok(err, "group")
	for i := range groups {
		groups[i].Examples = short(groups[i].Examples)
	}
	equal(r, "groups", groups, []schedule.FailureGroup{
		{Reason: schedule.ReasonWorkflowFailed, ErrorCode: "exit", Schedules: 6, Failures: 6, FirstAt: r.at(-10 * time.Minute), LastAt: r.at(-5 * time.Minute), Examples: []string{"f", "e", "d", "c", "b"}},
		{Reason: schedule.ReasonTimeout, Schedules: 1, Failures: 1, FirstAt: r.at(-3 * time.Minute), LastAt: r.at(-3 * time.Minute), Examples: []string{"g"}},
	})
	groups, err = r.FailureGroups(r.ctx, "")
	r.ok(err, "group")
	i := slices.IndexFunc(groups, func(g schedule.FailureGroup) bool { return g.Reason == schedule.ReasonTimeout })
	r.hold(i >= 0 && groups[i].Schedules == 2, "of all owners there are two, got %+v", groups)

	var listed, pages []string
	for _, limit := range []int{100, 3} {
		after := ""
		for {
			found, err := r.ListSchedules(r.ctx, schedule.ScheduleFilter{UserID: r.user, Failing: true, Now: r.now, After: after, Limit: limit})
			r.ok(err, "list")
			for _, s := range found {
				pages = append(pages, s.ScheduleID)
			}
			if len(found) < limit {
				break
			}
			after = found[len(found)-1].ScheduleID
		}
		listed, pages = short(pages), nil
		equal(r, "failing schedules", listed, []string{"a", "b", "c", "d", "e", "f", "g"})
	}
}

func recentOutcomes(r *rig) {
	r.lead()
	s, other := r.create("s"), r.create("other")
	var want []schedule.EndedRun
	for i, to := range []schedule.Status{schedule.StatusSuccess, schedule.StatusFailed, schedule.StatusSkipped, schedule.StatusCancelled, schedule.StatusSuccess} {
		run := r.bring(r.slot(s, r.at(time.Duration(i-10)*time.Minute)), schedule.StatusLaunching)
		r.settleOne(run, to, func(e *schedule.Settlement) { e.Reason, e.ErrorCode = schedule.ReasonCancelled, fmt.Sprint("code", i) })
		want = append(want, schedule.EndedRun{Key: run.Key, RunAt: run.RunAt, EndedAt: r.now, Status: to, Reason: schedule.ReasonCancelled, ErrorCode: fmt.Sprint("code", i)})
	}
	r.bring(r.slot(s, r.at(-time.Minute)), schedule.StatusStarted)
	r.add(r.slot(s, r.at(time.Minute)))
	slices.SortFunc(want, func(a, b schedule.EndedRun) int { return cmp.Compare(b.RunAt.Unix(), a.RunAt.Unix()) })
	recent, err := r.RecentOutcomes(r.ctx, []string{s.ScheduleID, other.ScheduleID, r.id("nobody")}, 4)
	r.ok(err, "recent outcomes")
	equal(r, "outcomes", recent[s.ScheduleID].Outcomes, want[:4])
	r.hold(len(recent[other.ScheduleID].Outcomes) == 0 && recent[other.ScheduleID].Failure == nil, "another has none: %+v", recent)
	recent, err = r.RecentOutcomes(r.ctx, nil, 4)
	r.ok(err, "recent outcomes of nothing")
	r.hold(len(recent) == 0, "of nothing there is nothing: %+v", recent)
}

func failuresWoken(r *rig) {
	r.lead()
	s := r.create("s")
	judged := func() []schedule.ExpectationCase {
		r.Helper()
		r.ok(r.WakeFailures(r.ctx, r.now, 100), "wake")
		return r.judging(r.now, func(c schedule.ExpectationCase) schedule.ExpectationVerdict {
			c.State.JudgeAt = time.Time{}
			if c.Failure == nil {
				return schedule.ExpectationVerdict{State: c.State, Drop: true}
			}
			c.State.Late, c.State.LateSince = c.Failure.Failures, c.Failure.FirstRunAt
			return schedule.ExpectationVerdict{State: c.State}
		})
	}
	end := func(minutes int, to schedule.Status) {
		r.settleOne(r.bring(r.slot(s, r.at(time.Duration(minutes-60)*time.Minute)), schedule.StatusStarted), to)
	}
	r.hold(len(judged()) == 0, "nothing fails, nothing is judged")
	end(1, schedule.StatusFailed)
	c := r.only(judged())
	r.hold(c.State.Kind == schedule.ExpectNoFailure && c.Failure != nil && c.Failure.Failures == 1 && c.Schedule != nil, "the first failure: %+v", c)
	r.hold(len(judged()) == 0, "what has not changed is not judged")
	end(2, schedule.StatusFailed)
	c = r.only(judged())
	r.hold(c.Failure != nil && c.Failure.Failures == 2, "one more: %+v", c)
	end(3, schedule.StatusSuccess)
	end(4, schedule.StatusFailed)
	c = r.only(judged())
	r.hold(c.Failure != nil && c.Failure.Failures == 1 && c.Failure.FirstRunAt.Equal(r.at(-56*time.Minute)), "another row of failures: %+v", c)
	end(5, schedule.StatusSuccess)
	c = r.only(judged())
	r.hold(c.Failure == nil, "a success: %+v", c)
	r.hold(len(judged()) == 0, "and then nothing is left")
}

func countEnded(r *rig) {
	r.lead()
	s, other := r.create("s"), r.create("other")
	end := func(s schedule.Schedule, minutes int, to schedule.Status, code string) {
		r.settleOne(r.bring(r.slot(s, r.at(time.Duration(minutes-60)*time.Minute)), schedule.StatusLaunching), to,
			func(e *schedule.Settlement) { e.Reason, e.ErrorCode = schedule.ReasonWorkflowFailed, code })
	}
	end(s, 0, schedule.StatusFailed, "old")
	r.now = r.at(time.Hour)
	since := r.now
	for i := range 3 {
		end(s, 10+i, schedule.StatusFailed, "exit")
	}
	end(s, 20, schedule.StatusFailed, "other")
	end(other, 1, schedule.StatusFailed, "exit")
	end(other, 2, schedule.StatusSuccess, "")
	r.bring(r.slot(other, r.at(-time.Minute)), schedule.StatusStarted)
	counts, err := r.CountEnded(r.ctx, since, 1000)
	r.ok(err, "count")
	counts = slices.DeleteFunc(counts, func(c schedule.EndedCount) bool {
		return c.ScheduleID != s.ScheduleID && c.ScheduleID != other.ScheduleID
	})
	groups := schedule.GroupEnded(counts)
	r.hold(len(groups) == 3, "three ways, got %+v", groups)
	g := groups[0]
	r.hold(g.Status == schedule.StatusFailed && g.ErrorCode == "exit" && g.Runs == 4 && len(g.Worst) == 2 && g.Worst[0].ScheduleID == s.ScheduleID && g.Worst[0].Runs == 3,
		"the worst schedule first: %+v", g)
	counts, err = r.CountEnded(r.ctx, since, 1)
	r.ok(err, "count")
	r.hold(len(counts) == 1 && counts[0].Runs == 1, "of very many the newest: %+v", counts)
}
