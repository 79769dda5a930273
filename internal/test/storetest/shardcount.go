package storetest

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// Each of these has a store of its own: there is one number of shards.
var shardCounts = []check{
	{"the first number of shards that is recorded stands", recordShards},
	{"a number of shards that cannot be is refused", refuseShards},
	{"a worker with another number of shards than is recorded cannot lead", takeoverOtherShards},
	{"recording more than one shard ends the terms of the time before", recordEndsTerms},
	{"setting the number of shards ends every term, and the next epochs are greater", setShardsEndsTerms},
	{"once the number of shards is set nothing is written under an older term", setShardsFences},
	{"the number of shards may change while many take over", setShardsRace},
}

func (r *rig) recorded(n int) int {
	r.Helper()
	got, err := r.RecordShards(r.ctx, n)
	r.ok(err, "record shards")
	return got
}

func recordShards(r *rig) {
	for _, n := range []int{4, 1, 64, 4} {
		got := r.recorded(n)
		r.hold(got == 4, "4 was there first, got %d", got)
	}
	r.ok(r.SetShards(r.ctx, 7, r.now), "set shards")
	r.hold(r.recorded(4) == 7, "7 was set, got %d", r.recorded(4))
}

func refuseShards(r *rig) {
	for _, n := range []int{-1, 0, schedule.MaxShards + 1} {
		var invalid *schedule.InvalidError
		err := r.SetShards(r.ctx, n, r.now)
		r.hold(errors.As(err, &invalid), "setting %d shards is invalid, got %v", n, err)
		_, err = r.RecordShards(r.ctx, n)
		r.hold(errors.As(err, &invalid), "recording %d shards is invalid, got %v", n, err)
	}
	r.hold(r.recorded(schedule.MaxShards) == schedule.MaxShards, "nothing was recorded before, and the greatest number is possible")
}

func takeoverOtherShards(r *rig) {
	try := func(n int, lockHeld bool) error {
		_, ok, err := r.Takeover(r.ctx, schedule.TakeoverRequest{Shard: 0, Shards: n, Holder: "h", TTL: time.Hour, LockHeld: lockHeld, Now: r.now})
		r.hold(!ok || err == nil, "nobody leads after an error")
		return err
	}
	r.recorded(2)
	for _, n := range []int{0, 1, 3} {
		for _, lockHeld := range []bool{false, true} {
			err := try(n, lockHeld)
			r.hold(errors.Is(err, schedule.ErrShardCount), "with %d shards, lock held %v: ErrShardCount, got %v", n, lockHeld, err)
		}
	}
	equal(r, "leaders", r.allLeaders(), nil)
	r.ok(try(2, false), "take over with the number that is recorded")
	r.hold(errors.Is(try(3, false), schedule.ErrShardCount), "also where another leads: ErrShardCount, got %v", try(3, false))
	r.ok(r.SetShards(r.ctx, 1, r.now), "set one shard")
	r.ok(try(0, false), "no number counts as one")
}

// recordEndsTerms has a leader of the time before shards, who leads them all.
func recordEndsTerms(r *rig) {
	term, _ := r.takeShard(0, 0, "before", true)
	r.hold(r.recorded(2) == 2, "nothing was recorded before")
	err := r.renew(term, time.Hour)
	r.hold(errors.Is(err, schedule.ErrFenced), "its term is over: ErrFenced, got %v", err)
	next, ok := r.takeShard(0, 2, "after", false)
	r.hold(ok && next.Epoch > term.Epoch, "the next leads in a greater epoch, got %v, %d after %d", ok, next.Epoch, term.Epoch)
	r.hold(r.recorded(1) == 2, "2 is recorded")
	r.ok(r.renew(next, time.Hour), "renew after it was recorded again")
}

func setShardsEndsTerms(r *rig) {
	var terms []schedule.Term
	for shard := range 4 {
		term, _ := r.takeShard(shard, 4, "old", true)
		terms = append(terms, term)
	}
	r.ok(r.SetShards(r.ctx, 2, r.now), "set shards")
	for _, l := range r.allLeaders() {
		r.hold(l.Expired && l.Holder == "" && !l.LockHeld && !l.AskedTo, "nobody leads, got %+v", l)
		r.hold(l.Epoch > terms[3].Epoch, "the epoch has moved on, %d after %d", l.Epoch, terms[3].Epoch)
		r.hold(l.Shards == 2, "the number is the new one, got %d", l.Shards)
	}
	for _, term := range terms {
		err := r.renew(term, time.Hour)
		r.hold(errors.Is(err, schedule.ErrFenced), "no term can be renewed: ErrFenced, got %v", err)
		r.ok(r.Resign(r.ctx, term, schedule.Resignation{Now: r.now}), "resign a term that is over")
	}
	last := terms[3].Epoch
	for shard := range 2 {
		term, ok := r.takeShard(shard, 2, "new", false)
		r.hold(ok && term.Epoch > last, "the next leads in a greater epoch, got %v, %d after %d", ok, term.Epoch, last)
		last = term.Epoch
	}
}

func setShardsFences(r *rig) {
	r.term = schedule.Term{}
	r.lead()
	s := r.create("contended")
	run := r.bring(r.slot(s, r.now), schedule.StatusStarted)
	for range 5 {
		old := r.term
		writing := make(chan struct{}, 2)
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() { r.writeUntilFenced(old, run.Key, writing) })
		}
		<-writing
		<-writing
		r.ok(r.SetShards(r.ctx, 1, r.now), "set shards")
		seen := r.ledger(run.Key).RunID
		wg.Wait()
		r.hold(r.ledger(run.Key).RunID == seen, "the old leader wrote %q after the number was set (%q)", r.ledger(run.Key).RunID, seen)
		r.lead()
	}
}

// writeUntilFenced writes to a run as fast as it can, and says when it has
// begun.
func (r *rig) writeUntilFenced(term schedule.Term, key schedule.Key, writing chan<- struct{}) {
	for i := range 10_000_000 {
		_, err := r.Settle(r.ctx, term, r.now, []schedule.Settlement{{Key: key, To: schedule.StatusStarted, RunID: fmt.Sprint(term.Epoch, "-", i)}})
		if i == 0 {
			writing <- struct{}{}
		}
		if errors.Is(err, schedule.ErrFenced) {
			return
		}
		if err != nil {
			r.Errorf("settle under the old term: %v", err)
			return
		}
	}
	r.Errorf("the old leader was never fenced")
}

func setShardsRace(r *rig) {
	const rounds = 10
	numbers := []int{1, 2, 3}
	r.recorded(1)
	var wg sync.WaitGroup
	for shard := range 3 {
		wg.Go(func() {
			for round := range 10 * rounds {
				term, ok, err := r.Takeover(r.ctx, schedule.TakeoverRequest{
					Shard: shard, Shards: numbers[round%3], Holder: fmt.Sprint(shard, "-", round), TTL: time.Hour, LockHeld: true, Now: r.now,
				})
				if err != nil && !errors.Is(err, schedule.ErrShardCount) {
					r.Errorf("take over: %v", err)
				}
				if ok {
					_ = r.Resign(r.ctx, term, schedule.Resignation{Now: r.now})
				}
			}
		})
	}
	for round := range rounds {
		r.ok(r.SetShards(r.ctx, numbers[round%3], r.now), "set shards")
	}
	wg.Wait()
	last := numbers[(rounds-1)%3]
	r.hold(r.recorded(64) == last, "the last number stands, got %d", r.recorded(64))
	for _, l := range r.allLeaders() {
		r.takeShard(l.Shard, last, "end", true)
	}
}
