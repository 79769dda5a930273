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
	"github.com/carillon/carillon/internal/store/revision"
)

// Begin decides which keys may be called, and records the calls before they are made; see
// launcher.Store.
func (s *Store) Begin(ctx context.Context, reqs []schedule.BeginRequest, now time.Time) ([]schedule.BeginResult, error) {
	if len(reqs) == 0 {
		return nil, nil
	}
	results := make([]schedule.BeginResult, len(reqs))
	err := s.transact(ctx, func(tx pgx.Tx) error {
		b := beginning{tx: tx, now: now, facts: make(map[schedule.Key]*ledger.BeginFacts, len(reqs))}
		if err := b.read(ctx, s, reqs); err != nil {
			return err
		}
		for i := range reqs {
			f := b.facts[reqs[i].Key]
			f.Grant = b.grants[reqs[i].Grant.Ref()]
			outside := f.Run == nil
			results[i] = ledger.Begin(&reqs[i], f, now)
			f.Enter(&results[i])
			b.keep(&results[i], outside)
		}
		return b.write(ctx)
	})
	if err != nil {
		return nil, fmt.Errorf("begin: %w", err)
	}
	return results, nil
}

// beginning is one open Begin.
type beginning struct {
	tx      pgx.Tx
	now     time.Time
	facts   map[schedule.Key]*ledger.BeginFacts
	grants  map[schedule.GrantRef]*schedule.Grant
	calls   []schedule.ExecutionRequest                // of runs
	refused map[schedule.Key]schedule.Outcome          // of runs
	outside map[schedule.Key]schedule.ExecutionRequest // records that change
}

// read locks the keys and reads what Begin must know of each.
func (b *beginning) read(ctx context.Context, s *Store, reqs []schedule.BeginRequest) error {
	if err := b.lockRuns(ctx, reqs); err != nil {
		return err
	}
	missing := slices.DeleteFunc(slices.Clone(reqs), func(q schedule.BeginRequest) bool { return b.facts[q.Key] != nil })
	if len(missing) > 0 {
		if err := b.readEnded(ctx, missing); err != nil {
			return err
		}
		missing = slices.DeleteFunc(missing, func(q schedule.BeginRequest) bool { return b.facts[q.Key] != nil })
	}
	if len(missing) > 0 {
		if err := b.lockRecords(ctx, missing); err != nil {
			return err
		}
	}
	if err := b.readDefinitions(ctx, s); err != nil {
		return err
	}
	if err := b.readHolders(ctx); err != nil {
		return err
	}
	refs := make([]schedule.GrantRef, len(reqs))
	for i := range reqs {
		refs[i] = reqs[i].Grant.Ref()
	}
	var err error
	b.grants, err = readGrants(ctx, b.tx, refs)
	return err
}

// lockRuns locks the open runs of the keys: nearly all are open.
func (b *beginning) lockRuns(ctx context.Context, reqs []schedule.BeginRequest) error {
	var (
		row                              runRow
		holder                           pgtype.Int4
		leaseUntil, deleted, pausedUntil pgtype.Timestamptz
		paused                           bool
		facts                            = make([]ledger.BeginFacts, 0, len(reqs))
		runs                             = make([]schedule.Run, 0, len(reqs))
	)
	err := each(ctx, b.tx, []any{
		&row.key, &row.scheduleID, &row.revision, &row.runAt, &row.status, &row.trigger, &row.input, &row.deliveries,
		&row.cancelRequestedAt, &row.cancelReason, &row.runID, &row.traceID, &holder, &leaseUntil, &deleted, &paused, &pausedUntil,
	}, func() error {
		run, _ := row.run() // what cannot be read permits nothing
		var d decoding
		runs = append(runs, run)
		facts = append(facts, ledger.BeginFacts{
			Run: &runs[len(runs)-1], Lease: schedule.KeyLease{Holder: holder.Int32, Until: d.time("lease_until", leaseUntil)},
			Deleted: deleted.Valid, Pause: schedule.Pause{Paused: paused, Until: d.time("paused_until", pausedUntil)},
		})
		b.facts[run.Key] = &facts[len(facts)-1]
		return nil
	}, sqlLockBegun, column(reqs, beginKey))
	if err != nil {
		return fmt.Errorf("lock runs: %w", err)
	}
	return nil
}

func beginKey(q *schedule.BeginRequest) []byte { return q.Key[:] }

// readEnded comes in a later statement than lockRuns: a run can end in between.
func (b *beginning) readEnded(ctx context.Context, reqs []schedule.BeginRequest) error {
	runs, err := collectRuns(ctx, b.tx, sqlEndedRuns, column(reqs, beginKey))
	if err != nil {
		return fmt.Errorf("read ended runs: %w", err)
	}
	for i := range runs {
		b.facts[runs[i].Key] = &ledger.BeginFacts{Run: &runs[i]}
	}
	return nil
}

