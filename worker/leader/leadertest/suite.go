package leadertest

import (
	"cmp"
	"context"
	"flag"
	"testing"
	"time"

	"github.com/carillon/carillon/worker/leader"
)

const (
	// TTL is how long a term lasts in this suite, unless a test says otherwise.
	TTL = 3 * time.Second
	// trust is how long one is believed in after the last good attempt.
	trust = TTL * 3 / 4
	// soon is how fast a leadership is handed over: far from waiting for an expiry.
	soon = 900 * time.Millisecond
	// Busy is what soon is in real time, where a busy machine is late now and then:
	// less than an expiry still.
	Busy = 2500 * time.Millisecond
)

// Setting is what the processes of one test compete for.
type Setting struct {
	Lease leader.LeaseStore
	Now   func() time.Time
	// Lock makes the hold of one more process on the one lock. Where it expires,
	// it does after TTL.
	Lock func() leader.Lock
	// Soon is how fast a leadership is handed over; Busy in real time.
	Soon time.Duration
}

// exact tells whether time is virtual, so that nothing is late.
func (s Setting) exact() bool { return s.Soon == soon }

// slack is how late something may be that has a time of its own: a busy machine
// is late, and a bound that it would meet tells only of a thing that never comes.
func (s Setting) slack() time.Duration {
	if s.exact() {
		return 100 * time.Millisecond
	}
	return Busy
}

// Together lets more tests of a binary run at a time than there are processors:
// in real time they wait more than they compute. It is for TestMain.
func Together() {
	flag.Parse()
	if set := flag.Lookup("test.parallel"); set != nil && set.Value.String() == set.DefValue {
		_ = flag.Set("test.parallel", "6")
	}
}

// Run runs the suite. in calls a test with a setting of its own; it may do so
// in a synctest bubble.
func Run(t *testing.T, in func(t *testing.T, test func(*testing.T, Setting))) {
	for name, test := range map[string]func(*testing.T, Setting){
		"a lock has one holder, and the next gets it at once":                 lockHasOneHolder,
		"whoever waits for a lock ends with its context":                      waitEndsWithContext,
		"a lock that is kept outlives its expiry":                             keptLockStays,
		"of many electors one leads, and its end hands over":                  oneLeadsAtATime,
		"whoever resigns comes after those who wait":                          resignedComesLast,
		"a leader that is asked to resign hands over":                         askedHandsOver,
		"electors that resign all the time lead one at a time":                resignStress,
		"a term holds at the smallest TTL":                                    smallestTTLHolds,
		"a worker that has its share leaves a free shard to another":          defersToOthers,
		"a renewal that fails ends the term":                                  failedRenewalEndsTerm,
		"a lock that is not kept ends the term":                               failedKeepEndsTerm,
		"a term that was replaced ends, and leaves the new one alone":         replacedTermEnds,
		"an own row that could not be resigned does not stand in the way":     unresignedRowIsResigned,
		"a term that was won unheard does not stand in the way":               unknownTermIsResigned,
		"trust counts from the start of the attempt that was successful":      trustCountsFromTheStart,
		"a renewal that is slow but successful adds nothing to the trust":     slowRenewalAddsNothing,
		"trust ends in time though a renewal hangs for ever":                  trustEndsThoughRenewalHangs,
		"a process that stands still is replaced when its row has expired":    stoppedIsReplaced,
		"a lock that comes free says nothing of a leader that has none":       freedLockSaysNothing,
		"a process that must not lead does not, nor keep others from it":      barredDoesNotLead,
		"a lock of another kind takes nothing from a leader that lives":       otherLockWaits,
		"the row decides where there is no lock to be had":                    rowDecidesWithoutLock,
		"who was refused for its number of shards asks again, but not always": refusedAsksAgain,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in(t, func(t *testing.T, s Setting) {
				s.Soon = cmp.Or(s.Soon, soon)
				test(t, s)
			})
		})
	}
}

func lockHasOneHolder(t *testing.T, s Setting) {
	first, second := s.Lock(), s.Lock()
	ok(t, second.Release(t.Context()), "release a lock that is not held")
	fails(t, second.Keep(t.Context()), "keep a lock that was never held")
	ok(t, first.Acquire(t.Context()), "acquire")
	acquired := make(chan error, 1)
	go func() { acquired <- second.Acquire(t.Context()) }()
	select {
	case err := <-acquired:
		t.Fatalf("two hold the lock (%v)", err)
	case <-time.After(300 * time.Millisecond):
	}
	ok(t, first.Keep(t.Context()), "keep")
	ok(t, first.Release(t.Context()), "release")
	select {
	case err := <-acquired:
		ok(t, err, "acquire after the release")
	case <-time.After(s.Soon):
		t.Error("the next did not get the lock")
		ok(t, <-acquired, "acquire in the end")
	}
	fails(t, first.Keep(t.Context()), "keep a lock that was released")
	ok(t, second.Keep(t.Context()), "keep what the other had")
	ok(t, first.Release(t.Context()), "release again")
	ok(t, second.Keep(t.Context()), "keep what the other released twice")
	ok(t, second.Release(t.Context()), "release")
	ok(t, first.Acquire(t.Context()), "acquire again")
	ok(t, first.Release(t.Context()), "release")
}

func waitEndsWithContext(t *testing.T, s Setting) {
	first, second := s.Lock(), s.Lock()
	ok(t, first.Acquire(t.Context()), "acquire")
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	began := time.Now()
	if err := second.Acquire(ctx); err == nil {
		t.Error("two hold the lock")
	}
	if waited := time.Since(began); waited > s.Soon {
		t.Errorf("the wait ended %s after its context", waited)
	}
	ok(t, first.Keep(t.Context()), "keep")
	ok(t, second.Release(t.Context()), "release what was not acquired")
	ok(t, first.Release(t.Context()), "release")
	ok(t, second.Acquire(t.Context()), "acquire after a wait that was given up")
	ok(t, second.Release(t.Context()), "release")
}

func keptLockStays(t *testing.T, s Setting) {
	first, second := s.Lock(), s.Lock()
	ok(t, first.Acquire(t.Context()), "acquire")
	ctx, cancel := context.WithCancel(t.Context())
	acquired := make(chan error, 1)
	go func() { acquired <- second.Acquire(ctx) }()
	for end := time.Now().Add(TTL + TTL/3); time.Now().Before(end); pause(TTL / 4) {
		ok(t, first.Keep(t.Context()), "keep")
	}
	select {
	case err := <-acquired:
		t.Fatalf("two hold the lock (%v)", err)
	default:
	}
	cancel()
	fails(t, <-acquired, "acquire after the wait was given up")
	ok(t, second.Release(t.Context()), "release what was not acquired")
	ok(t, first.Release(t.Context()), "release")
}

func ok(t *testing.T, err error, doing string) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", doing, err)
	}
}

func fails(t *testing.T, err error, doing string) {
	t.Helper()
	if err == nil {
		t.Fatalf("%s: got no error", doing)
	}
}
