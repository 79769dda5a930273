package schedule

import (
	"errors"
	"time"
)

// The pauses between two attempts to launch a run. busyPause is short because the
// other open call of the key may be answered any time. queuePause and refusedPause
// are short because a call that did not arrive costs the executor nothing.
const (
	firstPause   = time.Second
	busyPause    = time.Second
	queuePause   = 4 * time.Second
	refusedPause = 5 * time.Second
	mostPause    = 30 * time.Second
	// refusedRate caps the attempts a second of a process while no call arrives. With
	// more keys than refusedRate*refusedPause the pause grows, up to mostPause. The
	// first success wakes all keys anyway.
	refusedRate = 200
)

// lastAttempt is how long before the end of its launch time a run is tried once more, or its
// executor asked by key if it supports that.
const lastAttempt = 2 * time.Second

// backoff is the pause of a key after failed attempts in a row while waiting keys wait. It doubles
// from one second.
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

// nextAttempt is when a key is tried again: after its pause, and once more shortly
// before givenUp, the end of its launch time (zero: none).
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

// LaunchUntil is the end of the launch time of a run that is claimed at now:
// LaunchFor after its fire time. A run that is claimed later (it waited for its
// overlap key, or no worker led) has the same time from its claim on, because grace
// and overlap policy have already decided that it is not too late.
func LaunchUntil(d *Definition, fireAt, now time.Time, retryFor time.Duration) time.Time {
	return Later(fireAt, now).Add(LaunchFor(d, retryFor))
}

// LaunchFor is how long the launch of a run is tried: the launch timeout of its
// schedule, else retryFor.
func LaunchFor(d *Definition, retryFor time.Duration) time.Duration {
	if d.LaunchTimeoutMS > 0 {
		return d.LaunchTimeout()
	}
	return retryFor
}
