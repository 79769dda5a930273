package ledger

import (
	"fmt"

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

// Apply enters changes.
func (s *ShardState) Apply(c Changes) {
	for i := range c.Runs {
		s.put(&c.Runs[i])
	}
	for i := range c.Schedules {
		s.changeSchedule(&c.Schedules[i])
	}
	for _, key := range c.Ended {
		if r := s.runs[key]; r != nil {
			s.forget(r)
		}
	}
}

// put enters a run as it is now.
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
	of := s.schedules[c.ScheduleID]
	if of == nil {
		return // nothing of it is known
	}
	of.stopped, of.deleted, of.pause = c.Deleted || c.Pause.Paused, c.Deleted, c.Pause
	for r := of.first; r != nil; {
		next := r.next
		if r.place != placeFlight && !there[r.key] {
			s.forget(r)
		}
		r = next
	}
}

// Reader reads the tables in the claim transaction.
type Reader interface {
	// Changes are those that were committed since the last call.
	Changes() (Changes, error)
	// InFlight are those of the runs that are in flight.
	InFlight([]schedule.Key) (map[schedule.Key]bool, error)
}

// Claim reads changes, judges, and looks up the runs that block a verdict. If one
// of them is gone, changes are read and judged once more before its group counts
// as free: what follows it may be in flight already. strays are the runs that are
// gone although no change has said so; there should be none.
func (s *ShardState) Claim(read Reader, p Pass) (v Verdicts, strays []schedule.Key, err error) {
	if v, err = s.readAndJudge(read, p); err != nil || len(v.Blockers) == 0 {
		return v, nil, err
	}
	gone, err := s.lookUp(read, &v)
	if err != nil || len(gone) == 0 {
		return v, nil, err
	}
	changes, err := read.Changes()
	if err != nil {
		return Verdicts{}, nil, fmt.Errorf("read changes again: %w", err)
	}
	s.Apply(changes)
	for _, key := range gone {
		if r := s.runs[key]; r != nil && r.place == placeFlight {
			strays = append(strays, key)
			s.forget(r)
		}
	}
	return s.Judge(p), strays, nil
}

func (s *ShardState) readAndJudge(read Reader, p Pass) (Verdicts, error) {
	changes, err := read.Changes()
	if err != nil {
		return Verdicts{}, fmt.Errorf("read changes: %w", err)
	}
	s.Apply(changes)
	return s.Judge(p), nil
}

// lookUp returns the blockers that are not in flight any more.
func (s *ShardState) lookUp(read Reader, v *Verdicts) (gone []schedule.Key, err error) {
	inFlight, err := read.InFlight(v.Blockers)
	if err != nil {
		return nil, fmt.Errorf("look up the runs that block others: %w", err)
	}
	for _, key := range v.Blockers {
		if !inFlight[key] {
			gone = append(gone, key)
		} else if r := s.runs[key]; r != nil && r.flight != nil {
			r.flight.checkedAt = v.now
		}
	}
	return gone, nil
}
