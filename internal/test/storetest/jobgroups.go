package storetest

import (
	"errors"
	"strings"
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

// jobGroups are the members of groups of runs.
var jobGroups = []check{
	{"a group and its members are stored, and read with the members counted", groupStored},
	{"members of a parallel group start as their queue says", groupParallel},
	{"members of a sequential group start one after the other", groupSequential},
	{"a member that starts later is delayed once its predecessor has ended", groupDelayed},
	{"members that are added wait for those before them", groupAdded},
	{"a retry, a snooze and an interruption have the number of the run before them", groupHandsOver},
	{"a chained member is no waiting one: it can be changed, and not moved among them", groupChained},
	{"a cancel of a chained member cancels the later ones, and the earlier ones go on", groupCancelChained},
	{"an entry that is refused leaves no group and no member", groupRefused},
	{"groups are listed, newest first, by owner, queue and state", groupListed},
	{"runs are found by their group, and the view shows it", groupRuns},
	{"the group of a run that was admitted does not change", groupFixed},
	{"an entry without runs and without a group writes nothing", groupNothing},
}

// group stores a group with members by these names.
func (j *jobs) group(id string, mode schedule.GroupMode, names string, edits ...func(*schedule.JobGroup)) schedule.JobGroup {
	j.Helper()
	g, err := j.tryGroup(id, mode, names, edits...)
	j.ok(err, "make group")
	return g
}

func (j *jobs) tryGroup(id string, mode schedule.GroupMode, names string, edits ...func(*schedule.JobGroup)) (schedule.JobGroup, error) {
	g := schedule.JobGroup{
		GroupID: j.rig.id(id), QueueNo: j.queue.No, UserID: j.user, Mode: mode, OnFailure: schedule.GroupContinue, State: schedule.GroupRunning, Sealed: true,
		BodyHash: bodyHash, CreatedAt: j.now,
	}
	if mode == schedule.GroupSequential {
		g.OnFailure = schedule.GroupStop
	}
	for _, edit := range edits {
		edit(&g)
	}
	runs := j.membersOf(names)
	err := j.Enqueue(j.ctx, schedule.EnqueueRequest{QueueID: j.queue.QueueID, UserID: j.user, GroupID: g.GroupID}, func(f schedule.EnqueueFacts) (schedule.Enqueue, error) {
		if f.Group != nil {
			return schedule.Enqueue{}, schedule.ErrExists
		}
		after := g
		ledger.EnterGroup(&after, runs, false)
		return schedule.Enqueue{Runs: runs, Group: &after, Now: j.now}, nil
	})
	if err != nil {
		return g, err
	}
	return j.groupNow(id), nil
}

func (j *jobs) membersOf(names string) (runs []schedule.Run) {
	for _, name := range strings.Fields(names) {
		runs = append(runs, j.job(name, 0))
	}
	return runs
}

// addMembers adds members to a group.
func (j *jobs) addMembers(id, names string, edits ...func(*schedule.Run)) {
	j.Helper()
	runs := j.membersOf(names)
	for i := range runs {
		for _, edit := range edits {
			edit(&runs[i])
		}
	}
	err := j.Enqueue(j.ctx, schedule.EnqueueRequest{QueueID: j.queue.QueueID, UserID: j.user, GroupID: j.rig.id(id)}, func(f schedule.EnqueueFacts) (schedule.Enqueue, error) {
		after := *f.Group
		ledger.EnterGroup(&after, runs, f.GroupOpen)
		return schedule.Enqueue{Runs: runs, Group: &after, Now: j.now}, nil
	})
	j.ok(err, "add members")
}

func unsealed(g *schedule.JobGroup) { g.Sealed = false }

func onFailure(f schedule.GroupFailure) func(*schedule.JobGroup) {
	return func(g *schedule.JobGroup) { g.OnFailure = f }
}

func (j *jobs) groupNow(id string) schedule.JobGroup {
	j.Helper()
	g, err := j.GetJobGroup(j.ctx, j.rig.id(id))
	j.ok(err, "get group")
	return *g
}

// isGroup fails unless the group is in this state with these counts: succeeded, failed, skipped
// and cancelled.
func (j *jobs) isGroup(id string, state schedule.GroupState, succeeded, failed, skipped, cancelled int32) schedule.JobGroup {
	j.Helper()
	g := j.groupNow(id)
	want := schedule.GroupCounts{Succeeded: succeeded, Failed: failed, Skipped: skipped, Cancelled: cancelled}
	j.hold(g.State == state && g.GroupCounts == want && g.EndedAt.IsZero() == (state == schedule.GroupRunning), "group %s is %s with %+v, got %+v", id, state, want, g)
	return g
}

// change changes a group.
func (j *jobs) changeGroup(id string, edit func(*schedule.JobGroup)) schedule.JobGroup {
	j.Helper()
	after, err := j.ChangeJobGroup(j.ctx, j.rig.id(id), func(g *schedule.JobGroup) (schedule.GroupChange, error) {
		j.hold(g != nil, "the group exists")
		edit(g)
		return schedule.GroupChange{After: g, Now: j.now}, nil
	})
	j.ok(err, "change group")
	return *after
}

func seal(g *schedule.JobGroup) { g.Sealed = true }

func (j *jobs) cancelGroup(id string) schedule.JobGroup {
	j.Helper()
	return j.changeGroup(id, func(g *schedule.JobGroup) { g.Sealed, g.CancelRequestedAt = true, j.now })
}

// plays admits the only run that waits, and ends it.
func (j *jobs) plays(want string, status schedule.Status) schedule.Run {
	j.Helper()
	runs := j.admits(1, want)
	if len(runs) == 0 {
		return schedule.Run{}
	}
	return j.end(runs[0], status)
}

// fails plays a run until its attempts are used up, and returns the last one.
func (j *jobs) fails(name string) schedule.Run {
	j.Helper()
	run := j.plays(name, schedule.StatusFailed)
	for run.Dead == nil {
		next := j.next(run)
		j.names[next.Key] = name
		j.rig.now = next.FireAt
		j.sweepQueues()
		run = j.plays(name, schedule.StatusFailed)
	}
	return run
}

func groupStored(r *rig) {
	j := r.jobs("q")
	complete := &schedule.GroupRun{
		ScheduleID: j.of.ScheduleID, Revision: 1, OverlapKey: j.of.QualifiedOverlapKey(), MaxQueued: 7, Input: []byte(`{"all":1}`), Priority: 3, MaxAttempts: 2,
		WorkflowID: j.of.WorkflowID, Version: j.of.Version,
	}
	g := j.group("g", schedule.GroupParallel, "a b", unsealed, func(g *schedule.JobGroup) {
		g.OnFailure, g.OnComplete, g.Webhook, g.RetryOf = schedule.GroupStop, complete, "billing", "before"
	})
	want := schedule.JobGroup{
		No: g.No, GroupID: r.id("g"), QueueNo: j.queue.No, UserID: r.user, Mode: schedule.GroupParallel, OnFailure: schedule.GroupStop, State: schedule.GroupRunning,
		Members: 2, OnComplete: complete, Webhook: "billing", RetryOf: "before", BodyHash: bodyHash, CreatedAt: r.now,
	}
	equal(r, "the group", g, want)
	by, err := r.JobGroupByNo(r.ctx, g.No)
	r.ok(err, "by number")
	equal(r, "by its number", *by, want)
	id, err := r.JobGroupID(r.ctx, g.No)
	r.hold(err == nil && id == r.id("g"), "its id, got %q, %v", id, err)
	for seq, run := range j.listed() {
		j.hold(run.Queue.GroupNo == g.No && run.Queue.GroupSeq == int32(seq+1), "member %d, got %+v", seq+1, run.Queue)
	}
	j.plays("a", schedule.StatusSuccess)
	j.isGroup("g", schedule.GroupRunning, 1, 0, 0, 0)
	_, err = r.GetJobGroup(r.ctx, "nobody")
	r.hold(errors.Is(err, schedule.ErrNotFound), "there is none: %v", err)
	_, err = r.JobGroupByNo(r.ctx, 1<<30)
	r.hold(errors.Is(err, schedule.ErrNotFound), "there is none: %v", err)
	id, err = r.JobGroupID(r.ctx, 1<<30)
	r.hold(err == nil && id == "", "no id, got %q, %v", id, err)
	after, err := r.ChangeJobGroup(r.ctx, "nobody", func(g *schedule.JobGroup) (schedule.GroupChange, error) {
		r.hold(g == nil, "there is none")
		return schedule.GroupChange{}, nil
	})
	r.hold(err == nil && after == nil, "nothing is changed, got %+v, %v", after, err)
}

func groupParallel(r *rig) {
	j := r.jobs("q", maxInFlight(5))
	j.put("x")
	j.group("g", schedule.GroupParallel, "a b c")
	j.waits("x a b c")
	j.admits(5, "x a b c")
}

func groupSequential(r *rig) {
	j := r.jobs("q", maxInFlight(5))
	g := j.group("g", schedule.GroupSequential, "a b c")
	j.put("x")
	j.waits("a x b c")
	for _, name := range []string{"b", "c"} {
		j.isIn(j.runsNamed(name)[0], schedule.QueueChained)
	}
	counts, err := j.CountQueue(r.ctx, j.queue.No, 100)
	r.ok(err, "count")
	j.hold(counts.Waiting == 2 && counts.Chained == 2 && counts.Delayed == 0, "two wait and two are chained, got %+v", counts)
	first, err := j.FirstMember(r.ctx, g.No)
	r.ok(err, "first member")
	j.hold(first.Seq == 1 && first.State == schedule.QueueWaiting && j.names[first.Key] == "a", "a is the first, got %+v", first)
	a := j.admits(1, "a")[0]
	j.admits(5, "x")
	j.accept(a)
	j.admits(5, "")
	j.sweepQueues()
	j.admits(5, "")
	j.end(a, schedule.StatusSuccess)
	j.plays("b", schedule.StatusSuccess)
	j.waits("c")
	j.isGroup("g", schedule.GroupRunning, 2, 0, 0, 0)
	j.plays("c", schedule.StatusSuccess)
	j.isGroup("g", schedule.GroupCompleted, 3, 0, 0, 0)
}

func groupDelayed(r *rig) {
	j := r.jobs("q")
	j.group("g", schedule.GroupSequential, "a", unsealed)
	until := r.at(time.Hour)
	j.addMembers("g", "b", func(run *schedule.Run) { run.FireAt = until })
	b := j.runsNamed("b")[0]
	j.isIn(b, schedule.QueueChained)
	j.plays("a", schedule.StatusSuccess)
	j.isIn(b, schedule.QueueDelayed)
	swept := j.sweepQueues()
	j.hold(swept.NextDue.Equal(until), "the sweep knows when, got %s", swept.NextDue)
	r.now = until
	j.sweepQueues()
	j.plays("b", schedule.StatusSuccess)
}

func groupAdded(r *rig) {
	j := r.jobs("q", maxInFlight(5))
	j.group("g", schedule.GroupSequential, "", unsealed)
	j.addMembers("g", "a b")
	j.isIn(j.runsNamed("b")[0], schedule.QueueChained)
	j.plays("a", schedule.StatusSuccess)
	j.plays("b", schedule.StatusSuccess)
	j.isGroup("g", schedule.GroupRunning, 2, 0, 0, 0)
	j.addMembers("g", "c d")
	j.hold(j.groupNow("g").Members == 4, "four members")
	j.isIn(j.runsNamed("d")[0], schedule.QueueChained)
	j.changeGroup("g", seal)
	j.plays("c", schedule.StatusSuccess)
	j.isGroup("g", schedule.GroupRunning, 3, 0, 0, 0)
	j.plays("d", schedule.StatusSuccess)
	j.isGroup("g", schedule.GroupCompleted, 4, 0, 0, 0)
}

func groupHandsOver(r *rig) {
	j := r.jobs("q")
	g := j.group("g", schedule.GroupSequential, "a b")
	run := j.admits(1, "a")[0]
	for i, answer := range []schedule.Outcome{
		aSnooze(0),
		{Status: schedule.StatusFailed, Reason: schedule.ReasonInterrupted, ErrorCode: "interrupted"},
		{Status: schedule.StatusFailed, Reason: schedule.ReasonWorkflowFailed},
	} {
		j.finish(run.Key, answer)
		next := r.next(r.ledger(run.Key))
		j.hold(next.Queue.GroupNo == g.No && next.Queue.GroupSeq == 1, "run %d has the place, got %+v", i+2, next.Queue)
		j.isIn(j.runsNamed("b")[0], schedule.QueueChained)
		j.isGroup("g", schedule.GroupRunning, 0, 0, 0, 0)
		j.names[next.Key] = "a"
		r.now = schedule.Later(r.now, next.FireAt)
		j.sweepQueues()
		run = j.admits(1, "a")[0]
	}
	j.end(run, schedule.StatusSuccess)
	j.plays("b", schedule.StatusSuccess)
	j.isGroup("g", schedule.GroupCompleted, 2, 0, 0, 0)
}

func groupChained(r *rig) {
	j := r.jobs("q")
	j.group("g", schedule.GroupSequential, "a b")
	j.put("x")
	b := j.runsNamed("b")[0]
	r.ok(j.changes(b.Key, func(run *schedule.Run) {
		run.Input, run.Priority, run.Queue.Priority = rawJSON, 9, -9
	}), "change a chained run")
	got := j.isIn(b, schedule.QueueChained)
	j.hold(string(got.Input) == string(rawJSON) && got.Priority == 9, "it is changed, got %+v", got)
	at, err := j.PositionOf(r.ctx, &got, 10)
	r.hold(err == nil && at == 0, "it has no position, got %d, %v", at, err)
	j.plays("a", schedule.StatusSuccess)
	j.waits("b x")
}

func groupCancelChained(r *rig) {
	j := r.jobs("q")
	j.group("g", schedule.GroupSequential, "a b c d e")
	c := j.runsNamed("c")[0]
	got := j.cancel(c)
	j.hold(got.Status == schedule.StatusCancelled && got.Reason == schedule.ReasonCancelled, "it ends at once, got %+v", got)
	for _, name := range []string{"d", "e"} {
		got := r.ledger(j.keyNamed(name))
		j.hold(got.Status == schedule.StatusCancelled && got.Reason == schedule.ReasonPredecessorFailed, "%s is cancelled, got %+v", name, got)
	}
	g := j.isGroup("g", schedule.GroupRunning, 0, 0, 0, 3)
	j.hold(g.Sealed && g.StopFrom == 4, "it stops behind c, got %+v", g)
	j.plays("a", schedule.StatusSuccess)
	j.plays("b", schedule.StatusSuccess)
	j.isGroup("g", schedule.GroupPartial, 2, 0, 0, 3)
}

// keyNamed is the key of a job by its name.
func (j *jobs) keyNamed(name string) schedule.Key {
	for key, found := range j.names {
		if found == name {
			return key
		}
	}
	return schedule.Key{}
}

func groupRefused(r *rig) {
	j := r.jobs("q")
	bad := j.of.ScheduleID
	j.of.ScheduleID = "nobody"
	_, err := j.tryGroup("g", schedule.GroupParallel, "a")
	r.hold(err != nil, "a run of no schedule is refused")
	j.of.ScheduleID = bad
	_, err = r.GetJobGroup(r.ctx, r.id("g"))
	r.hold(errors.Is(err, schedule.ErrNotFound), "no group is left: %v", err)
	j.group("g", schedule.GroupParallel, "b", unsealed)
	before := j.groupNow("g")
	_, err = r.ChangeJobGroup(r.ctx, r.id("g"), func(g *schedule.JobGroup) (schedule.GroupChange, error) {
		g.Sealed = true
		return schedule.GroupChange{After: g, Now: r.now}, errRefused
	})
	r.hold(errors.Is(err, errRefused), "the refusal comes back: %v", err)
	equal(r, "the group", j.groupNow("g"), before)
	_, err = j.tryGroup("g", schedule.GroupParallel, "c")
	r.hold(errors.Is(err, schedule.ErrExists), "it exists: %v", err)
	j.waits("b")
}
