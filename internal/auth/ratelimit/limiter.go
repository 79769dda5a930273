package ratelimit

import (
	"container/list"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Limits are the limits of one owner; 0: no limit.
type Limits struct {
	ReadsPerS  int
	WritesPerS int
	EventsPerS int // that are published; these calls are no other writes
	Streams    int // open at once
	// Watches is the maximum of open watches of a caller that acts for all owners. With authentication
	// off, all callers share one limit.
	Watches int
}

// Kind selects the limit of a call.
type Kind string

// The kinds.
const (
	Read  Kind = "read"
	Write Kind = "write"
	Event Kind = "event"
)

// burst is the capacity of a bucket, in seconds of its rate.
const burst = 2

// maxOwners bounds the memory: beyond it the least recently used owner is dropped, and starts again
// with a full bucket.
const maxOwners = 10_000

// Limiter is safe for use by many goroutines.
type Limiter struct {
	limits Limits
	now    func() time.Time

	mu     sync.Mutex
	owners map[string]*list.Element // of *account
	recent *list.List               // of *account, most recently used first
	open   map[string]int           // streams of each caller; no entry: 0
}

// account holds the buckets of one owner.
type account struct {
	owner string
	left  map[Kind]*rate.Limiter
}

// New makes a Limiter; now is time.Now except in tests.
func New(limits Limits, now func() time.Time) *Limiter {
	return &Limiter{limits: limits, now: now, owners: make(map[string]*list.Element), recent: list.New(), open: make(map[string]int)}
}

// Take counts a call of an owner as cost calls. A wait above 0 refuses the call, and is the shortest
// time until it would pass.
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

// Open counts a stream of an owner until closed is called. !ok: the owner has too many.
func (l *Limiter) Open(owner string) (closed func(), ok bool) {
	return l.openAs("owner "+owner, l.limits.Streams)
}

// OpenWatch is Open for a caller that acts for all owners.
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
	switch kind {
	case Write:
		return l.limits.WritesPerS
	case Event:
		return l.limits.EventsPerS
	}
	return l.limits.ReadsPerS
}

// account returns the owner's account and marks it as most recently used.
func (l *Limiter) account(owner string) *account {
	if at, ok := l.owners[owner]; ok {
		l.recent.MoveToFront(at)
		return at.Value.(*account)
	}
	a := &account{owner: owner, left: make(map[Kind]*rate.Limiter, 3)}
	for _, kind := range []Kind{Read, Write, Event} {
		a.left[kind] = rate.NewLimiter(rate.Limit(l.perS(kind)), burst*l.perS(kind))
	}
	l.owners[owner] = l.recent.PushFront(a)
	l.forget()
	return a
}

// forget drops the least recently used owners above maxOwners.
func (l *Limiter) forget() {
	for l.recent.Len() > maxOwners {
		oldest := l.recent.Back()
		l.recent.Remove(oldest)
		delete(l.owners, oldest.Value.(*account).owner)
	}
}
