package sqlite

import (
	"context"
	"sync"

	"github.com/carillon/carillon/internal/schedule"
)

// Listen calls wake, for all hash buckets, after each commit by which somebody
// other than a term inserted a run, ended one in flight or asked for a cancel.
// wake must return soon. Listen returns when ctx ends or the store is closed.
func (s *Store) Listen(ctx context.Context, wake func(first, last int)) error {
	defer s.wakes.add(wake)()
	return s.wait(ctx)
}

// ListenQueues calls wake after each commit by which runs have entered a queue or left one, a
// queue was changed, or a run is to be cancelled. It returns as Listen does.
func (s *Store) ListenQueues(ctx context.Context, wake func()) error {
	defer s.queueWakes.add(func(int, int) { wake() })()
	return s.wait(ctx)
}

func (s *Store) wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-s.closed:
		return schedule.Explain(schedule.ErrUnavailable, "the store was closed")
	}
}

// wakes are the functions that Listen registered. Only writers of this process
// wake it: a second process on the same file is seen at the next tick.
type wakes struct {
	mu    sync.Mutex
	next  int
	calls map[int]func(first, last int)
}

func (w *wakes) add(wake func(first, last int)) (remove func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.calls == nil {
		w.calls = make(map[int]func(first, last int))
	}
	id := w.next
	w.next++
	w.calls[id] = wake
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.calls, id)
	}
}

func (w *wakes) call() {
	w.mu.Lock()
	calls := make([]func(first, last int), 0, len(w.calls))
	for _, wake := range w.calls {
		calls = append(calls, wake)
	}
	w.mu.Unlock()
	for _, wake := range calls {
		wake(0, schedule.Buckets-1)
	}
}
