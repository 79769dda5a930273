package dispatch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/launcher"
)

// Given is the answer to a fetch.
type Given struct {
	Calls  []launcher.Call // what an executor would get
	Cancel []schedule.Key  // runs that the worker should stop
}

func (g *Given) empty() bool { return len(g.Calls) == 0 && len(g.Cancel) == 0 }

// cancelLook is how often a waiting fetch looks whether a run of its worker is cancelled.
const cancelLook = time.Second

// puller is a fetch that waits for a run.
type puller struct {
	queueNo int32
	wake    chan struct{} // of capacity 1
}

// GetQueue is a queue that a worker names.
func (d *Dispatcher) GetQueue(ctx context.Context, queueID string) (*schedule.Queue, error) {
	return d.Store.GetQueue(ctx, queueID)
}

// Fetch gives a worker runs of a queue, and waits for one for at most a time. It is the worker's
// heartbeat. Once this process stops it gives nothing.
func (d *Dispatcher) Fetch(ctx context.Context, q *schedule.Queue, f schedule.Fetch, wait time.Duration) (Given, error) {
	f.Waits = wait > 0
	deadline := time.NewTimer(wait)
	defer deadline.Stop()
	p := &puller{queueNo: q.No, wake: make(chan struct{}, 1)}
	defer d.leave(p)
	for {
		d.enter(p) // first: a run may become ready while the fetch looks
		given, err := d.pull(ctx, q, &f)
		if err != nil || !given.empty() || wait == 0 || d.isStopping() {
			return given, fetchError(q, err)
		}
		f.Waits = false // another fetch of the worker may have taken its slots meanwhile
		if !d.awaitWake(ctx, p, deadline, len(f.Running) > 0) {
			return given, nil
		}
	}
}

// awaitWake returns when the fetch should look again; false: its time is over.
func (d *Dispatcher) awaitWake(ctx context.Context, p *puller, deadline *time.Timer, cancels bool) bool {
	var look <-chan time.Time
	if cancels {
		timer := time.NewTimer(cancelLook)
		defer timer.Stop()
		look = timer.C
	}
	select {
	case <-p.wake:
	case <-look:
	case <-d.stopping:
	case <-deadline.C:
		return false
	case <-ctx.Done():
		return false
	}
	return true
}

// fetchError is the error of a fetch as its caller reads it: without the number of the queue.
func fetchError(q *schedule.Queue, err error) error {
	if errors.Is(err, schedule.ErrNotFound) {
		return fmt.Errorf("queue %s: %w", schedule.Quote(q.QueueID), schedule.ErrNotFound)
	}
	if !errors.Is(err, schedule.ErrPrecondition) {
		return err
	}
	for e := err; ; e = errors.Unwrap(e) {
		if sentinel := errors.Unwrap(e); errors.Unwrap(sentinel) == nil {
			return e // the refusal itself
		}
	}
}

// pull admits runs for a worker, once.
func (d *Dispatcher) pull(ctx context.Context, q *schedule.Queue, f *schedule.Fetch) (Given, error) {
	whole, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	req := schedule.AdmitRequest{QueueNo: q.No, Free: maxBatch, Lease: d.Launcher.Lease, RetryFor: d.RetryFor, RequireGrant: d.RequireGrant, Fetch: f}
	stopping := d.isStopping()
	if stopping {
		req.Free = 0
	}
	for {
		req.Now = d.now()
		out, err := d.Store.Admit(whole, req)
		switch {
		case err != nil:
			return Given{}, err
		case out.Alone && stopping:
			return Given{Cancel: out.Fetched.Cancel}, nil
		case out.Alone:
			given := d.give(whole, &out)
			if given.empty() && out.Again {
				continue // what was chosen ended, or had changed
			}
			if len(out.Dispatches) > 0 {
				d.wakePullers(q.No) // others may get what is left
			}
			return given, nil
		}
		pause := time.NewTimer(busyPause)
		select {
		case <-pause.C:
		case <-whole.Done():
			pause.Stop()
			return Given{}, whole.Err()
		}
	}
}