// lockRecords makes and locks records of keys that the ledger does not have, and reads
// the schedules that their requests name.
func (b *beginning) lockRecords(ctx context.Context, reqs []schedule.BeginRequest) error {
	records, err := lockRecords(ctx, b.tx, reqs, b.now)
	if err != nil {
		return err
	}
	type state struct {
		deleted bool
		pause   schedule.Pause
	}
	var (
		id             string
		deleted, until pgtype.Timestamptz
		paused         bool
		states         = make(map[string]state)
	)
	err = each(ctx, b.tx, []any{&id, &deleted, &paused, &until}, func() error {
		var d decoding
		states[id] = state{deleted.Valid, schedule.Pause{Paused: paused, Until: d.time("paused_until", until)}}
		return nil
	}, sqlBeginSchedules, column(reqs, func(q *schedule.BeginRequest) string { return q.ScheduleID }))
	if err != nil {
		return fmt.Errorf("read schedules: %w", err)
	}
	for i := range reqs {
		known, of := records[reqs[i].Key], states[reqs[i].ScheduleID]
		b.facts[known.Key] = &ledger.BeginFacts{Known: &known, Deleted: of.deleted, Pause: of.pause}
	}
	return nil
}

func (b *beginning) readDefinitions(ctx context.Context, s *Store) error {
	ids := make(map[revision.ID]struct{}, len(b.facts))
	for _, f := range b.facts {
		if f.Run != nil {
			ids[revision.Of(f.Run)] = struct{}{}
		}
	}
	definitions, err := s.definitionsOf(ctx, b.tx, ids)
	if err != nil {
		return err
	}
	for _, f := range b.facts {
		if f.Run != nil {
			f.Definition = definitions[revision.Of(f.Run)]
		}
	}
	return nil
}

// readHolders asks for the holders of leases that run.
func (b *beginning) readHolders(ctx context.Context) error {
	held := make(map[int32][]*ledger.BeginFacts)
	for _, f := range b.facts {
		lease := f.Lease
		if f.Known != nil {
			lease = f.Known.Lease
		}
		if lease.Holder != 0 && b.now.Before(lease.Until) {
			held[lease.Holder] = append(held[lease.Holder], f)
		}
	}
	if len(held) == 0 {
		return nil
	}
	numbers := make([]int32, 0, len(held))
	for no := range held {
		numbers = append(numbers, no)
	}
	return eachHolder(ctx, b.tx, func(_ string, h ledger.Holder) {
		for _, f := range held[h.No] {
			f.Holder = &h
		}
	}, sqlHolders, numbers)
}

// keep collects what a result changes.
func (b *beginning) keep(result *schedule.BeginResult, outside bool) {
	key := result.Request
	switch result.Permission {
	case schedule.Granted, schedule.GrantedAgain, schedule.Refused:
	default:
		return
	}
	switch {
	case outside:
		if b.outside == nil {
			b.outside = make(map[schedule.Key]schedule.ExecutionRequest)
		}
		b.outside[key.Key] = key
	case key.Done:
		if b.refused == nil {
			b.refused = make(map[schedule.Key]schedule.Outcome)
		}
		b.refused[key.Key] = key.Outcome
	default:
		b.calls = append(b.calls, key)
	}
}

func (b *beginning) write(ctx context.Context) error {
	if len(b.calls) > 0 {
		type call = schedule.ExecutionRequest
		n, err := affect(ctx, b.tx, sqlBegin, b.now,
			column(b.calls, func(c *call) []byte { return c.Key[:] }),
			column(b.calls, func(c *call) pgtype.Int8 { return noneOrInt(int64(c.Lease.Holder)) }),
			column(b.calls, func(c *call) time.Time { return c.Lease.Until }))
		if err == nil && n != len(b.calls) {
			err = fmt.Errorf("%d of %d locked runs were there", n, len(b.calls))
		}
		if err != nil {
			return fmt.Errorf("record calls: %w", err)
		}
	}
	if err := writeRecords(ctx, b.tx, b.outside, b.now); err != nil {
		return err
	}
	return endKeys(ctx, b.tx, b.refused, b.now)
}

// endKeys ends open runs for which no call was made.
func endKeys(ctx context.Context, tx pgx.Tx, outcomes map[schedule.Key]schedule.Outcome, now time.Time) error {
	if len(outcomes) == 0 {
		return nil
	}
	settlements := make([]schedule.Settlement, 0, len(outcomes))
	for key, o := range outcomes {
		settlements = append(settlements, schedule.Settlement{Key: key, To: o.Status, Reason: o.Reason, ErrorMessage: o.ErrorMessage, CompletedAt: now})
	}
	_, ended, err := settleAll(ctx, tx, now, settlements)
	if err != nil {
		return err
	}
	wakeLeaders(tx, ended)
	return nil
}

