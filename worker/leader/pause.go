package leader

import (
	"context"
	"math/rand/v2"
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

// jitter spreads the retries of processes that failed together.
func jitter(d time.Duration) time.Duration { return d/2 + rand.N(d/2+1) }

// backoff is the pause after the nth failure in a row: 50 ms, doubled each time, at most a
// second.
func backoff(failures int) time.Duration {
	const first, most = 50 * time.Millisecond, time.Second
	if failures > 5 {
		return most
	}
	return min(first<<max(failures-1, 0), most)
}
