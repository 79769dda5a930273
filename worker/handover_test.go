package worker_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	rules "github.com/carillon/carillon/internal/ledger" // ledger is the store of the rig
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/sqlite"
	"github.com/carillon/carillon/launcher"
	"github.com/carillon/carillon/worker"
)

// ledAfter waits until an epoch after the given one leads the only shard.
func (r *rig) ledAfter(epoch int64, limit time.Duration) time.Duration {
	r.Helper()
	for began := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		rows, err := r.store.Leaders(r.Context(), r.store.Now())
		if err != nil {
			r.Fatal(err)
		}
		if len(rows) == 1 && rows[0].Epoch > epoch && !rows[0].Expired {
			return time.Since(began)
		}
		if time.Since(began) > limit {
			r.Fatalf("nobody leads after %s: %+v", limit, rows)
		}
	}
}

func TestAnotherWorkerLeadsAtOnceThoughCallsOfTheFirstHang(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.launcher.CallTimeout, r.config.DrainTimeout = 8*time.Second, 10*time.Second
		r.every("hangs", time.Second, byHand)
		r.every("s", time.Second, overlap(schedule.OverlapAllow))
		second := r.open()
		defer r.close(second)
		r.executor.will(func(ctx context.Context, call launcher.Call) (schedule.Outcome, error) {
			if call.ScheduleID == "hangs" {
				time.Sleep(7 * time.Second)
			}
			return success(ctx, call)
		})
		stopFirst := r.start()
		time.Sleep(100 * time.Millisecond)
		stopSecond := r.startOn(second)
		run := r.trigger("hangs", "one")
		r.until(2950 * time.Millisecond) // the slot at 3 s is armed
		told := time.Now()
		ended := make(chan time.Duration, 1)
		go func() { stopFirst(); ended <- time.Since(told) }()
		if took := r.ledAfter(1, time.Second); took > 300*time.Millisecond {
			r.Errorf("the next leader came after %s", took)
		}
		r.until(9500 * time.Millisecond)
		if took := <-ended; took < 3*time.Second || took > 10*time.Second {
			r.Errorf("the first process ended %s after it was told to; its call took until +7s", took)
		}
		stopSecond()
		r.onceEach("s", time.Second, 9*time.Second)
		for _, call := range r.executor.calls("s") {
			if late := call.at.Sub(call.FireAt); late > 50*time.Millisecond {
				r.Errorf("the slot at +%s was sent %s late", call.ScheduledFor.Sub(r.began), late)
			}
		}
		r.is(r.run(run.Key), schedule.StatusSuccess, schedule.ReasonNone)
		if n := len(r.executor.calls("hangs")); n != 1 {
			r.Errorf("the call that went on beyond its term was made %d times", n)
		}
	})
}

// A worker that is the last one waits for its calls; one that comes meanwhile
// does not.
func TestAWorkerThatStartsWhileTheLastOneEndsLeadsAtOnce(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.launcher.CallTimeout, r.config.DrainTimeout = 8*time.Second, 10*time.Second
		r.every("hangs", time.Second, byHand)
		second := r.open()
		defer r.close(second)
		r.executor.will(func(ctx context.Context, call launcher.Call) (schedule.Outcome, error) {
			time.Sleep(7 * time.Second)
			return success(ctx, call)
		})
		stopFirst := r.start()
		run := r.trigger("hangs", "one")
		time.Sleep(time.Second)
		ended := make(chan struct{})
		go func() { stopFirst(); close(ended) }()
		time.Sleep(500 * time.Millisecond)
		stopSecond := r.startOn(second)
		if took := r.ledAfter(1, 8*time.Second); took > 1500*time.Millisecond {
			r.Errorf("it led %s after it had started", took)
		}
		<-ended
		time.Sleep(5 * time.Second)
		stopSecond()
		r.is(r.run(run.Key), schedule.StatusSuccess, schedule.ReasonNone)
		if n := len(r.executor.calls("hangs")); n != 1 {
			r.Errorf("the call was made %d times", n)
		}
	})
}

func TestAWorkerThatIsAskedToResignAndHasNoOtherGoesOnBesideItsOpenCalls(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.launcher.CallTimeout, r.config.DrainTimeout = 8*time.Second, 10*time.Second
		r.every("hangs", time.Second, byHand)
		r.every("s", time.Second, overlap(schedule.OverlapAllow))
		r.executor.will(func(ctx context.Context, call launcher.Call) (schedule.Outcome, error) {
			if call.ScheduleID == "hangs" {
				time.Sleep(7 * time.Second)
			}
			return success(ctx, call)
		})
		stop := r.start()
		r.trigger("hangs", "one")
		r.until(1200 * time.Millisecond)
		if _, err := r.store.AskToResign(r.Context(), 0, r.store.Now()); err != nil {
			r.Fatal(err)
		}
		if took := r.ledAfter(1, 8*time.Second); took > 2500*time.Millisecond {
			r.Errorf("nobody led for %s after it was asked", took)
		}
		r.until(9500 * time.Millisecond)
		stop()
		r.onceEach("s", time.Second, 9*time.Second)
	})
}

