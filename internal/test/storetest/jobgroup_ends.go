package storetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

// groupEnds are how groups of runs end.
var groupEnds = []check{
	{"a group ends with its last member, with one message and one run that follows", endLast},
	{"a group that is not sealed never ends, and a sealed one without members is complete", endSealed},
	{"a sequential group stops once a member has used up its attempts, not before", endStops},
	{"a group that goes on after a failure ends PARTIAL", endContinues},
	{"a parallel group that stops cancels members that were never admitted, and lets the others end", endStopsParallel},
	{"a stopped group takes no more members", endStopSeals},
	{"a cancelled group ends its waiting members at once, and the others as they end", endCancelled},
	{"a cancelled group of many is cancelled in portions, the rest by the sweep", endPortions},
	{"a stopped group of many stops in portions, and ends with the last one", endStopPortions},
	{"a retry by hand after the end changes nothing of the group", endFinal},
	{"a retry by hand before the end counts instead of the run before it", endRetried},
	{"the message of a group goes to its own target, else to that of its queue", endTold},
	{"an end by a report, a bound, a sweep or a refusal ends the group too", endByAll},
	{"ended groups are pruned, and their runs end without them", endPruned},
	{"its on_complete runs although the schedule of it was deleted long ago", endLongDeleted},
	{"two last members that end at the same time end the group once", endRace},
	{"members that end while others are added, cancelled and sealed leave no group behind", endStorm},
}

// groupTold are the messages about groups.
func (j *jobs) groupTold(g schedule.JobGroup) (messages []schedule.AlertDelivery) {
	j.Helper()
	found, err := j.ListDeliveries(j.ctx, schedule.DeliveryFilter{Runs: true, Limit: 200})
	j.ok(err, "list deliveries")
	return slices.DeleteFunc(found, func(m schedule.AlertDelivery) bool { return m.GroupNo != g.No })
}

func completes(j *jobs) func(*schedule.JobGroup) {
	return func(g *schedule.JobGroup) {
		g.OnComplete = &schedule.GroupRun{
			ScheduleID: j.of.ScheduleID, Revision: 1, OverlapKey: j.of.QualifiedOverlapKey(), MaxQueued: 7, Input: []byte(`{"all":1}`), Priority: 3, MaxAttempts: 2,
			WorkflowID: j.of.WorkflowID, Version: j.of.Version,
		}
	}
}

func endLast(r *rig) {
	j := r.jobs("q", tells("billing"))
	j.group("g", schedule.GroupParallel, "a b", completes(j))
	j.put("x")
	r.now = r.at(time.Second)
	j.plays("a", schedule.StatusSuccess)
	g := j.isGroup("g", schedule.GroupRunning, 1, 0, 0, 0)
	j.hold(len(j.groupTold(g)) == 0, "nobody is told yet")
	r.now = r.at(time.Second)
	j.plays("b", schedule.StatusSuccess)
	g = j.isGroup("g", schedule.GroupCompleted, 2, 0, 0, 0)
	j.hold(g.EndedAt.Equal(r.now), "it ends now, got %s", g.EndedAt)
	equal(r, "its message", j.groupTold(g), []schedule.AlertDelivery{{
		DeliveryID: "group_" + g.EndKey().String(), RunKey: g.EndKey(), GroupNo: g.No, UserID: r.user, Type: "group.ended", Target: "webhook:billing", TargetKind: "webhook",
		State: schedule.DeliveryPending, Round: 1, RoundAt: r.now, NextAt: r.now, CreatedAt: r.now,
	}})
	j.names[g.EndKey()] = "done"
	j.waits("done x")
	got := r.ledger(g.EndKey())
	j.hold(got.Trigger == schedule.TriggerJob && got.Priority == 3 && got.MaxAttempts == 2 && string(got.Input) == `{"all":1}` && got.Queue.GroupNo == 0 &&
		got.ScheduleID == j.of.ScheduleID && got.RunAt.Equal(r.now) && got.Queue.EnqueuedAt.Equal(r.now) && got.UserID == j.of.UserID, "the run that follows, got %+v", got)
	j.plays("done", schedule.StatusSuccess)
	equal(r, "the group afterwards", j.groupNow("g"), g)
	j.hold(len(j.groupTold(g)) == 1, "one message")
}

