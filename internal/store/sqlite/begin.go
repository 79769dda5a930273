package sqlite

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
	var results []schedule.BeginResult
	err := s.write(ctx, func(ctx context.Context, t tx) error {
		results = make([]schedule.BeginResult, len(reqs))
		b, err := s.readBeginning(ctx, t, reqs)
		if err != nil {
			return err
		}
		b.now = now
		for i := range reqs {
			results[i] = b.permit(&reqs[i], b.clean[i])
			if err := b.record(ctx, t, &reqs[i], &results[i]); err != nil {
				return fmt.Errorf("key %s: %w", reqs[i].Key, err)
			}
		}
		return b.insert(ctx, t)
	})
	if err != nil {
		return nil, fmt.Errorf("begin calls: %w", err)
	}
	return results, nil
}

// beginning is what stands when calls are about to begin.
type beginning struct {
	now       time.Time
	clean     []bool // of the requests: nothing but its grant can be against it
	requests  map[schedule.Key]schedule.ExecutionRequest
	runs      map[schedule.Key]schedule.Run // only what the checks need
	schedules map[string]schedule.Schedule  // likewise
	grants    map[schedule.GrantRef]*schedule.Grant
	granted   []any // the arguments of keys that are new, in order
}

// beginArgs is how many arguments a new key has.
const beginArgs = 5

func (s *Store) readBeginning(ctx context.Context, t tx, reqs []schedule.BeginRequest) (*beginning, error) {
	var keys []schedule.Key
	var ids []string
	refs := make([]schedule.GrantRef, len(reqs))
	b := &beginning{runs: make(map[schedule.Key]schedule.Run), schedules: make(map[string]schedule.Schedule)}
	var err error
	if b.clean, err = s.readClean(ctx, t, reqs); err != nil {
		return nil, fmt.Errorf("read runs that nothing is against: %w", err)
	}
	for i := range reqs {
		refs[i] = reqs[i].Grant.Ref()
		if !b.clean[i] {
			keys = append(keys, reqs[i].Key)
			ids = append(ids, reqs[i].ScheduleID)
		}
	}
	if b.requests, err = readRequests(ctx, t, keys); err != nil {
		return nil, fmt.Errorf("read requests: %w", err)
	}
	var row runRow
	err = t.query(ctx, sqlBeginRuns, func(scan scan) error {
		err := scan(&row.key, &row.scheduleID, &row.status, &row.reason, &row.trigger, &row.cancel, &row.cancelReason)
		b.runs[schedule.Key(row.key)] = row.run()
		return err
	}, keyList(keys))
	if err != nil {
		return nil, fmt.Errorf("read runs: %w", err)
	}
	var id string
	var deleted, until instant
	var paused flag
	err = t.query(ctx, sqlBeginSchedules, func(scan scan) error {
		err := scan(&id, &deleted, &paused, &until)
		b.schedules[id] = schedule.Schedule{DeletedAt: deleted.Time, Pause: schedule.Pause{Paused: bool(paused), Until: until.Time}}
		return err
	}, list(ids))
	if err != nil {
		return nil, fmt.Errorf("read schedules: %w", err)
	}
	if b.grants, err = readGrants(ctx, t, refs); err != nil {
		return nil, err
	}
	return b, nil
}

// readClean reads of which requests all is well, as it nearly always is: the
// run is LAUNCHING, no cancel was asked for, the schedule lives and has no
// pause, and nobody has recorded the key. One statement says so of many, where
// what is against a call takes three.
func (s *Store) readClean(ctx context.Context, t tx, reqs []schedule.BeginRequest) ([]bool, error) {
	clean, rows := make([]bool, len(reqs)), make([]int64, len(reqs))
	for i, p := range s.places.of(len(reqs), func(i int) schedule.Key { return reqs[i].Key }) {
		rows[i] = p.row
	}
	var at int
	var k key
	var id string
	err := t.query(ctx, sqlBeginClean, func(scan scan) error {
		if err := scan(&at, &k, &id); err != nil {
			return err
		}
		clean[at] = reqs[at].Key == schedule.Key(k) && reqs[at].ScheduleID == id
		return nil
	}, rowList(rows))
	return clean, err
}

