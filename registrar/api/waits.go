package api

import (
	"context"
	"time"

	"google.golang.org/grpc/status"

	"github.com/carillon/carillon/internal/batch"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/registrar"
)

// Calls of one process that wait with wait_ms. Each costs a connection of its client and a place.
const (
	mostEndWaits   = 1000 // for the ends of runs: they share their looks
	mostGrantWaits = 200  // for grants of reservations: each looks for itself, and so keeps its reservation
	waitAgain      = time.Second
)

// Pauses between two looks at what a caller waits for.
const (
	firstLook = 10 * time.Millisecond
	lastLook  = 250 * time.Millisecond
)

// gather is how long a look waits for others that come at the same instant: those that come meanwhile
// are the next look, all together.
const gather = 5 * time.Millisecond

// lookTimeout bounds a look that many callers share.
const lookTimeout = 10 * time.Second

// waits are the calls that wait. Those for ends of runs look at the same instants, so that one
// statement serves all of them.
type waits struct {
	ends, grants chan struct{} // a place for each
	looks        *batch.Batcher[schedule.Key, bool]
}

func newWaits(queues Queues, ends, grants int) *waits {
	open := func(ctx context.Context, keys []schedule.Key) ([]bool, error) {
		ctx, cancel := context.WithTimeout(ctx, lookTimeout)
		defer cancel()
		<-time.After(gather)
		return queues.OpenAmong(ctx, keys)
	}
	return &waits{ends: make(chan struct{}, ends), grants: make(chan struct{}, grants), looks: batch.New(ends, open)}
}

// place takes a place for a call that waits for so long, until free is called. Without one the call
// is refused before it changes anything.
func place(places chan struct{}, wait time.Duration) (free func(), err error) {
	if wait < firstLook {
		return func() {}, nil
	}
	select {
	case places <- struct{}{}:
		return func() { <-places }, nil
	default:
		return nil, schedule.RetryLater(waitAgain, "wait_ms: %d calls wait at this server, which is its maximum, and nothing was changed; repeat the call, or leave out wait_ms and look again later", cap(places))
	}
}

// next is when a caller looks again: soon at first, then with all others.
func (s *queueServer) next(pause time.Duration) *time.Timer {
	if pause == lastLook {
		now := time.Now()
		pause = now.Truncate(lastLook).Add(lastLook).Sub(now)
	}
	return time.NewTimer(pause)
}

// ended waits for the end of a run that was put into a queue and of the attempts that follow it, at
// most for a time, and returns the last of them as it is then.
func (s *queueServer) ended(ctx context.Context, queueID string, key schedule.Key, wait time.Duration) (*schedule.Run, error) {
	over := time.Now().Add(wait)
	isOver := func() (bool, error) {
		open, err := s.waits.looks.DoUntil(ctx, key)
		return !open, err
	}
	for {
		run, err := s.entered(ctx, queueID, key)
		if err != nil || wait == 0 {
			return run, err
		}
		if !run.Status.Terminal() {
			if err := s.until(ctx, time.Until(over), isOver); err != nil {
				return nil, err
			}
			if run, err = s.entered(ctx, queueID, key); err != nil || !run.Status.Terminal() {
				return run, err
			}
		}
		next, goesOn := run.RetriedBy()
		if !goesOn {
			return run, nil
		}
		key = next
	}
}

// granted waits for the grant of a reservation, at most for a time, and returns it as it is then.
func (s *queueServer) granted(ctx context.Context, id schedule.Key, wait time.Duration) (found registrar.ReservationNow, err error) {
	look := func() (bool, error) {
		found, err = s.queues.GetReservation(ctx, id, wait > 0)
		return err == nil && found.Granted(), err
	}
	if over, err := look(); over || err != nil || wait == 0 {
		return found, err
	}
	if err := s.until(ctx, wait, look); err != nil {
		return registrar.ReservationNow{}, err
	}
	if !found.Granted() {
		_, err = look()
	}
	return found, err
}

// until looks again and again until it is over, for a time at most, or until the process ends:
// what the caller waits for goes on.
func (s *queueServer) until(ctx context.Context, wait time.Duration, look func() (over bool, err error)) error {
	deadline := time.NewTimer(wait)
	defer deadline.Stop()
	for pause := firstLook; ; pause = min(2*pause, lastLook) {
		next := s.next(pause)
		select {
		case <-next.C:
		case <-deadline.C:
			next.Stop()
			return nil
		case <-s.ending:
			next.Stop()
			return nil
		case <-ctx.Done():
			next.Stop()
			return status.FromContextError(ctx.Err()).Err()
		}
		if over, err := look(); over || err != nil {
			return err
		}
	}
}
