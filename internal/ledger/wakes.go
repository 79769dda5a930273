package ledger

import (
	"cmp"
	"container/heap"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// wakes are the wake rows of a shard.
type wakes struct {
	all     map[string]*wake // by schedule
	later   wakesLater
	due     map[*wake]struct{} // their time had come when Due was asked
	byGroup map[*group][]*wake
	taken   map[*group]struct{} // a run was planned that no pass has judged yet
}

func newWakes() wakes {
	return wakes{all: make(map[string]*wake), due: make(map[*wake]struct{}), byGroup: make(map[*group][]*wake), taken: make(map[*group]struct{})}
}

// wake is a wake row. A row that is written again is another wake.
type wake struct {
	Wake
	group *group // it keeps the group known
	at    int64  // when it is looked at
	gone  bool
}

// wakesLater are the wakes whose time has not come, in order of their time, as container/heap has them.
// Some of them are gone.
type wakesLater []*wake

func (l wakesLater) Len() int           { return len(l) }
func (l wakesLater) Less(i, j int) bool { return l[i].at < l[j].at }
func (l wakesLater) Swap(i, j int)      { l[i], l[j] = l[j], l[i] }
func (l *wakesLater) Push(w any)        { *l = append(*l, w.(*wake)) }
func (l *wakesLater) Pop() any {
	last := len(*l) - 1
	w := (*l)[last]
	(*l)[last] = nil
	*l = (*l)[:last]
	return w
}

// TakeRequest is what a store needs to look at consumers.
type TakeRequest struct {
	Term        schedule.Term
	Now         time.Time
	ScheduleIDs []string // of the wake rows
}

// Taken is what a take has read and written.
type Taken struct {
	Wakes  []Wake         // rows that are left, to be looked at again
	Gone   []string       // schedules that have no row now
	Locked []string       // those that publishers have locked
	Runs   []schedule.Run // inserted, PLANNED
	// Events are how many events the runs have; Skipped is how many ended without a run.
	Events, Skipped int
}

// lockedFor is after how long a row is looked at again that a publisher has locked.
const lockedFor = 5 * time.Millisecond

// putWake enters the current wake row of a consumer.
func (s *ShardState) putWake(in Wake) {
	s.dropWake(in.ScheduleID)
	at := micro(in.FireAt)
	switch {
	case in.Pause.Paused && in.Pause.Until.IsZero():
		at = math.MaxInt64 // a change of the schedule comes first
	case in.Pause.Paused:
		at = max(at, micro(in.Pause.Until))
	}
	s.enterWake(&wake{Wake: in, at: at, group: s.groupOf(in.OverlapKey)})
}

func (s *ShardState) enterWake(w *wake) {
	w.group.runs++
	s.wakes.all[w.ScheduleID] = w
	s.wakes.byGroup[w.group] = append(s.wakes.byGroup[w.group], w)
	if w.at < math.MaxInt64 {
		heap.Push(&s.wakes.later, w)
	}
}

// dropWake forgets the wake row of a consumer.
func (s *ShardState) dropWake(scheduleID string) {
	w := s.wakes.all[scheduleID]
	if w == nil {
		return
	}
	w.gone = true
	delete(s.wakes.all, scheduleID)
	delete(s.wakes.due, w)
	if rest := slices.DeleteFunc(s.wakes.byGroup[w.group], func(other *wake) bool { return other == w }); len(rest) > 0 {
		s.wakes.byGroup[w.group] = rest
	} else {
		delete(s.wakes.byGroup, w.group)
	}
	s.leaveGroup(w.group)
}

// wakesDue moves wakes whose time has come.
func (s *ShardState) wakesDue(now int64) {
	for len(s.wakes.later) > 0 && s.wakes.later[0].at <= now {
		if w := heap.Pop(&s.wakes.later).(*wake); !w.gone {
			s.wakes.due[w] = struct{}{}
		}
	}
}

// NextWake is when Due must be asked again because a consumer's time comes; zero if none does. It is
// past for one whose time came since the last call of Due.
func (s *ShardState) NextWake() time.Time {
	for len(s.wakes.later) > 0 {
		if w := s.wakes.later[0]; !w.gone {
			return time.UnixMicro(w.at).UTC()
		}
		heap.Pop(&s.wakes.later)
	}
	return time.Time{}
}

// Due are the consumers to look at: their wake row is due, and no run of their overlap group is in
// flight or comes first. Of each group it is one: with the highest priority, then the oldest row.
func (s *ShardState) Due(now time.Time, most int) (scheduleIDs []string) {
	if s.stale {
		return nil
	}
	at := micro(now)
	if s.wakesDue(at); len(s.wakes.due) == 0 {
		return nil
	}
	first := make(map[*group]*wake)
	for w := range s.wakes.due {
		if _, taken := s.wakes.taken[w.group]; !taken && w.group.mayTake(at) && (first[w.group] == nil || byLook(w, first[w.group]) < 0) {
			first[w.group] = w
		}
	}
	chosen := make([]*wake, 0, len(first))
	for _, w := range first {
		chosen = append(chosen, w)
	}
	slices.SortFunc(chosen, byLook)
	for _, w := range chosen[:min(most, len(chosen))] {
		scheduleIDs = append(scheduleIDs, w.ScheduleID)
	}
	return scheduleIDs
}

// byLook is the order in which consumers are looked at.
func byLook(a, b *wake) int {
	return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.at, b.at), strings.Compare(a.ScheduleID, b.ScheduleID))
}

// mayTake reports whether a consumer of the group may take events: nothing is in flight, and no run of
// a consumer and no next attempt is due or waits.
func (g *group) mayTake(now int64) bool {
	if g.members == nil {
		return true
	}
	comes := func(r *run) bool { return (r.trigger == schedule.TriggerEvent || r.automatic) && !r.isHeld(now) }
	return len(g.inFlight) == 0 && !slices.ContainsFunc(g.waiting, comes) &&
		!slices.ContainsFunc(g.near.runs, func(r *run) bool { return isDue(r) && comes(r) })
}

// isLookedAtFirst reports whether a consumer of the group is to be looked at before its runs are judged.
func (s *ShardState) isLookedAtFirst(g *group) bool {
	if len(s.wakes.byGroup) == 0 || !g.mayTake(s.now) {
		return false
	}
	return slices.ContainsFunc(s.wakes.byGroup[g], func(w *wake) bool { return w.at <= s.now })
}

// Took enters what a take has committed.
func (s *ShardState) Took(t *Taken, now time.Time) {
	for _, id := range t.Gone {
		s.dropWake(id)
	}
	for _, id := range t.Locked {
		if w := s.wakes.all[id]; w != nil {
			s.dropWake(id)
			s.enterWake(&wake{Wake: w.Wake, at: micro(now.Add(lockedFor)), group: s.groupOf(w.OverlapKey)})
		}
	}
	for _, w := range t.Wakes {
		s.putWake(w)
	}
	for i := range t.Runs {
		if r := RunOf(&t.Runs[i]); s.runs[r.Key] == nil {
			s.enter(&r)
			s.wakes.taken[s.groupOf(r.OverlapKey)] = struct{}{}
		}
	}
}
