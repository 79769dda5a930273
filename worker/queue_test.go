package worker_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/sqlite"
	"github.com/carillon/carillon/worker"
)

// queue hands runs over as a launch queue does. The first lost deliveries of a
// key get lost in it, and the next away ones do not even reach it.
type queue struct {
	*testing.T
	worker.Launcher
	store      *sqlite.Store
	lost, away int
	open       sync.WaitGroup

	mu   sync.Mutex
	seen map[schedule.Key]int
}

func (q *queue) StartAll(ctx context.Context, reqs []schedule.StartRequest, answer func(int, schedule.StartReply, error)) {
	for i := range reqs {
		reply, err := q.put(ctx, reqs[i])
		answer(i, reply, err)
	}
}

func (q *queue) put(ctx context.Context, req schedule.StartRequest) (schedule.StartReply, error) {
	q.mu.Lock()
	q.seen[req.Key]++
	n := q.seen[req.Key]
	q.mu.Unlock()
	switch {
	case n <= q.away:
		return schedule.StartReply{}, errors.Join(schedule.ErrQueueAway)
	case n > q.away+q.lost:
		q.open.Go(func() { q.take(context.WithoutCancel(ctx), req) })
	}
	return schedule.StartReply{Queued: true}, nil
}

// take is what a launcher does that takes the run out.
func (q *queue) take(ctx context.Context, req schedule.StartRequest) {
	q.Launcher.StartAll(ctx, []schedule.StartRequest{req}, func(_ int, reply schedule.StartReply, err error) {
		if err != nil || !reply.Settled {
			q.Errorf("start: %+v, %v", reply, err)
		}
	})
}

func TestARunThatWasHandedToAQueueIsItsLeases(t *testing.T) {
	for _, tc := range []struct {
		name       string
		lost, away int
		after      time.Duration // it is launched
	}{
		{name: "the queue passes it on"},
		{name: "the queue loses it: the claim's lease sends it again", lost: 1, after: 5 * time.Second},
		{name: "the queue loses it twice", lost: 2, after: 10 * time.Second},
		{name: "the queue is away for a while: it is tried again soon", away: 3, after: 7 * time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				q := &queue{T: t, lost: tc.lost, away: tc.away, seen: make(map[schedule.Key]int)}
				r.through = func(l worker.Launcher, s *sqlite.Store) worker.Launcher {
					q.Launcher, q.store = l, s
					return q
				}
				r.every("s", time.Second, byHand)
				stop := r.start()
				time.Sleep(time.Second)
				run := r.trigger("s", "one")
				time.Sleep(15 * time.Second)
				stop()
				q.open.Wait()
				got := r.run(run.Key)
				r.is(got, schedule.StatusSuccess, schedule.ReasonNone)
				if late := got.LaunchedAt.Sub(run.FireAt); late < tc.after || late > tc.after+1500*time.Millisecond {
					r.Errorf("launched after %s, want %s", late, tc.after)
				}
				if n := len(r.executor.calls("s")); n != 1 {
					r.Errorf("the executor was called %d times, want once", n)
				}
			})
		})
	}
}
