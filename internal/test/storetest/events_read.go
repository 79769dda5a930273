package storetest

import (
	"time"

	"github.com/carillon/carillon/internal/schedule"
	eventtopic "github.com/carillon/carillon/internal/topic"
)

// consumption is what one consumer has of an event.
func (r *rig) consumption(seq int64, s schedule.Schedule) eventtopic.Consumption {
	r.Helper()
	found, err := r.Consumptions(r.ctx, seq)
	r.ok(err, "read the entries of an event")
	for i := range found {
		if found[i].ScheduleID == s.ScheduleID {
			return found[i]
		}
	}
	r.Fatalf("%s has no entry of event %d", s.ScheduleID, seq)
	return eventtopic.Consumption{}
}

func eventConsumptions(r *rig) {
	e := r.events()
	s := r.consumer("c", []string{"orders"}, func(s *schedule.Schedule) {
		s.Consume.MaxEvents = 1
		s.Retry = schedule.RetryPolicy{MaxAttempts: 2, BackoffMS: 1000}.Resolved()
	})
	r.consumer("d", []string{"orders"})
	out := r.publish("orders", "a", "b")
	first, second := out[0].Seq, out[1].Seq
	published := r.now
	c := r.consumption(first, s)
	r.hold(c.State == eventtopic.Pending && c.WakeAt.Equal(published) && c.Own.IsZero() && c.Entry.Run.IsZero() && c.OverlapKey == s.QualifiedOverlapKey(),
		"a pending entry has the wake row, got %+v", c)
	r.now = r.at(time.Second)
	var run schedule.Run
	for _, l := range e.look() {
		if l.Run.ScheduleID == s.ScheduleID {
			run = l.Run
		}
	}
	c = r.consumption(first, s)
	r.hold(c.State == eventtopic.Reserved && c.Entry.Run == run.Key && c.RunOpen && c.TakenAt.Equal(r.now) && c.Own == run.Key && c.WakeAt.IsZero(),
		"a reserved entry has its run, got %+v", c)
	c = r.consumption(second, s)
	r.hold(c.State == eventtopic.Pending && c.Own == run.Key && c.WakeAt.IsZero() && !c.RunOpen, "one that the run has left waits for it, got %+v", c)
	r.now = r.at(time.Second)
	r.fails(run)
	c = r.consumption(first, s)
	next := schedule.AttemptKey(run.Key)
	r.hold(c.Entry.Run == next && c.RunOpen && c.TakenAt.Equal(r.now) && c.Own == next && c.Attempts == 1, "the next attempt has it, got %+v", c)
	r.now = r.at(time.Minute)
	for _, l := range e.look() {
		r.succeeds(l.Run)
	}
	c = r.consumption(first, s)
	r.hold(c.State == eventtopic.Consumed && !c.RunOpen && c.Own.IsZero() && c.WakeAt.Equal(r.now), "the end has written the wake row, got %+v", c)
	found, err := r.Consumptions(r.ctx, second+1000)
	r.hold(err == nil && len(found) == 0, "an event that is not there has no entries: %v", err)
}
