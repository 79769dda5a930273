package batch

import "sync"

// Queue gathers items for a function that handles many at once: while some are handled,
// the next ones gather. Nobody waits for an item. Its goroutine ends when it is empty.
type Queue[T any] struct {
	limit  int
	handle func(items []T)

	mu      sync.Mutex
	pending []T
	running bool
}

// NewQueue returns a Queue that hands at most limit items to one call of handle. Calls
// follow one another, in the order of the items.
func NewQueue[T any](limit int, handle func(items []T)) *Queue[T] {
	return &Queue[T]{limit: limit, handle: handle}
}

// Add adds items and returns at once.
func (q *Queue[T]) Add(items ...T) {
	if len(items) == 0 {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.pending = append(q.pending, items...)
	if !q.running {
		q.running = true
		go q.run()
	}
}

func (q *Queue[T]) run() {
	for items := q.next(); len(items) > 0; items = q.next() {
		q.handle(items)
	}
}

// next takes the oldest items; none: the goroutine ends.
func (q *Queue[T]) next() []T {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := min(len(q.pending), q.limit)
	items := q.pending[:n:n]
	if q.pending = q.pending[n:]; len(q.pending) == 0 {
		q.pending = nil
	}
	q.running = n > 0
	return items
}
