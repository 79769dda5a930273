package leader

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"
)

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// jitter keeps processes that failed together from coming back together.
func jitter(d time.Duration) time.Duration { return d/2 + rand.N(d/2+1) }

// backoff is the pause after the nth failure in a row: 50 ms, then twice as
// much each time, to a second.
func backoff(failures int) time.Duration {
	const first, most = 50 * time.Millisecond, time.Second
	if failures > 5 {
		return most
	}
	return min(first<<max(failures-1, 0), most)
}

// sparing says what goes wrong without flooding the log in an outage: the first
// line at once, further ones a second apart, then two, then four, to half a
// minute. After a quiet minute it begins anew.
type sparing struct {
	log *slog.Logger

	mu     sync.Mutex
	last   time.Time // when something was last to be said
	said   time.Time // when it was said
	rest   time.Duration
	unsaid int
}

func (s *sparing) warn(msg string, err error) {
	const most, quietAfter = 30 * time.Second, time.Minute
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if now.Sub(s.last) > quietAfter {
		s.rest, s.unsaid = 0, 0
	}
	s.last = now
	if now.Sub(s.said) < s.rest {
		s.unsaid++
		return
	}
	s.log.Warn(msg, "err", err, "unsaid", s.unsaid)
	s.said, s.unsaid = now, 0
	s.rest = min(max(2*s.rest, time.Second), most)
}
