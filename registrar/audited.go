package registrar

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/auth"
	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

// A change and its audit entry are written in one transaction: the stores below add the entry to
// every change of an audited call. Refused calls are recorded after the fact, in the API layer.

type auditedSchedules struct{ ScheduleStore }

func (s auditedSchedules) ChangeSchedules(ctx context.Context, req schedule.ChangeRequest, decide func([]schedule.ChangeInput) ([]schedule.Change, error)) error {
	call := auth.CallFrom(ctx)
	if call == nil || !call.Audited {
		return s.ScheduleStore.ChangeSchedules(ctx, req, decide)
	}
	err := s.ScheduleStore.ChangeSchedules(ctx, req, func(found []schedule.ChangeInput) ([]schedule.Change, error) {
		before := make(map[string]*schedule.Schedule, len(found))
		for _, in := range found {
			if in.Schedule != nil {
				before[in.Schedule.ScheduleID] = in.Schedule
			}
		}
		changes, err := decide(found)
		for i := range changes {
			changes[i].Audit = auditOf(call, &changes[i], before[changes[i].ScheduleID])
		}
		return changes, err
	})
	if err == nil {
		call.Recorded = true // also where nothing changed: then there is nothing to record
	}
	return err
}

func auditOf(call *auth.Call, c *schedule.Change, before *schedule.Schedule) *schedule.AuditEntry {
	e := entry(call, c.ScheduleID, c.Now)
	after := c.Row
	if before != nil {
		e.RevisionBefore, e.RevisionAfter, e.UserID = before.Revision, before.Revision, before.UserID
	}
	if after != nil {
		e.RevisionAfter, e.UserID = after.Revision, after.UserID
	}
	return e
}

type auditedRuns struct{ RunStore }

func (s auditedRuns) ChangeRun(ctx context.Context, key, existing schedule.Key, decide func(schedule.RunInput) (schedule.RunChange, error)) (schedule.Run, bool, error) {
	call := auth.CallFrom(ctx)
	if call == nil || !call.Audited {
		return s.RunStore.ChangeRun(ctx, key, existing, decide)
	}
	run, moved, err := s.RunStore.ChangeRun(ctx, key, existing, func(found schedule.RunInput) (schedule.RunChange, error) {
		change, err := decide(found)
		if change.Settle != nil || change.AskCancel != "" || change.Insert != nil {
			change.Audit = entry(call, key.String(), change.Now)
			change.Audit.UserID = found.Run.UserID
		}
		return change, err
	})
	if err == nil {
		call.Recorded = true
	}
	return run, moved, err
}

// RedriveRuns adds one entry for each schedule whose runs are redriven.
func (s auditedRuns) RedriveRuns(ctx context.Context, f schedule.RunFilter, decide func([]schedule.RunInput) (schedule.RedriveChange, error)) (schedule.RunPage, error) {
	call := auth.CallFrom(ctx)
	if call == nil || !call.Audited {
		return s.RunStore.RedriveRuns(ctx, f, decide)
	}
	page, err := s.RunStore.RedriveRuns(ctx, f, func(found []schedule.RunInput) (schedule.RedriveChange, error) {
		change, err := decide(found)
		owners := make(map[string]string)
		for i := range change.Runs {
			owners[change.Runs[i].ScheduleID] = change.Runs[i].UserID
		}
		for _, scheduleID := range slices.Sorted(maps.Keys(owners)) {
			e := entry(call, scheduleID, change.Now)
			e.UserID = owners[scheduleID]
			change.Audit = append(change.Audit, *e)
		}
		return change, err
	})
	if err == nil {
		call.Recorded = true
	}
	return page, err
}

// CancelRuns adds one entry for each schedule whose runs are cancelled.
func (s auditedRuns) CancelRuns(ctx context.Context, f schedule.RunFilter, decide func([]schedule.Run) (schedule.CancelChange, error)) (schedule.RunPage, error) {
	call := auth.CallFrom(ctx)
	if call == nil || !call.Audited {
		return s.RunStore.CancelRuns(ctx, f, decide)
	}
	page, err := s.RunStore.CancelRuns(ctx, f, func(found []schedule.Run) (schedule.CancelChange, error) {
		change, err := decide(found)
		owners := make(map[string]string)
		for i := range found {
			owners[found[i].ScheduleID] = found[i].UserID
		}
		for i := range change.Events { // one of each schedule
			e := entry(call, change.Events[i].ScheduleID, change.Now)
			e.UserID = owners[change.Events[i].ScheduleID]
			change.Audit = append(change.Audit, *e)
		}
		return change, err
	})
	if err == nil {
		call.Recorded = true
	}
	return page, err
}

