package sim

import (
	"context"
	"time"
)

// adversary makes processes and services fail.
func (w *world) adversary() {
	for n := range w.profile.strikes {
		d := w.dice.of(forAdversary).of(uint64(n))
		gap := w.profile.faulty / time.Duration(w.profile.strikes+1)
		time.Sleep(d.of(1).span(gap/2, gap+gap/2))
		if w.calm.Load() {
			return
		}
		w.strike(pick(d.of(2), strikeKill, strikeStop, strikeFreeze, strikeFreeze, strikeLoseLock, strikeLockDown, strikeStoreDown, strikeClock, strikeResign, strikeLosePresence, strikeLosePresence, strikeRestart), d.of(3))
	}
}

func (w *world) strike(what strike, d dice) {
	at, left := w.elapsed(), w.profile.faulty-w.elapsed()
	n := w.victim(d.of(1))
	p := w.processes[n].Load()
	w.log.say(at, "the adversary strikes: %s (%s)", strikeNames[what], p.name)
	w.coverage.strikes[what].Add(1)
	switch what {
	case strikeKill:
		p.crash()
	case strikeStop:
		p.stop()
	case strikeFreeze:
		p.frozen.Store(int64(at + min(left, d.of(2).span(w.profile.ttl, 4*w.profile.ttl))))
	case strikeLoseLock:
		w.locks.terminate(d.of(2).below(w.profile.shards))
	case strikeLockDown:
		w.lockDownUntil.Store(int64(at + min(left, d.of(2).span(100*time.Millisecond, 4*time.Second))))
	case strikeStoreDown:
		w.storeDownUntil.Store(int64(at + min(left, d.of(2).span(100*time.Millisecond, 6*time.Second))))
	case strikeLosePresence:
		w.presences.endOf(p.caller)
	case strikeRestart:
		w.restart()
	case strikeResign:
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		_, _ = store{w.clients}.AskToResign(ctx, d.of(2).below(w.profile.shards), w.clients.now())
	case strikeClock:
		p.skew.Store(int64(d.of(2).span(0, w.profile.maxSkew)))
	}
}

// victim is mostly the leader.
func (w *world) victim(d dice) int {
	if leading := w.watch.leading(); leading >= 0 && d.perMille(600) {
		return leading
	}
	return d.of(1).below(w.profile.workers)
}

func (w *world) storeAway(at time.Duration) bool { return int64(at) < w.storeDownUntil.Load() }

func (w *world) lockAway(at time.Duration) bool { return int64(at) < w.lockDownUntil.Load() }