func endSealed(r *rig) {
	j := r.jobs("q", tells("billing"))
	g := j.group("empty", schedule.GroupSequential, "", completes(j))
	j.isGroup("empty", schedule.GroupCompleted, 0, 0, 0, 0)
	j.hold(len(j.groupTold(g)) == 1 && len(j.listed()) == 1, "it is told, and the run follows")
	j.group("open", schedule.GroupParallel, "", unsealed)
	j.addMembers("open", "a")
	j.names[g.EndKey()] = "done"
	j.plays("done", schedule.StatusSuccess)
	j.plays("a", schedule.StatusSuccess)
	j.isGroup("open", schedule.GroupRunning, 1, 0, 0, 0)
	j.sweepQueues()
	j.isGroup("open", schedule.GroupRunning, 1, 0, 0, 0)
	r.now = r.at(time.Minute)
	after := j.changeGroup("open", seal)
	j.hold(after.State == schedule.GroupCompleted && after.EndedAt.Equal(r.now), "the seal ends it, got %+v", after)
	j.isGroup("open", schedule.GroupCompleted, 1, 0, 0, 0)
}

func endStops(r *rig) {
	j := r.jobs("q", tells("billing"))
	g := j.group("g", schedule.GroupSequential, "a b c d e")
	j.plays("a", schedule.StatusSuccess)
	j.plays("b", schedule.StatusSuccess)
	run := j.plays("c", schedule.StatusFailed)
	for attempt := int32(2); attempt <= 3; attempt++ {
		j.isGroup("g", schedule.GroupRunning, 2, 0, 0, 0)
		j.isIn(r.ledger(j.keyNamed("d")), schedule.QueueChained)
		next := r.next(run)
		j.names[next.Key] = "c"
		r.now = next.FireAt
		j.sweepQueues()
		run = j.plays("c", schedule.StatusFailed)
		j.hold(run.Attempt == attempt, "attempt %d, got %d", attempt, run.Attempt)
	}
	for _, name := range []string{"d", "e"} {
		got := r.ledger(j.keyNamed(name))
		j.hold(got.Status == schedule.StatusCancelled && got.Reason == schedule.ReasonPredecessorFailed && got.CompletedAt.Equal(r.now), "%s is cancelled, got %+v", name, got)
		j.isTold(got, schedule.WebhookCancelled)
	}
	j.isGroup("g", schedule.GroupPartial, 2, 1, 0, 2)
	j.hold(len(j.groupTold(g)) == 1, "one message")
	first := r.jobs("first")
	first.group("g1", schedule.GroupSequential, "a b")
	first.fails("a")
	first.isGroup("g1", schedule.GroupPartial, 0, 1, 0, 1)
}

func endContinues(r *rig) {
	j := r.jobs("q")
	j.group("g", schedule.GroupSequential, "a b", onFailure(schedule.GroupContinue))
	j.fails("a")
	j.isGroup("g", schedule.GroupRunning, 0, 1, 0, 0)
	j.plays("b", schedule.StatusSuccess)
	j.isGroup("g", schedule.GroupPartial, 1, 1, 0, 0)
	parallel := r.jobs("parallel")
	parallel.group("p", schedule.GroupParallel, "a b")
	parallel.cancel(parallel.runsNamed("a")[0])
	parallel.plays("b", schedule.StatusSuccess)
	parallel.isGroup("p", schedule.GroupPartial, 1, 0, 0, 1)
}

func endStopsParallel(r *rig) {
	j := r.jobs("q", maxInFlight(3))
	j.group("g", schedule.GroupParallel, "a b c d e", onFailure(schedule.GroupStop))
	runs := j.admits(3, "a b c")
	retried := r.next(j.end(runs[0], schedule.StatusFailed)) // waits for its second attempt
	j.names[retried.Key] = "a2"
	j.accept(runs[1])
	j.unsent(runs[2])
	j.hold(j.putsBack(runs[2]), "c waits again")
	j.cancel(j.runsNamed("d")[0])
	e := r.ledger(j.keyNamed("e"))
	j.hold(e.Status == schedule.StatusCancelled && e.Reason == schedule.ReasonPredecessorFailed, "e is cancelled, got %+v", e)
	j.isGroup("g", schedule.GroupRunning, 0, 0, 0, 2)
	j.end(runs[1], schedule.StatusSuccess)
	j.plays("c", schedule.StatusSuccess)
	r.now = retried.FireAt
	j.sweepQueues()
	j.plays("a2", schedule.StatusSuccess)
	j.isGroup("g", schedule.GroupPartial, 3, 0, 0, 2)
}

func endStopSeals(r *rig) {
	j := r.jobs("q")
	j.group("g", schedule.GroupSequential, "a", unsealed)
	j.fails("a")
	g := j.isGroup("g", schedule.GroupPartial, 0, 1, 0, 0)
	j.hold(g.Sealed, "it is sealed, got %+v", g)
}

