package storetest

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// Each of these has a store of its own: they are about all shards of one.
var terms = []check{
	{"an epoch is one more than the greatest of all shards", epochsOverAllShards},
	{"of many shards that are taken over at once no two get one epoch", epochsRace},
	{"a leader that had the lock is gone when another has it; one without it is not", takeoverFromLockless},
	{"the lock of one kind says nothing about a leader of another, until its row has expired", takeoverAcrossKinds},
	{"a lock whose kind is not known counts as the same", takeoverUnknownKind},
	{"leaders are listed by shard, with what they said last", leadersListed},
	{"a leader that is asked to resign learns of it when it renews", askToResign},
	{"nobody is asked where nobody leads", askNobody},
	{"asking wakes the workers", askWakes},
}

// takeShard asks for a shard of n.
func (r *rig) takeShard(shard, n int, holder string, lockHeld bool) (schedule.Term, bool) {
	r.Helper()
	term, ok, err := r.Takeover(r.ctx, schedule.TakeoverRequest{
		Shard: shard, Shards: n, Holder: holder, TTL: time.Hour, LockHeld: lockHeld, Now: r.now,
	})
	r.ok(err, "take over")
	return term, ok
}

func epochsOverAllShards(r *rig) {
	for i, shard := range []int{2, 0, 2, 1, 0, 2} {
		term, ok := r.takeShard(shard, 3, fmt.Sprint("holder-", i), true)
		r.hold(ok && term.Epoch == int64(i+1), "epoch %d, got %v, %d", i+1, ok, term.Epoch)
	}
}

func epochsRace(r *rig) {
	const n = 16
	seen := map[int64]int{}
	for round := range 4 {
		var won [n]schedule.Term
		var wg sync.WaitGroup
		for shard := range won {
			wg.Go(func() {
				term, ok, err := r.Takeover(r.ctx, schedule.TakeoverRequest{
					Shard: shard, Shards: n, Holder: fmt.Sprint(round), TTL: time.Hour, LockHeld: true, Now: r.now,
				})
				if err != nil || !ok {
					r.Errorf("take over shard %d: %v, %v", shard, ok, err)
				}
				won[shard] = term
			})
		}
		wg.Wait()
		for _, term := range won {
			seen[term.Epoch]++
			r.hold(seen[term.Epoch] == 1, "epoch %d is given out once", term.Epoch)
			r.hold(term.Epoch > int64(n*round), "epoch %d is greater than all of the round before", term.Epoch)
		}
	}
}

func takeoverFromLockless(r *rig) {
	first, ok := r.takeShard(0, 1, "first", false)
	r.hold(ok, "there is none yet, so the first leads")
	_, ok = r.takeShard(0, 1, "second", true)
	r.hold(!ok, "the first leads without the lock: that it is free says nothing")

	asked, err := r.Renew(r.ctx, first, schedule.RenewRequest{TTL: time.Hour, LockHeld: true, Now: r.now})
	r.ok(err, "renew")
	r.hold(!asked, "nobody asked it to resign")
	_, ok = r.takeShard(0, 1, "first", true)
	r.hold(!ok, "who leads already does not take over from himself")
	second, ok := r.takeShard(0, 1, "second", true)
	r.hold(ok && second.Epoch > first.Epoch, "the first had the lock, and has it no more: it is gone")

	_, err = r.Renew(r.ctx, second, schedule.RenewRequest{TTL: time.Hour, Now: r.now})
	r.ok(err, "renew without the lock")
	_, ok = r.takeShard(0, 1, "third", true)
	r.hold(!ok, "a leader that says it has lost the lock lives")
	r.ok(r.Resign(r.ctx, second, schedule.Resignation{Now: r.now}), "resign")
	r.now = r.at(time.Second)
	_, ok = r.takeShard(0, 1, "third", true)
	r.hold(ok, "what has run out may be taken over by whoever has the lock")
}

// takeWith asks for shard 0 with a lock of a kind that is held.
func (r *rig) takeWith(kind, holder string) (schedule.Term, bool) {
	r.Helper()
	term, ok, err := r.Takeover(r.ctx, schedule.TakeoverRequest{
		Shards: 1, Holder: holder, TTL: time.Hour, LockHeld: true, LockKind: kind, Now: r.now,
	})
	r.ok(err, "take over")
	return term, ok
}

