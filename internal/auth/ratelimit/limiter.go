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
	// Watches a caller may have open at once that acts for every owner. Where
	// authentication is off, all callers together are one.
	Watches int
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
	open   map[string]int           // streams of each caller; without one it has no entry
}

// account is what one owner has left.
type account struct {
	owner string
	left  map[Kind]*rate.Limiter
}

// New makes a Limiter; now is time.Now but in tests.
func New(limits Limits, now func() time.Time) *Limiter {
	return &Limiter{limits: limits, now: now, owners: make(map[string]*list.Element), recent: list.New(), open: make(map[string]int)}
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

// Open counts a stream of an owner until closed is called. ok is false if the
// owner has too many.
func (l *Limiter) Open(owner string) (closed func(), ok bool) {
	return l.openAs("owner "+owner, l.limits.Streams)
}

// OpenWatch is Open for a caller that acts for every owner.
func (l *Limiter) OpenWatch(subject string) (closed func(), ok bool) {
	return l.openAs("subject "+subject, l.limits.Watches)
}

func (l *Limiter) openAs(caller string, most int) (closed func(), ok bool) {
	if most <= 0 {
		return func() {}, true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open[caller] >= most {
		return nil, false
	}
	l.open[caller]++
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.open[caller]--; l.open[caller] == 0 {
			delete(l.open, caller)
		}
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

// forget drops the owners that were silent longest.
func (l *Limiter) forget() {
	for l.recent.Len() > maxOwners {
		silent := l.recent.Back()
		l.recent.Remove(silent)
		delete(l.owners, silent.Value.(*account).owner)
	}
}

// Owners is how many are remembered.
func (l *Limiter) Owners() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.recent.Len()
}
