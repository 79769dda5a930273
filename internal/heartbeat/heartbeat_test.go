package heartbeat_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillon/carillon/internal/heartbeat"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/memory"
	"github.com/carillon/carillon/internal/test/services/leaks"
)

func TestMain(m *testing.M) { leaks.Main(m) }

// away is a store that can be out of reach.
type away struct {
	*memory.Store
	gone atomic.Bool
}

func (a *away) Heartbeat(ctx context.Context, i schedule.Instance) error {
	if a.gone.Load() {
		return errors.New("no database")
	}
	return a.Store.Heartbeat(ctx, i)
}

// rig is a process whose heartbeats are written.
type rig struct {
	*testing.T
	store   *away
	heart   *heartbeat.Heart
	why     atomic.Value // why it is unhealthy
	changed chan struct{}
	stop    func()
}

func inBubble(t *testing.T, test func(*rig)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{T: t, store: &away{Store: memory.New(memory.Options{})}, changed: make(chan struct{}, 1)}
		r.why.Store("")
		r.heart = heartbeat.New(heartbeat.Options{
			Store: r.store, Changed: r.changed, Unhealthy: func() string { return r.why.Load().(string) }, Logger: slog.New(slog.DiscardHandler),
			Self: schedule.Instance{ID: "p", Host: "box:1", Roles: []string{"launcher"}, StartedAt: time.Now()},
		})
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { r.heart.Run(ctx) })
		r.stop = func() { cancel(); running.Wait() }
		defer r.stop()
		synctest.Wait()
		test(r)
	})
}

// row is the row of the process; false: it is not listed.
func (r *rig) row() (schedule.Instance, bool) {
	r.Helper()
	all, err := r.store.Instances(r.Context(), time.Minute)
	if err != nil {
		r.Fatal(err)
	}
	if len(all) == 0 {
		return schedule.Instance{}, false
	}
	return all[0], true
}

func TestAProcessIsSeenEachSecondUntilItLeaves(t *testing.T) {
	inBubble(t, func(r *rig) {
		for range 5 {
			row, ok := r.row()
			if !ok || row.Host != "box:1" || time.Since(row.SeenAt) > time.Second {
				t.Errorf("the row is %+v, listed: %t", row, ok)
			}
			time.Sleep(1100 * time.Millisecond)
		}
		r.stop()
		if row, ok := r.row(); ok {
			t.Errorf("after it has left, it is listed: %+v", row)
		}
	})
}

func TestAChangeOfHealthIsWrittenAtOnce(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.why.Store("no launcher")
		r.changed <- struct{}{}
		synctest.Wait()
		if row, _ := r.row(); row.Unhealthy != "no launcher" {
			t.Errorf("the row says %q", row.Unhealthy)
		}
		r.why.Store("")
		time.Sleep(1100 * time.Millisecond) // without a signal too
		if row, _ := r.row(); row.Unhealthy != "" {
			t.Errorf("the row says %q", row.Unhealthy)
		}
	})
}

func TestAProcessKnowsWhenOthersDoNotCountItAsAlive(t *testing.T) {
	inBubble(t, func(r *rig) {
		if err := r.heart.Alive(t.Context()); err != nil {
			t.Errorf("a process with heartbeats says %v", err)
		}
		r.store.gone.Store(true)
		time.Sleep(4 * time.Second)
		if err := r.heart.Alive(t.Context()); err != nil {
			t.Errorf("after four seconds it says %v", err)
		}
		time.Sleep(2 * time.Second)
		if err := r.heart.Alive(t.Context()); err == nil || !strings.Contains(err.Error(), "no heartbeat was written for ") {
			t.Errorf("after six seconds it says %v", err)
		}
		r.store.gone.Store(false)
		time.Sleep(time.Second)
		synctest.Wait()
		if err := r.heart.Alive(t.Context()); err != nil {
			t.Errorf("once heartbeats are written again it says %v", err)
		}
	})
}

func TestAProcessThatHasWrittenNothingIsNotAlive(t *testing.T) {
	heart := heartbeat.New(heartbeat.Options{Logger: slog.New(slog.DiscardHandler)})
	if err := heart.Alive(t.Context()); err == nil {
		t.Error("it says that it is alive")
	}
}
