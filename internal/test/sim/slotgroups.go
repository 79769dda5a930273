package sim

import (
	"context"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// The checker's own rules of groups that the runs of schedules join: nothing here may use package
// ledger, or the methods of groups.

// instantID names the group of the runs of one instant.
type instantID struct {
	queue      int32
	user, name string
	at         time.Time
}

// slotGroupWatch is what the checker remembers of such groups.
type slotGroupWatch struct {
	instants  map[instantID]int32          // the one group of each
	instantOf map[int32]instantID          // of each group
	hooks     map[int32]string             // the webhook of the run that made it
	joined    map[int32]int                // runs of slots
	sealed    map[string]bool              // by users, by group_id
	alone     map[int32]map[time.Time]bool // by queue: when runs entered without the group of their schedule
}

func newSlotGroupWatch() slotGroupWatch {
	return slotGroupWatch{
		instants: make(map[instantID]int32), instantOf: make(map[int32]instantID), hooks: make(map[int32]string), joined: make(map[int32]int),
		sealed: make(map[string]bool), alone: make(map[int32]map[time.Time]bool),
	}
}

// slotGrouped: a run that its schedule starts in time joins the one group of its instant, and no
// other run does.
func (l *ledgerWatch) slotGrouped(r *schedule.Run) {
	f, now := l.lives[r.ScheduleID], l.began.Add(l.elapsed())
	name, group := f.groupOf[r.Revision], r.Queue.GroupNo
	id := instantID{r.Queue.No, "u0", name, r.RunAt}
	until := r.RunAt.Add(l.profile.grace)
	switch {
	case group != 0 && (name == "" || r.Trigger != "schedule"):
		l.violation("%s run_at %s (%s) joined group %d, its schedule names %q", r.ScheduleID, l.at(r.RunAt), r.Trigger, group, name)
	case group != 0 && now.After(until.Add(l.profile.maxSkew+time.Millisecond)):
		l.violation("%s run_at %s joined its group at %s, which was to be sealed at %s", r.ScheduleID, l.at(r.RunAt), l.at(now), l.at(until))
	case group != 0:
		l.joins(id, r, f.webhookOf[r.Revision])
	case name == "" || r.Trigger == "manual" || r.Trigger == "retry":
	default:
		if l.alone[r.Queue.No] == nil {
			l.alone[r.Queue.No] = make(map[time.Time]bool)
		}
		l.alone[r.Queue.No][r.Queue.EnqueuedAt] = true
		l.coverage.situations[slotUngrouped].Add(1)
		made := l.groups[l.instants[id]]
		if r.Trigger == "schedule" && now.Before(until) && (made == nil || !made.row.Sealed) {
			l.violation("%s run_at %s entered its queue at %s and has no group", r.ScheduleID, l.at(r.RunAt), l.at(now))
		}
	}
}

func (l *ledgerWatch) joins(id instantID, r *schedule.Run, hook string) {
	no, known := l.instants[id]
	if !known {
		no = r.Queue.GroupNo
		l.instants[id], l.instantOf[no], l.hooks[no] = no, id, hook
	}
	if no != r.Queue.GroupNo || l.instantOf[no] != id {
		l.violation("%s run_at %s joined group %d, and the one of its instant is %d", r.ScheduleID, l.at(r.RunAt), r.Queue.GroupNo, no)
	}
	l.joined[no]++
	l.coverage.situations[slotGrouped].Add(1)
	if l.joined[no] == 2 {
		l.coverage.situations[slotsGrouped].Add(1)
	}
}

// slotGroupWritten checks each write of a group of slots.
func (l *ledgerWatch) slotGroupWritten(was, r *schedule.JobGroup) {
	id, ofSlots := l.instantOf[r.No]
	if !ofSlots {
		return
	}
	now, until := l.began.Add(l.elapsed()), id.at.Add(l.profile.grace)
	byUser := l.sealed[r.GroupID] || l.groupCancels[r.GroupID]
	switch {
	case was.No == 0 && (r.Mode != "parallel" || r.OnFailure != "continue" || r.Sealed || r.Webhook != l.hooks[r.No] || r.UserID != "u0" || r.QueueNo != id.queue):
		l.violation("the group of %s is made as %+v, with the webhook %q of its first run", l.at(id.at), r, l.hooks[r.No])
	case int(r.Members) < l.joined[r.No]:
		l.violation("group %s has %d members, and %d runs joined it", r.GroupID, r.Members, l.joined[r.No])
	case r.Sealed && !was.Sealed && !byUser && now.Before(until):
		l.violation("group %s is sealed at %s, and not %s after its instant", r.GroupID, l.at(now), l.profile.grace)
	case r.Sealed && !was.Sealed && !byUser:
		l.coverage.situations[groupSealedInTime].Add(1)
	}
}

func (l *ledgerWatch) sealingGroup(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sealed[id] = true
}

// slotGroupsOver: at the end each group of slots is sealed, and the log of the queue says when runs
// entered without one.
func (w *world) slotGroupsOver() {
	l := w.watch
	for no, id := range l.instantOf {
		if g := &l.groups[no].row; !g.Sealed && time.Since(id.at.Add(w.profile.grace)) > w.profile.maxSkew+5*time.Second {
			w.violation("group %s was to be sealed at %s", g.GroupID, l.at(id.at.Add(w.profile.grace)))
		}
	}
	for no, entered := range l.alone {
		said := make(map[time.Time]bool)
		for before := int64(0); ; {
			events, err := w.ledger.ListQueueEvents(context.Background(), l.queues[no].row.QueueID, before, 0)
			if err != nil {
				w.violation("read the log of a queue: %v", err)
			}
			for _, e := range events {
				said[e.Time] = said[e.Time] || e.Kind == "ungrouped"
				before = e.ID
			}
			if len(events) == 0 {
				break
			}
		}
		for at := range entered {
			if !said[at] {
				w.violation("a run entered %s at %s without a group, and no log entry says so", l.queues[no].row.QueueID, l.at(at))
			}
		}
	}
}
