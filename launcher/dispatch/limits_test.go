package dispatch_test

import (
	"testing"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/launcher/launchertest"
	"github.com/carillon/carillon/registrar"
)

// upsertWith registers the queue with room for ten runs.
func (r *rig) upsertWith(edit func(*schedule.QueueDefinition)) {
	r.Helper()
	d := schedule.QueueDefinition{QueueID: "q", UserID: "ana", MaxInFlight: 10}
	edit(&d)
	if _, err := r.registrar.UpsertQueue(r.Context(), registrar.QueueInput{QueueDefinition: d}); err != nil {
		r.Fatal(err)
	}
}

func (r *rig) putLimit(id string, maxInFlight uint32) {
	r.Helper()
	_, err := r.store.ChangeLimit(r.Context(), id, func(f schedule.LimitFacts) (schedule.LimitChange, error) {
		l := schedule.Limit{LimitDefinition: schedule.LimitDefinition{LimitID: id, UserID: "ana", MaxInFlight: maxInFlight}, Revision: 1, CreatedAt: r.store.Now(), UpdatedAt: r.store.Now()}
		if f.Limit != nil {
			l.No = f.Limit.No
		}
		return schedule.LimitChange{After: &l}, nil
	})
	if err != nil {
		r.Fatal(err)
	}
}

func using(limits schedule.Limits) func(int, *schedule.Run, *schedule.EnqueueRequest) {
	return func(_ int, run *schedule.Run, _ *schedule.EnqueueRequest) { run.Queue.Limits = limits }
}

func TestUnderARateRunsAreCalledAtTheirInstants(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.upsertWith(func(d *schedule.QueueDefinition) { d.Rate = schedule.RateDefinition{Starts: 10, PerMS: 1000} })
		r.pass(time.Second)
		keys := r.enqueue(8, nil)
		r.pass(20 * time.Millisecond)
		for n := 1; n <= len(keys); n++ {
			r.wantCalls("a call each 100 ms", keys[:n]...)
			r.pass(100 * time.Millisecond)
		}
	})
}

func TestAStopPutsBackRunsThatTheirRateHolds(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.upsertWith(func(d *schedule.QueueDefinition) { d.Rate = schedule.RateDefinition{Starts: 5, PerMS: 1000} })
		r.pass(time.Second)
		keys := r.enqueue(2, nil)
		r.pass(20 * time.Millisecond)
		r.wantStatus(keys[1], schedule.StatusEnqueued, schedule.QueueDispatching)
		r.stop()
		<-r.stopped
		r.wantCalls("the second waits", keys[0])
		if run := r.wantStatus(keys[1], schedule.StatusEnqueued, schedule.QueueWaiting); run.Deliveries != 0 {
			r.Errorf("after the stop it is %+v", run)
		}
		r.run()
		r.pass(2 * time.Second)
		r.wantCalls("each once", keys...)
	})
}

func TestTheEndOfARunLetsTheNextOfItsLimitGoAtOnce(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.upsertWith(func(*schedule.QueueDefinition) {})
		r.putLimit("gpu", 1)
		r.executor.Behave(launchertest.Behavior{Delay: 300 * time.Millisecond})
		r.pass(time.Second)
		keys := r.enqueue(3, using("gpu"))
		r.pass(100 * time.Millisecond)
		r.wantCalls("one of the limit", keys[0])
		free := r.enqueue(1, nil)
		r.pass(100 * time.Millisecond)
		r.wantCalls("one without the limit passes", keys[0], free[0])
		r.pass(150 * time.Millisecond)
		r.wantCalls("the end lets the next of the limit go", keys[0], free[0], keys[1])
		r.putLimit("gpu", 2)
		r.pass(50 * time.Millisecond)
		r.wantCalls("a raised limit counts at once", keys[0], free[0], keys[1], keys[2])
	})
}