func endCancelled(r *rig) {
	j := r.jobs("q", maxInFlight(1), tells("billing"))
	j.group("g", schedule.GroupParallel, "a b c", unsealed)
	a := j.admits(1, "a")[0]
	j.accept(a)
	g := j.cancelGroup("g")
	j.hold(g.State == schedule.GroupRunning && g.Sealed, "it runs until a has ended, got %+v", g)
	j.isGroup("g", schedule.GroupRunning, 0, 0, 0, 2)
	for _, name := range []string{"b", "c"} {
		got := r.ledger(j.keyNamed(name))
		j.hold(got.Status == schedule.StatusCancelled && got.Reason == schedule.ReasonCancelled, "%s is cancelled, got %+v", name, got)
	}
	got := r.ledger(a.Key)
	j.hold(got.CancelRequestedAt.Equal(r.now) && got.CancelReason == schedule.ReasonCancelled, "the cancel of a is requested, got %+v", got)
	swept := j.sweepQueues()
	j.hold(len(swept.Cancels) == 1 && swept.Cancels[0].Key == a.Key, "a sweep sends it, got %+v", swept)
	j.finish(a.Key, schedule.Outcome{Status: schedule.StatusFailed, Reason: schedule.ReasonWorkflowFailed})
	j.isGroup("g", schedule.GroupCancelled, 0, 0, 0, 3)
	j.hold(len(j.groupTold(g)) == 1, "one message")

	succeeds := r.jobs("succeeds")
	succeeds.group("s", schedule.GroupSequential, "a b")
	run := succeeds.admits(1, "a")[0]
	succeeds.accept(run)
	succeeds.cancelGroup("s")
	succeeds.end(run, schedule.StatusSuccess)
	succeeds.isGroup("s", schedule.GroupCancelled, 1, 0, 0, 1)

	empty := r.jobs("empty")
	empty.group("e", schedule.GroupParallel, "", unsealed)
	empty.cancelGroup("e")
	empty.isGroup("e", schedule.GroupCancelled, 0, 0, 0, 0)
}

// many are names of more members than one transaction cancels.
func many() string {
	names := make([]string, schedule.MaxGroupStep+20)
	for i := range names {
		names[i] = fmt.Sprint("m", i)
	}
	return strings.Join(names, " ")
}

func endPortions(r *rig) {
	j := r.jobs("q")
	j.group("g", schedule.GroupParallel, many())
	j.cancelGroup("g")
	j.isGroup("g", schedule.GroupRunning, 0, 0, 0, schedule.MaxGroupStep)
	swept := j.sweepQueues()
	j.hold(swept.More, "the sweep says that there may be more")
	j.isGroup("g", schedule.GroupCancelled, 0, 0, 0, schedule.MaxGroupStep+20)
	j.hold(!j.sweepQueues().More, "nothing is left")
}

func endStopPortions(r *rig) {
	j := r.jobs("q")
	j.group("g", schedule.GroupSequential, many())
	j.cancel(j.runsNamed("m0")[0])
	g := j.isGroup("g", schedule.GroupRunning, 0, 0, 0, schedule.MaxGroupStep+1)
	first, err := r.FirstMember(r.ctx, g.No)
	j.hold(err == nil && first.State == schedule.QueueChained, "the rest is not let go, got %+v, %v", first, err)
	j.sweepQueues()
	j.isGroup("g", schedule.GroupPartial, 0, 0, 0, schedule.MaxGroupStep+20)
}

// byHand retries an ended run by hand.
func (j *jobs) byHand(old schedule.Run) schedule.Run {
	j.Helper()
	var retry schedule.Run
	_, moved := j.changeRun(old.Key, func(in schedule.RunInput) schedule.RunChange {
		retry = ledger.RetryByHand(&in.Run, in.Definition, in.Queue, &schedule.RedriveOrder{RequestID: "hand"}, j.now)
		retry.OverlapPolicy = in.Run.OverlapPolicy
		return schedule.RunChange{Insert: &retry, Redriven: true}
	})
	j.hold(moved, "it is inserted")
	j.names[retry.Key] = j.names[old.Key] + "+"
	return retry
}

func endFinal(r *rig) {
	j := r.jobs("q", tells("billing"))
	j.group("g", schedule.GroupSequential, "a b")
	dead := j.fails("a")
	before := j.isGroup("g", schedule.GroupPartial, 0, 1, 0, 1)
	retry := j.byHand(dead)
	j.hold(retry.Queue.GroupNo == before.No && retry.Queue.GroupSeq == 1, "it names the group, got %+v", retry.Queue)
	r.now = r.at(time.Hour)
	j.plays("a+", schedule.StatusSuccess)
	equal(r, "the group", j.groupNow("g"), before)
	j.hold(len(j.groupTold(before)) == 1, "one message")
}

