package launcher

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// A granted key has a short lease that is extended while its call is open. So a
// call may take long, and the keys of a dead process are free within leaseFor.
//
// The lease is not a lock. A process that is stopped, or cannot reach the
// database, for longer than the lease loses its keys, and another process may
// send them again. Then two calls of one key are open. The executor honours keys,
// so the effect stays single.
const (
	leaseFor = 3 * time.Second
	// extendEvery is the interval of extensions, one statement for all keys. It
	// leaves time for a second try if an answer is lost.
	extendEvery = time.Second
	// extendBelow skips leases that have more time left, so that short calls and
	// armed runs cost nothing.
	extendBelow   = leaseFor - 500*time.Millisecond
	extendTimeout = time.Second
	// leaseSpread bounds the random part of a lease. The store tells two calls of
	// one key apart by the microsecond at which their leases end.
	leaseSpread = 100 * time.Millisecond
)

// leaseAt returns the length of the lease of a key that is recorded at now. The
// lease of an armed run counts from fire_at.
func (r *leaseRenewer) leaseAt(now time.Time, req *schedule.BeginRequest) time.Duration {
	return leaseFor + r.spread(req.Key, leaseSpread) + min(max(0, req.FireAt.Sub(now)), checkLife)
}

// lease is a key that this process holds while its call is open.
type lease struct {
	key    schedule.Key
	holder atomic.Int32 // instance_no that the key names as its holder
	// leaseRenewer.mu guards the rest.
	//
	// giveUpAt is when a call counts as hanging and its lease is no longer
	// extended, by this machine's clock. Zero while the start waits for a free
	// call: its sender bounds that wait.
	giveUpAt time.Time
	// until is the end of the lease by which the store recognises the holder. It has
	// several candidates after the answer to an extension was lost.
	until  []time.Time
	lost   bool // another sender may have the key
	ending bool // its outcome is being recorded: losing the key is no problem
}

// leaseRenewer extends the leases of one Launcher. It has one goroutine while
// calls are open, otherwise none.
type leaseRenewer struct {
	store   Store
	now     func() time.Time
	log     *slog.Logger
	lost    func() // counts a lease that was lost
	spread  func(key schedule.Key, below time.Duration) time.Duration
	maxOpen time.Duration // a call that is open for longer hangs

	mu        sync.Mutex
	open      map[*lease]bool
	timer     *time.Timer   // of the next extension
	extending chan struct{} // closed when the current extension is over; nil: there is none
}

// add begins to extend the leases of the granted keys.
func (r *leaseRenewer) add(answers []begun) {
	giveUpAt := time.Now().Add(r.maxOpen)
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range answers {
		a := &answers[i]
		if !a.granted() {
			continue
		}
		a.lease = &lease{key: a.Request.Key, until: []time.Time{a.Request.Lease.Until}, giveUpAt: giveUpAt}
		a.lease.holder.Store(a.Request.Lease.Holder)
		if r.open[a.lease] = true; len(r.open) == 1 && r.extending == nil {
			r.next(extendEvery)
		}
	}
}

// suspend stops the clock of giveUpAt while a start waits for a free call; resume
// starts it again.
func (r *leaseRenewer) suspend(l *lease) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l.giveUpAt = time.Time{}
}

func (r *leaseRenewer) resume(l *lease) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l.giveUpAt = time.Now().Add(r.maxOpen)
}

// next plans the next extension. The caller holds mu.
func (r *leaseRenewer) next(in time.Duration) {
	if r.timer == nil {
		r.timer = time.AfterFunc(in, r.extend)
		return
	}
	r.timer.Reset(in)
}

// held reports whether no other process can have the key yet.
func (r *leaseRenewer) held(l *lease) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !l.lost && r.now().Before(l.until[0])
}

// heldBy returns the keys of open calls that an instance number holds.
func (r *leaseRenewer) heldBy(no int32) (keys []schedule.Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for l := range r.open {
		if l.holder.Load() == no {
			keys = append(keys, l.key)
		}
	}
	return keys
}