// A run that was armed when its process was told to end is still fired by it.
func TestAnArmedRunIsFiredAtItsInstantByAProcessThatEnds(t *testing.T) {
	for _, policy := range []schedule.OverlapPolicy{schedule.OverlapAllow, schedule.OverlapSkip} {
		t.Run(string(policy), func(t *testing.T) {
			inBubble(t, func(r *rig) {
				r.every("s", 2*time.Second, overlap(policy))
				stop := r.start()
				r.until(1900 * time.Millisecond)
				stop()
				calls := r.executor.calls("s")
				if len(calls) != 1 || calls[0].at.Sub(calls[0].FireAt) > 20*time.Millisecond {
					r.Errorf("%d calls, want one at fire_at: %+v", len(calls), calls)
				}
				slot := r.slot("s", 2*time.Second)
				r.is(slot, schedule.StatusSuccess, schedule.ReasonNone)
				if late := slot.LaunchedAt.Sub(slot.FireAt); late < 0 || late > 20*time.Millisecond {
					r.Errorf("launched_at is %s after fire_at", late)
				}
				r.until(3 * time.Second)
				r.work(2 * time.Second)
				r.onceEach("s", 2*time.Second, 4*time.Second)
			})
		})
	}
}

// blackHole is a store that stops answering: a call ends with its context.
type blackHole struct {
	*sqlite.Store
	gone *atomic.Bool
}

func (b blackHole) answers(ctx context.Context) error {
	if b.gone.Load() {
		<-ctx.Done()
		return ctx.Err()
	}
	return nil
}

func (b blackHole) Plan(ctx context.Context, req schedule.PlanRequest, decide func([]schedule.PlanCandidate) []schedule.PlanDecision) (schedule.PlanResult, error) {
	if err := b.answers(ctx); err != nil {
		return schedule.PlanResult{}, err
	}
	return b.Store.Plan(ctx, req, decide)
}

func (b blackHole) Heartbeat(ctx context.Context, i schedule.Instance) error {
	if err := b.answers(ctx); err != nil {
		return err
	}
	return b.Store.Heartbeat(ctx, i)
}

func (b blackHole) Leave(ctx context.Context, id string) error {
	if err := b.answers(ctx); err != nil {
		return err
	}
	return b.Store.Leave(ctx, id)
}

func (b blackHole) Claim(ctx context.Context, req rules.ClaimRequest, claim *rules.Claim) (rules.Claimed, error) {
	if err := b.answers(ctx); err != nil {
		return rules.Claimed{}, err
	}
	return b.Store.Claim(ctx, req, claim)
}

func (b blackHole) LoadOpen(ctx context.Context, term schedule.Term, from, until time.Time) (rules.Open, error) {
	if err := b.answers(ctx); err != nil {
		return rules.Open{}, err
	}
	return b.Store.LoadOpen(ctx, term, from, until)
}

func (b blackHole) Settle(ctx context.Context, term schedule.Term, now time.Time, settlements []schedule.Settlement) ([]schedule.Moved, error) {
	if err := b.answers(ctx); err != nil {
		return nil, err
	}
	return b.Store.Settle(ctx, term, now, settlements)
}

func (b blackHole) Resign(ctx context.Context, term schedule.Term, r schedule.Resignation) error {
	if err := b.answers(ctx); err != nil {
		return err
	}
	return b.Store.Resign(ctx, term, r)
}

func TestAProcessWhoseDatabaseIsGoneEndsInItsBoundAllTheSame(t *testing.T) {
	var gone atomic.Bool
	inBubble(t, func(r *rig) {
		r.config.DrainTimeout, r.launcher.CallTimeout = 3*time.Second, 2*time.Second
		r.every("s", time.Second, overlap(schedule.OverlapAllow))
		stop := r.start()
		r.until(2500 * time.Millisecond)
		gone.Store(true)
		r.executor.will(hang)
		r.until(4100 * time.Millisecond)
		told := time.Now()
		stop()
		if took := time.Since(told); took > r.config.DrainTimeout {
			r.Errorf("the process ended %s after it was told to, its bound is %s", took, r.config.DrainTimeout)
		}
		gone.Store(false)
		r.executor.will(success)
		time.Sleep(8 * time.Second)
		r.work(3 * time.Second)
		r.accounted("s", time.Second, 11*time.Second)
	}, func(r *rig) { r.over = func(s *sqlite.Store) ledger { return blackHole{s, &gone} } })
}

func TestAProcessSignsOffAndIsSeenAliveBefore(t *testing.T) {
	inBubble(t, func(r *rig) {
		stop := r.start()
		time.Sleep(1500 * time.Millisecond)
		seen, err := r.store.Instances(r.Context(), time.Minute)
		if err != nil || len(seen) != 1 || time.Since(seen[0].SeenAt) > time.Second {
			r.Errorf("seen: %+v, %v", seen, err)
		}
		if err := r.heart.Alive(r.Context()); err != nil {
			r.Errorf("a process that beats says: %v", err)
		}
		stop()
		if seen, err := r.store.Instances(r.Context(), time.Minute); err != nil || len(seen) != 0 {
			r.Errorf("after the end %+v are seen, %v", seen, err)
		}
		time.Sleep(6 * time.Second)
		if err := r.heart.Alive(r.Context()); err == nil {
			r.Error("a process that does not beat any more says nothing of it")
		}
	})
}

var _ worker.FireStore = blackHole{}
