package postgres

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/carillon/carillon/internal/schedule"
)

// The states of an execution request.
const (
	stateInProgress = "IN_PROGRESS"
	stateDone       = "DONE"
)

// Begin records keys before the executor is called and says for each what may
// be done; see launcher.Store. What it reads it does not lock: the writes say
// themselves whether another Begin came between, and then all is read again.
// Nearly all keys are new ones. So they are taken for new at first, and what is
// remembered of them is read only if that is not granted, or not so.
func (s *Store) Begin(ctx context.Context, reqs []schedule.BeginRequest, now time.Time) ([]schedule.BeginResult, error) {
	if len(reqs) == 0 {
		return nil, nil
	}
	var results []schedule.BeginResult
	recall := false
	err := s.transact(ctx, func(tx pgx.Tx) error {
		checks, err := readChecks(ctx, tx, reqs, now)
		if err != nil {
			return err
		}
		if err := checkGrants(ctx, tx, reqs, checks, now); err != nil {
			return err
		}
		b := beginning{now: now, memory: make(map[schedule.Key]*schedule.ExecutionRequest, len(reqs))}
		if !recall {
			recall = true
			if results = b.decideAll(reqs, checks); allGranted(results) {
				return alreadyThere(b.write(ctx, tx, sqlBeginInsertNew), requestsKey)
			}
			b = beginning{now: now, memory: make(map[schedule.Key]*schedule.ExecutionRequest, len(reqs))}
		}
		if err := b.recall(ctx, tx, reqs); err != nil {
			return err
		}
		results = b.decideAll(reqs, checks)
		return b.write(ctx, tx, sqlBeginInsert)
	})
	if err != nil {
		return nil, fmt.Errorf("begin: %w", err)
	}
	return results, nil
}

func allGranted(results []schedule.BeginResult) bool {
	return !slices.ContainsFunc(results, func(r schedule.BeginResult) bool { return r.Permission != schedule.Granted })
}

// beginning is one Begin under way. memory is execution_requests as it will be,
// so that a key named twice meets its first request.
type beginning struct {
	now     time.Time
	memory  map[schedule.Key]*schedule.ExecutionRequest
	fresh   []schedule.ExecutionRequest // rows to insert
	again   []schedule.ExecutionRequest // leases to take over
	refused []schedule.ExecutionRequest // rows to close
}

// beginCheck is what stands against calling the executor for a key.
type beginCheck struct {
	status                         schedule.Status // "": the ledger has no such run
	reason, cancelReason           pgtype.Text
	cancelAsked, deleted, standing bool              // standing: the schedule is paused
	ungranted                      *schedule.Outcome // nil: its grant allows it
}

func readChecks(ctx context.Context, tx pgx.Tx, reqs []schedule.BeginRequest, now time.Time) ([]beginCheck, error) {
	var (
		place  int
		status pgtype.Text
		check  beginCheck
		checks = make([]beginCheck, len(reqs))
	)
	err := each(ctx, tx, []any{
		&place, &status, &check.reason, &check.cancelAsked, &check.cancelReason, &check.deleted, &check.standing,
	}, func() error {
		check.status = schedule.Status(status.String)
		checks[place-1] = check
		return nil
	}, sqlBeginRead,
		column(reqs, func(r *schedule.BeginRequest) []byte { return r.Key[:] }),
		column(reqs, func(r *schedule.BeginRequest) string { return r.ScheduleID }), now)
	if err != nil {
		return nil, fmt.Errorf("read keys: %w", err)
	}
	return checks, nil
}

// recall reads what is remembered of the keys.
func (b *beginning) recall(ctx context.Context, tx pgx.Tx, reqs []schedule.BeginRequest) error {
	var row requestRow
	err := each(ctx, tx, row.targets(), func() error {
		known, err := row.request()
		b.memory[known.Key] = &known
		return err
	}, sqlBeginRecall, column(reqs, func(r *schedule.BeginRequest) []byte { return r.Key[:] }))
	if err != nil {
		return fmt.Errorf("read what is remembered of keys: %w", err)
	}
	return nil
}

func (b *beginning) decideAll(reqs []schedule.BeginRequest, checks []beginCheck) []schedule.BeginResult {
	results := make([]schedule.BeginResult, len(reqs))
	for i := range reqs {
		results[i] = b.decide(&reqs[i], &checks[i])
	}
	return results
}

