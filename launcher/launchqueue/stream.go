package launchqueue

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"github.com/carillon/carillon/internal/schedule"
)

// stream is one of the three, with the places for what is open of it.
type stream struct {
	name, label string
	// perform deals with an entry; done = false leaves it to another consumer.
	perform func(ctx context.Context, m redis.XMessage) (done bool)
	free    chan struct{} // one token for each place that is free

	mu   sync.Mutex
	open map[string]time.Time // the entries being dealt with, and since when
}

func newStream(name, label string, places int, perform func(context.Context, redis.XMessage) bool) *stream {
	s := &stream{name: name, label: label, perform: perform, free: make(chan struct{}, places), open: make(map[string]time.Time)}
	s.release(places)
	return s
}

// reserve waits for a free place, and takes up to limit; 0: ctx has ended.
func (s *stream) reserve(ctx context.Context, limit int) int {
	select {
	case <-s.free:
	case <-ctx.Done():
		return 0
	}
	if ctx.Err() != nil {
		s.release(1)
		return 0
	}
	for n := 1; n < limit; n++ {
		select {
		case <-s.free:
		default:
			return n
		}
	}
	return limit
}

func (s *stream) release(n int) {
	for range n {
		s.free <- struct{}{}
	}
}

// begin notes that an entry is being dealt with; false: it is already.
func (s *stream) begin(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, open := s.open[id]; open {
		return false
	}
	s.open[id] = time.Now()
	return true
}

func (s *stream) end(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, id)
}

// isOpen reports whether an entry is being dealt with here.
func (s *stream) isOpen(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, open := s.open[id]
	return open
}

// openFor lists the entries that have been open for so long.
func (s *stream) openFor(least time.Duration) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var ids []string
	for id, since := range s.open {
		if time.Since(since) >= least {
			ids = append(ids, id)
		}
	}
	return ids
}

// openKeys are the keys that are being launched here.
type openKeys struct {
	mu   sync.Mutex
	open map[schedule.Key]bool
}

func (k *openKeys) begin(key schedule.Key) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.open[key] {
		return false
	}
	k.open[key] = true
	return true
}

func (k *openKeys) end(key schedule.Key) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.open, key)
}

// How long a loop rests after an error: the pause doubles from the one to the
// other.
const (
	leastPause = 100 * time.Millisecond
	mostPause  = 5 * time.Second
)

func rest(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// outage says that Redis is away, at most once a minute, however many loops
// find it so and however often it comes and goes.
type outage struct {
	log *slog.Logger
	up  prometheus.Gauge

	mu    sync.Mutex
	since time.Time // zero: it is not away
	said  time.Time // last
	told  bool      // of this outage
}

const sayEvery = time.Minute

func (o *outage) goesOn(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.up.Set(0)
	if o.since.IsZero() {
		o.since = time.Now()
	}
	if time.Since(o.said) >= sayEvery {
		o.said, o.told = time.Now(), true
		o.log.Warn("launch queue unavailable: runs are sent again when it is back", "since", o.since, "err", err)
	}
}

func (o *outage) over() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.up.Set(1)
	if o.told {
		o.log.Info("launch queue available again", "away", time.Since(o.since).Round(time.Millisecond))
	}
	o.since, o.told = time.Time{}, false
}
