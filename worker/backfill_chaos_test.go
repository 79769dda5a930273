package worker_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/launcher"
	"github.com/carillon/carillon/registrar"
)

// stormy is an executor that honours keys and loses answers. It knows what took
// effect and what goes on at the same time; that is the oracle.
type stormy struct {
	*rig
	rand       *rand.Rand
	backfillID string

	mu      sync.Mutex
	effects map[schedule.Key]launcher.Call
	flying  map[schedule.Key]bool // of backfills
	most    int                   // of them at once
	all     int                   // of any trigger
	mostAll int
}

func (s *stormy) answer(ctx context.Context, call launcher.Call) (schedule.Outcome, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.effects[call.Key]; !known {
		s.effects[call.Key] = call
		s.all++
		s.mostAll = max(s.mostAll, s.all)
		if call.Trigger == schedule.TriggerBackfill {
			s.flying[call.Key] = true
			s.most = max(s.most, len(s.flying))
		}
		takes := time.Duration(s.rand.IntN(700)) * time.Millisecond
		s.executor.reports.Go(func() {
			time.Sleep(takes)
			s.mu.Lock()
			delete(s.flying, call.Key)
			s.all--
			s.mu.Unlock()
			s.report(call.Key, schedule.StatusSuccess)
		})
	}
	if s.rand.IntN(5) == 0 {
		return schedule.Outcome{}, errCut
	}
	return accept(ctx, call)
}

func (s *stormy) dice(n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rand.IntN(n)
}

// CHAOS_SEEDS=400 is a long look; the default is short enough for every day.
func TestWhateverHappensABackfillRunsEachSlotOnceAndKeepsItsConcurrency(t *testing.T) {
	seeds := 4
	if n, err := strconv.Atoi(os.Getenv("CHAOS_SEEDS")); err == nil {
		seeds = n
	}
	for seed := range seeds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			inBubble(t, func(r *rig) {
				s := &stormy{
					rig: r, rand: rand.New(rand.NewPCG(uint64(seed), 11)), effects: make(map[schedule.Key]launcher.Call), flying: make(map[schedule.Key]bool),
				}
				s.live([]schedule.OverlapPolicy{schedule.OverlapSkip, schedule.OverlapAllow, schedule.OverlapQueue}[seed%3])
			})
		})
	}
}

func (s *stormy) live(policy schedule.OverlapPolicy) {
	s.config.Grace, s.config.RetryFor, s.config.MaxLaunches = 2*time.Second, time.Minute, 4+s.dice(20)
	live := s.every("s", 2*time.Second, overlap(policy))
	s.until(40 * time.Second)
	s.executor.will(s.answer)
	in := registrar.BackfillInput{ScheduleID: "s", From: s.at(0), To: s.at(31 * time.Second), RequestID: "one", Concurrency: 1}
	in.Order = schedule.BackfillOrders[s.dice(2)]
	in.RatePerMinute = []int32{0, 240}[s.dice(2)]
	if policy == schedule.OverlapAllow {
		in.Concurrency = int32(1 + s.dice(4))
	}
	stop := s.start()
	time.Sleep(3 * time.Second)
	done, err := s.registrar.Backfill(s.Context(), in)
	if err != nil { // by skip, with a run in flight
		time.Sleep(900 * time.Millisecond)
		if done, err = s.registrar.Backfill(s.Context(), in); err != nil {
			stop()
			s.Logf("nothing to look at: %v", err)
			return
		}
	}
	s.backfillID = done.Backfill.BackfillID
	change := registrar.BackfillChangeInput{BackfillID: s.backfillID}
	for turn := range 8 {
		time.Sleep(time.Duration(s.dice(1500)) * time.Millisecond)
		switch s.dice(5) {
		case 0:
			stop()
			time.Sleep(time.Duration(s.dice(2000)) * time.Millisecond)
			stop = s.start()
		case 1, 2:
			s.must(s.registrar.PauseBackfill(s.Context(), change))
			time.Sleep(time.Duration(s.dice(1500)) * time.Millisecond)
			s.must(s.registrar.ResumeBackfill(s.Context(), change))
		case 3:
			_, _ = s.registrar.Trigger(s.Context(), registrar.TriggerInput{ScheduleID: "s", RequestID: fmt.Sprint("t", turn)}) // skip may refuse it
		case 4:
			live.Labels = map[string]string{"build": strconv.Itoa(turn)}
			s.upsertAgain(live)
		}
	}
	for range 240 {
		if s.backfilled(change.BackfillID).State != schedule.BackfillRunning {
			break
		}
		time.Sleep(500 * time.Millisecond)
	}
	stop()
	s.executor.reports.Wait()
	s.check(policy, change.BackfillID, int(in.Concurrency))
}

// must accepts an error, which comes without a backfill, once the backfill has ended.
func (s *stormy) must(_ *schedule.Backfill, err error) {
	s.Helper()
	if err != nil && s.backfilled(s.backfillID).State == schedule.BackfillRunning {
		s.Error(err)
	}
}

// check compares what the executor saw to what was asked for: 15 slots, each once.
func (s *stormy) check(policy schedule.OverlapPolicy, id string, concurrency int) {
	b := s.backfilled(id)
	if b.State != schedule.BackfillFinished || b.Succeeded != 15 || b.Inserted != 15 || b.PassedOver != 0 {
		s.Errorf("under %s the backfill is %s: %+v", policy, b.State, b.BackfillCounts)
	}
	if s.most > concurrency {
		s.Errorf("%d of its runs at once, more than %d", s.most, concurrency)
	}
	if policy.Exclusive() && s.mostAll > 1 {
		s.Errorf("under %s %d runs at once", policy, s.mostAll)
	}
	times := make(map[time.Time]int)
	for _, call := range s.effects {
		if call.Trigger == schedule.TriggerBackfill {
			times[call.ScheduledFor.UTC()]++
		}
	}
	for at := 2 * time.Second; at < 31*time.Second; at += 2 * time.Second {
		if n := times[s.at(at)]; n != 1 {
			s.Errorf("the slot at +%s took effect %d times", at, n)
		}
		delete(times, s.at(at))
	}
	for at := range times {
		s.Errorf("a run for +%s, which was not asked for", at.Sub(s.began))
	}
}
