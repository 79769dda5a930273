package launcher_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/launcher"
)

// requests are n requests of schedule "s" for one instant.
func (r *rig) requests(n int, at time.Time) []schedule.StartRequest {
	reqs := make([]schedule.StartRequest, n)
	for i := range reqs {
		reqs[i] = r.request()
		reqs[i].ScheduledFor = reqs[i].ScheduledFor.Add(time.Duration(i) * time.Hour)
		reqs[i].Key, reqs[i].FireAt = schedule.SlotKey("s", reqs[i].ScheduledFor), at
	}
	return reqs
}

// answered are the answers of a batch as they came.
type answered struct {
	*rig
	mu      sync.Mutex
	began   time.Time
	after   map[int]time.Duration
	replies map[int]schedule.StartReply
	errs    map[int]error
}

// startBatch starts a batch and returns when all are answered.
func (r *rig) startBatch(reqs []schedule.StartRequest, withdrawn <-chan int) *answered {
	a := &answered{rig: r, began: time.Now(), after: make(map[int]time.Duration), replies: make(map[int]schedule.StartReply), errs: make(map[int]error)}
	r.launcher.StartBatch(r.Context(), reqs, withdrawn, func(i int, reply schedule.StartReply, err error) {
		a.mu.Lock()
		defer a.mu.Unlock()
		if _, twice := a.after[i]; twice {
			r.Errorf("start %d is answered twice", i)
		}
		a.after[i], a.replies[i], a.errs[i] = time.Since(a.began), reply, err
	})
	if len(a.after) != len(reqs) {
		r.Errorf("%d of %d starts are answered", len(a.after), len(reqs))
	}
	return a
}

func TestASlowCallHoldsBackNoOtherOfItsBatch(t *testing.T) {
	for name, ahead := range map[string]time.Duration{"due": 0, "early": 500 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, reports, func(r *rig) {
				reqs := r.requests(100, time.Now().Add(ahead))
				r.executor.run = func(ctx context.Context, call launcher.Call) (schedule.Outcome, error) {
					if call.Key == reqs[3].Key || call.Key == reqs[7].Key {
						time.Sleep(8 * time.Second)
					}
					return accept(ctx, call)
				}
				a := r.startBatch(reqs, nil)
				for i := range reqs {
					want := ahead
					if i == 3 || i == 7 {
						want += 8 * time.Second
					}
					if a.errs[i] != nil || a.after[i] < want || a.after[i] > want+100*time.Millisecond {
						r.Errorf("start %d is answered after %s with %v, want after %s", i, a.after[i], a.errs[i], want)
					}
				}
				r.wantCalls(len(reqs), 0)
			})
		})
	}
}

func TestASlowDAGHoldsBackNoOtherOfItsBatch(t *testing.T) {
	inBubble(t, reports, func(r *rig) {
		var loads atomic.Int32
		r.workflows.load = func(context.Context) ([]byte, error) {
			if loads.Add(1) == 1 {
				time.Sleep(700 * time.Millisecond)
			}
			return []byte(`{}`), nil
		}
		a := r.startBatch(r.requests(100, time.Now()), nil)
		slow := 0
		for _, after := range a.after {
			if after > 100*time.Millisecond {
				slow++
			}
		}
		if slow != 1 {
			r.Errorf("%d starts were answered late, want the one with the slow DAG", slow)
		}
	})
}

func TestAWithdrawnRunIsNotCalledAndItsKeyIsFree(t *testing.T) {
	inBubble(t, reports, func(r *rig) {
		withdrawn := make(chan int)
		time.AfterFunc(600*time.Millisecond, func() { withdrawn <- 1; withdrawn <- 1 }) // recorded, waits for fire_at
		time.AfterFunc(1100*time.Millisecond, func() { withdrawn <- 2 })                // its call is open
		r.executor.run = func(ctx context.Context, call launcher.Call) (schedule.Outcome, error) {
			time.Sleep(500 * time.Millisecond)
			return accept(ctx, call)
		}
		reqs := r.requests(3, time.Now().Add(time.Second))
		a := r.startBatch(reqs, withdrawn)
		for i, want := range []error{nil, launcher.ErrWithheld, nil} {
			if fmt.Sprint(want) != "<nil>" != (a.errs[i] != nil) {
				r.Errorf("start %d is answered with %v, want %v", i, a.errs[i], want)
			}
		}
		if a.after[1] > 700*time.Millisecond {
			r.Errorf("the withdrawn start is answered after %s, want at once", a.after[1])
		}
		r.wantCalls(2, 0)
		r.isOutcome(r.must(reqs[1]), schedule.StatusEnqueued, schedule.ReasonNone)
		r.wantCalls(3, 0)
	})
}

func TestAPanicEndsOneStartOnly(t *testing.T) {
	for name, ahead := range map[string]time.Duration{"due": 0, "early": 500 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, launcher.Config{Feedback: true, MaxCalls: 10}, func(r *rig) {
				reqs := r.requests(50, time.Now().Add(ahead))
				r.executor.run = func(ctx context.Context, call launcher.Call) (schedule.Outcome, error) {
					if i := slices.IndexFunc(reqs, func(q schedule.StartRequest) bool { return q.Key == call.Key }); i%4 == 0 {
						panic("a bug")
					}
					return accept(ctx, call)
				}
				a := r.startBatch(reqs, nil) // thirteen keep no call of the ten
				for i := range reqs {
					if (a.errs[i] != nil) != (i%4 == 0) {
						r.Errorf("start %d is answered with %v", i, a.errs[i])
					}
				}
			})
		})
	}
}

// counting grants every key and counts the transactions.
type counting struct {
	granting
	begins atomic.Int32
}

func (c *counting) Begin(ctx context.Context, reqs []schedule.BeginRequest, now time.Time) ([]schedule.BeginResult, error) {
	c.begins.Add(1)
	return c.granting.Begin(ctx, reqs, now)
}

func TestTheKeysOfABatchAreBegunInOneTransaction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, at := range map[string]time.Time{"due": time.Now(), "early": time.Now().Add(500 * time.Millisecond)} {
			store := &counting{}
			e := &noting{late: make([]time.Duration, 1000)}
			l := launcher.New(launcher.Options{Store: store, Workflows: noDAG{}, Executor: e})
			reqs := make([]schedule.StartRequest, 1000)
			for i := range reqs {
				reqs[i] = schedule.StartRequest{Key: schedule.Key{byte(i), byte(i >> 8)}, FireAt: at}
			}
			l.StartAll(t.Context(), reqs, func(i int, _ schedule.StartReply, err error) {
				if err != nil {
					t.Errorf("%s: start %d: %v", name, i, err)
				}
			})
			if n := store.begins.Load(); n != 1 || e.n.Load() != 1000 {
				t.Errorf("%s: %d transactions for %d calls, want one for 1000", name, n, e.n.Load())
			}
		}
	})
}
