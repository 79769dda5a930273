package storetest

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

var leaders = []check{
	{"a shard that nobody has led has no leader", leaderNone},
	{"whoever comes first leads, with or without the lock", takeoverFirst},
	{"a term that runs is safe from all who do not hold the lock", takeoverNotWhileItRuns},
	{"whoever holds the lock takes over, in a new epoch", takeoverByLock},
	{"a term that has run out may be taken over", takeoverExpired},
	{"a renewed term goes on", renewExtends},
	{"a term that has run out or been replaced cannot be renewed", renewFenced},
	{"a leader that resigns makes capacity at once", resignMakesRoom},
	{"resigning a term that is no longer the row's changes nothing", resignOld},
	{"epochs only grow, whoever comes and goes", epochsGrow},
	{"of many who take over at once exactly one leads", takeoverRace},
}

func (r *rig) tryTakeover(holder string, ttl time.Duration, lockHeld bool) (schedule.Term, bool) {
	r.Helper()
	term, ok, err := r.Takeover(r.ctx, schedule.TakeoverRequest{Shard: r.term.Shard, Holder: holder, TTL: ttl, LockHeld: lockHeld, Now: r.now})
	r.ok(err, "take over")
	if ok {
		r.hold(term.Shard == r.term.Shard && term.Holder == holder && term.Epoch > 0, "the term is the holder's, of its shard, got %+v", term)
	}
	return term, ok
}

// runOut gives the shard to holder for a moment that is over on either clock:
// on Postgres the database's own, elsewhere the rig's, which goes on.
func (r *rig) runOut(holder string) schedule.Term {
	r.Helper()
	term, ok := r.tryTakeover(holder, time.Microsecond, true)
	r.hold(ok, "whoever holds the lock takes over")
	r.now = r.at(time.Second)
	return term
}

func (r *rig) leaderIs(want schedule.Term) {
	r.Helper()
	got := r.leadership()
	r.hold(got.Term == want, "the leader is %+v, got %+v", want, got)
	if want != (schedule.Term{}) {
		r.hold(!got.ExpiresAt.IsZero() && got.ExpiresAt.Location() == time.UTC, "its expiry is a time in UTC, got %v", got.ExpiresAt)
	}
}

// leadership is the row of the rig's shard; the zero one when there is none.
func (r *rig) leadership() schedule.Leadership {
	r.Helper()
	rows, err := r.Leaders(r.ctx, r.now)
	r.ok(err, "list leaders")
	for _, l := range rows {
		if l.Shard == r.term.Shard {
			return l
		}
	}
	return schedule.Leadership{}
}

func (r *rig) renew(term schedule.Term, ttl time.Duration) error {
	r.Helper()
	_, err := r.Renew(r.ctx, term, schedule.RenewRequest{TTL: ttl, LockHeld: true, Now: r.now})
	return err
}

func leaderNone(r *rig) { r.leaderIs(schedule.Term{}) }

func takeoverFirst(r *rig) {
	term, ok := r.tryTakeover("first", time.Hour, false)
	r.hold(ok, "there is none yet, so the first leads")
	r.leaderIs(term)
}

func takeoverNotWhileItRuns(r *rig) {
	term, _ := r.tryTakeover("first", time.Hour, true)
	for _, holder := range []string{"second", "first"} {
		_, ok := r.tryTakeover(holder, time.Hour, false)
		r.hold(!ok, "%s does not take over a term that runs", holder)
	}
	r.leaderIs(term)
}

func takeoverByLock(r *rig) {
	first, _ := r.tryTakeover("first", time.Hour, true)
	second, ok := r.tryTakeover("second", time.Hour, true)
	r.hold(ok && second.Epoch > first.Epoch, "the epoch is greater, got %d after %d", second.Epoch, first.Epoch)
	_, ok = r.tryTakeover("second", time.Hour, true)
	r.hold(!ok, "who leads already does not take over from himself")
	r.leaderIs(second)
}

func takeoverExpired(r *rig) {
	first := r.runOut("first")
	second, ok := r.tryTakeover("second", time.Hour, false)
	r.hold(ok && second.Epoch > first.Epoch, "it has run out, got %v, epoch %d after %d", ok, second.Epoch, first.Epoch)
	r.leaderIs(second)
}

