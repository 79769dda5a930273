package ratelimit

import (
	"container/list"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Limits are an owner's allowances. 0 means that there is no limit.
type Limits struct {
	ReadsPerS  int
	WritesPerS int
	Streams    int // open at once
}

// Kind is what a call does.
type Kind string

// The kinds.
const (
	Read  Kind = "read"
	Write Kind = "write"
)

// burst is how many seconds' worth an owner may take at once.
const burst = 2

// maxOwners bounds the memory: of that many the one that was silent longest is
// forgotten, and begins anew with a full allowance.
const maxOwners = 10_000

// Limiter is safe for use by many goroutines.
type Limiter struct {
	limits Limits
	now    func() time.Time

	mu     sync.Mutex
	owners map[string]*list.Element // of *account
	recent *list.List               // the front was heard of last
}

// account is what one owner has left.
type account struct {
	owner   string
	left    map[Kind]*rate.Limiter
	streams int
}

// New makes a Limiter; now is time.Now but in tests.
func New(limits Limits, now func() time.Time) *Limiter {
	return &Limiter{limits: limits, now: now, owners: make(map[string]*list.Element), recent: list.New()}
}

// Take counts a call of an owner, as many as cost says. A wait that is not 0
// refuses it: so long, at least, until it would be let through.
func (l *Limiter) Take(owner string, kind Kind, cost int) (wait time.Duration) {
	perS := l.perS(kind)
	if perS <= 0 {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	r := l.account(owner).left[kind].ReserveN(now, min(max(cost, 1), burst*perS))
	if wait = r.DelayFrom(now); wait > 0 {
		r.CancelAt(now)
	}
	return wait
}

// Open counts a stream until closed is called; ok is false where the owner has
// too many.
func (l *Limiter) Open(owner string) (closed func(), ok bool) {
	if l.limits.Streams <= 0 {
		return func() {}, true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.account(owner)
	if a.streams >= l.limits.Streams {
		return nil, false
	}
	a.streams++
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		a.streams--
	}, true
}

func (l *Limiter) perS(kind Kind) int {
	if kind == Write {
		return l.limits.WritesPerS
	}
	return l.limits.ReadsPerS
}

// account is the owner's, and the most recent one from now on.
func (l *Limiter) account(owner string) *account {
	if at, ok := l.owners[owner]; ok {
		l.recent.MoveToFront(at)
		return at.Value.(*account)
	}
	a := &account{owner: owner, left: make(map[Kind]*rate.Limiter, 2)}
	for _, kind := range []Kind{Read, Write} {
		a.left[kind] = rate.NewLimiter(rate.Limit(l.perS(kind)), burst*l.perS(kind))
	}
	l.owners[owner] = l.recent.PushFront(a)
	l.forget()
	return a
}

// forget drops who was silent longest; who has a stream open is not silent.
func (l *Limiter) forget() {
	for at := l.recent.Back(); at != nil && l.recent.Len() > maxOwners; {
		before := at.Prev()
		if a := at.Value.(*account); a.streams == 0 {
			l.recent.Remove(at)
			delete(l.owners, a.owner)
		}
		at = before
	}
}

// Owners is how many are remembered.
func (l *Limiter) Owners() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.recent.Len()
}
