package sim

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/registrar"
)

// The checker's own rules of groups of runs: nothing here may use package ledger, or the methods of
// groups.

// groupWatch is what the checker remembers of groups.
type groupWatch struct {
	groups       map[int32]*groupLife
	groupCancels map[string]bool // that a user has asked for, by group_id
	followUps    []*job          // runs of this transaction that follow the end of a group
	slotGroupWatch
}

func newGroupWatch() groupWatch {
	return groupWatch{groups: make(map[int32]*groupLife), groupCancels: make(map[string]bool), slotGroupWatch: newSlotGroupWatch()}
}

// groupLife is a group as it is now.
type groupLife struct {
	row      schedule.JobGroup
	hook     told   // of its queue, when it ended
	followed int    // how many runs followed its end
	attempts uint32 // of that run, where its schedule has no policy: as the queue said when the group was made
}

// makeGroup makes a group of one queue.
func (w *world) makeGroup(n int, d dice) {
	id := fmt.Sprintf("g%x", uint64(d))
	e := &entry{group: true, EnqueueInput: registrar.EnqueueInput{QueueID: queueID(n), UserID: "u0", RequestID: id}}
	for i := range d.of(1).below(5) {
		e.add(w.profile.limited, d.of(100+uint64(i)))
	}
	in := registrar.GroupInput{
		GroupID: id, QueueID: queueID(n), UserID: "u0", Runs: e.Runs, Mode: pick(d.of(2), schedule.GroupParallel, schedule.GroupSequential, schedule.GroupSequential),
		OnFailure: pick(d.of(3), "", schedule.GroupStop, schedule.GroupContinue), Sealed: d.of(4).perMille(600),
	}
	if d.of(5).perMille(500) {
		priority := int32(0)
		in.OnComplete = &registrar.QueuedInput{ScheduleID: pick(d.of(6), jobSchedules...), Priority: &priority, Input: json.RawMessage(`{"complete":"` + id + `"}`)}
	}
	if d.of(7).perMille(300) {
		in.Webhook = "own"
	}
	w.watch.enter(e)
	var out registrar.ChangedGroup
	err := w.insist(func(ctx context.Context) (err error) {
		out, err = w.registrar.CreateGroup(ctx, in)
		return err
	})
	w.log.say(w.elapsed(), "user: group %s of %d runs in %s, %s: %v", id, len(e.Runs), in.QueueID, in.Mode, err)
	if out.Repeated { // the answer of the first call was lost
		out.Keys = e.rows
	}
	w.watch.entered(e, &registrar.Enqueued{Keys: out.Keys}, err)
}

// addToGroup adds members to a group that may be sealed.
func (w *world) addToGroup(d dice) {
	g, ok := w.watch.someGroup(d.of(1))
	if !ok {
		return
	}
	e := &entry{group: true, EnqueueInput: registrar.EnqueueInput{QueueID: g.QueueID, UserID: "u0", RequestID: fmt.Sprintf("a%x", uint64(d))}}
	for i := range d.of(2).within(1, 3) {
		e.add(w.profile.limited, d.of(100+uint64(i)))
	}
	w.watch.enter(e)
	var out registrar.ChangedGroup
	err := w.insist(func(ctx context.Context) (err error) {
		out, err = w.registrar.AddToGroup(ctx, registrar.AddInput{GroupID: g.GroupID, RequestID: e.RequestID, Runs: e.Runs})
		return err
	})
	w.log.say(w.elapsed(), "user: %d runs join group %s: %v", len(e.Runs), g.GroupID, err)
	w.watch.entered(e, &registrar.Enqueued{Keys: out.Keys}, err)
}

// changeGroup seals or cancels a group.
func (w *world) changeGroup(d dice, cancel bool) {
	g, ok := w.watch.someGroup(d)
	if !ok {
		return
	}
	if cancel {
		w.watch.cancellingGroup(g.GroupID)
	} else {
		w.watch.sealingGroup(g.GroupID)
	}
	err := w.insist(func(ctx context.Context) (err error) {
		if cancel {
			_, err = w.registrar.CancelGroup(ctx, g.GroupID)
		} else {
			_, err = w.registrar.SealGroup(ctx, g.GroupID)
		}
		return err
	})
	w.log.say(w.elapsed(), "user: group %s, cancel %t: %v", g.GroupID, cancel, err)
}

// sealAll seals all groups before the world ends, but those that are sealed at an instant.
func (w *world) sealAll() {
	for _, id := range w.watch.unsealed() {
		_ = w.insist(func(ctx context.Context) error {
			_, err := w.registrar.SealGroup(ctx, id)
			return err
		})
	}
}

