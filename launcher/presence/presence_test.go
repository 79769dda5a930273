package presence_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestKeysOfOpenCallsFollowTheirProcessToItsNewNumber(t *testing.T) {
	onBothStores(t, func(r *rig) {
		e, key := newExecutor(), r.manual("key", r.store.Now())
		first, second, old, replies := r.openCall(e, key)
		if holder := r.holder(key.Key); holder != old {
			t.Fatalf("the holder of the key is %d, want %d", holder, old)
		}

		r.end(old)
		renewed := first.no(old)
		if holder := r.holder(key.Key); holder != renewed {
			r.Errorf("the holder of the key is %d, want the new number %d of the process", holder, renewed)
		}
		if first.presence.Holds(old) {
			r.Errorf("the process holds the number %d that it lost", old)
		}
		repeated := second.launch(key)
		close(e.open)
		first.succeeds(replies)
		second.succeeds(repeated)
		r.once(e, key)
	})
}

func TestAProcessWithoutItsLockBeginsNoCall(t *testing.T) {
	onBothStores(t, func(r *rig) {
		e := newExecutor()
		close(e.open)
		gate := r.gate()
		first := r.start("first", e, gate)
		old := first.no(0)
		gate.close()
		r.end(old)
		r.eventually("the loss is noticed", func() bool { return !first.presence.Holds(old) })
		key := r.manual("key", r.store.Now())
		replies := first.launch(key)
		time.Sleep(200 * time.Millisecond) // in which a call would have begun
		if holder := r.holder(key.Key); holder != 0 || len(e.callers(key.Key)) > 0 {
			r.Errorf("without a presence lock: the holder of the key is %d, the calls are %v", holder, e.callers(key.Key))
		}
		gate.reopen()
		first.succeeds(replies)
		r.once(e, key)
	})
}

// A key is recorded before its instant. When the lock is lost in between, the
// process may call only under its new number, and only if nobody took the key.
func TestAKeyRecordedBeforeTheLossIsCalledOnce(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		taken bool
	}{
		{"by its process, under the new number", false},
		{"by the process that took it over meanwhile", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r, e := onPostgres(t), newExecutor()
			close(e.open)
			gate := r.gate()
			first, second := r.start("first", e, gate), r.start("second", e, r.store)
			old, next := first.no(0), second.no(0)
			key := r.manual("key", r.store.Now().Add(900*time.Millisecond))
			replies := first.launch(key)
			r.eventually("the key is recorded", func() bool { return r.holder(key.Key) == old })
			gate.close()
			r.end(old)
			r.eventually("the loss is noticed", func() bool { return !first.presence.Holds(old) })
			if c.taken {
				second.succeeds(second.launch(key))
				if holder := r.holder(key.Key); holder != next {
					t.Errorf("the holder of the key is %d, want %d", holder, next)
				}
			} else {
				r.eventually("its instant is past", func() bool { return r.store.Now().After(key.FireAt.Add(100 * time.Millisecond)) })
				if len(e.callers(key.Key)) > 0 {
					t.Errorf("a call began without a presence lock")
				}
			}
			gate.reopen()
			first.succeeds(replies)
			r.once(e, key)
		})
	}
}

func TestAProcessThatEndsGivesItsLockBack(t *testing.T) {
	onBothStores(t, func(r *rig) {
		e, key := newExecutor(), r.manual("key", r.store.Now())
		first, second, old, replies := r.openCall(e, key)
		first.stop()
		if first.presence.Holds(old) {
			r.Error("the process holds its lock after its end")
		}
		r.eventually("the lock is free", func() bool {
			gone, err := r.store.GoneInstances(t.Context(), []string{"first", "second"})
			r.ok(err)
			return slices.Equal(gone, []string{"first"})
		})
		repeated := second.launch(key)
		r.eventually("the other process calls", func() bool { return len(e.callers(key.Key)) == 2 })
		close(e.open)
		second.succeeds(repeated)
		<-replies
	})
}

func TestAProcessStartsWhileTheDatabaseIsAway(t *testing.T) {
	onBothStores(t, func(r *rig) {
		e := newExecutor()
		close(e.open)
		back := r.away()
		defer back()
		first := r.start("first", e, r.store)
		short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if no, err := first.presence.Await(short); err == nil || !strings.Contains(err.Error(), "does not hold its presence lock") {
			r.Fatalf("without a database: number %d, error %v", no, err)
		}
		key := r.manual("key", r.store.Now())
		replies := first.launch(key)
		back()
		first.no(0)
		first.succeeds(replies)
		r.once(e, key)
	})
}

func TestALockThatIsLostAgainAndAgainGivesEachTimeANewNumber(t *testing.T) {
	onBothStores(t, func(r *rig) {
		e := newExecutor()
		first := r.start("first", e, r.store)
		key := r.manual("key", r.store.Now())
		no := first.no(0)
		replies := first.launch(key)
		r.eventually("the call is open", func() bool { return len(e.callers(key.Key)) == 1 })
		for range 3 {
			r.end(no)
			no = first.no(no)
			if holder := r.holder(key.Key); holder != no {
				r.Fatalf("the holder of the key is %d, want %d", holder, no)
			}
		}
		close(e.open)
		first.succeeds(replies)
		r.once(e, key)
	})
}
