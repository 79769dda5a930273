package sim

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/launcher"
	"github.com/carillon/carillon/launcher/dispatch"
)

// pullHeartbeat is heartbeat_ms of the pull queue of a world.
const pullHeartbeat = 1500 * time.Millisecond

// pulls reports whether workers fetch the runs of a queue: of the last one, in some worlds.
func (w *world) pulls(queue int) bool { return w.profile.pulled && queue == w.profile.queues-1 }

// pullWatch is what the checker remembers of workers.
type pullWatch struct {
	fetched map[string]time.Duration // when each has fetched last, by the clock of its launcher
}

// pullWorkers fetch runs until the world ends.
func (w *world) pullWorkers() {
	for n := range 2 {
		p := &pullWorker{world: w, id: fmt.Sprintf("u0/p%d", n), slots: int32(1 + n), dice: w.dice.of(forQueues + 9).of(uint64(n)), works: make(map[schedule.Key]*work)}
		w.hosts.Go(p.run)
	}
}

// pullWorker honours keys: a run that it gets again has one effect.
type pullWorker struct {
	*world
	id    string
	slots int32
	dice  dice
	works map[schedule.Key]*work // that it works on
}

func (p *pullWorker) run() {
	for n := uint64(1); ; n++ {
		d := p.dice.of(n)
		pause := d.of(1).span(50*time.Millisecond, 900*time.Millisecond)
		if !p.calm.Load() && d.of(2).perMille(60) { // its heartbeat comes late, or not
			pause = d.of(3).span(time.Second, 5*time.Second)
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-p.over:
			timer.Stop()
			return
		}
		if !p.calm.Load() && d.of(4).perMille(60) {
			p.die(d.of(5).perMille(500))
		}
		p.fetch(d.of(6))
	}
}

// die ends everything that it works on; another worker begins under its name, some with
// a pause that is longer than a heartbeat.
func (p *pullWorker) die(long bool) {
	p.coverage.situations[workerDied].Add(1)
	p.executor.mu.Lock()
	for _, wk := range p.works {
		wk.dead, wk.died = !wk.ended, p.elapsed()
	}
	p.executor.mu.Unlock()
	clear(p.works)
	if long {
		time.Sleep(2*pullHeartbeat + p.dice.of(uint64(p.elapsed())).span(time.Second, 6*time.Second))
	}
}

func (p *pullWorker) fetch(d dice) {
	process := p.processes[d.of(1).below(len(p.processes))].Load()
	if process == nil || process.dispatcher.Load() == nil {
		return
	}
	f := schedule.Fetch{Worker: p.id, Slots: p.slots}
	p.executor.mu.Lock()
	maps.DeleteFunc(p.works, func(_ schedule.Key, wk *work) bool { return wk.ended })
	p.executor.mu.Unlock()
	f.Running = slices.SortedFunc(maps.Keys(p.works), func(a, b schedule.Key) int { return slices.Compare(a[:], b[:]) })
	var given dispatch.Given
	stopping, before := false, p.watch.fetchedAt(p.id)
	err := p.clients.call(context.Background(), siteReport, uint64(d.of(2)), nil, func() error {
		q, err := p.ledger.GetQueue(context.Background(), queueID(p.profile.queues-1))
		if stopping = process.ctx.Err() != nil; err == nil {
			given, err = process.dispatcher.Load().Fetch(context.Background(), q, f, 0)
		}
		return err
	})
	if err != nil {
		return // its answer is lost, or there is none
	}
	if stopping && len(given.Calls) > 0 {
		p.violation("%s has stopped, and gave %d runs to worker %s", process.name, len(given.Calls), p.id)
	}
	for _, key := range given.Cancel {
		p.stop(p.works[key])
	}
	silent := p.elapsed() - before
	for _, call := range given.Calls {
		p.executor.mu.Lock()
		again := p.executor.works[call.Key] != nil
		p.executor.mu.Unlock()
		if again && p.profile.plain && !p.profile.incidents && silent > pullHeartbeat+p.profile.maxSkew+2*time.Second {
			p.violation("the run %.12s is given again to %s, which was silent for %s", call.Key, p.id, silent)
		}
		p.begin(call)
	}
}

// begin works on a run, unless it does already.
func (p *pullWorker) begin(call launcher.Call) {
	p.checkPulled(p.id, &call)
	m := p.manner(call.Key)
	m.refuse, m.sync, m.hang, m.declines = false, false, false, 0
	m.duration = max(m.duration, 50*time.Millisecond)
	wk, nth := p.executor.take(p.elapsed(), call, m)
	p.works[call.Key] = wk
	p.log.say(p.elapsed(), "worker %s gets %06x, time %d", p.id, idOf(call.Key)&0xffffff, nth)
	p.executor.mu.Lock()
	again := wk.dead
	if again { // the work began and was lost with its worker
		wk.dead, wk.ended, wk.began, wk.ends = false, false, p.elapsed(), p.elapsed()+m.duration
	}
	p.executor.mu.Unlock()
	if again || nth > 1 {
		p.coverage.situations[runGivenAgain].Add(1)
	}
	if again || nth == 1 {
		p.running.Go(func() { p.work(wk, m) })
	}
}