func (l *ledgerWatch) unsealed() (ids []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, no := range slices.Sorted(maps.Keys(l.groups)) {
		if g := &l.groups[no].row; !g.Sealed && g.SealAt.IsZero() {
			ids = append(ids, g.GroupID)
		}
	}
	return ids
}

func (l *ledgerWatch) cancellingGroup(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.groupCancels[id] = true
}

// someGroup is a group that has not ended.
func (l *ledgerWatch) someGroup(d dice) (schedule.JobGroup, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var running []schedule.JobGroup
	for _, no := range slices.Sorted(maps.Keys(l.groups)) {
		if g := l.groups[no].row; g.State == "RUNNING" {
			g.QueueID = l.queues[g.QueueNo].row.QueueID
			running = append(running, g)
		}
	}
	if len(running) == 0 {
		return schedule.JobGroup{}, false
	}
	return pick(d, running...), true
}

// membersOf are the runs of a group.
func (l *ledgerWatch) membersOf(no int32) (runs []*job) {
	for _, j := range l.jobOrder {
		if j.row.Queue.GroupNo == no {
			runs = append(runs, j)
		}
	}
	return runs
}

// lastRuns are the last run of each member: no other one is the retry of it.
func (l *ledgerWatch) lastRuns(no int32) map[int32]*schedule.Run {
	last := make(map[int32]*schedule.Run)
	members := l.membersOf(no)
	for _, j := range members {
		if !slices.ContainsFunc(members, func(o *job) bool { return o.row.RetryOf == j.row.Key }) {
			last[j.row.Queue.GroupSeq] = &j.row
		}
	}
	return last
}

// group sees every write of a group, after those of its runs.
func (l *ledgerWatch) group(before, after *schedule.JobGroup) {
	l.mu.Lock()
	defer l.mu.Unlock()
	g := l.groups[after.No]
	if g == nil {
		g = &groupLife{attempts: uint32(l.attemptsIn(after.QueueNo))}
		l.groups[after.No] = g
	}
	was := g.row
	g.row = *after
	l.slotGroupWritten(&was, after)
	switch {
	case before != nil && was.State != "RUNNING":
		l.violation("group %s ended %s and was changed to %s", after.GroupID, was.State, after.State)
	case was.Sealed && (!after.Sealed || after.Members != was.Members):
		l.violation("group %s was sealed, and has %d members, sealed %t", after.GroupID, after.Members, after.Sealed)
	case after.State != "RUNNING":
		l.groupEnded(g)
	}
}

// groupEnded: a group ends with its last member, as its members have ended.
func (l *ledgerWatch) groupEnded(g *groupLife) {
	r := &g.row
	l.log.say(l.elapsed(), "group %s ends %s: %+v", r.GroupID, r.State, r.GroupCounts)
	counts, want := make(map[schedule.Status]int32), schedule.GroupState("COMPLETED")
	for _, run := range l.lastRuns(r.No) {
		if counts[run.Status]++; !ended(run.Status) {
			l.violation("group %s ended while member %d is %s", r.GroupID, run.Queue.GroupSeq, run.Status)
		}
		if run.Status != "SUCCESS" {
			want = "PARTIAL"
		}
	}
	if l.groupCancels[r.GroupID] && !r.CancelRequestedAt.IsZero() {
		want = "CANCELLED"
	}
	if !r.Sealed || r.State != want || r.Succeeded != counts["SUCCESS"] || r.Failed != counts["FAILED"] || r.Skipped != counts["SKIPPED"] || r.Cancelled != counts["CANCELLED"] {
		l.violation("group %s ended %s (sealed %t) with %+v, want %s and %v", r.GroupID, r.State, r.Sealed, r.GroupCounts, want, counts)
	}
	l.coverage.situations[map[schedule.GroupState]situation{"COMPLETED": groupCompleted, "PARTIAL": groupPartial, "CANCELLED": groupCancelled}[r.State]].Add(1)
	q := &l.queues[r.QueueNo].row
	if g.hook = (told{q.Webhook, q.WebhookEvents}); len(g.hook.events) > 0 && !slices.Contains(g.hook.events, "group.ended") {
		g.hook.target = ""
	}
	if r.Webhook != "" {
		g.hook.target = r.Webhook
	}
	l.followUps = slices.DeleteFunc(l.followUps, func(j *job) bool {
		mine := strings.Contains(string(j.row.Input), `"complete":"`+r.GroupID+`"`)
		if mine {
			g.followed++
			l.coverage.situations[groupFollowed].Add(1)
		}
		return mine
	})
	if want := map[bool]int{true: 1}[r.OnComplete != nil]; g.followed != want {
		l.violation("%d runs follow the end of group %s, want %d", g.followed, r.GroupID, want)
	}
}