// decide answers one request:
//
//   - the key is remembered as done, for another request, or as being sent:
//     Recorded, Conflict or Busy;
//   - nothing stands against the call: Granted, or GrantedAgain;
//   - something does for ever, and nothing was ever sent: Refused, and the key
//     is closed; else Withheld.
func (b *beginning) decide(req *schedule.BeginRequest, check *beginCheck) schedule.BeginResult {
	known := b.memory[req.Key]
	outcome, final := check.against(req, b.now)
	switch {
	case known != nil && known.RequestHash != req.RequestHash && known.RequestHash != anyRequest:
		return schedule.BeginResult{Permission: schedule.Conflict, Sent: known.Sent, Request: *known}
	case known != nil && known.Done:
		return schedule.BeginResult{Permission: schedule.Recorded, Sent: known.Sent, Request: *known}
	case known != nil && known.LeaseUntil.After(b.now):
		return schedule.BeginResult{Permission: schedule.Busy, Sent: known.Sent, Request: *known}
	case outcome != nil && known != nil && (known.Sent || !final):
		return schedule.BeginResult{Permission: schedule.Withheld, Sent: known.Sent, Reason: outcome.Reason}
	case outcome != nil && !final:
		return schedule.BeginResult{Permission: schedule.Withheld, Reason: outcome.Reason}
	case outcome != nil:
		return b.refuse(req, known, *outcome)
	}
	return b.grant(req, known)
}

func (b *beginning) refuse(req *schedule.BeginRequest, known *schedule.ExecutionRequest, outcome schedule.Outcome) schedule.BeginResult {
	row := schedule.ExecutionRequest{Key: req.Key, RequestHash: req.RequestHash, Done: true, Outcome: outcome}
	if known == nil {
		row.CreatedAt = b.now.UTC().Truncate(time.Microsecond)
		b.fresh = append(b.fresh, row)
	} else {
		row.CreatedAt = known.CreatedAt
		b.refused = append(b.refused, row)
	}
	b.memory[req.Key] = &row
	return schedule.BeginResult{Permission: schedule.Refused, Reason: outcome.Reason, Request: row}
}

// grant gives the lease. From here on the executor may have been called,
// whatever becomes of the caller.
func (b *beginning) grant(req *schedule.BeginRequest, known *schedule.ExecutionRequest) schedule.BeginResult {
	row := schedule.ExecutionRequest{Key: req.Key, RequestHash: req.RequestHash, Sent: true, Calls: 1, LeaseUntil: b.now.Add(req.Lease).UTC().Truncate(time.Microsecond)}
	if known != nil {
		row.Calls += known.Calls
	}
	b.memory[req.Key] = &row
	if known == nil {
		row.CreatedAt = b.now.UTC().Truncate(time.Microsecond)
		b.fresh = append(b.fresh, row)
		return schedule.BeginResult{Permission: schedule.Granted, Request: row}
	}
	row.CreatedAt = known.CreatedAt
	b.again = append(b.again, row)
	return schedule.BeginResult{Permission: schedule.GrantedAgain, Sent: known.Sent, Request: row}
}

// anyRequest is the hash of a key that was closed before any request was made.
var anyRequest [32]byte

// against is what stands against a call, nil if nothing does; final says
// whether it will for ever.
func (c *beginCheck) against(req *schedule.BeginRequest, now time.Time) (outcome *schedule.Outcome, final bool) {
	due := !now.Before(req.FireAt)
	switch {
	case c.status == schedule.StatusSkipped || c.status == schedule.StatusCancelled:
		return &schedule.Outcome{Status: c.status, Reason: schedule.Reason(c.reason.String)}, false
	case c.status != "" && c.status != schedule.StatusLaunching:
		return &schedule.Outcome{Status: c.status}, false
	case c.cancelAsked:
		return &schedule.Outcome{Status: schedule.StatusCancelled, Reason: schedule.Reason(c.cancelReason.String)}, true
	case c.deleted:
		return &schedule.Outcome{Status: schedule.StatusCancelled, Reason: schedule.ReasonDeleted}, due
	case c.standing && req.Trigger.FromSpec():
		return &schedule.Outcome{Status: schedule.StatusSkipped, Reason: schedule.ReasonPaused}, due
	case c.ungranted != nil:
		return c.ungranted, due
	}
	return nil, false
}

