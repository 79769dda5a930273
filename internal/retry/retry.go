// Package retry plans the next attempt to launch a run that got no answer: pauses that
// double, and an early attempt after the first success.
package retry

import (
	"bytes"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// Launches counts, for each key that one term of a worker or one consumer of the launch
// queue tried to launch without an answer, the failed attempts in a row and the time of the
// next one. Attempts of others do not count: a change of leaders says nothing about the
// executor. The zero value is ready.
type Launches struct {
	mu    sync.Mutex
	keys  map[schedule.Key]attempts
	swept time.Time
	// waiting: a key has begun to wait since the last scan of Recovered.
	waiting bool
	looked  time.Time // last scan of Recovered
}

type attempts struct {
	failed int
	last   time.Time     // when the last attempt failed
	pause  time.Duration // from since; 0: an attempt is open
	since  time.Time
	woken  time.Time // when Recovered last moved its next attempt to now
}

// keptFor is how long a key is remembered: longer than the longest pause plus
// a call. It is bounded because another process may have received the answer.
const keptFor = 10 * time.Minute

// recoveredEvery is the shortest interval between two scans of Recovered.
const recoveredEvery = 250 * time.Millisecond

// Settlement returns the settlement of a failed launch attempt: the run stays LAUNCHING,
// with the time of the next attempt, or ends if its launch time is over. If no attempt was
// made (another call of the key is open, a check failed), it keeps the error of the last
// attempt.
func (l *Launches) Settlement(req *schedule.StartRequest, cause error, now time.Time) schedule.Settlement {
	failed, waiting := l.again(req.Key, cause, now)
	pause := backoff(failed, waiting, cause)
	s := schedule.Settlement{
		Key: req.Key, To: schedule.StatusLaunching, ClaimedUntil: nextAttempt(now, pause, req.SendUntil),
		GivesUp: tried(cause) || errors.Is(cause, schedule.ErrOverdue),
	}
	if !tried(cause) {
		return s
	}
	e := schedule.LaunchErrorOf(cause)
	s.ErrorCode, s.ErrorMessage, s.Deliveries = string(e.Code), schedule.Storable(cause.Error(), schedule.MaxErrorMessage), e.Deliveries
	s.Attempt = &schedule.LaunchAttempt{
		At: e.At, Took: e.Took, Result: e.Result(), ErrorCode: s.ErrorCode, ErrorMessage: s.ErrorMessage, NextAt: s.ClaimedUntil,
	}
	if s.Attempt.At.IsZero() {
		s.Attempt.At = now
	}
	return s
}

// tried reports whether an attempt was made: no other call of the key was open,
// and no check forbade it.
func tried(cause error) bool {
	return !errors.Is(cause, schedule.ErrBusy) && !errors.Is(cause, schedule.ErrWithheld)
}

// Answered forgets a key.
func (l *Launches) Answered(key schedule.Key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.keys, key)
}

// again counts a failed attempt, if one was made, and returns the attempts in a row
// and the number of keys.
func (l *Launches) again(key schedule.Key, cause error, now time.Time) (failed, waiting int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	old := func(_ schedule.Key, e attempts) bool { return now.Sub(e.last) > keptFor }
	if now.Sub(l.swept) > keptFor {
		maps.DeleteFunc(l.keys, old)
		l.swept = now
	}
	e := l.keys[key]
	if errors.Is(cause, schedule.ErrBusy) {
		return e.failed, len(l.keys)
	}
	if l.keys == nil {
		l.keys = make(map[schedule.Key]attempts)
	}
	if old(key, e) {
		e = attempts{}
	}
	e.failed, e.last, e.pause = e.failed+1, now, 0
	l.keys[key] = e
	return e.failed, len(l.keys)
}

// Written marks a settlement as stored: from now on Recovered may wake the key.
// Before, the two settlements could be stored in the wrong order.
func (l *Launches) Written(s *schedule.Settlement, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e, known := l.keys[s.Key]; known {
		e.pause, e.since = s.ClaimedUntil.Sub(now), now
		l.keys[s.Key], l.waiting = e, true
	}
}

// Recovered is called after the executor accepted a run: it moves the next attempt
// of all waiting keys to now. A key that fails while others succeed is moved at most
// once in its own pause.
func (l *Launches) Recovered(now time.Time) []schedule.Settlement {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.waiting || now.Sub(l.looked) < recoveredEvery {
		return nil
	}
	l.waiting, l.looked = false, now
	var due []schedule.Settlement
	for key, e := range l.keys {
		waits := now.Sub(e.since) < e.pause
		if !waits || !e.woken.IsZero() && now.Sub(e.woken) < e.pause {
			continue
		}
		e.woken = now
		l.keys[key] = e
		due = append(due, schedule.Settlement{Key: key, To: schedule.StatusLaunching, ClaimedUntil: now})
	}
	slices.SortFunc(due, func(a, b schedule.Settlement) int { return bytes.Compare(a.Key[:], b.Key[:]) }) // simulations must be repeatable
	return due
}

// The pauses between two attempts to launch a run. busyPause is short because the
// other open call of the key may be answered any time. queuePause and refusedPause
// are short because a call that did not arrive costs the executor nothing.
const (
	firstPause   = time.Second
	busyPause    = time.Second
	queuePause   = 4 * time.Second
	refusedPause = 5 * time.Second
	mostPause    = 30 * time.Second
	// refusedRate caps the attempts a second while no call arrives. With
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
	if errors.Is(cause, schedule.ErrBusy) {
		return busyPause
	}
	switch schedule.LaunchErrorOf(cause).Code {
	case schedule.CodeQueueUnavailable:
		most = queuePause
	case schedule.CodeExecutorUnreachable, schedule.CodeLauncherUnreachable:
		most = min(mostPause, max(refusedPause, time.Duration(waiting)*time.Second/refusedRate))
	}
	return min(most, firstPause<<min(max(failed-1, 0), 5))
}

// nextAttempt is when a key is tried again: after its pause, and once more shortly
// before givenUp, the end of its launch time (zero: none). After that a key is tried only
// if the run could not end: another sender holds it.
func nextAttempt(now time.Time, pause time.Duration, givenUp time.Time) time.Time {
	at := now.Add(pause)
	if givenUp.IsZero() {
		return at
	}
	if last := givenUp.Add(-lastAttempt); at.After(last) {
		at = schedule.Later(last, now.Add(min(pause, firstPause)))
	}
	if now.Before(givenUp) && at.After(givenUp) {
		return givenUp
	}
	return at
}
