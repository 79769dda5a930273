package dispatch

import (
	"context"
	"errors"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// deletionsSeen is how long sweeps look into a queue after its deletion: much longer than the
// transaction of an entry that began before. The first sweep of a process looks into all deleted
// queues.
const deletionsSeen = 10 * time.Minute

// orphansEvery is between two looks for uses of limits without a run.
const orphansEvery = time.Minute

// sweep looks at runs that are due, and returns when to sweep again.
func (d *Dispatcher) sweep(ctx context.Context, now time.Time) (next time.Time) {
	short, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	swept, err := d.Store.SweepQueues(short, schedule.QueueSweep{
		SweepRequest: schedule.SweepRequest{Now: now, CancelWait: d.CancelWait, RetryFor: d.RetryFor, Limit: maxBatch}, Free: d.free(), DeletedSince: d.deletedSince,
		Orphans: !now.Before(d.nextOrphans),
	})
	if err != nil {
		d.failed(ctx, "sweep queues", err)
		return now.Add(tick)
	}
	d.held, d.deletedSince = swept.Held, now.Add(-deletionsSeen)
	if !now.Before(d.nextOrphans) {
		d.nextOrphans = now.Add(orphansEvery)
	}
	if swept.Orphans > 0 {
		d.Metrics.orphanUses.Add(float64(swept.Orphans))
		d.log.Error("uses of limits without a run deleted", "uses", swept.Orphans)
	}
	for i := range swept.Ended {
		run := &swept.Ended[i].Run
		d.ended(run.Status, run.Reason, swept.Ended[i].Before == schedule.StatusLaunching)
		if run.Reason == schedule.ReasonDeadline && run.Queue.Worker == "" {
			d.calls.Go(func() { d.cancel(run) })
		}
		d.log.Warn("run ended past a bound", "schedule_id", run.ScheduleID, "key", run.Key.String(), "status", string(run.Status), "reason", string(run.Reason))
	}
	if len(swept.Resend) > 0 {
		runs := make([]sending, len(swept.Resend))
		for i := range swept.Resend {
			runs[i] = sending{Launch: swept.Resend[i], queue: swept.Queues[swept.Resend[i].Run.Queue.No]}
		}
		d.send(ctx, runs, time.Time{})
	}
	for i := range swept.Cancels {
		d.calls.Go(func() { d.cancel(&swept.Cancels[i]) })
	}
	last := now.Add(tick)
	switch {
	case swept.Held:
		return last
	case swept.More:
		return now
	case !swept.NextDue.IsZero() && swept.NextDue.Before(last):
		return swept.NextDue
	}
	return last
}

// cancel sends the cancel of a run to the executor. An unconfirmed one is sent again until
// CancelWait is over.
func (d *Dispatcher) cancel(run *schedule.Run) {
	confirmed, err := d.Launcher.Cancel(context.Background(), schedule.CancelOf(run))
	switch {
	case errors.Is(err, schedule.ErrUnsupported):
		d.log.Debug("the executor cannot cancel: the run continues", "schedule_id", run.ScheduleID, "key", run.Key.String())
	case err != nil:
		d.log.Warn("cannot send the cancel", "schedule_id", run.ScheduleID, "key", run.Key.String(), "err", err)
	case confirmed && !run.Status.Terminal():
		d.settle(&sending{Launch: schedule.Launch{Run: *run}}, schedule.Settlement{
			Key: run.Key, To: schedule.StatusCancelled, Reason: run.CancelReason, CompletedAt: d.now(),
		})
		d.Wake()
	}
}
