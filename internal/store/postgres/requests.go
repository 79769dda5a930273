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

// Begin records keys before the executor is called and decides which calls are permitted;
// see launcher.Store. It locks nothing that it reads: the writes detect a concurrent
// Begin, and the transaction is repeated. Nearly all keys are new, so the first try
// inserts all of them. Only if that fails, or not all are granted, it reads their
// records.
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

// beginning is one open Begin. memory is execution_requests after it, so that a key that
// is named twice meets its first request.
type beginning struct {
	now     time.Time
	memory  map[schedule.Key]*schedule.ExecutionRequest
	holders map[int32]*ledger.Holder    // of keys whose leases run
	fresh   []schedule.ExecutionRequest // rows to insert
	again   []taking                    // leases to take over
	refused []schedule.ExecutionRequest // rows to close
}

// taking is a lease to take over. gone is the holder that was proven dead; 0: the lease
// is over or was released.
type taking struct {
	schedule.ExecutionRequest
	gone int32
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

// recall reads the records of the keys.
func (b *beginning) recall(ctx context.Context, tx pgx.Tx, reqs []schedule.BeginRequest) error {
	var row requestRow
	err := each(ctx, tx, row.targets(), func() error {
		known, err := row.request()
		b.memory[known.Key] = &known
		return err
	}, sqlBeginRecall, column(reqs, func(r *schedule.BeginRequest) []byte { return r.Key[:] }))
	if err != nil {
		return fmt.Errorf("read records of keys: %w", err)
	}
	var numbers []int32
	for _, known := range b.memory {
		if known.Holder != 0 && !known.Done && b.now.Before(known.LeaseUntil) && !slices.Contains(numbers, known.Holder) {
			numbers = append(numbers, known.Holder)
		}
	}
	if len(numbers) == 0 {
		return nil
	}
	b.holders = make(map[int32]*ledger.Holder, len(numbers))
	return eachHolder(ctx, tx, func(_ string, h ledger.Holder) { b.holders[h.No] = &h }, sqlHolders, numbers)
}

func (b *beginning) decideAll(reqs []schedule.BeginRequest, facts []ledger.BeginFacts) []schedule.BeginResult {
	results := make([]schedule.BeginResult, len(reqs))
	for i := range reqs {
		known := b.memory[reqs[i].Key]
		if facts[i].Known = known; known != nil {
			facts[i].Holder = b.holders[known.Holder]
		}
		results[i] = ledger.Begin(&reqs[i], &facts[i], b.now)
		b.keep(&results[i], known)
	}
	return results
}

// keep collects the row to write.
func (b *beginning) keep(result *schedule.BeginResult, known *schedule.ExecutionRequest) {
	row := result.Request
	switch {
	case result.Permission == schedule.GrantedAgain:
		t := taking{ExecutionRequest: row}
		if result.TakenOver == schedule.ProofOfPresence {
			t.gone = known.Holder
		}
		b.again = append(b.again, t)
	case result.Permission == schedule.Refused && known != nil:
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
	byKey := func(x, y *request) int { return slices.Compare(x.Key[:], y.Key[:]) }
	slices.SortFunc(b.fresh, func(x, y request) int { return byKey(&x, &y) })
	slices.SortFunc(b.again, func(x, y taking) int { return byKey(&x.ExecutionRequest, &y.ExecutionRequest) })
	slices.SortFunc(b.refused, func(x, y request) int { return byKey(&x, &y) })
	key := func(r *request) []byte { return r.Key[:] }
	hash := func(r *request) []byte { return r.RequestHash[:] }
	status := func(r *request) pgtype.Text { return noneOrText(r.Outcome.Status) }
	reason := func(r *request) pgtype.Text { return noneOrText(r.Outcome.Reason) }
	message := func(r *request) pgtype.Text { return noneOrText(r.Outcome.ErrorMessage) }
	for _, step := range []struct {
		rows      int
		statement string
		columns   func() []any
	}{
		{len(b.fresh), insert, func() []any {
			return []any{
				column(b.fresh, key), column(b.fresh, hash), column(b.fresh, state),
				column(b.fresh, func(r *request) bool { return r.Sent }),
				column(b.fresh, func(r *request) pgtype.Timestamptz { return noneOrTime(r.LeaseUntil) }),
				column(b.fresh, func(r *request) pgtype.Int8 { return noneOrInt(int64(r.Holder)) }),
				column(b.fresh, func(r *request) pgtype.Bool { return pgtype.Bool{Bool: r.Outcome.OK(), Valid: r.Done} }),
				column(b.fresh, status), column(b.fresh, reason), column(b.fresh, message),
			}
		}},
		{len(b.again), sqlBeginAgain, func() []any {
			return []any{
				column(b.again, func(t *taking) []byte { return t.Key[:] }),
				column(b.again, func(t *taking) pgtype.Timestamptz { return noneOrTime(t.LeaseUntil) }),
				column(b.again, func(t *taking) pgtype.Int8 { return noneOrInt(int64(t.Holder)) }),
				column(b.again, func(t *taking) pgtype.Int8 { return noneOrInt(int64(t.gone)) }),
			}
		}},
		{len(b.refused), sqlBeginRefuse, func() []any {
			return []any{
				column(b.refused, key), column(b.refused, hash), column(b.refused, status), column(b.refused, reason), column(b.refused, message),
			}
		}},
	} {
		if step.rows == 0 {
			continue
		}
		n, err := affect(ctx, tx, step.statement, append([]any{b.now}, step.columns()...)...)
		if err == nil && n != step.rows {
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

// Release ends the lease of a call with an unknown outcome if it is still the granted
// one.
func (s *Store) Release(ctx context.Context, key schedule.Key, lease time.Time, calls int32, now time.Time) error {
	if _, err := s.pool.Exec(ctx, sqlRelease, key[:], lease, calls, now); err != nil {
		return fmt.Errorf("release %s: %w", key, err)
	}
	return nil
}

// Extend renews the leases of open calls that are still held.
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

// CloseKey ends a key without a call.
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
