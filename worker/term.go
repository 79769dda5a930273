package worker

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/carillon/carillon/internal/batch"
	"github.com/carillon/carillon/internal/retry"
	"github.com/carillon/carillon/internal/schedule"
)

// handOver is how long a term that must end may take to finish passes that are under
// way and to settle answers that have arrived.
const handOver = 50 * time.Millisecond

// shutdownTimeout is the part of DrainTimeout that stays for giving back the leadership
// and leaving the list of workers, in case the database hangs.
const shutdownTimeout = 1200 * time.Millisecond

// term is one leadership of one shard at work.
type term struct {
	*Worker
	schedule.Term
	log       *slog.Logger
	trusted   context.Context // ends when nothing may be written any more
	passes    context.Context // of planning and claiming; ends handOver after the term must end
	wake      chan struct{}   // holds at most one wake-up
	feedWake  chan struct{}   // the same, for the feed loop
	open      sync.WaitGroup  // calls of the launcher that this term has begun
	settles   *batch.Batcher[schedule.Settlement, schedule.Moved]
	retries   retry.Launches // of the shard's runs: their settlements need its fence
	cancels   *cancelLog
	memory    shard                           // of the fire loop
	accepted  acceptedLog                     // since the last pass of the fire loop
	swept     sweptLog                        // the same
	planLimit int                             // of the plan loop: schedules in the next transaction
	lastPlan  time.Duration                   // of the plan loop: duration of the last transaction
	planLag   time.Duration                   // of the plan loop: how late it was for its first schedule
	firing    atomic.Int32                    // claims and settlements under way
	hold      func(at time.Time, call func()) // of a simulated term: see Steps
}

// lead is one term. It plans before it claims, so that late slots and slots that were
// never planned are judged together. It sweeps before it claims, so that a run that timed
// out without a leader blocks no other. Then the loops begin with a claim.
//
// If other workers wait, the term does not wait for open calls at its end. They continue
// in this process, also those that wait for their fire_at, and the launcher records their
// outcomes. This term writes nothing any more: the next leader sends the keys again, gets
// the recorded outcomes and settles the runs.
func (w *Worker) lead(ctx, trusted context.Context, t schedule.Term) error {
	passes, endPasses := context.WithCancel(trusted)
	defer endPasses()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(handOver, endPasses) })()
	lead := w.newTerm(t, trusted, passes)
	w.begins(lead)
	defer w.ends(lead)
	lead.plan(ctx, never)
	lead.sweep(ctx, never)
	var loops errgroup.Group
	loops.Go(func() error { lead.planLoop(ctx); return nil })
	loops.Go(func() error { lead.fireLoop(ctx); return nil })
	loops.Go(func() error { lead.feedLoop(ctx); return nil })
	err := loops.Wait()
	lead.awaitCalls()
	return err
}

func (w *Worker) newTerm(t schedule.Term, trusted, passes context.Context) *term {
	lead := &term{
		Worker: w, Term: t, trusted: trusted, passes: passes, log: w.log.With("shard", t.Shard, "epoch", t.Epoch),
		wake: make(chan struct{}, 1), feedWake: make(chan struct{}, 1), cancels: newCancelLog(), planLimit: planBatch,
	}
	lead.settles = batch.New(maxBatch, lead.settleAll)
	return lead
}

// lookAround is how often a leader that ends looks for another worker: more often than
// there are heartbeats.
const lookAround = 500 * time.Millisecond

// awaitCalls waits for open calls to settle under the term: a moment if another worker
// waits or this one may lead again, most of DrainTimeout if the process ends and no other
// worker is alive.
func (t *term) awaitCalls() {
	settled := ended(&t.open)
	select {
	case <-settled:
		return
	case <-t.passes.Done():
	}
	bound, cancel := context.WithTimeout(t.trusted, max(t.cfg.DrainTimeout/2, t.cfg.DrainTimeout-shutdownTimeout))
	defer cancel()
	look := time.NewTicker(lookAround) // a worker that starts must not wait
	defer look.Stop()
	for bound.Err() == nil && t.ending.Err() != nil && t.alone() {
		select {
		case <-settled:
			return
		case <-bound.Done():
		case <-look.C:
		}
	}
	t.log.Info("launcher calls continue after the term")
}

// alone reports whether this is the only worker alive; false if that cannot be read or
// the term is no longer trusted.
func (t *term) alone() bool {
	ctx, cancel := context.WithTimeout(t.trusted, handOver)
	defer cancel()
	instances, err := t.Plans.Instances(ctx, livenessWindow)
	return err == nil && !slices.ContainsFunc(schedule.Workers(instances), func(i schedule.Instance) bool { return i.ID != t.ID })
}

func (w *Worker) begins(t *term) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.terms = append(w.terms, t)
}

func (w *Worker) ends(t *term) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.terms = slices.DeleteFunc(w.terms, func(o *term) bool { return o == t })
}

// wakeUp starts a pass of this term's fire and feed loops. It never blocks.
func (t *term) wakeUp() {
	for _, wake := range []chan struct{}{t.wake, t.feedWake} {
		select {
		case wake <- struct{}{}:
		default: // one is pending already
		}
	}
}

// clearWake removes a pending wake-up.
func (t *term) clearWake() {
	select {
	case <-t.wake:
	default:
	}
}

// calling runs one call of the launcher in a goroutine, which can outlive the term. The
// launcher waits until at.
func (t *term) calling(at time.Time, call func()) {
	if t.hold != nil {
		t.hold(at, call)
		return
	}
	t.open.Add(1)
	t.Worker.open.Add(1)
	go func() {
		defer t.Worker.open.Done()
		defer t.open.Done()
		call()
	}()
}

// storeContext bounds a store call of this term's passes.
func (t *term) storeContext() (context.Context, context.CancelFunc) {
	return context.WithTimeout(t.passes, storeTimeout)
}
