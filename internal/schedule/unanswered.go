package schedule

import (
	"errors"
	"maps"
	"sync"
	"time"
)

// Unanswered counts how often in a row each key was sent from this process
// without an outcome. What other processes sent does not count: a run that many
// leaders have had tells nothing of its executor. The zero value is ready.
type Unanswered struct {
	mu    sync.Mutex
	keys  map[Key]unanswered
	swept time.Time
}

type unanswered struct {
	sends int
	last  time.Time
}

// unansweredFor is how long a key is remembered: longer than the longest pause
// and a call after it. Another process may have had its answer.
const unansweredFor = 10 * time.Minute

// Settlement leaves a run LAUNCHING whose outcome is unknown once more, and says
// when the same key is sent again.
func (u *Unanswered) Settlement(key Key, cause error, now time.Time) Settlement {
	return Settlement{
		Key: key, To: StatusLaunching, ClaimedUntil: now.Add(backoff(u.again(key, cause, now), cause)),
		ErrorCode:    string(CodeOutcomeUnknown), // why it is still LAUNCHING, for whoever asks
		ErrorMessage: Storable(cause.Error(), MaxErrorMessage),
	}
}

// Answered ends what is counted of a key.
func (u *Unanswered) Answered(key Key) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.keys, key)
}

// again counts one send more, unless the key was not even tried.
func (u *Unanswered) again(key Key, cause error, now time.Time) (sends int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	old := func(_ Key, e unanswered) bool { return now.Sub(e.last) > unansweredFor }
	if now.Sub(u.swept) > unansweredFor {
		maps.DeleteFunc(u.keys, old)
		u.swept = now
	}
	e := u.keys[key]
	if errors.Is(cause, ErrBusy) {
		return e.sends
	}
	if u.keys == nil {
		u.keys = make(map[Key]unanswered)
	}
	if old(key, e) {
		e = unanswered{}
	}
	u.keys[key] = unanswered{e.sends + 1, now}
	return e.sends + 1
}