// Release ends the lease of a call with an unknown outcome if it is still the granted
// one.
func (s *Store) Release(ctx context.Context, key schedule.Key, lease time.Time, calls int32, now time.Time) error {
	tag, err := s.pool.Exec(ctx, sqlRelease, key[:], lease, calls)
	if err == nil && tag.RowsAffected() == 0 {
		_, err = s.pool.Exec(ctx, sqlReleaseRecord, key[:], lease, calls, now)
	}
	if err != nil {
		return fmt.Errorf("release %s: %w", key, err)
	}
	return nil
}

// Extend renews the leases of open calls that are still held.
func (s *Store) Extend(ctx context.Context, open []schedule.LeaseExtension, now time.Time) ([]time.Time, error) {
	type extension = schedule.LeaseExtension
	type call struct {
		key  schedule.Key
		held int64
	}
	callOf := func(x *extension) call { return call{x.Key, x.Held.UnixMicro()} }
	extended := make(map[call]time.Time, len(open))
	err := s.transact(ctx, func(tx pgx.Tx) error {
		left := slices.SortedFunc(slices.Values(open), func(x, y extension) int { return slices.Compare(x.Key[:], y.Key[:]) })
		for _, statement := range []string{sqlExtend, sqlExtendRecords, sqlExtendEnded} {
			if left = slices.DeleteFunc(left, func(x extension) bool { return !extended[callOf(&x)].IsZero() }); len(left) == 0 {
				return nil
			}
			var (
				raw         []byte
				held, until time.Time
			)
			err := each(ctx, tx, []any{&raw, &held, &until}, func() error {
				extended[call{schedule.Key(raw), held.UnixMicro()}] = until.UTC()
				return nil
			}, statement,
				column(left, func(x *extension) []byte { return x.Key[:] }),
				column(left, func(x *extension) time.Time { return x.Held }),
				column(left, func(x *extension) time.Time { return now.Add(x.Lease) }))
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("extend leases: %w", err)
	}
	until := make([]time.Time, len(open))
	for i := range open {
		until[i] = extended[callOf(&open[i])]
	}
	return until, nil
}

// MoveKeys gives keys that the number From still holds to the number To, and returns
// those.
func (s *Store) MoveKeys(ctx context.Context, m schedule.KeyMove) (moved []schedule.Key, err error) {
	err = s.transact(ctx, func(tx pgx.Tx) error {
		moved = nil
		for _, statement := range []string{sqlMoveKeys, sqlMoveRecords} {
			keys, err := keysOf(ctx, tx, statement, keyBytes(inKeyOrder(m.Keys)), m.From, m.To)
			if err != nil {
				return err
			}
			for key := range keys {
				moved = append(moved, key)
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("move keys to instance %d: %w", m.To, err)
	}
	return moved, nil
}

// CloseKey cancels a key without a call.
func (s *Store) CloseKey(ctx context.Context, key schedule.Key, reason schedule.Reason, now time.Time) (closed bool, after schedule.ExecutionRequest, err error) {
	err = s.transact(ctx, func(tx pgx.Tx) error {
		known, outside, err := lockKey(ctx, tx, key, now)
		if err != nil {
			return err
		}
		after, closed = ledger.CloseKey(known, reason, now)
		switch {
		case !closed:
			return nil
		case outside:
			return writeRecords(ctx, tx, map[schedule.Key]schedule.ExecutionRequest{key: after}, now)
		}
		return endKeys(ctx, tx, map[schedule.Key]schedule.Outcome{key: after.Outcome}, now)
	})
	if err != nil {
		return false, schedule.ExecutionRequest{}, fmt.Errorf("close %s: %w", key, err)
	}
	return closed, after, nil
}

// lockKey locks one key. outside: the ledger does not have it.
func lockKey(ctx context.Context, tx pgx.Tx, key schedule.Key, now time.Time) (known schedule.ExecutionRequest, outside bool, err error) {
	open, err := lockKeys(ctx, tx, []schedule.Key{key})
	if err != nil {
		return known, false, err
	}
	if r := open[key]; r != nil {
		return ledger.KeyOf(&r.Run, r.Lease), false, nil
	}
	ended, err := collectRuns(ctx, tx, sqlEndedRuns, keyBytes([]schedule.Key{key}))
	if err != nil {
		return known, false, fmt.Errorf("read ended run: %w", err)
	}
	if len(ended) > 0 {
		return ledger.KeyOf(&ended[0], schedule.KeyLease{}), false, nil
	}
	records, err := lockRecords(ctx, tx, []schedule.BeginRequest{{Key: key}}, now)
	return records[key], true, err
}
