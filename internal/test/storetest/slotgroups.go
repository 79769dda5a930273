package storetest

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// slotGroupChecks are the groups that the runs of schedules join.
var slotGroupChecks = []check{
	{"the runs of one instant of three schedules are one group, which ends once it is sealed, with one message", slotGroupEnds},
	{"a group that has no open member at its seal_at ends then, and not before", slotGroupSealed},
	{"each instant, queue, owner and name has its own group", slotGroupsApart},
	{"a run that enters after the seal has no group, and the log of the queue says so", slotGroupLate},
	{"a group that was sealed by hand takes no more runs", slotGroupByHand},
	{"runs that are caught up, of a backfill, by hand or retried by hand have no group", slotGroupInTime},
	{"a slot that does not enter its queue makes no group", slotGroupSkipped},
	{"a run does not join a group that a request has made under its id", slotGroupTaken},
	{"an automatic retry has the place of the run before it", slotGroupRetry},
	{"a cancel of the group ends its runs, and their overlap groups are free", slotGroupCancelled},
	{"the webhook of the schedule replaces that of the queue", slotGroupWebhook},
	{"an entry that the database refuses leaves no group and no member", slotGroupGuarded},
	{"leaders of two shards make one group together", slotGroupShards},
	{"runs that enter, end and are cancelled at the same time leave no group behind", slotGroupStorm},
}

// slotsTogether is a queue with schedules a, b and c of the group "night".
func (r *rig) slotsTogether(policy schedule.OverlapPolicy, edits ...func(*schedule.Schedule)) (*slotQueue, []schedule.Schedule) {
	r.Helper()
	edits = append([]func(*schedule.Schedule){withPolicy(policy), func(s *schedule.Schedule) { s.Group = "night" }}, edits...)
	q := r.slotsIn(policy, edits...)
	all := []schedule.Schedule{q.s}
	for _, name := range []string{"b", "c"} {
		all = append(all, r.create(name, append(edits, func(s *schedule.Schedule) {
			s.QueueID, s.Retry = q.queue.QueueID, schedule.RetryPolicy{}
		})...))
	}
	q.changeQueue(func(now *schedule.Queue) { now.MaxInFlight, now.Webhook = 10, "billing" })
	return q, all
}

func (q *slotQueue) changeQueue(edit func(*schedule.Queue)) {
	q.Helper()
	_, err := q.ChangeQueue(q.ctx, q.queue.QueueID, func(now *schedule.Queue) (schedule.QueueChange, error) {
		edit(now)
		return schedule.QueueChange{After: now}, nil
	})
	q.ok(err, "change queue")
}

// dueOf are slots of schedules that are due now, by the names a, b, c, in this order.
func (q *slotQueue) dueOf(all []schedule.Schedule) (runs []schedule.Run) {
	q.Helper()
	for i, s := range all {
		run := q.add(q.slot(s, q.now, func(run *schedule.Run) { run.Priority = int32(-i) }))[0]
		q.names[run.Key] = string(rune('a' + i))
		runs = append(runs, run)
	}
	return runs
}

// nightID is the id of the group of an instant.
func (q *slotQueue) nightID(at time.Time) string {
	return schedule.SlotGroup{QueueID: q.queue.QueueID, UserID: q.user, Name: "night", RunAt: at}.ID()
}

// night is the group of an instant.
func (q *slotQueue) night(at time.Time) schedule.JobGroup {
	q.Helper()
	g, err := q.GetJobGroup(q.ctx, q.nightID(at))
	q.ok(err, "get the group")
	return *g
}

func (q *slotQueue) noNight(at time.Time) {
	q.Helper()
	_, err := q.GetJobGroup(q.ctx, q.nightID(at))
	q.hold(errors.Is(err, schedule.ErrNotFound), "there is no group, got %v", err)
}

// logged are the entries in the log of the queue about runs without a group, newest first.
func (q *slotQueue) logged() (notes []string) {
	q.Helper()
	events, err := q.ListQueueEvents(q.ctx, q.queue.QueueID, 0, 50)
	q.ok(err, "list events")
	for _, e := range events {
		if e.Kind == schedule.QueueUngrouped {
			notes = append(notes, e.Note)
		}
	}
	return notes
}

// says fails unless the log has just these entries, newest first.
func (q *slotQueue) says(wants ...string) {
	q.Helper()
	notes := q.logged()
	ok := len(notes) == len(wants)
	for i := range notes {
		ok = ok && strings.Contains(notes[i], wants[i])
	}
	q.hold(ok, "the log says %q, got %q", wants, notes)
}

