package ledger

import (
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// Changes are what others have committed since the last pass, read again as it is
// now. They name no difference: applying them twice or in another order changes
// nothing.
type Changes struct {
	Runs  []Run          // as they are now
	Ended []schedule.Key // runs that are not open any more
	// Schedules are those that were changed, and those of Runs that are paused or
	// deleted.
	Schedules []ScheduleNow
	// Woken are schedules whose wake rows were read, and Wakes are these rows.
	Woken []string
	Wakes []Wake
}

// ScheduleNow is a schedule that was edited, paused, resumed or deleted.
type ScheduleNow struct {
	ScheduleID string
	Deleted    bool
	Pause      schedule.Pause
	// Planned are the schedule's planned runs, as they are now. Others that the state
	// knows are gone.
	Planned []Run
}

// plannedAhead: the leader loads slots that fire later with its window of ten seconds. A
// plan takes at most ten seconds.
const plannedAhead = 30 * time.Second

// NamedInChanges reports whether a change names a run when it is inserted. Slots that fire
// later are loaded with the leader's window.
func NamedInChanges(r *schedule.Run, now time.Time) bool {
	return r.Queue.In() && !r.IsJob() || !r.Queue.In() && (!r.Trigger.FromSpec() || !r.WaitingSince.IsZero() || !r.FireAt.After(now.Add(plannedAhead)))
}

// Apply enters changes. What has ended goes first: a slot of a backfill can be
// dropped and inserted again under its key, and Runs are read after Ended.
func (s *ShardState) Apply(c Changes) {
	for _, key := range c.Ended {
		if r := s.runs[key]; r != nil {
			s.forget(r)
		}
	}
	for i := range c.Runs {
		s.put(&c.Runs[i])
	}
	for i := range c.Schedules {
		s.changeSchedule(&c.Schedules[i])
	}
	for _, id := range c.Woken {
		s.dropWake(id)
	}
	for _, w := range c.Wakes {
		s.putWake(w)
	}
}

// put enters the current state of a run.
func (s *ShardState) put(in *Run) {
	r := s.runs[in.Key]
	if r == nil {
		s.enter(in)
		return
	}
	if r.outside() != *in {
		s.again(r, in)
	}
}

func (s *ShardState) changeSchedule(c *ScheduleNow) {
	there := make(map[schedule.Key]bool, len(c.Planned))
	for i := range c.Planned {
		there[c.Planned[i].Key] = true
		s.put(&c.Planned[i])
	}
	of := s.stop(c)
	if of == nil {
		return
	}
	for r := of.first; r != nil; {
		next := r.next
		if r.place != placeFlight && !there[r.key] {
			s.forget(r)
		}
		r = next
	}
}

// stop notes whether a schedule is paused or deleted. It returns nil if nothing of
// the schedule is known.
func (s *ShardState) stop(c *ScheduleNow) *scheduleRuns {
	of := s.schedules[c.ScheduleID]
	if of != nil {
		of.stopped, of.deleted, of.pause = c.Deleted || c.Pause.Paused, c.Deleted, c.Pause
	}
	return of
}