// stop ends a run that is cancelled, or that the worker has no more.
func (p *pullWorker) stop(wk *work) {
	if wk == nil {
		return
	}
	p.executor.mu.Lock()
	ends := !wk.ended && p.elapsed() < wk.ends
	if ends {
		wk.ended, wk.cancel, wk.ends = true, true, p.elapsed()
	}
	p.executor.mu.Unlock()
	if ends {
		p.coverage.situations[pulledCancelled].Add(1)
		p.running.Go(func() { p.report(wk, schedule.StatusFailed, 3) })
	}
}

// checkPulled: a worker gets a run that is its own, and always the same request.
func (w *world) checkPulled(worker string, call *launcher.Call) {
	run, err := w.ledger.GetRun(context.Background(), call.Key)
	if err != nil || run.Deliveries != 1 || run.Queue.Worker != worker {
		w.violation("worker %s got the run %.12s, which is %+v (%v)", worker, call.Key, run, err)
	}
	w.executor.mu.Lock()
	known := w.executor.works[call.Key]
	w.executor.mu.Unlock()
	if known != nil && !sameRequest(&known.call, call) {
		w.violation("the key of the run %.12s came with another request", call.Key)
	}
}

// fetchedBy notes a heartbeat.
func (l *ledgerWatch) fetchedBy(worker string, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fetched == nil {
		l.fetched = make(map[string]time.Duration)
	}
	l.fetched[worker] = max(l.fetched[worker], now.Sub(l.began))
}

func (l *ledgerWatch) fetchedAt(worker string) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.fetched[worker]
}

// jobFetched checks a run that was admitted, by what its queue delivers.
func (l *ledgerWatch) jobFetched(j *job, to place) {
	r := &j.row
	pulled := l.queues[r.Queue.No].row.Delivery == "pull"
	if pulled != (to == placeRunning) || pulled != (r.Queue.Worker != "") {
		l.violation("the job %.12s was admitted as %s with worker %q, and its queue is pulled: %t", r.Key, r.Queue.State, r.Queue.Worker, pulled)
	}
	if !pulled {
		return
	}
	l.coverage.situations[runFetched].Add(1)
	slots := map[string]int32{"u0/p0": 1, "u0/p1": 2}[r.Queue.Worker]
	if r.Queue.WorkerSlot < 1 || r.Queue.WorkerSlot > slots {
		l.violation("the job %.12s has slot %d of %s", r.Key, r.Queue.WorkerSlot, r.Queue.Worker)
	}
	for _, o := range l.jobOrder {
		if o != j && placeOf(&o.row) == placeRunning && o.row.Queue.Worker == r.Queue.Worker && o.row.Queue.WorkerSlot == r.Queue.WorkerSlot {
			l.violation("slot %d of %s has the jobs %.12s and %.12s", r.Queue.WorkerSlot, r.Queue.Worker, o.row.Key, r.Key)
		}
	}
}

// lostTruly: a fetched run is lost if its worker was silent for its heartbeat, and in a world without
// faults it ends soon then.
func (l *ledgerWatch) lostTruly(at time.Duration, r *schedule.Run) {
	if r.Queue.Worker == "" {
		return
	}
	silent := at - l.fetched[r.Queue.Worker]
	switch {
	case r.Reason == schedule.ReasonLost && silent < pullHeartbeat-time.Millisecond:
		l.violation("the job %.12s is lost, and its worker %s has fetched %s ago", r.Key, r.Queue.Worker, silent)
	case r.Reason == schedule.ReasonLost:
		l.coverage.situations[runLost].Add(1)
	case r.Reason == schedule.ReasonTimeout && l.profile.plain && !l.profile.incidents && silent < pullHeartbeat && l.heldBy(r).lost:
		l.violation("the job %.12s timed out, and its worker %s did not get it again", r.Key, r.Queue.Worker)
	case r.Status == schedule.StatusCancelled && l.profile.plain && !l.profile.incidents && l.fetched[r.Queue.Worker] > r.CancelRequestedAt.Sub(l.began)+time.Millisecond+l.profile.maxSkew && l.heldBy(r).working:
		l.violation("the job %.12s was cancelled, and its worker %s did not hear of it", r.Key, r.Queue.Worker)
	case r.Reason == schedule.ReasonTimeout && l.profile.plain && !l.profile.incidents && silent > pullHeartbeat+l.profile.maxSkew+2*time.Second:
		l.violation("the job %.12s timed out %s after the last fetch of its worker %s", r.Key, silent, r.Queue.Worker)
	}
}

// held is what a worker makes of a run.
type held struct{ lost, working bool }

func (l *ledgerWatch) heldBy(r *schedule.Run) held {
	l.executor.mu.Lock()
	defer l.executor.mu.Unlock()
	wk := l.executor.works[r.Key]
	asked := wk != nil && l.fetched[r.Queue.Worker] > wk.died // since it died
	return held{lost: wk == nil || wk.dead && asked, working: wk != nil && !wk.dead && !wk.cancel && !wk.ended}
}