func endRetried(r *rig) {
	j := r.jobs("q")
	j.group("g", schedule.GroupSequential, "a b", onFailure(schedule.GroupContinue))
	dead := j.fails("a")
	j.byHand(dead)
	j.isGroup("g", schedule.GroupRunning, 0, 0, 0, 0)
	b := r.ledger(j.keyNamed("b"))
	run := j.admits(1, "a+")[0]
	j.end(run, schedule.StatusSuccess)
	j.isGroup("g", schedule.GroupRunning, 1, 0, 0, 0)
	j.isIn(b, schedule.QueueWaiting)
	j.plays("b", schedule.StatusSuccess)
	j.isGroup("g", schedule.GroupCompleted, 2, 0, 0, 0)
}

func endTold(r *rig) {
	for _, c := range []struct {
		name  string
		queue func(*schedule.Queue)
		own   string
		want  string
	}{
		{"quiet", func(*schedule.Queue) {}, "", ""},
		{"own", func(*schedule.Queue) {}, "mine", "mine"},
		{"queues", tells("billing"), "", "billing"},
		{"both", tells("billing"), "mine", "mine"},
		{"other types", tells("billing", schedule.WebhookFailed), "", ""},
		{"own and other types", tells("billing", schedule.WebhookFailed), "mine", "mine"},
		{"this type", tells("billing", schedule.WebhookGroup), "", "billing"},
	} {
		j := r.jobs(c.name, c.queue)
		g := j.group(c.name, schedule.GroupParallel, "", func(g *schedule.JobGroup) { g.Webhook = c.own })
		var got []string
		for _, m := range j.groupTold(g) {
			got = append(got, strings.TrimPrefix(m.Target, "webhook:"))
		}
		r.hold(strings.Join(got, " ") == c.want, "%s: told %q, got %q", c.name, c.want, got)
	}
}

func endByAll(r *rig) {
	for name, end := range map[string]func(j *jobs, run schedule.Run){
		"report": func(j *jobs, run schedule.Run) {
			j.accept(run)
			j.moveRun(run.Key, schedule.RunChange{Settle: &schedule.Settlement{To: schedule.StatusSuccess, CompletedAt: j.now}})
		},
		"settlement": func(j *jobs, run schedule.Run) {
			j.settleLaunched(schedule.Settlement{Key: run.Key, To: schedule.StatusSuccess, CompletedAt: j.now})
		},
		"timeout": func(j *jobs, run schedule.Run) {
			r.now = j.accept(run).TimeoutAt
			j.sweepQueues()
		},
		"cancel": func(j *jobs, run schedule.Run) {
			j.unsent(run)
			j.cancel(run)
		},
	} {
		j := r.jobs(name)
		j.group(name, schedule.GroupParallel, "", unsealed)
		j.addMembers(name, name, func(run *schedule.Run) { run.MaxAttempts = 1 })
		j.changeGroup(name, seal)
		end(j, j.admits(1, name)[0])
		g := j.groupNow(name)
		r.hold(g.State != schedule.GroupRunning && g.Over() == 1, "%s ends the group, got %+v", name, g)
	}
	j := r.jobs("refused")
	j.group("refused", schedule.GroupParallel, "r")
	j.admission(5, func(req *schedule.AdmitRequest) { req.RequireGrant = true })
	j.isGroup("refused", schedule.GroupPartial, 0, 0, 1, 0)
}

func endPruned(r *rig) {
	r.lead()
	j := r.jobs("q")
	j.group("g", schedule.GroupSequential, "a b")
	dead := j.fails("a")
	j.byHand(dead)
	j.group("runs", schedule.GroupParallel, "", unsealed)
	r.now = r.at(time.Hour)
	r.pruneAll(r.now)
	_, err := r.GetJobGroup(r.ctx, r.id("g"))
	r.hold(errors.Is(err, schedule.ErrNotFound), "the ended group is gone: %v", err)
	j.isGroup("runs", schedule.GroupRunning, 0, 0, 0, 0)
	j.plays("a+", schedule.StatusSuccess)
}

func endLongDeleted(r *rig) {
	r.lead()
	j := r.jobs("q")
	last := r.create("last", func(s *schedule.Schedule) { s.DeletedAt = r.at(-time.Hour) })
	h := j.group("h", schedule.GroupParallel, "b", completes(j), func(g *schedule.JobGroup) { g.OnComplete.ScheduleID = last.ScheduleID })
	r.pruneAll(r.now)
	j.plays("b", schedule.StatusSuccess)
	got := r.ledger(h.EndKey())
	j.hold(got.ScheduleID == last.ScheduleID && got.Queue.State == schedule.QueueWaiting, "it waits, got %+v", got)
	j.names[got.Key] = "end"
	j.admits(5, "end")
}
