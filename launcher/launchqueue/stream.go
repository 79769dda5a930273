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

// stream is one of the three streams, with the places for its open entries.
type stream struct {
	name, label string
	// perform handles an entry; done = false leaves it to another consumer.
	perform func(ctx context.Context, m redis.XMessage) (done bool)
	free    chan struct{} // has one element for each free place

	mu   sync.Mutex
	open map[string]time.Time // when handling of an entry began, by entry id
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

// begin marks an entry as open; false: it is open already.
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

// isOpen reports whether an entry is open here.
func (s *stream) isOpen(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, open := s.open[id]
	return open
}

// openFor returns the entries that are open for at least that long.
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

// openKeys has the keys that are being launched here.
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

// The pause of a loop after an error doubles from minPause to maxPause.
const (
	minPause = 100 * time.Millisecond
	maxPause = 5 * time.Second
)

func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// outage logs that Redis is unavailable, at most once a minute for all loops.
type outage struct {
	log *slog.Logger
	up  prometheus.Gauge

	mu     sync.Mutex
	since  time.Time // zero: available
	logged time.Time // last warning
	warned bool      // about this outage
}

const logEvery = time.Minute

func (o *outage) failed(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.up.Set(0)
	if o.since.IsZero() {
		o.since = time.Now()
	}
	if time.Since(o.logged) >= logEvery {
		o.logged, o.warned = time.Now(), true
		o.log.Warn("launch queue unavailable: runs are sent again when it is back", "since", o.since, "err", err)
	}
}

func (o *outage) recovered() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.up.Set(1)
	if o.warned {
		o.log.Info("launch queue available again", "away", time.Since(o.since).Round(time.Millisecond))
	}
	o.since, o.warned = time.Time{}, false
}