// moved records that keys are now held by another number of this process.
func (r *leaseRenewer) moved(keys []schedule.Key, from, to int32) {
	of := make(map[schedule.Key]bool, len(keys))
	for _, k := range keys {
		of[k] = true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for l := range r.open {
		if of[l.key] {
			l.holder.CompareAndSwap(from, to)
		}
	}
}

// end marks leases before the outcomes of their keys are recorded. Recording them ends
// the leases too, which are then not reported as lost.
func (r *leaseRenewer) end(starts []*start) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range starts {
		if s.lease != nil {
			s.lease.ending = true
		}
	}
}

// forget stops extending the leases of starts.
func (r *leaseRenewer) forget(starts ...*start) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range starts {
		if s.lease != nil {
			r.close(s.lease)
			s.lease = nil
		}
	}
}

// close removes a lease. The caller holds mu.
func (r *leaseRenewer) close(l *lease) {
	if delete(r.open, l); len(r.open) == 0 && r.timer != nil {
		r.timer.Stop()
	}
}

// remove stops extending a lease and returns the candidates for its end.
// It waits for a current extension, so that they no longer change.
func (r *leaseRenewer) remove(l *lease) []time.Time {
	r.mu.Lock()
	for r.open[l] && r.extending != nil {
		current := r.extending
		r.mu.Unlock()
		<-current // at most extendTimeout
		r.mu.Lock()
	}
	defer r.mu.Unlock()
	r.close(l)
	return l.until
}

// extend makes one round of extensions.
func (r *leaseRenewer) extend() {
	began := time.Now()
	r.mu.Lock()
	if len(r.open) == 0 || r.extending != nil {
		r.mu.Unlock()
		return
	}
	over := make(chan struct{})
	r.extending = over
	now := r.now()
	wanted := r.due(now)
	r.mu.Unlock()

	held, err := r.write(wanted, now)

	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		r.log.Warn("cannot extend the leases of open calls", "keys", len(wanted)-len(held), "err", err)
	}
	r.record(wanted, held, now)
	r.extending = nil
	close(over)
	if len(r.open) > 0 {
		r.next(max(0, extendEvery-time.Since(began)))
	}
}

// extension is one candidate for the end of a lease in the store.
type extension struct {
	of *lease
	schedule.LeaseExtension
}

// due returns the extensions that are needed now.
func (r *leaseRenewer) due(now time.Time) []extension {
	var wanted []extension
	for l := range r.open {
		if l.lost || l.ending || l.until[0].Sub(now) > extendBelow || !l.giveUpAt.IsZero() && time.Now().After(l.giveUpAt) {
			continue
		}
		length := leaseFor + r.spread(l.key, leaseSpread)
		for _, until := range l.until {
			wanted = append(wanted, extension{l, schedule.LeaseExtension{Key: l.key, Held: until, Lease: length}})
		}
	}
	return wanted
}

// write extends the wanted leases. After an error, held has those that came
// before it.
func (r *leaseRenewer) write(wanted []extension, now time.Time) (held []time.Time, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), extendTimeout)
	defer cancel()
	for some := range slices.Chunk(wanted, maxBatch) {
		leases := make([]schedule.LeaseExtension, len(some))
		for i := range some {
			leases[i] = some[i].LeaseExtension
		}
		until, err := r.store.Extend(ctx, leases, now)
		if err != nil {
			return held, err
		}
		held = append(held, until...)
	}
	return held, nil
}

// record stores the results of extensions. If some failed, held is shorter than
// wanted.
func (r *leaseRenewer) record(wanted []extension, held []time.Time, now time.Time) {
	after := make(map[*lease][]time.Time, len(wanted))
	for i, e := range wanted {
		switch {
		case i >= len(held):
			// The write may have succeeded although the answer was lost.
			after[e.of] = append(slices.Clone(e.of.until), now.Add(e.Lease).UTC().Truncate(time.Microsecond))
		case !held[i].IsZero():
			after[e.of] = []time.Time{held[i]}
		case after[e.of] == nil:
			after[e.of] = []time.Time{}
		}
	}
	for l, until := range after {
		if len(until) > 0 {
			l.until = until
			continue
		}
		if l.lost = true; l.ending {
			continue
		}
		// Do not interrupt the call: its answer may still be recorded.
		r.lost()
		r.log.Warn("lost the key of an open call; another process may send it again", "key", l.key.String())
	}
}
