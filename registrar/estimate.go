package registrar

import (
	"cmp"
	"context"
	"math"
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/work"
	"github.com/carillon/carillon/registrar/explain"
)

// estimateWork is what an estimate may cost: a quarter of a call that looks ahead, as it is part of the
// explanation of one run.
const estimateWork = work.PerCall / 4

// estimateStart estimates when a run that waits in a queue starts; nil: this process cannot.
func (r *Registrar) estimateStart(ctx context.Context, f *explain.RunFacts) (*ledger.Estimate, error) {
	var none string
	switch {
	case r.copies == nil || f.Queue == nil:
		return nil, nil
	case f.Launchers == 0:
		none = "No estimate of its start: no process with the role launcher was seen in the last minute"
	case f.Queue.Unfetched(f.Now):
		none = "No estimate of its start: no worker fetches runs of the queue"
	case f.Run.Queue.State == schedule.QueueWaiting && f.Position == 0:
		none = "No estimate of its start: more than 10000 runs come before it"
	}
	if none != "" {
		e := ledger.NoEstimate(none)
		return &e, nil
	}
	copied, err := r.copies.ReadQueueCopy(ctx, schedule.QueueCopyRequest{QueueNo: f.Run.Queue.No, Runs: ledger.MaxCopied, Now: f.Now})
	if err != nil || copied.Queue == nil {
		return nil, err
	}
	return r.playStart(ctx, &copied, f.Run.Key, f.Now)
}

func (r *Registrar) playStart(ctx context.Context, c *ledger.QueueCopy, key schedule.Key, now time.Time) (*ledger.Estimate, error) {
	budget := work.New(estimateWork)
	defer func() { r.worked("estimate", budget.Spent()) }()
	e := ledger.EstimateStart(c, key, now, budget.Meter(ctx))
	return &e, ctx.Err()
}

// estimateSlot estimates when a slot ahead starts in the queue that its schedule names; nil: it has none,
// or it is not known.
func (r *Registrar) estimateSlot(ctx context.Context, s *schedule.Schedule, a *explain.Answer) (*ledger.Estimate, error) {
	if r.copies == nil || a.Verdict != explain.VerdictWillFire || s.QueueID == "" || a.Slot == nil || r.queues == nil {
		return nil, nil
	}
	q, err := r.queues.GetQueue(ctx, s.QueueID)
	if err != nil || !q.Alive() || q.Closed {
		return nil, nil //nolint:nilerr // the slot will tell; the answer is of use without it
	}
	limits, err := schedule.MergeLimits(q.Limits, s.Limits)
	if err != nil {
		return nil, nil //nolint:nilerr // likewise
	}
	limits = r.bounded(limits)
	c, err := r.copies.ReadQueueCopy(ctx, schedule.QueueCopyRequest{QueueNo: q.No, Runs: ledger.MaxCopied, Limits: []schedule.Limits{limits}, Now: a.Now})
	if err != nil || c.Queue == nil {
		return nil, err
	}
	run := schedule.Run{
		Key: schedule.SlotKey(s.ScheduleID, a.At), UserID: s.UserID, Priority: s.Priority, Trigger: schedule.TriggerSchedule,
		Queue: schedule.QueuePlace{No: q.No, Position: math.MaxInt64, EnqueuedAt: a.Slot.FireAt, Limits: limits},
	}
	run.Queue.Priority = schedule.SlotPriority(&run)
	c.Runs = append(c.Runs, ledger.CopiedRun{
		WaitingRun: ledger.Waiting(&run), QueueNo: q.No, FairKey: cmp.Or(s.FairKey, s.UserID), Workflow: s.WorkflowID, State: schedule.QueueDelayed, Ready: a.Slot.FireAt,
	})
	return r.playStart(ctx, &c, run.Key, a.Now)
}
