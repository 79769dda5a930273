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
	"github.com/carillon/carillon/internal/schedule"
)

// handOver is how long a term that is asked to end may take for what it has
// begun: passes that are under way, answers that are there already.
const handOver = 50 * time.Millisecond

// farewell is what the end of a process may still take once its calls are
// settled or given up, if the database hangs: giving back a leadership, signing
// off.
const farewell = 1200 * time.Millisecond

// term is one leadership of one shard at work.
type term struct {
	*Worker
	schedule.Term
	log       *slog.Logger
	trusted   context.Context // ends when nothing may be written any more
	passes    context.Context // of planning and claiming; ends with the hand-over at the latest
	wake      chan struct{}   // holds at most one wake-up
	hungry    chan struct{}   // the same, for backfills
	open      sync.WaitGroup  // calls of the launcher that this term has begun
	settles   *batch.Batcher[schedule.Settlement, bool]
	cancels   *cancelLog
	memory    shard                           // of the fire loop
	accepted  acceptedLog                     // since the fire loop last looked
	planLimit int                             // of the plan loop: how many schedules the next transaction takes
	lastPlan  time.Duration                   // of the plan loop: how long the last took
	planLag   time.Duration                   // of the plan loop: how late the last was for its first schedule
	firing    atomic.Int32                    // claims and settlements under way
	hold      func(at time.Time, call func()) // of a term made by hand: see Steps
}

// lead is one term. It plans before it claims: what was planned too late and
// what was not planned at all are judged together. And it ends what is past its
// bound, so that a run that timed out while nobody led is in nobody's way. Then
// the first claim comes at once; what has time is left to the loops.
//
// Where others wait, it does not wait for calls that are open at its end: the
// leadership is given back meanwhile. They go on in this process, also those
// that were armed and whose instant is yet to come, and what they come to is in
// the launcher's record. The next leader sends their keys again, is answered from there, and
// settles them: this term, being over, writes nothing any more.
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
		wake: make(chan struct{}, 1), hungry: make(chan struct{}, 1), cancels: newCancelLog(), planLimit: planBatch,
	}
	lead.settles = batch.New(maxBatch, lead.settleAll)
	return lead
}

// awaitCalls gives what is open the time to settle under the term: a moment, for
// another worker is waiting, or this one is to lead anew; all that a stop may
// take, where the process ends and no other is there.
func (t *term) awaitCalls() {
	settled := ended(&t.open)
	select {
	case <-settled:
		return
	case <-t.passes.Done():
	}
	bound, cancel := context.WithTimeout(t.trusted, max(t.cfg.DrainTimeout/2, t.cfg.DrainTimeout-farewell))
	defer cancel()
	look := time.NewTicker(beatEvery / 2) // one that starts is not to wait
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

// alone reports whether this is the only worker alive. One that cannot tell, or
// is not trusted any more, hands over.
func (t *term) alone() bool {
	ctx, cancel := context.WithTimeout(t.trusted, handOver)
	defer cancel()
	workers, err := t.Plans.Workers(ctx, silence, t.now())
	return err == nil && !slices.ContainsFunc(workers, func(w schedule.WorkerSeen) bool { return w.WorkerID != t.ID })
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

// wakeUp makes this term's firing loop look at once. It never blocks.
func (t *term) wakeUp() {
	for _, wake := range []chan struct{}{t.wake, t.hungry} {
		select {
		case wake <- struct{}{}:
		default: // one is pending already
		}
	}
}

// awake takes back a wake-up that is pending.
func (t *term) awake() {
	select {
	case <-t.wake:
	default:
	}
}

// calling runs one call of the launcher in a goroutine of its own, which ends
// with the process at the latest, not with the term. The launcher holds what
// it is given ahead of at.
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
