package registrar

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/plan"
	"github.com/carillon/carillon/internal/schedule"
)

// Trigger starts a run now, also of a paused or exhausted schedule. Under skip
// with a run in flight it answers ErrPrecondition and writes nothing.
func (r *Registrar) Trigger(ctx context.Context, in TriggerInput) (schedule.Run, error) {
	if err := r.checkTrigger(&in); err != nil {
		return schedule.Run{}, err
	}
	if err := r.checkPolicyKnown(ctx, in.OverlapPolicy); err != nil {
		return schedule.Run{}, err
	}
	var err error
	if in.ScheduleID, err = r.ScheduleID(ctx, in.ScheduleID); err != nil {
		return schedule.Run{}, err
	}
	key := schedule.ManualKey(in.ScheduleID, in.RequestID)
	if run, err := r.askedBefore(ctx, key, in); run != nil || err != nil {
		return value(run, schedule.Run{}), err
	}
	req := schedule.ChangeRequest{ScheduleIDs: []string{in.ScheduleID}, CountInFlight: true}
	err = r.schedules.ChangeSchedules(ctx, req, func(found []schedule.ChangeInput) ([]schedule.Change, error) {
		s := found[0].Schedule
		if s == nil || !s.Alive() {
			return nil, notFound(in.ScheduleID)
		}
		if err := refuseConsumer(s, "start"); err != nil {
			return nil, err
		}
		change := manualChange(s, in.RequestID, in.Actor, in.OverlapPolicy, r.now())
		change.Runs[0].Input = in.Input
		if err := refuseOverlap(change.Runs[0], found[0].InFlight); err != nil {
			return nil, err
		}
		return []schedule.Change{change}, nil
	})
	// Also after a refusal: the same request may run concurrently, and then its run is the one in
	// flight.
	run, lookErr := r.askedBefore(ctx, key, in)
	switch {
	case run == nil && err != nil:
		return schedule.Run{}, err
	case run == nil || lookErr != nil:
		return schedule.Run{}, cmp.Or(lookErr, schedule.Explain(schedule.ErrNotFound, "the run of request_id %q is already deleted", in.RequestID))
	}
	r.log.InfoContext(ctx, "run requested", "schedule_id", in.ScheduleID, "key", key.String(), "trigger", string(schedule.TriggerManual))
	return *run, nil
}

// manualChange starts a schedule now, under the key of a request. policy "": that of the schedule.
func manualChange(s *schedule.Schedule, requestID, actor string, policy schedule.OverlapPolicy, now time.Time) schedule.Change {
	row := plan.NewRow(s, plan.Slot{Key: schedule.ManualKey(s.ScheduleID, requestID)}, schedule.TriggerManual, policy)
	row.RunAt = now.Truncate(time.Millisecond)
	row.FireAt, row.RequestedBy = row.RunAt, actor
	e := newEvent(s, schedule.EventTriggered, actor, now)
	e.From, e.To, e.Count, e.Note = row.RunAt, row.RunAt, 1, "request_id "+requestID
	return schedule.Change{ScheduleID: s.ScheduleID, Runs: []schedule.Run{row}, Events: []schedule.Event{e}, Now: now}
}

