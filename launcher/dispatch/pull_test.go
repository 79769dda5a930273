package dispatch_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/launcher/dispatch"
	"github.com/carillon/carillon/launcher/launchertest"
	"github.com/carillon/carillon/registrar"
)

func pulled(q *schedule.QueueDefinition) { q.Delivery, q.HeartbeatMS = schedule.DeliveryPull, 10_000 }

// fetch is the fetch of a worker with one slot.
func (r *rig) fetch(worker string, wait time.Duration, running ...schedule.Key) (dispatch.Given, error) {
	q, err := r.store.GetQueue(context.Background(), "q")
	if err != nil {
		return dispatch.Given{}, err
	}
	return r.dispatcher.Fetch(context.Background(), q, schedule.Fetch{Worker: worker, Slots: 1, Running: running}, wait)
}

func keysOf(given dispatch.Given) (keys []schedule.Key) {
	for i := range given.Calls {
		keys = append(keys, given.Calls[i].Key)
	}
	return keys
}

func TestAFetchWaitsForARun(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.upsert(5, pulled)
		began := time.Now()
		if given, err := r.fetch("me/w", 2*time.Second); err != nil || len(given.Calls) != 0 || time.Since(began) != 2*time.Second {
			r.Fatalf("with nothing to do: %+v, %v after %s", given, err, time.Since(began))
		}
		got := make(chan dispatch.Given)
		for _, worker := range []string{"me/a", "me/b", "me/c"} {
			go func() {
				given, err := r.fetch(worker, 10*time.Second)
				if err != nil {
					r.Error(err)
				}
				got <- given
			}()
		}
		time.Sleep(3 * time.Second)
		began = time.Now()
		keys := r.enqueue(2, nil)
		seen := make(map[schedule.Key]bool)
		for range 2 {
			for _, key := range keysOf(<-got) {
				seen[key] = true
			}
		}
		if len(seen) != 2 || !seen[keys[0]] || !seen[keys[1]] || time.Since(began) > 100*time.Millisecond {
			r.Errorf("two of the three got %v of %v, after %s", seen, keys, time.Since(began))
		}
		if rest := <-got; len(rest.Calls) != 0 {
			r.Errorf("the third got %+v", rest)
		}
	})
}

func TestAWaitingFetchHearsOfACancel(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.upsert(5, pulled)
		key := r.enqueue(1, nil)[0]
		if given, err := r.fetch("me/w", 0); err != nil || len(given.Calls) != 1 {
			r.Fatalf("%+v, %v", given, err)
		}
		go func() {
			time.Sleep(3 * time.Second)
			_, _, err := r.store.ChangeRun(context.Background(), key, schedule.Key{}, func(schedule.RunInput) (schedule.RunChange, error) {
				return schedule.RunChange{AskCancel: schedule.ReasonCancelled, Now: r.store.Now()}, nil
			})
			if err != nil {
				r.Error(err)
			}
		}()
		q, err := r.store.GetQueue(r.Context(), "q")
		if err != nil {
			r.Fatal(err)
		}
		began := time.Now()
		given, err := r.dispatcher.Fetch(r.Context(), q, schedule.Fetch{Worker: "me/w", Slots: 2, Running: []schedule.Key{key}}, 8*time.Second)
		if err != nil || len(given.Cancel) != 1 || given.Cancel[0] != key || time.Since(began) > 4*time.Second {
			r.Errorf("%+v, %v after %s", given, err, time.Since(began))
		}
	})
}

func TestALauncherThatStopsGivesNoRuns(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.upsert(5, pulled)
		waited := make(chan dispatch.Given)
		go func() {
			given, err := r.fetch("me/w", time.Minute)
			if err != nil {
				r.Error(err)
			}
			waited <- given
		}()
		time.Sleep(time.Second)
		r.stop()
		if given := <-waited; len(given.Calls) != 0 {
			r.Errorf("the fetch that waited got %+v", given)
		}
		r.enqueue(1, nil)
		synctest.Wait()
		if given, err := r.fetch("me/w", time.Minute); err != nil || len(given.Calls) != 0 {
			r.Errorf("a fetch afterwards: %+v, %v", given, err)
		}
	})
}

func TestARefusedFetchSaysWhatToDo(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.upsert(5, pulled)
		key := r.enqueue(2, nil)[0]
		if _, err := r.fetch("me/w", 0); err != nil {
			r.Fatal(err)
		}
		if _, err := r.fetch("me/w", time.Second, key); !errors.Is(err, schedule.ErrPrecondition) || !strings.HasPrefix(err.Error(), "slots: all 1 of worker") {
			r.Errorf("without a free slot: %v", err)
		}
	})
}

// A fetch takes no call of a launcher, so that one whose calls are all open wakes fetches like any other.
func TestAFetchIsWokenWhileAllCallsAreOpen(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.end()
		r.calls = 1
		r.executor.Behave(launchertest.Behavior{Delay: time.Minute})
		r.upsert(5, pulled)
		d := schedule.QueueDefinition{QueueID: "pushed", UserID: "ana", MaxInFlight: 5}
		if _, err := r.registrar.UpsertQueue(r.Context(), registrar.QueueInput{QueueDefinition: d}); err != nil {
			r.Fatal(err)
		}
		pushed, err := r.registrar.GetQueue(r.Context(), "pushed")
		if err != nil {
			r.Fatal(err)
		}
		r.enqueue(2, func(_ int, run *schedule.Run, req *schedule.EnqueueRequest) {
			run.Queue.No, req.QueueID = pushed.No, "pushed"
		})
		r.run()
		r.pass(2 * time.Second)
		if n := len(r.called()); n != 1 {
			r.Fatalf("%d calls are open, want 1", n)
		}
		got := make(chan dispatch.Given)
		go func() {
			given, err := r.fetch("me/w", 20*time.Second)
			if err != nil {
				r.Error(err)
			}
			got <- given
		}()
		r.pass(2 * time.Second)
		began := time.Now()
		key := r.enqueue(1, nil)[0]
		if keys := keysOf(<-got); len(keys) != 1 || keys[0] != key || time.Since(began) > 1500*time.Millisecond {
			r.Errorf("it got %s of %s, after %s", short(keys), short([]schedule.Key{key}), time.Since(began))
		}
	})
}
