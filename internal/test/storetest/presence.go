package storetest

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

var presences = []check{
	{"a key of an instance that lives is busy until its lease ends", presenceLives},
	{"a key of an instance that is gone is granted again at once", presenceGone},
	{"an instance that has not confirmed its lock proves nothing", presenceUnconfirmed},
	{"an instance of another server generation proves nothing", presenceGeneration},
	{"a key without a holder is protected by its lease", presenceNoHolder},
	{"a process that registers again has a new number, and its old one proves nothing", presenceAgain},
	{"keys move to the new number of a process, except those that others took", presenceMove},
	{"instances that are gone are named by their ids", presenceIDs},
	{"an instance without a row cannot confirm its lock", presenceNoRow},
	{"of many who take over a key of an instance that is gone exactly one gets it", presenceRace},
	{"a key that moves while others take it over has one holder", presenceMoveRace},
	{"a key is never granted while the process that holds it lives", presenceKills},
}

// held is an instance of a test.
type held struct {
	id   string
	no   int32
	drop func() // the lock, as kill -9 does
}

// lives registers an instance that holds its lock.
func (r *rig) lives(name string) *held {
	r.Helper()
	h := r.registers(name)
	generation, drop, err := r.presences().HoldPresence(r.ctx, h.no)
	r.ok(err, "hold presence")
	r.ok(r.ConfirmPresence(r.ctx, h.no, generation), "confirm presence")
	h.drop = sync.OnceFunc(drop)
	r.Cleanup(h.drop)
	return h
}

func (r *rig) registers(name string) *held {
	r.Helper()
	no, err := r.Register(r.ctx, schedule.Instance{ID: r.id(name), Host: "host:1", StartedAt: r.now})
	r.ok(err, "register instance")
	return &held{id: r.id(name), no: no}
}

func (r *rig) presences() Presences {
	r.Helper()
	p, ok := r.Store.(Presences)
	if !ok {
		r.Fatal("the adapter of the store takes no presence locks")
	}
	return p
}

// heldBy is the request of an instance for a key that is in no ledger.
func (r *rig) heldBy(no int32, name string) schedule.BeginRequest {
	req := r.strange(name)
	req.Holder = no
	return req
}

func presenceLives(r *rig) {
	first, second := r.lives("first"), r.lives("second")
	r.granted(r.heldBy(first.no, "key"))
	busy := r.permits(r.heldBy(second.no, "key"), schedule.Busy)
	r.hold(busy.Request.Lease.Holder == first.no, "a busy answer names the holder %d, got %+v", first.no, busy.Request)
	r.now = r.at(lease)
	again := r.permits(r.heldBy(second.no, "key"), schedule.GrantedAgain)
	r.hold(again.TakenOver == schedule.ProofOfLease && again.Request.Lease.Holder == second.no, "taken over by lease, got %+v", again)
}

func presenceGone(r *rig) {
	first, second := r.lives("first"), r.lives("second")
	r.granted(r.heldBy(first.no, "key"))
	first.drop()
	again := r.permits(r.heldBy(second.no, "key"), schedule.GrantedAgain)
	r.hold(again.TakenOver == schedule.ProofOfPresence && again.Sent && again.Request.Calls == 2 && again.Request.Lease.Holder == second.no,
		"taken over by presence after one call, got %+v", again)
	r.permits(r.heldBy(second.no, "key"), schedule.Busy)
	held, err := r.Extend(r.ctx, []schedule.LeaseExtension{{Key: again.Request.Key, Held: again.Request.Lease.Until, Lease: lease}}, r.now)
	r.ok(err, "extend")
	r.hold(!held[0].IsZero(), "the next holder extends its lease")
}

func presenceUnconfirmed(r *rig) {
	first, second := r.registers("first"), r.lives("second")
	r.granted(r.heldBy(first.no, "key"))
	r.permits(r.heldBy(second.no, "key"), schedule.Busy)
}

func presenceGeneration(r *rig) {
	first, second := r.lives("first"), r.lives("second")
	r.granted(r.heldBy(first.no, "key"))
	r.ok(r.ConfirmPresence(r.ctx, first.no, "before the restart"), "confirm presence")
	first.drop()
	r.permits(r.heldBy(second.no, "key"), schedule.Busy)
}

func presenceNoHolder(r *rig) {
	second := r.lives("second")
	r.granted(r.heldBy(0, "key"))
	r.permits(r.heldBy(second.no, "key"), schedule.Busy)
}

func presenceAgain(r *rig) {
	first, second := r.lives("first"), r.lives("second")
	r.granted(r.heldBy(first.no, "key"))
	first.drop()
	again := r.lives("first")
	r.hold(again.no > first.no, "a new number after %d, got %d", first.no, again.no)
	r.permits(r.heldBy(second.no, "key"), schedule.Busy)
}