// askedBefore is the run that the same request has made, if it has; another
// request under the same id is ErrKeyConflict.
func (r *Registrar) askedBefore(ctx context.Context, key schedule.Key, in TriggerInput) (*schedule.Run, error) {
	run, err := r.runs.GetRun(ctx, key)
	if errors.Is(err, schedule.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(run.Input, in.Input) || in.OverlapPolicy != "" && run.OverlapPolicy != in.OverlapPolicy {
		return nil, schedule.Explain(schedule.ErrKeyConflict,
			"request_id %q was used before with another input or overlap_policy; use a new one", in.RequestID)
	}
	return run, nil
}

func (r *Registrar) checkTrigger(in *TriggerInput) error {
	var c schedule.Collect
	in.RequestID = orDefault(in.RequestID, rand.Text())
	checkID(&c, "schedule_id", in.ScheduleID)
	checkID(&c, "request_id", in.RequestID)
	checkInput(&c, in.Input)
	r.checkOwnPolicy(&c, in.OverlapPolicy)
	return c.Err()
}

func (r *Registrar) checkOwnPolicy(c *schedule.Collect, p schedule.OverlapPolicy) {
	if p == "" {
		return
	}
	checkWord(c, "overlap_policy", p, schedule.OverlapPolicies)
	if p == schedule.OverlapReplace && !r.cfg.CanCancel {
		c.Add("overlap_policy", p, "needs an executor that can cancel", "use allow, queue or coalesce")
	}
}

// refuseOverlap refuses at once what the claim would skip.
func refuseOverlap(row schedule.Run, inFlight int) error {
	if row.OverlapPolicy != schedule.OverlapSkip || inFlight == 0 {
		return nil
	}
	return schedule.Explain(schedule.ErrPrecondition,
		"cannot start: overlap_policy is skip and a run of overlap key %q is in flight; wait for it, cancel it, or use overlap_policy allow or queue", row.OverlapKey)
}

// retryable are the ends after which a new attempt makes sense.
var retryable = []schedule.Status{schedule.StatusFailed, schedule.StatusSkipped, schedule.StatusCancelled}

// RetryRun runs a failed, skipped or cancelled run again as a new attempt, with its definition and
// input, under the current overlap policy of its schedule or the requested one.
func (r *Registrar) RetryRun(ctx context.Context, in RetryInput) (schedule.Run, error) {
	in.RequestID = orDefault(in.RequestID, rand.Text())
	var c schedule.Collect
	checkID(&c, "request_id", in.RequestID)
	r.checkOwnPolicy(&c, in.OverlapPolicy)
	if err := c.Err(); err != nil {
		return schedule.Run{}, err
	}
	if err := r.checkPolicyKnown(ctx, in.OverlapPolicy); err != nil {
		return schedule.Run{}, err
	}
	key := schedule.RetryKey(in.Key, in.RequestID)
	run, _, err := r.runs.ChangeRun(ctx, in.Key, key, func(found schedule.RunInput) (schedule.RunChange, error) {
		if found.Existing != nil {
			return schedule.RunChange{}, nil // asked before; read below
		}
		return r.retry(found, in, r.now())
	})
	if err != nil {
		return schedule.Run{}, err
	}
	if run.Key != key {
		again, err := r.runs.GetRun(ctx, key)
		if err != nil {
			return schedule.Run{}, err
		}
		return *again, nil
	}
	r.log.InfoContext(ctx, "run requested", "schedule_id", run.ScheduleID, "key", key.String(), "trigger", string(schedule.TriggerRetry))
	return run, nil
}

func (r *Registrar) retry(found schedule.RunInput, in RetryInput, now time.Time) (schedule.RunChange, error) {
	old := found.Run
	if !slices.Contains(retryable, old.Status) {
		return schedule.RunChange{}, schedule.Explain(schedule.ErrPrecondition,
			"cannot retry: the run %s; only FAILED, SKIPPED and CANCELLED runs can be retried", old.Status.Clause())
	}
	if found.Schedule == nil || !found.Schedule.Alive() {
		return schedule.RunChange{}, schedule.Explain(schedule.ErrPrecondition, "cannot retry: schedule %q is deleted", old.ScheduleID)
	}
	if ledger.MayHaveEvents(&old) {
		if err := refuseConsumer(found.Schedule, "retry"); err != nil {
			return schedule.RunChange{}, err
		}
	}
	row := ledger.RetryByHand(&old, found.Definition, found.Queue, &schedule.RedriveOrder{RequestID: in.RequestID, RequestedBy: in.Actor, Renew: in.Renew, JobAttempts: r.cfg.DefaultMaxAttempts}, now)
	// The overlap policy is today's, not that of the revision.
	row.OverlapPolicy = cmp.Or(in.OverlapPolicy, found.Schedule.OverlapPolicy)
	if old.IsJob() { // it takes no part in overlap
		if !found.Queue.Alive() {
			return schedule.RunChange{}, schedule.Explain(schedule.ErrPrecondition, "cannot retry: the queue of the run is deleted")
		}
		row.OverlapPolicy = schedule.OverlapAllow
	}
	row.Exclusive = row.OverlapPolicy.Exclusive()
	if err := refuseOverlap(row, found.InFlight); err != nil {
		return schedule.RunChange{}, err
	}
	e := newEvent(found.Schedule, schedule.EventRetried, in.Actor, now)
	e.From, e.To, e.Count, e.Note = old.RunAt, old.RunAt, 1, "request_id "+in.RequestID
	return schedule.RunChange{Insert: &row, Redriven: true, Events: []schedule.Event{e}, Now: now}, nil
}
