package launcher

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// A granted key has a short lease, which is extended for as long as its call
// is open: so a call may take its time, and of a process that died the keys are
// free again within leaseFor.
//
// The lease is no lock. A process that is stopped for longer than it, or that
// cannot reach the database for so long, loses its keys, and another one may
// send the same key meanwhile. Then two calls of one key are open, and it is
// the executor, which honours keys, that keeps the effect a single one.
const (
	leaseFor = 3 * time.Second
	// extendEvery is how often leases are extended, all in one statement. One
	// whose answer is lost leaves time for another.
	extendEvery = time.Second
	// extendBelow: what has more than this left is not extended yet, so that calls
	// which end soon, and runs that are armed, cost nothing.
	extendBelow   = leaseFor - 500*time.Millisecond
	extendTimeout = time.Second
	// leaseSpread is a random bit more that each lease gets: its end, to the
	// microsecond, is how the store tells two calls of one key apart.
	leaseSpread = 100 * time.Millisecond
)

// leaseAt is how long a key is to be granted that is recorded at now: for
// leaseFor from then or, where it is armed ahead of it, from fire_at.
func (k *keeper) leaseAt(now time.Time, req *schedule.BeginRequest) time.Duration {
	return leaseFor + k.spread(req.Key, leaseSpread) + min(max(0, req.FireAt.Sub(now)), checkLife)
}

// lease is a key that is ours while its call is open.
type lease struct {
	key schedule.Key
	// The keeper's lock guards these.
	//
	// What is open beyond giveUpAt, of this machine's clock, hangs, and its key is
	// let go; zero while it waits for its call, which its sender bounds.
	giveUpAt time.Time
	// until is its LeaseUntil, by which the store knows whose call it is. There
	// are several when the answer to an extension was lost: one of them it is.
	until  []time.Time
	lost   bool // another sender may have the key
	ending bool // its outcome is being recorded: it need not be ours any more
}

// keeper extends the leases of one Launcher. It owns no goroutine while no
// call is open, and never more than one.
type keeper struct {
	store  Store
	now    func() time.Time
	log    *slog.Logger
	lost   func() // counts a lease that was lost
	spread func(key schedule.Key, below time.Duration) time.Duration
	longer time.Duration // than any call may be open, unless it hangs

	mu        sync.Mutex
	open      map[*lease]bool
	timer     *time.Timer   // of the next extension
	extending chan struct{} // closed when the extension under way is over; nil: there is none
}

// keep begins to extend what was granted.
func (k *keeper) keep(b begun) *lease {
	l := &lease{key: b.Request.Key, until: []time.Time{b.Request.LeaseUntil}, giveUpAt: time.Now().Add(k.longer)}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.open[l] = true; len(k.open) == 1 && k.extending == nil {
		k.next(extendEvery)
	}
	return l
}

// wait and proceed say that the start of a lease waits for its turn to call, and
// that it goes on.
func (k *keeper) wait(l *lease) {
	k.mu.Lock()
	defer k.mu.Unlock()
	l.giveUpAt = time.Time{}
}

func (k *keeper) proceed(l *lease) {
	k.mu.Lock()
	defer k.mu.Unlock()
	l.giveUpAt = time.Now().Add(k.longer)
}

// next plans the next extension; the keeper's lock is held.
func (k *keeper) next(in time.Duration) {
	if k.timer == nil {
		k.timer = time.AfterFunc(in, k.extend)
		return
	}
	k.timer.Reset(in)
}

// ours reports whether nobody else can have the key yet.
func (k *keeper) ours(l *lease) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return !l.lost && k.now().Before(l.until[0])
}

// end says that the outcome of the call is about to be recorded: that ends the
// lease too, which is then no surprise.
func (k *keeper) end(l *lease) {
	k.mu.Lock()
	defer k.mu.Unlock()
	l.ending = true
}

// leave ends the extending of a lease, and returns what its LeaseUntil may be:
// it waits for an extension under way, so that nobody changes it any more.
func (k *keeper) leave(l *lease) []time.Time {
	k.mu.Lock()
	for k.open[l] && k.extending != nil {
		under := k.extending
		k.mu.Unlock()
		<-under // at most extendTimeout
		k.mu.Lock()
	}
	defer k.mu.Unlock()
	if delete(k.open, l); len(k.open) == 0 && k.timer != nil {
		k.timer.Stop()
	}
	return l.until
}

// extend extends what needs it, once.
func (k *keeper) extend() {
	began := time.Now()
	k.mu.Lock()
	if len(k.open) == 0 || k.extending != nil {
		k.mu.Unlock()
		return
	}
	over := make(chan struct{})
	k.extending = over
	now := k.now()
	wanted := k.due(now)
	k.mu.Unlock()

	held, err := k.write(wanted, now)

	k.mu.Lock()
	defer k.mu.Unlock()
	if err != nil {
		k.log.Warn("cannot extend the leases of open calls", "keys", len(wanted)-len(held), "err", err)
	}
	k.took(wanted, held, now)
	k.extending = nil
	close(over)
	if len(k.open) > 0 {
		k.next(max(0, extendEvery-time.Since(began)))
	}
}

// extension is one way in which a lease may stand in the store, to be extended.
type extension struct {
	of *lease
	schedule.LeaseExtension
}

// due lists the extensions that are needed now.
func (k *keeper) due(now time.Time) []extension {
	var wanted []extension
	for l := range k.open {
		if l.lost || l.ending || l.until[0].Sub(now) > extendBelow || !l.giveUpAt.IsZero() && time.Now().After(l.giveUpAt) {
			continue
		}
		length := leaseFor + k.spread(l.key, leaseSpread)
		for _, until := range l.until {
			wanted = append(wanted, extension{l, schedule.LeaseExtension{Key: l.key, Held: until, Lease: length}})
		}
	}
	return wanted
}

// write extends what is wanted. Of an error, held says how many came before it.
func (k *keeper) write(wanted []extension, now time.Time) (held []time.Time, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), extendTimeout)
	defer cancel()
	for some := range slices.Chunk(wanted, maxBatch) {
		leases := make([]schedule.LeaseExtension, len(some))
		for i := range some {
			leases[i] = some[i].LeaseExtension
		}
		until, err := k.store.Extend(ctx, leases, now)
		if err != nil {
			return held, err
		}
		held = append(held, until...)
	}
	return held, nil
}

// took notes what became of the extensions; held is shorter where the rest
// has failed.
func (k *keeper) took(wanted []extension, held []time.Time, now time.Time) {
	after := make(map[*lease][]time.Time, len(wanted))
	for i, e := range wanted {
		switch {
		case i >= len(held):
			// It may have been written all the same.
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
		// The call goes on: its answer is worth more than the seconds.
		k.lost()
		k.log.Warn("lost the key of an open call; another process may send it again", "key", l.key.String())
	}
}