func entry(call *auth.Call, target string, now time.Time) *schedule.AuditEntry {
	return &schedule.AuditEntry{
		Time: now, Subject: call.Identity.Subject, Via: call.Identity.Via, Method: call.Name(), Target: target,
		RequestID: call.RequestID, Code: "OK",
	}
}

type auditedQueues struct{ QueueStore }

func (s auditedQueues) ChangeQueue(ctx context.Context, queueID string, decide func(*schedule.Queue) (schedule.QueueChange, error)) (*schedule.Queue, error) {
	call := auth.CallFrom(ctx)
	if call == nil || !call.Audited {
		return s.QueueStore.ChangeQueue(ctx, queueID, decide)
	}
	after, err := s.QueueStore.ChangeQueue(ctx, queueID, func(before *schedule.Queue) (schedule.QueueChange, error) {
		change, err := decide(before)
		if after := change.After; after != nil {
			change.Audit = entry(call, queueID, after.UpdatedAt)
			change.Audit.UserID, change.Audit.RevisionAfter = after.UserID, after.Revision
			if before != nil {
				change.Audit.RevisionBefore = before.Revision
			}
		}
		return change, err
	})
	if err == nil {
		call.Recorded = true
	}
	return after, err
}

type auditedLimits struct{ LimitStore }

func (s auditedLimits) ChangeLimit(ctx context.Context, limitID string, decide func(schedule.LimitFacts) (schedule.LimitChange, error)) (*schedule.Limit, error) {
	call := auth.CallFrom(ctx)
	if call == nil || !call.Audited {
		return s.LimitStore.ChangeLimit(ctx, limitID, decide)
	}
	after, err := s.LimitStore.ChangeLimit(ctx, limitID, func(f schedule.LimitFacts) (schedule.LimitChange, error) {
		change, err := decide(f)
		if err == nil && !change.Empty() {
			change.Audit = auditOfLimit(call, limitID, &f, &change)
		}
		return change, err
	})
	if err == nil {
		call.Recorded = true
	}
	return after, err
}

// auditOfLimit names a key as a run does: customer=a7.
func auditOfLimit(call *auth.Call, limitID string, f *schedule.LimitFacts, c *schedule.LimitChange) *schedule.AuditEntry {
	target := schedule.LimitRef{ID: limitID, Key: c.DropKey}
	if c.Key != nil {
		target.Key = c.Key.Key
	}
	e := entry(call, target.String(), c.Now)
	if f.Limit != nil {
		e.UserID, e.RevisionBefore, e.RevisionAfter = f.Limit.UserID, f.Limit.Revision, f.Limit.Revision
	}
	if c.After != nil {
		e.UserID, e.RevisionAfter = c.After.UserID, c.After.Revision
	}
	return e
}

type auditedReservations struct{ ReservationStore }

// ChangeReservations adds one entry for a new reservation, by its queue, and for a released one, by
// its id.
func (s auditedReservations) ChangeReservations(ctx context.Context, req schedule.ReserveRequest, decide func(ledger.QueueFacts, *schedule.EnqueueRecord) (schedule.ReserveChange, error)) (ledger.QueueFacts, ledger.Reserved, error) {
	call := auth.CallFrom(ctx)
	if call == nil || !call.Audited {
		return s.ReservationStore.ChangeReservations(ctx, req, decide)
	}
	after, out, err := s.ReservationStore.ChangeReservations(ctx, req, func(f ledger.QueueFacts, earlier *schedule.EnqueueRecord) (schedule.ReserveChange, error) {
		c, err := decide(f, earlier)
		switch {
		case err != nil:
		case c.Add != nil:
			c.Audit = entry(call, req.QueueID, c.Now)
			c.Audit.UserID = c.Add.UserID
		case len(c.Release) == 1:
			c.Audit = entry(call, c.Release[0].String(), c.Now)
			for i := range f.Reserved {
				if f.Reserved[i].ID == c.Release[0] {
					c.Audit.UserID = f.Reserved[i].UserID
				}
			}
		}
		return c, err
	})
	if err == nil {
		call.Recorded = true
	}
	return after, out, err
}
