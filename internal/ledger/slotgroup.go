package ledger

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// Groups of slots: the runs of one instant of the schedules that name a group end together. The
// group is made by the first run that enters its queue, and is sealed Pass.Grace after the instant.

// Why a run has no group although its schedule names one.
const (
	ungroupedCatchup  = "it was caught up: only runs that enter in time have one"
	ungroupedBackfill = "it is of a backfill: only runs that enter in time have one"
	ungroupedLate     = "its group was sealed before it entered"
	ungroupedFull     = "its group has as many members as a group can have"
	ungroupedTaken    = "somebody has made another group under its group_id"
)

// entry is how a run goes into its queue.
func (j *judging) entry(r *run, d *schedule.Definition) Entry {
	e := Entry{Key: r.key, Queue: j.facts.Queues[d.QueueID]}
	of, ok := schedule.SlotGroupOf(d, time.UnixMicro(r.runAt).UTC())
	if !ok {
		return e
	}
	switch r.trigger {
	case schedule.TriggerSchedule:
		e.Group = &schedule.JobGroup{
			GroupID: of.ID(), QueueNo: e.Queue.No, UserID: of.UserID, Mode: schedule.GroupParallel, OnFailure: schedule.GroupContinue,
			State: schedule.GroupRunning, SealAt: stored(of.RunAt.Add(j.pass.Grace)), Webhook: d.Webhook, BodyHash: of.Hash(),
		}
	case schedule.TriggerCatchup:
		e.Ungrouped = ungroupedCatchup
	case schedule.TriggerBackfill:
		e.Ungrouped = ungroupedBackfill
	}
	return e
}

// SlotGroups are the groups that the entries of one claim join. The claim holds their rows before
// those of runs.
type SlotGroups struct {
	now       time.Time
	groups    map[string]*schedule.JobGroup // by group_id
	members   map[string]int32              // before the claim
	ungrouped []ungrouped
}

type ungrouped struct {
	queue *schedule.Queue
	why   string
	first schedule.Key
	more  int
}

// WantedGroups are the groups that entries may join, as their first members make them, in order of
// their ids.
func WantedGroups(entries []Entry, now time.Time) (wanted []*schedule.JobGroup) {
	for i := range entries {
		if g := entries[i].Group; g != nil && now.Before(g.SealAt) {
			made := *g
			made.CreatedAt = stored(now)
			wanted = append(wanted, &made)
		}
	}
	slices.SortStableFunc(wanted, func(a, b *schedule.JobGroup) int { return cmp.Compare(a.GroupID, b.GroupID) })
	return slices.CompactFunc(wanted, func(a, b *schedule.JobGroup) bool { return a.GroupID == b.GroupID })
}

// NewSlotGroups takes the wanted groups as they are now.
func NewSlotGroups(groups []*schedule.JobGroup, now time.Time) *SlotGroups {
	s := &SlotGroups{now: now, groups: make(map[string]*schedule.JobGroup, len(groups)), members: make(map[string]int32, len(groups))}
	for _, g := range groups {
		s.groups[g.GroupID], s.members[g.GroupID] = g, g.Members
	}
	return s
}

// Join lets a run that enters its queue join its group.
func (s *SlotGroups) Join(e *Entry, r *schedule.Run) {
	why := e.Ungrouped
	if e.Group != nil {
		g := s.groups[e.Group.GroupID]
		if why = refusedByGroup(g, e.Group, s.now); why == "" {
			g.Members++
			r.Queue.GroupNo, r.Queue.GroupSeq = g.No, g.Members
			return
		}
	}
	if why == "" {
		return
	}
	same := func(u ungrouped) bool { return u.queue.No == e.Queue.No && u.why == why }
	if i := slices.IndexFunc(s.ungrouped, same); i >= 0 {
		s.ungrouped[i].more++
		return
	}
	s.ungrouped = append(s.ungrouped, ungrouped{queue: e.Queue, why: why, first: e.Key})
}

// refusedByGroup is why a run does not join its group; "": it does. g is the group that is there.
func refusedByGroup(g, wanted *schedule.JobGroup, now time.Time) string {
	switch {
	case !now.Before(wanted.SealAt):
		return ungroupedLate
	case g == nil || g.BodyHash != wanted.BodyHash || g.QueueNo != wanted.QueueNo || g.UserID != wanted.UserID:
		return ungroupedTaken
	case g.State != schedule.GroupRunning || g.Sealed || !now.Before(g.SealAt):
		return ungroupedLate
	case g.Members >= schedule.MaxGroupMembers:
		return ungroupedFull
	}
	return ""
}

// Clone keeps the groups as they are now, for a store that may take back entries.
func (s *SlotGroups) Clone() *SlotGroups {
	kept := &SlotGroups{now: s.now, groups: make(map[string]*schedule.JobGroup, len(s.groups)), members: maps.Clone(s.members), ungrouped: slices.Clone(s.ungrouped)}
	for id, g := range s.groups {
		now := *g
		kept.groups[id] = &now
	}
	return kept
}

// Changed are the groups that got members, and unused those that were made for none.
func (s *SlotGroups) Changed() (changed, unused []*schedule.JobGroup) {
	for _, id := range slices.Sorted(maps.Keys(s.groups)) {
		switch g := s.groups[id]; {
		case g.Members != s.members[id]:
			changed = append(changed, g)
		case g.Members == 0 && !g.SealAt.IsZero():
			unused = append(unused, g)
		}
	}
	return changed, unused
}

// Events are the entries in the logs of queues about runs that have no group.
func (s *SlotGroups) Events() (events []schedule.QueueEvent) {
	for _, u := range s.ungrouped {
		runs := "run " + u.first.String()
		if u.more > 0 {
			runs += fmt.Sprintf(", and %d more,", u.more)
		}
		events = append(events, schedule.QueueEvent{
			QueueID: u.queue.QueueID, Time: s.now, Kind: schedule.QueueUngrouped, Revision: u.queue.Revision,
			Note: runs + " entered without the group that its schedule names: " + u.why,
		})
	}
	return events
}

// SealDue seals a group at its seal_at. sealed = false: it is not due, or it was sealed before.
func SealDue(g *schedule.JobGroup, now time.Time) (sealed bool) {
	if g.State != schedule.GroupRunning || g.Sealed || g.SealAt.IsZero() || now.Before(g.SealAt) {
		return false
	}
	g.Sealed = true
	return true
}