// followUp: the attempts of a run that follows a group are those of the group's creation.
func (l *ledgerWatch) followUp(j *job) {
	l.followUps = append(l.followUps, j)
	if l.rules[revisionID{j.row.ScheduleID, j.row.Revision}].retry.MaxAttempts > 0 {
		return
	}
	for _, g := range l.groups {
		if strings.Contains(string(j.row.Input), `"complete":"`+g.row.GroupID+`"`) {
			l.budgets[j.row.Key] = &g.attempts
		}
	}
}

// followsGroup reports whether a new run says that it follows the end of a group.
func followsGroup(r *schedule.Run) bool {
	return r.Trigger == schedule.TriggerJob && strings.Contains(string(r.Input), `"complete"`) && r.Queue.GroupNo == 0
}

// bornMember: a new member of a sequential group waits for those before it that are not over.
func (l *ledgerWatch) bornMember(r *schedule.Run) {
	g := l.groups[r.Queue.GroupNo]
	if g == nil || r.Trigger != schedule.TriggerJob || g.row.Mode != "sequential" {
		return
	}
	waits := false
	for seq, run := range l.lastRuns(g.row.No) {
		waits = waits || seq < r.Queue.GroupSeq && !ended(run.Status)
	}
	if waits != (placeOf(r) == placeChained) {
		l.violation("member %d of group %s was born %s", r.Queue.GroupSeq, g.row.GroupID, r.Queue.State)
	}
}

// releasedMember: a chained run waits no more once each member before it has ended, and in a group
// that stops has succeeded.
func (l *ledgerWatch) releasedMember(j *job) {
	l.coverage.situations[memberReleased].Add(1)
	g := &l.groups[j.row.Queue.GroupNo].row
	for seq, run := range l.lastRuns(g.No) {
		if seq < j.row.Queue.GroupSeq && (!ended(run.Status) || g.OnFailure == "stop" && run.Status != "SUCCESS") {
			l.violation("member %d of group %s does not wait any more, and member %d is %s", j.row.Queue.GroupSeq, g.GroupID, seq, run.Status)
		}
	}
}

// stoppedFor: a member is cancelled because another one has failed for good.
func (l *ledgerWatch) stoppedFor(j *job) bool {
	g := l.groups[j.row.Queue.GroupNo]
	if g == nil || g.row.OnFailure != "stop" || j.admissions > 0 {
		return false
	}
	l.coverage.situations[memberStopped].Add(1)
	for seq, run := range l.lastRuns(g.row.No) {
		failed := ended(run.Status) && run.Status != "SUCCESS" && run.Reason != "predecessor_failed"
		if failed && (g.row.Mode == "parallel" || seq < j.row.Queue.GroupSeq) {
			return true
		}
	}
	return false
}

// cancelledGroup reports whether a user has cancelled the group of a run.
func (l *ledgerWatch) cancelledGroup(r *schedule.Run) bool {
	g := l.groups[r.Queue.GroupNo]
	return g != nil && l.groupCancels[g.row.GroupID]
}

// groupsCommitted: nothing enters a queue that nobody asked for.
func (l *ledgerWatch) groupsCommitted() {
	for _, j := range l.followUps {
		l.violation("the run %.12s follows a group, and none has ended", j.row.Key)
	}
	l.followUps = nil
}

// groupsOver checks the groups at the end: each sealed one without open members has ended, and has
// its message, once.
func (w *world) groupsOver() {
	l := w.watch
	found, err := w.ledger.ListDeliveries(context.Background(), schedule.DeliveryFilter{Runs: true, Limit: 1 << 20})
	if err != nil {
		w.violation("read the messages: %v", err)
	}
	messages := make(map[int32][]schedule.AlertDelivery)
	for _, m := range found {
		messages[m.GroupNo] = append(messages[m.GroupNo], m)
	}
	for _, no := range slices.Sorted(maps.Keys(l.groups)) {
		g := l.groups[no]
		r := &g.row
		left := false
		for _, run := range l.lastRuns(no) {
			left = left || !ended(run.Status)
		}
		if r.State == "RUNNING" && r.Sealed && !left {
			w.violation("group %s is sealed, none of its members is left, and it has not ended", r.GroupID)
		}
		want := 0
		if r.State != "RUNNING" && g.hook.target != "" {
			want = 1
		}
		if m := messages[no]; len(m) != want || want > 0 && (m[0].Type != "group.ended" || m[0].Target != "webhook:"+g.hook.target) {
			w.violation("group %s is %s with the webhook %+v, and has the messages %+v", r.GroupID, r.State, g.hook, m)
		}
	}
	w.slotGroupsOver()
}
