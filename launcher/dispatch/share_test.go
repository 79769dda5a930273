package dispatch_test

import (
	"slices"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/launcher/launchertest"
	"github.com/carillon/carillon/registrar"
)

// Of ten calls an owner has nine at most, with all its queues, so that one is free for others.
func TestTheQueuesOfAnOwnerLeaveCallsToOtherOwners(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.end()
		r.calls = 10
		r.executor.Behave(launchertest.Behavior{Delay: 5 * time.Second})
		r.upsert(100)
		numbers := make(map[string]int32)
		for id, owner := range map[string]string{"second": "ana", "of bob": "bob"} {
			d := schedule.QueueDefinition{QueueID: "q." + owner, UserID: owner, MaxInFlight: 100}
			if _, err := r.registrar.UpsertQueue(r.Context(), registrar.QueueInput{QueueDefinition: d}); err != nil {
				r.Fatal(err)
			}
			q, err := r.registrar.GetQueue(r.Context(), d.QueueID)
			if err != nil {
				r.Fatal(err)
			}
			numbers[id] = q.No
		}
		into := func(id string, n int) []schedule.Key {
			return r.enqueue(n, func(_ int, run *schedule.Run, req *schedule.EnqueueRequest) {
				run.Queue.No = numbers[id]
				req.QueueID = map[string]string{"second": "q.ana", "of bob": "q.bob"}[id]
			})
		}
		r.enqueue(10, nil)
		into("second", 10)
		r.run()
		r.pass(2 * time.Second)
		if n := len(r.called()); n != 9 {
			r.Errorf("the owner has %d calls of 10, want 9", n)
		}
		bobs := into("of bob", 2)
		r.pass(2 * time.Second)
		if got := r.called(); len(got) != 10 || !slices.Contains(bobs, got[9]) {
			r.Errorf("%d calls, the last is not that of the other owner: %s", len(got), short(got))
		}
		r.pass(5 * time.Second)
		if got := r.called(); !slices.Contains(got, bobs[0]) || !slices.Contains(got, bobs[1]) {
			r.Errorf("the other owner has no second call: %s", short(got))
		}
		r.pass(time.Minute)
		if n := len(r.called()); n != 22 {
			r.Errorf("%d runs were called, want 22", n)
		}
	})
}
