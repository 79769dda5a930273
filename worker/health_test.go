package worker_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/sqlite"
	"github.com/carillon/carillon/worker"
)

// way is the way to a launcher, which can be cut.
type way struct {
	cut   atomic.Bool
	looks atomic.Int64
}

func (w *way) reach(context.Context) error {
	w.looks.Add(1)
	if w.cut.Load() {
		return errors.New("no\nlauncher " + strings.Repeat("ü", 200))
	}
	return nil
}

// cutOff is a launcher behind such a way.
type cutOff struct {
	worker.Launcher
	way *way
}

func (c cutOff) StartAll(ctx context.Context, reqs []schedule.StartRequest, answer func(int, schedule.StartReply, error)) {
	if !c.way.cut.Load() {
		c.Launcher.StartAll(ctx, reqs, answer)
		return
	}
	for i := range reqs {
		answer(i, schedule.StartReply{}, errors.New("no launcher"))
	}
}

// said is a log that a test may read while it is written.
type said struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *said) count(words string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Count(s.text.String(), words)
}

// seen is the one worker of a rig as the others see it.
func (r *rig) seen() schedule.Instance {
	r.Helper()
	workers, err := r.store.Instances(r.Context(), time.Minute)
	if err != nil || len(workers) != 1 {
		r.Fatalf("workers: %+v, %v", workers, err)
	}
	return workers[0]
}

func TestAWorkerIsUnhealthyOnceItsLauncherWasNotReachedThreeTimesInARow(t *testing.T) {
	log := &said{}
	inBubble(t, func(r *rig) {
		way := &way{}
		r.reach, r.log = way.reach, slog.New(slog.NewTextHandler(log, nil))
		defer r.start()()
		is := func(at time.Duration, healthy bool) {
			t.Helper()
			r.until(at)
			seen := r.seen()
			if (seen.Unhealthy == "") != healthy || (r.worker.Healthy(r.Context()) == nil) != healthy {
				t.Errorf("at +%s the heartbeat says %q, the worker %v; want healthy %t", at, seen.Unhealthy, r.worker.Healthy(r.Context()), healthy)
			}
		}
		is(100*time.Millisecond, true)
		if host := r.seen().Host; host != "box:"+r.seen().ID[:4] {
			t.Errorf("its host is %q", host)
		}
		r.until(500 * time.Millisecond)
		way.cut.Store(true) // looks at 1, 2, 3
		is(2900*time.Millisecond, true)
		is(3100*time.Millisecond, false)
		if why := r.seen().Unhealthy; len(why) > 200 || !strings.HasPrefix(why, "no launcher ü") || !strings.HasSuffix(why, "ü…") {
			t.Errorf("the reason is %d bytes: %q; want one line of 200 at most", len(why), why)
		}
		r.until(20500 * time.Millisecond)
		way.cut.Store(false) // looks at 21, 22, 23
		is(22900*time.Millisecond, false)
		is(23100*time.Millisecond, true)
		for range 10 { // twice is not three times
			time.Sleep(time.Second)
			way.cut.Store(true)
			time.Sleep(2 * time.Second)
			way.cut.Store(false)
		}
		is(56*time.Second, true)
		for words, want := range map[string]int{"launches would fail": 1, "launches work again": 1, "worker started": 1} {
			if n := log.count(words); n != want {
				t.Errorf("%q was said %d times, want %d", words, n, want)
			}
		}
	})
}

func TestAWorkerThatNeverReachedItsLauncherIsUnhealthyFromTheStartAndHealthyAtOnceWhenItHas(t *testing.T) {
	log := &said{}
	inBubble(t, func(r *rig) {
		way := &way{}
		way.cut.Store(true)
		r.reach, r.log = way.reach, slog.New(slog.NewTextHandler(log, nil))
		defer r.start()()
		r.until(1500 * time.Millisecond)
		if r.seen().Unhealthy == "" || log.count("launches would fail") != 0 {
			t.Errorf("after two looks the heartbeat says %q, and the log something already: %t", r.seen().Unhealthy, log.count("launches would fail") > 0)
		}
		r.until(4500 * time.Millisecond)
		if n := log.count("launches would fail"); n != 1 {
			t.Errorf("after five looks it was said %d times", n)
		}
		way.cut.Store(false)
		r.until(5100 * time.Millisecond)
		if why := r.seen().Unhealthy; why != "" {
			t.Errorf("after the first good look the heartbeat says %q", why)
		}
	})
}

func TestALeaderThatLosesItsLauncherHandsOverAndNoSlotIsLost(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.every("s", time.Second, overlap(schedule.OverlapAllow))
		second := r.open()
		defer r.close(second)
		way := &way{}
		plain := r.through
		r.reach = way.reach
		r.through = func(l worker.Launcher, _ *sqlite.Store) worker.Launcher { return cutOff{l, way} }
		stopFirst := r.start()
		defer stopFirst()
		first := r.worker
		r.until(500 * time.Millisecond)
		r.reach, r.through = nil, plain
		defer r.startOn(second)()
		r.until(5500 * time.Millisecond)
		way.cut.Store(true)
		cut := time.Now()
		took := r.ledAfter(1, 10*time.Second)
		if took < 2*time.Second || took > 5*time.Second {
			t.Errorf("another one leads %s after the launcher was lost, want about three seconds", took)
		}
		r.until(12500 * time.Millisecond)
		if first.Healthy(r.Context()) == nil {
			t.Error("the first says that it is healthy")
		}
		r.onceEach("s", time.Second, 12*time.Second)
		for _, call := range r.executor.calls("s") {
			bound := 100 * time.Millisecond
			if due := call.FireAt.Sub(cut); due > -time.Second && due < took {
				bound = took + time.Second
			}
			if late := call.at.Sub(call.FireAt); late > bound {
				t.Errorf("the slot at +%s was sent %s late", call.ScheduledFor.Sub(r.began), late)
			}
		}
		way.cut.Store(false)
		r.until(18500 * time.Millisecond)
		if led := r.shares(); len(led) != 1 {
			t.Errorf("the shard is led by %v", led)
		}
		if rows, err := r.store.Leaders(r.Context(), r.store.Now()); err != nil || rows[0].Epoch != 2 {
			t.Errorf("it moved once more when the first was healthy again: %+v, %v", rows, err)
		}
	})
}