// permit decides on one call:
//
//   - the key is DONE, was used for another request, or is being sent: say so;
//   - a check fails: refused for good where no call has begun and fire_at has
//     come (a cancel does not wait for it), else withheld;
//   - all is well: granted, for the first time or again.
func (b *beginning) permit(q *schedule.BeginRequest, clean bool) schedule.BeginResult {
	there, known := b.requests[q.Key]
	if known {
		closedUnsent := there.RequestHash == [32]byte{} // CloseKey knows no request
		switch {
		case !closedUnsent && there.RequestHash != q.RequestHash:
			return schedule.BeginResult{Permission: schedule.Conflict, Sent: there.Sent, Request: there}
		case there.Done:
			return schedule.BeginResult{Permission: schedule.Recorded, Sent: there.Sent, Request: there}
		case b.now.Before(there.LeaseUntil):
			return schedule.BeginResult{Permission: schedule.Busy, Sent: there.Sent, Request: there}
		}
	}
	refusal, final, ok := b.check(q, clean)
	switch {
	case ok && known:
		return schedule.BeginResult{Permission: schedule.GrantedAgain, Sent: there.Sent}
	case ok:
		return schedule.BeginResult{Permission: schedule.Granted}
	case final && !there.Sent:
		return schedule.BeginResult{Permission: schedule.Refused, Reason: refusal.Reason, Request: schedule.ExecutionRequest{
			Key: q.Key, RequestHash: q.RequestHash, Done: true, Outcome: refusal, CreatedAt: either(there.CreatedAt, b.now),
		}}
	}
	return schedule.BeginResult{Permission: schedule.Withheld, Sent: there.Sent, Reason: refusal.Reason}
}

// check is the last look before the executor: run, then schedule, then grant.
func (b *beginning) check(q *schedule.BeginRequest, clean bool) (refusal schedule.Outcome, final, ok bool) {
	run, hasRun := b.runs[q.Key]
	trigger := q.Trigger
	if hasRun {
		trigger = run.Trigger
		switch {
		case run.Status != schedule.StatusLaunching:
			return schedule.Outcome{Reason: run.Reason}, false, false
		case !run.CancelRequestedAt.IsZero():
			return schedule.Outcome{Status: schedule.StatusCancelled, Reason: run.CancelReason}, true, false
		}
	}
	s, hasSchedule := b.schedules[q.ScheduleID]
	due := !b.now.Before(q.FireAt)
	switch {
	case clean, !hasSchedule:
	case !s.Alive():
		return schedule.Outcome{Status: schedule.StatusCancelled, Reason: schedule.ReasonDeleted}, due, false
	case trigger.FromSpec() && s.Pause.Active(b.now):
		return schedule.Outcome{Status: schedule.StatusSkipped, Reason: schedule.ReasonPaused}, due, false
	}
	if reason, why := grant.Judge(b.grants[q.Grant.Ref()], q.Grant, schedule.GrantJudgedAt(b.now, q.FireAt)); reason != schedule.ReasonNone {
		return schedule.Outcome{Status: schedule.StatusSkipped, Reason: reason, ErrorMessage: why}, due, false
	}
	return schedule.Outcome{}, false, true
}

// record writes what was permitted, for a second request with the key as well.
func (b *beginning) record(ctx context.Context, t tx, q *schedule.BeginRequest, result *schedule.BeginResult) (err error) {
	now, lease := b.now.UnixMicro(), b.now.Add(q.Lease).UTC().Truncate(time.Microsecond)
	if result.Permission == schedule.GrantedAgain || result.Permission == schedule.Refused {
		if err := b.insert(ctx, t); err != nil { // this key may be among them
			return err
		}
	}
	switch result.Permission {
	case schedule.Granted:
		b.granted = append(b.granted, keyArg(q.Key), q.RequestHash[:], lease.UnixMicro(), now, now)
		result.Request = schedule.ExecutionRequest{Key: q.Key, RequestHash: q.RequestHash, Sent: true, Calls: 1, LeaseUntil: lease, CreatedAt: b.now}
		b.requests[q.Key] = result.Request
	case schedule.GrantedAgain:
		_, err = t.exec(ctx, sqlBeginAgain, lease.UnixMicro(), now, keyArg(q.Key))
		there := b.requests[q.Key]
		there.Sent, there.LeaseUntil = true, lease
		there.Calls++
		result.Request, b.requests[q.Key] = there, there
	case schedule.Refused:
		o := result.Request.Outcome
		_, err = t.exec(ctx, sqlRefuse, keyArg(q.Key), q.RequestHash[:], string(o.Status), word(o.Reason), now, word(o.ErrorMessage))
		b.requests[q.Key] = result.Request
	}
	return err
}

// insert puts down the keys that were granted for the first time.
func (b *beginning) insert(ctx context.Context, t tx) error {
	for left := b.granted; len(left) > 0; {
		statement, n := portion(sqlBeginInsert, sqlBeginInserts, len(left)/beginArgs)
		if _, err := t.exec(ctx, statement, left[:n*beginArgs]...); err != nil {
			return fmt.Errorf("record %d keys: %w", n, err)
		}
		left = left[n*beginArgs:]
	}
	b.granted = nil
	return nil
}