func takeoverAcrossKinds(r *rig) {
	first, ok := r.takeWith("postgres", "first")
	r.hold(ok, "there is none yet, so the first leads")
	r.hold(r.allLeaders()[0].LockKind == "postgres", "the row says with which lock, got %+v", r.allLeaders()[0])
	_, ok = r.takeWith("redis", "second")
	r.hold(!ok, "the second has a lock that the first never had")
	third, ok := r.takeWith("postgres", "third")
	r.hold(ok && third.Epoch > first.Epoch, "the third has the lock that the first had: it is gone")
	r.ok(r.Resign(r.ctx, third, schedule.Resignation{Now: r.now}), "resign")
	r.now = r.at(time.Second)
	second, ok := r.takeWith("redis", "second")
	r.hold(ok && second.Epoch > third.Epoch, "what has run out may be taken over by a worker of any kind")
	row := r.allLeaders()[0]
	r.hold(row.LockKind == "redis" && row.LockHeld, "the row says with which lock, got %+v", row)
	_, ok = r.takeWith("postgres", "fourth")
	r.hold(!ok, "the fourth has a lock that the second never had")
}

func takeoverUnknownKind(r *rig) {
	last := int64(0)
	for i, kind := range []string{"", "redis", "", "postgres"} {
		term, ok := r.takeWith(kind, fmt.Sprint("holder-", i))
		r.hold(ok && term.Epoch > last, "%q takes over from what came before it, got %v, epoch %d after %d", kind, ok, term.Epoch, last)
		last = term.Epoch
	}
}

func (r *rig) allLeaders() []schedule.Leadership {
	r.Helper()
	rows, err := r.Leaders(r.ctx, r.now)
	r.ok(err, "list leaders")
	return rows
}

func leadersListed(r *rig) {
	equal(r, "leaders of an empty store", r.allLeaders(), nil)
	r.recorded(3)
	one, _ := r.takeShard(1, 3, "one", true)
	zero, _ := r.takeShard(0, 3, "zero", false)
	gone, _ := r.takeShard(2, 3, "gone", true)
	r.ok(r.Resign(r.ctx, gone, schedule.Resignation{Now: r.now}), "resign")
	r.now = r.at(time.Second)

	rows := r.allLeaders()
	r.hold(len(rows) == 3, "there is one row a shard, got %d", len(rows))
	for i, want := range []schedule.Leadership{{Term: zero}, {Term: one, LockHeld: true}, {Term: gone, LockHeld: true, Expired: true}} {
		got := rows[i]
		r.hold(!got.ExpiresAt.IsZero() && got.ExpiresAt.Location() == time.UTC, "its expiry is a time in UTC, got %v", got.ExpiresAt)
		got.ExpiresAt = time.Time{}
		equal(r, fmt.Sprintf("leaders row %d", i), got, want)
	}
}

func askToResign(r *rig) {
	renew := func(term schedule.Term) bool {
		asked, err := r.Renew(r.ctx, term, schedule.RenewRequest{TTL: time.Hour, LockHeld: true, Now: r.now})
		r.ok(err, "renew")
		return asked
	}
	first, _ := r.takeShard(0, 2, "first", true)
	other, _ := r.takeShard(1, 2, "other", true)
	r.hold(!renew(first), "nobody asked it to resign")
	asked, err := r.AskToResign(r.ctx, 0, r.now)
	r.ok(err, "ask to resign")
	r.hold(asked.Holder == "first" && asked.Epoch == first.Epoch && asked.AskedTo && !asked.Expired, "the answer is who was asked, got %+v", asked)
	rows := r.allLeaders()
	r.hold(rows[0].AskedTo && !rows[1].AskedTo, "only that one is seen to be asked")
	for range 2 {
		r.hold(renew(first), "it learns of it, again and again")
	}
	r.hold(!renew(other), "the other was not asked")

	r.ok(r.Resign(r.ctx, first, schedule.Resignation{Now: r.now}), "resign")
	r.now = r.at(time.Second)
	r.hold(!r.allLeaders()[0].AskedTo, "whoever has resigned is asked no more")
	next, _ := r.takeShard(0, 2, "second", false)
	r.hold(!renew(next), "the next leader was not asked")
}

func askNobody(r *rig) {
	ask := func(shard int) error { _, err := r.AskToResign(r.ctx, shard, r.now); return err }
	r.hold(errors.Is(ask(0), schedule.ErrNotFound), "of a shard that nobody ever led: ErrNotFound, got %v", ask(0))
	term, _ := r.takeShard(0, 1, "first", true)
	r.hold(errors.Is(ask(1), schedule.ErrNotFound), "of another shard: ErrNotFound, got %v", ask(1))
	r.ok(r.Resign(r.ctx, term, schedule.Resignation{Now: r.now}), "resign")
	r.now = r.at(time.Second)
	r.hold(errors.Is(ask(0), schedule.ErrNotFound), "of a shard that was given back: ErrNotFound, got %v", ask(0))
}

func askWakes(r *rig) {
	r.takeShard(0, 1, "first", true)
	r.wakes(r.schedule("any"), func(int) {
		_, err := r.AskToResign(r.ctx, 0, r.now)
		r.ok(err, "ask to resign")
	})
}
