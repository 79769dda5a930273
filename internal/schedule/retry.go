package schedule

import (
	"errors"
	"time"
)

// The pauses between two attempts to launch a run. Another call of the key that
// is open may be answered any time. Where nothing took the call, no executor
// needs to be spared, unless a crowd tries.
const (
	firstPause   = time.Second
	busyPause    = time.Second
	queuePause   = 4 * time.Second
	refusedPause = 5 * time.Second
	mostPause    = 30 * time.Second
	// refusedRate is how many attempts a second a process makes at most, in the
	// long run, while nothing takes its calls: with more runs than
	// refusedRate*refusedPause the pause grows, up to mostPause. The first
	// success wakes all of them anyway.
	refusedRate = 200
)

// lastAttempt is how long before its launch is given up a run is tried once
// more: an executor that can be asked by key is asked then.
const lastAttempt = 2 * time.Second

// backoff is the pause after so many failed attempts in a row of one key, while
// so many keys wait. It doubles from one second.
func backoff(failed, waiting int, cause error) time.Duration {
	most := mostPause
	if errors.Is(cause, ErrBusy) {
		return busyPause
	}
	switch LaunchErrorOf(cause).Code {
	case CodeQueueUnavailable:
		most = queuePause
	case CodeExecutorUnreachable, CodeLauncherUnreachable:
		most = min(mostPause, max(refusedPause, time.Duration(waiting)*time.Second/refusedRate))
	}
	return min(most, firstPause<<min(max(failed-1, 0), 5))
}

// nextAttempt is when a key is tried again that is given up at an instant (zero:
// never): after its pause, and once shortly before it is given up.
func nextAttempt(now time.Time, pause time.Duration, givenUp time.Time) time.Time {
	at := now.Add(pause)
	if givenUp.IsZero() {
		return at
	}
	if last := givenUp.Add(-lastAttempt); at.After(last) {
		at = Later(last, now.Add(min(pause, firstPause)))
	}
	if at.After(givenUp) {
		return Later(givenUp, now)
	}
	return at
}

// Later is the later of two instants.
func Later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// LaunchUntil is when the launch of a run is given up that is claimed at now:
// LaunchFor after its fire time. A run that is claimed later than that (it waited
// for its overlap key, or no worker led) has the same time from its claim on:
// whether it is too late to be launched at all was decided before, by grace and
// overlap policy.
func LaunchUntil(d *Definition, fireAt, now time.Time, retryFor time.Duration) time.Time {
	return Later(fireAt, now).Add(LaunchFor(d, retryFor))
}

// LaunchFor is how long the launch of a run is tried: its schedule's launch
// timeout, or else retryFor.
func LaunchFor(d *Definition, retryFor time.Duration) time.Duration {
	if d.LaunchTimeoutMS > 0 {
		return d.LaunchTimeout()
	}
	return retryFor
}
