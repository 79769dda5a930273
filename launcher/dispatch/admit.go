package dispatch

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/failpoint"
	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

// admitAll visits each queue with waiting runs, in rotation, and returns when it should look
// again at the latest.
func (d *Dispatcher) admitAll(ctx context.Context) (again time.Duration) {
	callsTaken := d.held || d.free() == 0 // the next sweep or an answer goes on
	if callsTaken && !d.fetchesWait() {
		return tick
	}
	short, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	queues, err := d.Store.QueuesWaiting(short)
	if err != nil {
		d.failed(ctx, "look for waiting runs", err)
		return tick
	}
	again = tick
	if callsTaken { // a fetch takes none
		for _, q := range queues {
			d.wakePullers(q.No)
		}
		return again
	}
	for i := range queues {
		if short.Err() != nil {
			break
		}
		pause := d.admit(ctx, queues[(d.first+i)%len(queues)])
		again = min(again, pause)
	}
	d.first++
	return again
}

// admit visits one queue, with at most half of the free calls.
func (d *Dispatcher) admit(ctx context.Context, q schedule.QueueNow) (again time.Duration) {
	free := (d.free() + 1) / 2
	if free == 0 {
		return tick
	}
	if rest := time.Until(d.resting[q.No]); rest > 0 {
		return rest
	}
	delete(d.resting, q.No)
	// A stop does not interrupt it: what it has admitted must be known, to be put back.
	whole, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	holder, err := d.holder(whole)
	if err != nil {
		d.failed(ctx, "await the presence lock", err)
		return tick
	}
	began := time.Now()
	out, err := d.Store.Admit(whole, schedule.AdmitRequest{
		QueueNo: q.No, Now: d.now(), Free: free, Share: d.share, Holder: holder, Lease: d.Launcher.Lease, RetryFor: d.RetryFor, RequireGrant: d.RequireGrant,
	})
	switch {
	case err != nil:
		d.failed(ctx, "admit runs of queue "+schedule.Quote(q.QueueID), err)
		return tick
	case !out.Alone:
		return busyPause
	}
	failpoint.Hit(failpoint.Admitted)
	if out.Queue != nil && out.Queue.Pulled() {
		d.wakePullers(q.No)
		return tick
	}
	took := time.Since(began)
	d.Metrics.admission.Observe(took.Seconds())
	d.noteLimited(q.No, out.Block)
	if took > slowVisit && len(out.Dispatches) == 0 {
		d.resting[q.No] = time.Now().Add(took)
	}
	if out.Block != nil {
		d.Metrics.blocked.WithLabelValues(string(out.Block.What)).Inc()
	}
	d.dispatch(ctx, &out)
	for i := range out.Ended {
		d.ended(out.Ended[i].To, out.Ended[i].Reason, true)
	}
	switch {
	case out.Again:
		return 0
	case out.Block != nil && !out.Block.Until.IsZero():
		return max(0, out.Block.Until.Sub(d.now()))
	}
	return tick
}

// dispatch sends admitted runs.
func (d *Dispatcher) dispatch(ctx context.Context, out *ledger.Dispatched) {
	if len(out.Dispatches) == 0 {
		return
	}
	d.Begun.note(out.Dispatches)
	var now []sending
	later := make(map[time.Time][]sending) // under a rate
	for i := range out.Dispatches {
		a := &out.Dispatches[i]
		d.Metrics.admittedRun(&a.Run, a.Aged, d.now())
		run := sending{Launch: a.Launch, queue: out.Queue, stalled: out.StallLevel}
		if a.StartAt.After(d.now()) {
			later[a.StartAt] = append(later[a.StartAt], run)
		} else {
			now = append(now, run)
		}
	}
	if len(now) > 0 {
		d.send(ctx, now, time.Time{})
	}
	for _, at := range slices.SortedFunc(maps.Keys(later), time.Time.Compare) {
		d.send(ctx, later[at], at)
	}
}

func (d *Dispatcher) free() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return max(0, d.MaxCalls-d.open)
}

// share is how many calls the queues of an owner may still take: a tenth of the calls at least stays
// free for other owners.
func (d *Dispatcher) share(owner string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return ledger.Share(d.openOf[owner], max(0, d.MaxCalls-d.open))
}

func (d *Dispatcher) noteLimited(queueNo int32, b *ledger.Block) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if b != nil && (b.What == ledger.BlockedByLimit || b.What == ledger.BlockedByRate) {
		d.limited[queueNo] = true
	} else {
		delete(d.limited, queueNo)
	}
}

func (d *Dispatcher) limitedNow(queueNo int32) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.limited[queueNo]
}

func (d *Dispatcher) failed(ctx context.Context, what string, err error) {
	if ctx.Err() == nil {
		d.log.Error("cannot "+what, "err", err)
	}
}