func slotGroupEnds(r *rig) {
	q, all := r.slotsTogether(schedule.OverlapSkip)
	at := r.now
	runs := q.dueOf(all)
	q.passes("a b c")
	g := q.night(at)
	for i, run := range runs {
		got := r.ledger(run.Key).Queue
		r.hold(got.GroupNo == g.No && got.GroupSeq > 0 && got.GroupSeq <= 3, "run %d is a member, got %+v", i, got)
	}
	want := schedule.JobGroup{
		No: g.No, GroupID: q.nightID(at), QueueNo: q.queue.No, UserID: r.user, Mode: schedule.GroupParallel, OnFailure: schedule.GroupContinue, State: schedule.GroupRunning,
		SealAt: at.Add(grace), Members: 3, CreatedAt: at, BodyHash: g.BodyHash,
	}
	equal(r, "the group", g, want)
	q.admits(3, "a b c")
	q.later(grace)
	q.end(runs[0], schedule.StatusSuccess)
	q.sweepQueues()
	g = q.night(at)
	r.hold(g.Sealed && g.State == schedule.GroupRunning && g.Succeeded == 1, "it is sealed and runs, got %+v", g)
	q.end(runs[1], schedule.StatusSuccess)
	r.hold(len(q.groupTold(g)) == 0, "nobody is told yet")
	q.end(runs[2], schedule.StatusSuccess)
	g = q.night(at)
	r.hold(g.State == schedule.GroupCompleted && g.Succeeded == 3 && g.EndedAt.Equal(r.now), "it has ended, got %+v", g)
	told := q.groupTold(g)
	r.hold(len(told) == 1 && told[0].Type == "group.ended" && told[0].Target == "webhook:billing" && told[0].UserID == r.user, "one message, got %+v", told)
	q.sweepQueues()
	r.hold(len(q.groupTold(g)) == 1, "and no other")
	q.says()
}

func slotGroupSealed(r *rig) {
	q, all := r.slotsTogether(schedule.OverlapAllow)
	at := r.now
	runs := q.dueOf(all[:2])
	q.passes("a b")
	q.admits(2, "a b")
	q.end(runs[0], schedule.StatusSuccess)
	q.end(runs[1], schedule.StatusCancelled)
	r.now = at.Add(grace - time.Millisecond)
	q.sweepQueues()
	g := q.night(at)
	r.hold(g.State == schedule.GroupRunning && !g.Sealed && g.Over() == 2, "it takes more members until then, got %+v", g)
	run := r.add(r.slot(all[2], at))[0]
	q.names[run.Key] = "late enough"
	q.passes("late enough")
	r.hold(q.night(at).Members == 3, "and one came")
	q.admits(1, "late enough")
	q.end(run, schedule.StatusSuccess)
	r.now = at.Add(grace)
	q.sweepQueues()
	g = q.night(at)
	r.hold(g.State == schedule.GroupPartial && g.Succeeded == 2 && g.Cancelled == 1 && g.EndedAt.Equal(r.now), "it ends now, got %+v", g)
	r.hold(len(q.groupTold(g)) == 1, "one message")
}

func slotGroupsApart(r *rig) {
	q, all := r.slotsTogether(schedule.OverlapAllow)
	first := r.now
	q.dueOf(all[:2])
	q.passes("a b")
	q.later(time.Second)
	second := r.now
	q.dueOf(all[:1])
	other := r.create("other", func(s *schedule.Schedule) { s.QueueID, s.Group = q.queue.QueueID, "day" })
	q.names[r.add(r.slot(other, second))[0].Key] = "other"
	none := r.create("none", func(s *schedule.Schedule) { s.QueueID = q.queue.QueueID })
	alone := r.add(r.slot(none, second))[0]
	q.names[alone.Key] = "alone"
	r.hold(len(q.leader.pass().Entered) == 3, "all enter")
	r.hold(q.night(first).Members == 2 && q.night(second).Members == 1, "each instant has its own")
	day, err := r.GetJobGroup(r.ctx, schedule.SlotGroup{QueueID: q.queue.QueueID, UserID: r.user, Name: "day", RunAt: second}.ID())
	r.ok(err, "get the other group")
	r.hold(day.Members == 1, "so has each name, got %+v", day)
	r.hold(r.ledger(alone.Key).Queue.GroupNo == 0, "a schedule without a group makes none")
	ids := make(map[string]bool)
	for _, g := range []schedule.SlotGroup{
		{QueueID: "a.b", UserID: "c", Name: "n", RunAt: first},
		{QueueID: "a", UserID: "b.c", Name: "n", RunAt: first},
		{QueueID: "a", UserID: "c@d/e", Name: "n", RunAt: first},
		{QueueID: "a", UserID: "c", Name: "n", RunAt: first},
		{QueueID: "a", UserID: strings.Repeat("c", 128), Name: "n", RunAt: first},
		{QueueID: "a", UserID: "c", Name: "n", RunAt: first.Add(time.Second)},
	} {
		id := g.ID()
		r.hold(schedule.ValidID(id) && !ids[id], "%+v has an id of its own, got %q", g, id)
		ids[id] = true
	}
}

