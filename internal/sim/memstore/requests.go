package memstore

import (
	"context"
	"fmt"
	"time"

	"github.com/carillon/carillon/internal/grant"
	"github.com/carillon/carillon/internal/schedule"
)

// Begin records keys before the executor is called and says for each what may
// be done.
func (s *Store) Begin(ctx context.Context, reqs []schedule.BeginRequest, now time.Time) ([]schedule.BeginResult, error) {
	results := make([]schedule.BeginResult, len(reqs))
	err := s.write(ctx, func(t *tx) error {
		for i := range reqs {
			results[i] = t.permit(&reqs[i], now)
			t.record(&reqs[i], &results[i], now)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("begin calls: %w", err)
	}
	return results, nil
}

// permit decides on one call:
//
//   - the key is DONE, was used for another request, or is being sent: say so;
//   - a check fails: refused for good where no call has begun and fire_at has
//     come (a cancel does not wait for it), else withheld;
//   - all is well: granted, for the first time or again.
func (t *tx) permit(q *schedule.BeginRequest, now time.Time) schedule.BeginResult {
	there, known := schedule.ExecutionRequest{}, false
	if r := t.requests[q.Key]; r != nil {
		there, known = r.ExecutionRequest, true
		closedUnsent := there.RequestHash == [32]byte{} // CloseKey knows no request
		switch {
		case !closedUnsent && there.RequestHash != q.RequestHash:
			return schedule.BeginResult{Permission: schedule.Conflict, Sent: there.Sent, Request: there}
		case there.Done:
			return schedule.BeginResult{Permission: schedule.Recorded, Sent: there.Sent, Request: there}
		case now.Before(there.LeaseUntil):
			return schedule.BeginResult{Permission: schedule.Busy, Sent: there.Sent, Request: there}
		}
	}
	refusal, final, ok := t.check(q, now)
	switch {
	case ok && known:
		return schedule.BeginResult{Permission: schedule.GrantedAgain, Sent: there.Sent}
	case ok:
		return schedule.BeginResult{Permission: schedule.Granted}
	case final && !there.Sent:
		return schedule.BeginResult{Permission: schedule.Refused, Reason: refusal.Reason, Request: schedule.ExecutionRequest{
			Key: q.Key, RequestHash: q.RequestHash, Done: true, Outcome: refusal, CreatedAt: either(there.CreatedAt, now),
		}}
	}
	return schedule.BeginResult{Permission: schedule.Withheld, Sent: there.Sent, Reason: refusal.Reason}
}

// check is the last look before the executor: run, then schedule, then grant.
func (t *tx) check(q *schedule.BeginRequest, now time.Time) (refusal schedule.Outcome, final, ok bool) {
	trigger := q.Trigger
	if run := t.runs[q.Key]; run != nil {
		trigger = run.Trigger
		switch {
		case run.Status != schedule.StatusLaunching:
			return schedule.Outcome{Reason: run.Reason}, false, false
		case !run.CancelRequestedAt.IsZero():
			return schedule.Outcome{Status: schedule.StatusCancelled, Reason: run.CancelReason}, true, false
		}
	}
	s := t.schedules[q.ScheduleID]
	due := !now.Before(q.FireAt)
	switch {
	case s == nil:
	case !s.Alive():
		return schedule.Outcome{Status: schedule.StatusCancelled, Reason: schedule.ReasonDeleted}, due, false
	case trigger.FromSpec() && s.Pause.Active(now):
		return schedule.Outcome{Status: schedule.StatusSkipped, Reason: schedule.ReasonPaused}, due, false
	}
	if reason, why := grant.Judge(t.grants[q.Grant.Ref()], q.Grant, schedule.GrantJudgedAt(now, q.FireAt)); reason != schedule.ReasonNone {
		return schedule.Outcome{Status: schedule.StatusSkipped, Reason: reason, ErrorMessage: why}, due, false
	}
	return schedule.Outcome{}, false, true
}

// record writes what was permitted, for a second request with the key as well.
func (t *tx) record(q *schedule.BeginRequest, result *schedule.BeginResult, now time.Time) {
	row := schedule.ExecutionRequest{Key: q.Key, RequestHash: q.RequestHash, CreatedAt: at(now)}
	if there := t.requests[q.Key]; there != nil {
		row = there.ExecutionRequest
	}
	switch result.Permission {
	case schedule.Granted, schedule.GrantedAgain:
		if !row.Sent {
			t.firstSent[q.Key] = at(now)
		}
		row.Sent, row.LeaseUntil = true, at(now.Add(q.Lease))
		row.Calls++
		result.Request = row
		t.request(row)
	case schedule.Refused:
		row.Done, row.LeaseUntil = true, time.Time{}
		row.Outcome = result.Request.Outcome
		t.request(row)
	}
}

// Finish records definite outcomes and returns those that stand.
func (s *Store) Finish(ctx context.Context, done []schedule.FinishRequest, now time.Time) ([]schedule.Outcome, error) {
	standing := make([]schedule.Outcome, len(done))
	err := s.write(ctx, func(t *tx) error {
		for i := range done {
			standing[i] = t.finish(&done[i], now)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("finish calls: %w", err)
	}
	return standing, nil
}

func (t *tx) finish(f *schedule.FinishRequest, now time.Time) (standing schedule.Outcome) {
	there := t.requests[f.Key]
	switch {
	case there == nil:
		return f.Outcome
	case there.Done && !f.Outcome.Supersedes(there.Outcome):
		return there.Outcome
	case there.Done:
		t.settleAll([]schedule.Settlement{f.Settlement(now)}, now)
	}
	row := there.ExecutionRequest
	row.Done, row.LeaseUntil, row.Outcome = true, time.Time{}, f.Outcome
	if f.Unsent {
		row.Calls--
	}
	t.request(row)
	return f.Outcome
}

// Extend gives the open calls of the leases that still hold new ones.
func (s *Store) Extend(ctx context.Context, open []schedule.LeaseExtension, now time.Time) (held []time.Time, err error) {
	err = s.write(ctx, func(t *tx) error {
		type call struct {
			key  schedule.Key
			held time.Time
		}
		held = make([]time.Time, len(open))
		extended := make(map[call]time.Time, len(open))
		for i, x := range open {
			c, there := call{x.Key, at(x.Held)}, t.requests[x.Key]
			until, again := extended[c]
			if !again && there != nil && !there.Done && !x.Held.IsZero() && there.LeaseUntil.Equal(c.held) {
				until = at(now.Add(x.Lease))
				row := there.ExecutionRequest
				row.LeaseUntil, extended[c] = until, until
				t.request(row)
			}
			held[i] = until
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("extend leases: %w", err)
	}
	return held, nil
}

// Release ends the lease of a call whose outcome is unknown, if it is still the
// one that was granted.
func (s *Store) Release(ctx context.Context, key schedule.Key, lease time.Time, calls int32, now time.Time) error {
	err := s.write(ctx, func(t *tx) error {
		if there := t.requests[key]; there != nil && !there.Done && !lease.IsZero() && there.LeaseUntil.Equal(at(lease)) {
			row := there.ExecutionRequest
			row.LeaseUntil, row.Sent, row.Calls = time.Time{}, calls > 0, calls
			t.request(row)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("release key %s: %w", key, err)
	}
	return nil
}

// CloseKey ends a key of which no call has begun, as DONE and cancelled.
func (s *Store) CloseKey(ctx context.Context, key schedule.Key, reason schedule.Reason, now time.Time) (closed bool, recorded schedule.ExecutionRequest, err error) {
	err = s.write(ctx, func(t *tx) error {
		recorded = schedule.ExecutionRequest{Key: key, CreatedAt: at(now)}
		if there := t.requests[key]; there != nil {
			if there.Done || there.Sent || now.Before(there.LeaseUntil) {
				recorded = there.ExecutionRequest
				return nil
			}
			recorded.RequestHash, recorded.CreatedAt = there.RequestHash, there.CreatedAt
		}
		closed, recorded.Done = true, true
		recorded.Outcome = schedule.Outcome{Status: schedule.StatusCancelled, Reason: reason}
		t.request(recorded)
		return nil
	})
	if err != nil {
		return false, schedule.ExecutionRequest{}, fmt.Errorf("close key %s: %w", key, err)
	}
	return closed, recorded, nil
}