// give builds what the worker gets.
func (d *Dispatcher) give(ctx context.Context, out *ledger.Dispatched) Given {
	given := Given{Cancel: out.Fetched.Cancel}
	for i := range out.Ended {
		d.ended(out.Ended[i].To, out.Ended[i].Reason, true)
	}
	var start time.Time // under a rate
	for i := range out.Dispatches {
		a := &out.Dispatches[i]
		d.Metrics.admittedRun(&a.Run, a.Aged, d.now())
		if d.Observer != nil {
			d.Observer.RunLaunched(&a.Run, a.Run.LaunchedAt)
		}
		start = schedule.Later(start, a.StartAt)
		d.prepare(ctx, &given, &sending{Launch: a.Launch, queue: out.Queue})
	}
	for _, key := range out.Fetched.Again {
		if run := d.readHeld(ctx, key); run != nil {
			d.Metrics.givenAgain.Inc()
			d.prepare(ctx, &given, run)
		}
	}
	if len(out.Dispatches) > 0 {
		d.await(ctx, start)
	}
	return given
}

// prepare adds a run to what the worker gets, or ends it if its workflow does not exist. One whose
// workflow cannot be read now is given by the next fetch.
func (d *Dispatcher) prepare(ctx context.Context, given *Given, run *sending) {
	runs := []sending{*run}
	err := d.nameGroups(runs)
	req := runs[0].request()
	var (
		call    launcher.Call
		verdict *schedule.Outcome
	)
	if err == nil {
		call, verdict, err = d.Launcher.Prepare(ctx, req)
	}
	switch {
	case err != nil:
		d.log.Warn("cannot give a run to its worker; the next fetch gets it", "key", req.Key.String(), "worker_id", run.Run.Queue.Worker, "err", err)
	case verdict != nil:
		d.settle(run, schedule.Settlement{
			Key: req.Key, To: verdict.Status, Reason: verdict.Reason, ErrorCode: verdict.ErrorCode, ErrorMessage: verdict.ErrorMessage, CompletedAt: d.now(),
		})
	default:
		given.Calls = append(given.Calls, call)
	}
}

// readHeld reads a run that its worker has not received; nil: it has ended meanwhile, or cannot be read.
func (d *Dispatcher) readHeld(ctx context.Context, key schedule.Key) *sending {
	var run *sending
	_, _, err := d.Store.ChangeRun(ctx, key, schedule.Key{}, func(found schedule.RunInput) (schedule.RunChange, error) {
		if run = nil; found.Run.Stage().InFlight() && found.Definition != nil {
			run = &sending{Launch: schedule.Launch{Run: found.Run, Definition: found.Definition}, queue: found.Queue}
		}
		return schedule.RunChange{Now: d.now()}, nil
	})
	if err != nil {
		d.failed(ctx, "read run "+key.String()+", which its worker has not received", err)
		return nil
	}
	return run
}

// enter adds a fetch to those that wait, behind the others.
func (d *Dispatcher) enter(p *puller) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !slices.Contains(d.pullers, p) {
		d.pullers = append(d.pullers, p)
	}
}

func (d *Dispatcher) leave(p *puller) {
	d.mu.Lock()
	d.pullers = slices.DeleteFunc(d.pullers, func(o *puller) bool { return o == p })
	d.mu.Unlock()
	select {
	case <-p.wake: // it did not look: another one does
		d.wakePullers(p.queueNo)
	default:
	}
}

func (d *Dispatcher) fetchesWait() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.pullers) > 0
}

// wakePullers lets the fetch look again that has waited longest for runs of a queue. If it gets one,
// it wakes the next.
func (d *Dispatcher) wakePullers(queueNo int32) {
	d.mu.Lock()
	defer d.mu.Unlock()
	i := slices.IndexFunc(d.pullers, func(p *puller) bool { return p.queueNo == queueNo })
	if i < 0 {
		return
	}
	p := d.pullers[i]
	d.pullers = slices.Delete(d.pullers, i, i+1)
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

func (d *Dispatcher) isStopping() bool {
	select {
	case <-d.stopping:
		return true
	default:
		return false
	}
}
