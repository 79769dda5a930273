package registrar

import (
	"context"
	"sync"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

const (
	// countFor is how long a count of a queue is used.
	countFor = time.Second
	// countRest is how many times as long as a count took it is used at least, so that counting
	// takes at most a twentieth of the time.
	countRest = 20
)

// queueCounts remembers how many runs wait in queues.
type queueCounts struct {
	mu sync.Mutex
	of map[int32]*queueCount
}

// queueCount is the last count of one queue.
type queueCount struct {
	mu     sync.Mutex // held during a count: others wait for its result
	counts schedule.QueueCounts
	limit  int // up to which it was counted
	at     time.Time
	took   time.Duration
}

func (c *queueCounts) get(no int32) *queueCount {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of == nil {
		c.of = make(map[int32]*queueCount)
	}
	q := c.of[no]
	if q == nil {
		q = &queueCount{}
		c.of[no] = q
	}
	return q
}

// stale has a queue counted again by the next reader.
func (c *queueCounts) stale(no int32) {
	q := c.get(no)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.at = time.Time{}
}

// entered adds runs of this process to the last count.
func (c *queueCounts) entered(runs []schedule.Run) {
	if len(runs) == 0 {
		return
	}
	q := c.get(runs[0].Queue.No)
	q.mu.Lock()
	defer q.mu.Unlock()
	for i := range runs {
		place := &runs[i].Queue
		switch {
		case place.State == schedule.QueueDelayed:
			q.counts.Delayed++
			continue
		case place.State == schedule.QueueChained:
			q.counts.Chained++
			continue
		case q.counts.Waiting == 0:
			q.counts.WaitingSince = place.EnqueuedAt
		}
		q.counts.Waiting++
	}
}

// count returns a count that is not older than fresh, or than a rest after a slow one.
func (r *Registrar) count(ctx context.Context, no int32, limit int, fresh time.Duration) (schedule.QueueCounts, time.Duration, error) {
	q := r.counts.get(no)
	q.mu.Lock()
	defer q.mu.Unlock()
	began := time.Now()
	valid := max(fresh, countRest*q.took)
	if q.limit >= limit && began.Sub(q.at) < valid {
		return q.counts, valid - began.Sub(q.at), nil
	}
	read := r.now()
	counts, err := r.entries.CountQueue(ctx, no, limit)
	if err != nil {
		return counts, 0, err
	}
	counts.At = read
	q.counts, q.limit, q.at, q.took = counts, limit, began, time.Since(began)
	return counts, max(fresh, countRest*q.took), nil
}

// waitingIn is how many runs wait in a queue with a bound, and when they are counted again. Near
// the bound the count is fresh.
func (r *Registrar) waitingIn(ctx context.Context, q *schedule.Queue, more int) (waiting int, again time.Duration, err error) {
	limit := int(q.MaxWaiting) + 1
	c, _, err := r.count(ctx, q.No, limit, countFor)
	if waiting = c.Waiting + c.Delayed + c.Chained; err != nil || waiting+more <= int(q.MaxWaiting)/10*9 {
		return waiting, 0, err
	}
	c, again, err = r.count(ctx, q.No, limit, 0)
	return c.Waiting + c.Delayed + c.Chained, max(again, countFor).Round(time.Second), err
}

// QueueCounts counts the runs of a queue, each kind up to limit; at most a second ago, or longer if
// that took long. A run that has waited too long only since the count may have started: then they are
// counted again.
func (r *Registrar) QueueCounts(ctx context.Context, q *schedule.Queue, limit int) (schedule.QueueCounts, error) {
	if r.entries == nil {
		return schedule.QueueCounts{}, nil
	}
	c, _, err := r.count(ctx, q.No, limit, countFor)
	if err == nil && !q.Expect.WaitsTooLong(c.WaitingSince, c.At) && q.Expect.WaitsTooLong(c.WaitingSince, r.now()) {
		c, _, err = r.count(ctx, q.No, limit, 0)
	}
	c.Waiting, c.Delayed, c.Chained = min(c.Waiting, limit), min(c.Delayed, limit), min(c.Chained, limit)
	return c, err
}

// QueuePromises are the promises of a queue with these counts, at their instant: whether a run that
// waited then has started since is not known.
func (r *Registrar) QueuePromises(ctx context.Context, q *schedule.Queue, c schedule.QueueCounts) (promises []schedule.QueuePromise, err error) {
	dead := 0
	if limit := q.Expect.CountsDead(); limit > 0 && r.entries != nil {
		if dead, err = r.entries.CountQueueDead(ctx, q.No, limit); err != nil {
			return nil, err
		}
	}
	return q.Expect.Promises(c.WaitingSince, dead, c.At), nil
}

// QueuePace is how many runs of a queue have started and ended a minute, lately.
func (r *Registrar) QueuePace(ctx context.Context, q *schedule.Queue) (starts, ends float64, err error) {
	if r.entries == nil {
		return 0, 0, nil
	}
	now := r.now()
	p, err := r.entries.QueuePace(ctx, q.No, now, schedule.PacedRows)
	return p.PerMinute(p.Starts, now), p.PerMinute(p.Ends, now), err
}