func presenceMove(r *rig) {
	first, second := r.lives("first"), r.lives("second")
	kept, taken, ended := r.heldBy(first.no, "kept"), r.heldBy(first.no, "taken"), r.heldBy(first.no, "ended")
	r.granted(kept)
	r.granted(taken)
	r.granted(ended)
	r.finish(ended.Key, accepted)
	first.drop()
	r.permits(r.heldBy(second.no, "taken"), schedule.GrantedAgain)
	again := r.lives("first")
	moved, err := r.MoveKeys(r.ctx, schedule.KeyMove{Keys: []schedule.Key{kept.Key, taken.Key, ended.Key}, From: first.no, To: again.no})
	r.ok(err, "move keys")
	r.hold(len(moved) == 1 && moved[0] == kept.Key, "one key moves, got %v", moved)
	r.permits(r.heldBy(second.no, "kept"), schedule.Busy)
	again.drop()
	r.permits(r.heldBy(second.no, "kept"), schedule.GrantedAgain)
}

func presenceIDs(r *rig) {
	first, second := r.lives("first"), r.lives("second")
	unconfirmed := r.registers("unconfirmed")
	ids := []string{first.id, second.id, unconfirmed.id, r.id("nobody")}
	gone := func() []string {
		gone, err := r.GoneInstances(r.ctx, ids)
		r.ok(err, "gone instances")
		slices.Sort(gone)
		return gone
	}
	equal(r, "gone", gone(), nil)
	first.drop()
	equal(r, "gone", gone(), []string{first.id})
}

func presenceNoRow(r *rig) {
	first := r.lives("first")
	r.lives("first")
	err := r.ConfirmPresence(r.ctx, first.no, "any")
	r.hold(errors.Is(err, schedule.ErrNotFound), "a number that was replaced has no row: %v", err)
}

func presenceRace(r *rig) {
	first := r.lives("first")
	r.granted(r.heldBy(first.no, "key"))
	first.drop()
	var got atomic.Int32
	var group sync.WaitGroup
	for i := range 20 {
		next := r.lives(string(rune('a' + i)))
		group.Go(func() {
			results, err := r.Begin(r.ctx, []schedule.BeginRequest{r.heldBy(next.no, "key")}, r.now)
			if err == nil && results[0].Permission == schedule.GrantedAgain {
				got.Add(1)
			}
		})
	}
	group.Wait()
	r.hold(got.Load() == 1, "one takes the key over, got %d", got.Load())
}

// presenceMoveRace has a process lose its lock and register again while two others
// begin its keys.
func presenceMoveRace(r *rig) {
	const keys = 30
	first := r.lives("first")
	reqs := make([]schedule.BeginRequest, keys)
	move := schedule.KeyMove{From: first.no}
	for i := range reqs {
		reqs[i] = r.heldBy(first.no, string(rune('A'+i)))
		move.Keys = append(move.Keys, reqs[i].Key)
	}
	r.begin(reqs...)
	others := []*held{r.lives("second"), r.lives("third")}
	first.drop()
	var (
		mu      sync.Mutex
		holders = make(map[schedule.Key][]int32)
		group   sync.WaitGroup
		taken   = make(chan struct{})
		tell    = sync.OnceFunc(func() { close(taken) })
	)
	for _, other := range others {
		group.Go(func() {
			defer tell() // also when nothing was taken
			for _, req := range reqs {
				req.Holder = other.no
				results, err := r.Begin(r.ctx, []schedule.BeginRequest{req}, r.now)
				if err != nil {
					r.Errorf("begin: %v", err)
				} else if results[0].Permission == schedule.GrantedAgain {
					mu.Lock()
					holders[req.Key] = append(holders[req.Key], other.no)
					mu.Unlock()
					tell()
				}
			}
		})
	}
	<-taken // so that both sides get some
	again := r.lives("first")
	move.To = again.no
	moved, err := r.MoveKeys(r.ctx, move)
	group.Wait()
	r.ok(err, "move keys")
	for _, key := range moved {
		holders[key] = append(holders[key], again.no)
	}
	for _, req := range reqs {
		r.hold(len(holders[req.Key]) == 1, "a key has one holder, got %v", holders[req.Key])
	}
}

// presenceKills has processes begin keys and die while others begin the same keys.
// A process notes before it dies that it does; the process that is granted a key must find
// that its last holder has done so.
func presenceKills(r *rig) {
	const processes, rounds = 4, 12
	var (
		mu     sync.Mutex
		dead   = make(map[int32]bool)
		holder = make(map[schedule.Key]int32)
	)
	reqs := []schedule.BeginRequest{r.strange("keya"), r.strange("keyb"), r.strange("keyc")}
	for round := range rounds {
		var group sync.WaitGroup
		for p := range processes {
			h := r.lives(r.id("p") + string(rune('a'+p)) + string(rune('a'+round)))
			group.Go(func() {
				for _, req := range reqs {
					req.Holder = h.no
					results, err := r.Begin(r.ctx, []schedule.BeginRequest{req}, r.now.Add(time.Duration(round)))
					if err != nil {
						r.Errorf("begin: %v", err)
						return
					}
					if results[0].Permission != schedule.Granted && results[0].Permission != schedule.GrantedAgain {
						continue
					}
					mu.Lock()
					if last := holder[req.Key]; last != 0 && !dead[last] {
						r.Errorf("instance %d was granted a key of instance %d, which lives", h.no, last)
					}
					holder[req.Key] = h.no
					mu.Unlock()
				}
				mu.Lock()
				dead[h.no] = true
				mu.Unlock()
				h.drop()
			})
		}
		group.Wait()
	}
}