func renewExtends(r *rig) {
	term, _ := r.tryTakeover("first", time.Minute, true)
	before := r.leadership().ExpiresAt
	r.ok(r.renew(term, time.Hour), "renew")
	after := r.leadership().ExpiresAt
	r.hold(after.After(before), "it expires later, %s after %s", after, before)
	r.now = r.at(10 * time.Minute)
	_, ok := r.tryTakeover("second", time.Hour, false)
	r.hold(!ok, "a renewed term runs on")
	r.leaderIs(term)
}

func renewFenced(r *rig) {
	first := r.runOut("first")
	err := r.renew(first, time.Hour)
	r.hold(errors.Is(err, schedule.ErrFenced), "a term that has run out cannot be renewed, got %v", err)
	second, _ := r.tryTakeover("second", time.Hour, true)
	for name, term := range map[string]schedule.Term{
		"the term before": first, "its epoch under another name": {Shard: second.Shard, Holder: "first", Epoch: second.Epoch}, "no term": {},
	} {
		err := r.renew(term, time.Hour)
		r.hold(err != nil, "%s cannot be renewed", name)
		if term != (schedule.Term{}) {
			r.hold(errors.Is(err, schedule.ErrFenced), "%s: ErrFenced, got %v", name, err)
		}
	}
	r.ok(r.renew(second, time.Hour), "renew the term that runs")
}

func resignMakesRoom(r *rig) {
	first, _ := r.tryTakeover("first", time.Hour, true)
	r.ok(r.Resign(r.ctx, first, schedule.Resignation{Now: r.now}), "resign")
	r.now = r.at(time.Second)
	err := r.renew(first, time.Hour)
	r.hold(errors.Is(err, schedule.ErrFenced), "a term that was resigned cannot be renewed, got %v", err)
	second, ok := r.tryTakeover("second", time.Hour, false)
	r.hold(ok && second.Epoch > first.Epoch, "the next one leads, without the lock, got %v, epoch %d after %d", ok, second.Epoch, first.Epoch)
}

func resignOld(r *rig) {
	first, _ := r.tryTakeover("first", time.Hour, true)
	second, _ := r.tryTakeover("second", time.Hour, true)
	r.ok(r.Resign(r.ctx, first, schedule.Resignation{Now: r.now}), "resign a term that was replaced")
	r.now = r.at(time.Second)
	_, ok := r.tryTakeover("third", time.Hour, false)
	r.hold(!ok, "the term that runs is not touched")
	r.leaderIs(second)
}

func epochsGrow(r *rig) {
	last, terms := int64(0), 0
	for i := range 20 {
		term, ok := r.tryTakeover(fmt.Sprint("holder-", i), time.Hour, i%2 == 0)
		if ok {
			r.hold(term.Epoch > last, "epoch %d comes after %d", term.Epoch, last)
			last = term.Epoch
			terms++
		}
		if ok && (i%2 == 1 || i%4 == 0) {
			r.ok(r.Resign(r.ctx, term, schedule.Resignation{Now: r.now}), "resign")
			r.now = r.at(time.Second)
		}
	}
	r.hold(terms > 6, "there were many terms, got %d", terms)
}

func takeoverRace(r *rig) {
	last := int64(0)
	for round := range 3 {
		var won atomic.Int64
		var terms [16]schedule.Term
		var wg sync.WaitGroup
		for i := range terms {
			wg.Go(func() {
				term, ok, err := r.Takeover(r.ctx, schedule.TakeoverRequest{Shard: r.term.Shard, Holder: fmt.Sprint(round, "-", i), TTL: time.Hour, Now: r.now})
				if err != nil {
					r.Errorf("take over: %v", err)
				}
				if ok {
					won.Add(1)
					terms[i] = term
				}
			})
		}
		wg.Wait()
		r.hold(won.Load() == 1, "exactly one leads, got %d", won.Load())
		for _, term := range terms {
			if term.Epoch != 0 {
				r.hold(term.Epoch > last, "epoch %d comes after %d", term.Epoch, last)
				last = term.Epoch
				r.ok(r.Resign(r.ctx, term, schedule.Resignation{Now: r.now}), "resign")
			}
		}
		r.now = r.at(time.Second)
	}
}