func slotGroupLate(r *rig) {
	q, all := r.slotsTogether(schedule.OverlapQueue)
	at := r.now
	first := q.dueOf(all[:1])[0]
	q.passes("a")
	q.later(time.Second)
	second := r.now
	late := q.dueOf(all[:1])[0]
	q.passes("")
	q.admits(1, "a")
	r.now = second.Add(grace)
	q.sweepQueues()
	q.end(first, schedule.StatusSuccess)
	r.hold(q.night(at).State == schedule.GroupCompleted, "the group of the first has ended")
	q.passes("a")
	got := r.ledger(late.Key)
	r.hold(got.Queue.GroupNo == 0 && got.Queue.In(), "it is in the queue without a group, got %+v", got.Queue)
	q.noNight(second)
	q.says("its group was sealed before it entered")
	r.hold(strings.Contains(q.logged()[0], late.Key.String()), "the log names it, got %q", q.logged())
}

func slotGroupByHand(r *rig) {
	q, all := r.slotsTogether(schedule.OverlapAllow)
	at := r.now
	q.dueOf(all[:1])
	q.passes("a")
	_, err := r.ChangeJobGroup(r.ctx, q.nightID(at), func(g *schedule.JobGroup) (schedule.GroupChange, error) {
		g.Sealed = true
		return schedule.GroupChange{After: g, Now: r.now}, nil
	})
	r.ok(err, "seal")
	q.dueOf(all[1:])
	q.passes("a b")
	q.says("its group was sealed before it entered")
	r.hold(strings.Contains(q.logged()[0], "and 1 more"), "one entry for both, got %q", q.logged())
	r.hold(q.night(at).Members == 1, "it has its one member")
}

func slotGroupInTime(r *rig) {
	q, all := r.slotsTogether(schedule.OverlapAllow)
	at := r.now
	for i, trigger := range []schedule.Trigger{schedule.TriggerCatchup, schedule.TriggerBackfill, schedule.TriggerManual, schedule.TriggerRetry} {
		run := r.add(r.slot(all[0], at, func(run *schedule.Run) {
			run.Trigger, run.Key = trigger, schedule.ManualKey(all[0].ScheduleID, fmt.Sprint("x", i))
		}))[0]
		q.names[run.Key] = string(trigger)
	}
	q.hold(len(q.leader.pass().Entered) == 4, "they enter")
	q.noNight(at)
	notes := strings.Join(q.logged(), "\n")
	q.hold(len(q.logged()) == 2 && strings.Contains(notes, "it was caught up") && strings.Contains(notes, "it is of a backfill"), "the log says why, got %q", notes)
}

func slotGroupSkipped(r *rig) {
	q, all := r.slotsTogether(schedule.OverlapSkip)
	at := r.now
	q.dueOf(all[:1])
	q.passes("a")
	q.later(time.Second)
	q.dueOf(all[:1])
	q.passes("")
	q.noNight(r.now)
	q.changeQueue(func(now *schedule.Queue) { now.Closed = true })
	q.later(time.Second)
	q.dueOf(all[1:])
	q.passes("")
	q.noNight(r.now)
	r.hold(q.night(at).Members == 1, "the first one has its member")
	q.says()
}

func slotGroupTaken(r *rig) {
	q, all := r.slotsTogether(schedule.OverlapAllow)
	err := r.Enqueue(r.ctx, schedule.EnqueueRequest{QueueID: q.queue.QueueID, UserID: r.user, GroupID: q.nightID(r.now)}, func(schedule.EnqueueFacts) (schedule.Enqueue, error) {
		g := schedule.JobGroup{
			GroupID: q.nightID(r.now), QueueNo: q.queue.No, UserID: r.user, Mode: schedule.GroupParallel, OnFailure: schedule.GroupContinue,
			State: schedule.GroupRunning, BodyHash: bodyHash, CreatedAt: r.now,
		}
		return schedule.Enqueue{Group: &g, Now: r.now}, nil
	})
	r.ok(err, "make the group")
	run := q.dueOf(all[:1])[0]
	q.passes("a")
	r.hold(r.ledger(run.Key).Queue.GroupNo == 0, "it is in no group")
	r.hold(q.night(r.now).Members == 0, "the group is as it was")
	q.says("somebody has made another group under its group_id")
}