// write records the keys, new ones by insert; errAgain when another Begin was
// faster with one.
func (b *beginning) write(ctx context.Context, tx pgx.Tx, insert string) error {
	type request = schedule.ExecutionRequest
	key := func(r *request) []byte { return r.Key[:] }
	hash := func(r *request) []byte { return r.RequestHash[:] }
	leaseUntil := func(r *request) pgtype.Timestamptz { return noneOrTime(r.LeaseUntil) }
	status := func(r *request) pgtype.Text { return noneOrText(r.Outcome.Status) }
	reason := func(r *request) pgtype.Text { return noneOrText(r.Outcome.Reason) }
	message := func(r *request) pgtype.Text { return noneOrText(r.Outcome.ErrorMessage) }
	for _, step := range []struct {
		rows      []request
		statement string
		columns   func(rows []request) []any
	}{
		{b.fresh, insert, func(rows []request) []any {
			return []any{
				column(rows, key), column(rows, hash), column(rows, state),
				column(rows, func(r *request) bool { return r.Sent }), column(rows, leaseUntil),
				column(rows, func(r *request) pgtype.Bool { return pgtype.Bool{Bool: r.Outcome.OK(), Valid: r.Done} }),
				column(rows, status), column(rows, reason), column(rows, message),
			}
		}},
		{b.again, sqlBeginAgain, func(rows []request) []any {
			return []any{column(rows, key), column(rows, leaseUntil)}
		}},
		{b.refused, sqlBeginRefuse, func(rows []request) []any {
			return []any{column(rows, key), column(rows, hash), column(rows, status), column(rows, reason), column(rows, message)}
		}},
	} {
		if len(step.rows) == 0 {
			continue
		}
		slices.SortFunc(step.rows, func(x, y request) int { return slices.Compare(x.Key[:], y.Key[:]) })
		n, err := affect(ctx, tx, step.statement, append([]any{b.now}, step.columns(step.rows)...)...)
		if err == nil && n != len(step.rows) {
			err = errAgain
		}
		if err != nil {
			return fmt.Errorf("record keys: %w", err)
		}
	}
	return nil
}

func state(r *schedule.ExecutionRequest) string {
	if r.Done {
		return stateDone
	}
	return stateInProgress
}

// Release ends the lease of a call whose outcome is unknown, if it is still the
// one that was granted.
func (s *Store) Release(ctx context.Context, key schedule.Key, lease time.Time, calls int32, now time.Time) error {
	if _, err := s.pool.Exec(ctx, sqlRelease, key[:], lease, calls, now); err != nil {
		return fmt.Errorf("release %s: %w", key, err)
	}
	return nil
}

// Extend gives the open calls of the leases that still hold new ones.
func (s *Store) Extend(ctx context.Context, open []schedule.LeaseExtension, now time.Time) ([]time.Time, error) {
	type extension = schedule.LeaseExtension
	sorted := slices.SortedFunc(slices.Values(open), func(x, y extension) int { return slices.Compare(x.Key[:], y.Key[:]) })
	type call struct {
		key  schedule.Key
		held int64
	}
	extended := make(map[call]time.Time, len(open))
	err := s.transact(ctx, func(tx pgx.Tx) error {
		var (
			raw         []byte
			held, until time.Time
		)
		return each(ctx, tx, []any{&raw, &held, &until}, func() error {
			extended[call{schedule.Key(raw), held.UnixMicro()}] = until.UTC()
			return nil
		}, sqlExtend, now,
			column(sorted, func(x *extension) []byte { return x.Key[:] }),
			column(sorted, func(x *extension) time.Time { return x.Held }),
			column(sorted, func(x *extension) time.Time { return now.Add(x.Lease) }))
	})
	if err != nil {
		return nil, fmt.Errorf("extend leases: %w", err)
	}
	until := make([]time.Time, len(open))
	for i, x := range open {
		until[i] = extended[call{x.Key, x.Held.UnixMicro()}]
	}
	return until, nil
}

// CloseKey ends a key of which no call has begun.
func (s *Store) CloseKey(ctx context.Context, key schedule.Key, reason schedule.Reason, now time.Time) (closed bool, recorded schedule.ExecutionRequest, err error) {
	err = s.transact(ctx, func(tx pgx.Tx) error {
		inserted, err := affect(ctx, tx, sqlCloseKey, key[:], anyRequest[:], noneOrText(reason), now)
		if err != nil {
			return err
		}
		closed = inserted > 0
		var row requestRow
		return each(ctx, tx, row.targets(), func() error {
			recorded, err = row.request()
			return err
		}, sqlGetRequest, key[:])
	})
	if err != nil {
		return false, schedule.ExecutionRequest{}, fmt.Errorf("close %s: %w", key, err)
	}
	return closed, recorded, nil
}
