package schedule

import (
	"bytes"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"
)

// Unanswered counts, for each key that this process tried to launch without an answer, the failed
// attempts in a row and the time of the next one. Attempts of other processes do not count: a
// change of leaders says nothing about the executor. The zero value is ready.
type Unanswered struct {
	mu    sync.Mutex
	keys  map[Key]unanswered
	swept time.Time
	// waiting: a key has begun to wait since the last scan of Recovered.
	waiting bool
	looked  time.Time // last scan of Recovered
}

type unanswered struct {
	failed int
	last   time.Time     // when the last attempt failed
	pause  time.Duration // from since; 0: an attempt is open
	since  time.Time
	woken  time.Time // when Recovered last moved its next attempt to now
}

// unansweredFor is how long a key is remembered: longer than the longest pause plus
// a call. It is bounded because another process may have received the answer.
const unansweredFor = 10 * time.Minute

// recoveredEvery is the shortest interval between two scans of Recovered.
const recoveredEvery = 250 * time.Millisecond

// Settlement returns the settlement of a failed launch attempt: the run stays LAUNCHING,
// with the time of the next attempt. If no attempt was made (another call of the key is
// open, a check failed), it keeps the error of the last attempt.
func (u *Unanswered) Settlement(req *StartRequest, cause error, now time.Time) Settlement {
	failed, waiting := u.again(req.Key, cause, now)
	pause := backoff(failed, waiting, cause)
	s := Settlement{Key: req.Key, To: StatusLaunching, ClaimedUntil: nextAttempt(now, pause, req.SendUntil)}
	if !tried(cause) {
		return s
	}
	e := LaunchErrorOf(cause)
	s.ErrorCode, s.ErrorMessage, s.Deliveries = string(e.Code), Storable(cause.Error(), MaxErrorMessage), e.Deliveries
	s.Attempt = &LaunchAttempt{
		At: e.At, Took: e.Took, Result: e.result(), ErrorCode: s.ErrorCode, ErrorMessage: s.ErrorMessage, NextAt: s.ClaimedUntil,
	}
	if s.Attempt.At.IsZero() {
		s.Attempt.At = now
	}
	return s
}

// tried reports whether an attempt was made: no other call of the key was open,
// and no check forbade it.
func tried(cause error) bool { return !errors.Is(cause, ErrBusy) && !errors.Is(cause, ErrWithheld) }

// Answered forgets a key.
func (u *Unanswered) Answered(key Key) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.keys, key)
}

// again counts a failed attempt, if one was made, and returns the attempts in a row
// and the number of keys.
func (u *Unanswered) again(key Key, cause error, now time.Time) (failed, waiting int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	old := func(_ Key, e unanswered) bool { return now.Sub(e.last) > unansweredFor }
	if now.Sub(u.swept) > unansweredFor {
		maps.DeleteFunc(u.keys, old)
		u.swept = now
	}
	e := u.keys[key]
	if errors.Is(cause, ErrBusy) {
		return e.failed, len(u.keys)
	}
	if u.keys == nil {
		u.keys = make(map[Key]unanswered)
	}
	if old(key, e) {
		e = unanswered{}
	}
	e.failed, e.last, e.pause = e.failed+1, now, 0
	u.keys[key] = e
	return e.failed, len(u.keys)
}

// Written marks a Settlement as stored: from now on Recovered may wake the key.
// Before, the two settlements could be stored in the wrong order.
func (u *Unanswered) Written(s *Settlement, now time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if e, known := u.keys[s.Key]; known {
		e.pause, e.since = s.ClaimedUntil.Sub(now), now
		u.keys[s.Key], u.waiting = e, true
	}
}

// Recovered is called after the executor accepted a run: it moves the next attempt
// of all waiting keys to now. A key that fails while others succeed is moved at most
// once in its own pause.
func (u *Unanswered) Recovered(now time.Time) []Settlement {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.waiting || now.Sub(u.looked) < recoveredEvery {
		return nil
	}
	u.waiting, u.looked = false, now
	var due []Settlement
	for key, e := range u.keys {
		waits := now.Sub(e.since) < e.pause
		if !waits || !e.woken.IsZero() && now.Sub(e.woken) < e.pause {
			continue
		}
		e.woken = now
		u.keys[key] = e
		due = append(due, Settlement{Key: key, To: StatusLaunching, ClaimedUntil: now})
	}
	slices.SortFunc(due, func(a, b Settlement) int { return bytes.Compare(a.Key[:], b.Key[:]) }) // simulations must be repeatable
	return due
}
