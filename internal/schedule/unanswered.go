package schedule

import (
	"bytes"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"
)

// Unanswered keeps, for each key that this process has tried to launch without
// an answer, how often in a row it failed and when it is tried again. What other
// processes tried does not count: a run that had many leaders says nothing of
// its executor. The zero value is ready.
type Unanswered struct {
	mu    sync.Mutex
	keys  map[Key]unanswered
	swept time.Time
	// waiting: a key has begun to wait since Recovered last looked.
	waiting bool
	looked  time.Time // by Recovered
}

type unanswered struct {
	failed int
	last   time.Time     // the last attempt failed
	pause  time.Duration // after it, from since on; 0: an attempt is under way
	since  time.Time
	woken  time.Time // Recovered brought its next attempt forward
}

// unansweredFor is how long a key is remembered: longer than the longest pause
// and a call after it. Another process may have had its answer.
const unansweredFor = 10 * time.Minute

// recoveredEvery bounds how often the keys that wait are looked through.
const recoveredEvery = 250 * time.Millisecond

// Settlement leaves a run LAUNCHING whose launch has failed once more, and says
// when the same key is tried again. A key that was not tried (another call of it
// is open, a check forbade it) keeps the error of its last attempt.
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

// Answered ends what is counted of a key.
func (u *Unanswered) Answered(key Key) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.keys, key)
}

// again counts one failed attempt more, if it was one, and says how many keys
// there are.
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

// Written says that a Settlement stands in the store: from now on the key waits,
// and Recovered may wake it. Before, the two would be written in any order.
func (u *Unanswered) Written(s *Settlement, now time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if e, known := u.keys[s.Key]; known {
		e.pause, e.since = s.ClaimedUntil.Sub(now), now
		u.keys[s.Key], u.waiting = e, true
	}
}

// Recovered is for an executor that has just taken a run: it brings the next
// attempt of all keys that wait forward to now. A key that keeps failing while
// others succeed is brought forward no more than once in its own pause.
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
	slices.SortFunc(due, func(a, b Settlement) int { return bytes.Compare(a.Key[:], b.Key[:]) }) // a simulation repeats itself
	return due
}
