package postgres

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

// The states of an execution request.
const (
	stateInProgress = "IN_PROGRESS"
	stateDone       = "DONE"
)

// Begin records keys before the executor is called and decides for each what may
// be done; see launcher.Store. It locks nothing that it reads: the writes notice
// a concurrent Begin, and the transaction is repeated. Nearly all keys are new, so
// the first try inserts all of them. Only if that fails, or not all are granted, it
// reads their records.
func (s *Store) Begin(ctx context.Context, reqs []schedule.BeginRequest, now time.Time) ([]schedule.BeginResult, error) {
	if len(reqs) == 0 {
		return nil, nil
	}
	var results []schedule.BeginResult
	recall := false
	err := s.transact(ctx, func(tx pgx.Tx) error {
		facts, err := readBeginFacts(ctx, tx, reqs)
		if err != nil {
			return err
		}
		b := beginning{now: now, memory: make(map[schedule.Key]*schedule.ExecutionRequest, len(reqs))}
		if !recall {
			recall = true
			if results = b.decideAll(reqs, facts); allGranted(results) {
				return alreadyThere(b.write(ctx, tx, sqlBeginInsertNew), requestsKey)
			}
			b = beginning{now: now, memory: make(map[schedule.Key]*schedule.ExecutionRequest, len(reqs))}
		}
		if err := b.recall(ctx, tx, reqs); err != nil {
			return err
		}
		results = b.decideAll(reqs, facts)
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

// readBeginFacts reads runs, schedules and grants. Grants have a second statement,
// which is sent only if a request names one.
func readBeginFacts(ctx context.Context, tx pgx.Tx, reqs []schedule.BeginRequest) ([]ledger.BeginFacts, error) {
	refs := make([]schedule.GrantRef, len(reqs))
	for i := range reqs {
		refs[i] = reqs[i].Grant.Ref()
	}
	var (
		place                   int
		status, trigger         wordOrCode
		cancelReason            pgtype.Text
		cancel, deleted, paused bool
		pausedUntil             pgtype.Timestamptz
		facts                   = make([]ledger.BeginFacts, len(reqs))
		runs                    = make([]ledger.BeginRun, len(reqs))
	)
	err := each(ctx, tx, []any{&place, &status, &trigger, &cancel, &cancelReason, &deleted, &paused, &pausedUntil}, func() error {
		var d decoding
		f := &facts[place-1]
		f.Deleted, f.Pause = deleted, schedule.Pause{Paused: paused, Until: d.time("paused_until", pausedUntil)}
		if status.code != 0 {
			f.Run = &runs[place-1]
			*f.Run = ledger.BeginRun{
				Status: decodeWord(&d, "status", status, schedule.StatusOf), Trigger: decodeWord(&d, "trigger", trigger, schedule.TriggerOf),
				CancelRequested: cancel, CancelReason: schedule.Reason(cancelReason.String),
			}
		}
		return nil
	}, sqlBeginRead,
		column(reqs, func(r *schedule.BeginRequest) []byte { return r.Key[:] }),
		column(reqs, func(r *schedule.BeginRequest) string { return r.ScheduleID }))
	if err != nil {
		return nil, fmt.Errorf("read keys: %w", err)
	}
	if err := readEndedFacts(ctx, tx, reqs, facts); err != nil {
		return nil, err
	}
	grants, err := readGrants(ctx, tx, refs)
	if err != nil {
		return nil, err
	}
	for i := range facts {
		facts[i].Grant = grants[refs[i]]
	}
	return facts, nil
}

// readEndedFacts reads the runs that are not open: mostly none.
func readEndedFacts(ctx context.Context, tx pgx.Tx, reqs []schedule.BeginRequest, facts []ledger.BeginFacts) error {
	var missing []schedule.Key
	for i := range facts {
		if facts[i].Run == nil {
			missing = append(missing, reqs[i].Key)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	var (
		raw                  []byte
		status, trigger      wordOrCode
		reason, cancelReason pgtype.Text
		cancel               bool
		ended                = make(map[schedule.Key]*ledger.BeginRun, len(missing))
	)
	err := each(ctx, tx, []any{&raw, &status, &reason, &trigger, &cancel, &cancelReason}, func() error {
		var d decoding
		ended[schedule.Key(raw)] = &ledger.BeginRun{
			Status: decodeWord(&d, "status", status, schedule.StatusOf), Trigger: decodeWord(&d, "trigger", trigger, schedule.TriggerOf),
			Reason: schedule.Reason(reason.String), CancelRequested: cancel, CancelReason: schedule.Reason(cancelReason.String),
		}
		return nil
	}, sqlBeginReadEnded, keyBytes(missing))
	if err != nil {
		return fmt.Errorf("read ended runs: %w", err)
	}
	for i := range facts {
		if facts[i].Run == nil {
			facts[i].Run = ended[reqs[i].Key]
		}
	}
	return nil
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

func (b *beginning) decideAll(reqs []schedule.BeginRequest, facts []ledger.BeginFacts) []schedule.BeginResult {
	results := make([]schedule.BeginResult, len(reqs))
	for i := range reqs {
		facts[i].Known = b.memory[reqs[i].Key]
		results[i] = ledger.Begin(&reqs[i], &facts[i], b.now)
		b.keep(&results[i], facts[i].Known != nil)
	}
	return results
}

// keep collects the row to write.
func (b *beginning) keep(result *schedule.BeginResult, known bool) {
	row := result.Request
	switch {
	case result.Permission == schedule.GrantedAgain:
		b.again = append(b.again, row)
	case result.Permission == schedule.Refused && known:
		b.refused = append(b.refused, row)
	case result.Permission == schedule.Granted, result.Permission == schedule.Refused:
		b.fresh = append(b.fresh, row)
	default:
		return
	}
	b.memory[row.Key] = &row
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
		var (
			row   requestRow
			known *schedule.ExecutionRequest
		)
		err := each(ctx, tx, row.targets(), func() error {
			there, err := row.request()
			known = &there
			return err
		}, sqlCloseKeyRead, key[:])
		if err != nil {
			return err
		}
		if recorded, closed = ledger.CloseKey(key, known, reason, now); !closed {
			return nil
		}
		n, err := affect(ctx, tx, sqlCloseKey, key[:], recorded.RequestHash[:], noneOrText(reason), now)
		if err == nil && n == 0 {
			return errAgain // a call began since the key was read
		}
		return err
	})
	if err != nil {
		return false, schedule.ExecutionRequest{}, fmt.Errorf("close %s: %w", key, err)
	}
	return closed, recorded, nil
}
