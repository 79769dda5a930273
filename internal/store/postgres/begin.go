package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/revision"
	"github.com/carillon/carillon/internal/store/tables"
)

// Begin decides which keys may be called, and records the calls before they are made; see
// launcher.Store. Nearly all keys are free: one statement takes these, and what the rule
// then does not grant is given back.
func (s *Store) Begin(ctx context.Context, reqs []schedule.BeginRequest, now time.Time) ([]schedule.BeginResult, error) {
	if len(reqs) == 0 {
		return nil, nil
	}
	results := make([]schedule.BeginResult, len(reqs))
	err := s.transact(ctx, func(tx pgx.Tx) error {
		b := beginning{
			tx: tx, now: now, facts: make(map[schedule.Key]*ledger.BeginFacts, len(reqs)), sids: make(map[schedule.Key]int32, len(reqs)),
			taken: make(map[schedule.Key]schedule.ExecutionRequest), calls: make(map[schedule.Key]schedule.ExecutionRequest),
		}
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
	facts   map[schedule.Key]*ledger.BeginFacts // as they were before this transaction
	sids    map[schedule.Key]int32              // of runs
	grants  map[schedule.GrantRef]*schedule.Grant
	taken   map[schedule.Key]schedule.ExecutionRequest // as they were; without those that were granted
	calls   map[schedule.Key]schedule.ExecutionRequest // of locked runs
	refused []schedule.Settlement                      // of runs
	outside []schedule.ExecutionRequest                // records that change
}

// read takes or locks the keys and reads what Begin must know of each.
func (b *beginning) read(ctx context.Context, s *Store, reqs []schedule.BeginRequest) error {
	missing := reqs
	for _, read := range []func(context.Context, []schedule.BeginRequest) error{b.take, b.lockRuns, b.readEnded, b.lockRecords} {
		if err := read(ctx, missing); err != nil {
			return err
		}
		missing = slices.DeleteFunc(slices.Clone(missing), func(q schedule.BeginRequest) bool { return b.facts[q.Key] != nil })
		if len(missing) == 0 {
			break
		}
	}
	if err := b.readSchedules(ctx, s, reqs); err != nil {
		return err
	}
	if err := b.readDefinitions(ctx, s); err != nil {
		return err
	}
	if err := b.readQueues(ctx); err != nil {
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
	b.grants, err = dialect.ReadGrants(ctx, queries{b.tx}, refs)
	return err
}

// stateColumns are the state of the schedule of a run.
const stateColumns = `, (SELECT h.state FROM handlers h WHERE h.sid = o.sid), (SELECT h.state_revision FROM handlers h WHERE h.sid = o.sid)`

var (
	// sqlTakeKeys changes no index, and leaves updated_at: nothing that anybody watches
	// has changed. A run with a lease or a requested cancel is left to lockRuns.
	sqlTakeKeys = `
UPDATE open_runs o SET holder = u.holder, lease_until = u.lease_until, deliveries = o.deliveries + 1,
	first_sent_at = coalesce(o.first_sent_at, $1)
FROM unnest($2::bytea[], $3::integer[], $4::timestamptz[]) AS u(key, holder, lease_until)
WHERE o.idempotency_key = ANY(ARRAY[u.key]) AND o.status = 2 AND o.cancel_requested_at IS NULL AND o.lease_until IS NULL
RETURNING` + beginColumns + stateColumns

	sqlLockBegun = `
SELECT` + beginColumns + stateColumns + fromOpen + `
WHERE o.idempotency_key = ANY($1::bytea[])` + byKey
)

const (
	// sqlWriteCalls writes keys of locked runs.
	sqlWriteCalls = `
UPDATE open_runs o SET holder = u.holder, lease_until = u.lease_until, deliveries = u.deliveries,
	first_sent_at = CASE WHEN u.deliveries > 0 THEN coalesce(o.first_sent_at, $1) END
FROM unnest($2::bytea[], $3::integer[], $4::timestamptz[], $5::integer[]) AS u(key, holder, lease_until, deliveries)
WHERE o.idempotency_key = ANY(ARRAY[u.key]) AND ` + launching
)

// take records a call of every key that is free. A key of two requests is left to lockRuns.
func (b *beginning) take(ctx context.Context, reqs []schedule.BeginRequest) error {
	type request = schedule.BeginRequest
	sorted := slices.SortedFunc(slices.Values(reqs), func(x, y request) int { return slices.Compare(x.Key[:], y.Key[:]) })
	single := make([]request, 0, len(sorted))
	for i := range sorted {
		twice := i > 0 && sorted[i-1].Key == sorted[i].Key || i+1 < len(sorted) && sorted[i+1].Key == sorted[i].Key
		if !twice {
			single = append(single, sorted[i])
		}
	}
	if len(single) == 0 {
		return nil
	}
	err := b.eachOpen(ctx, func(f *ledger.BeginFacts) {
		f.Run.Deliveries--
		f.Lease = schedule.KeyLease{}
		b.taken[f.Run.Key] = ledger.KeyOf(f.Run, f.Lease)
	}, sqlTakeKeys, b.now, column(single, beginKey),
		column(single, func(q *request) pgtype.Int8 { return noneOrInt(int64(q.Holder)) }),
		column(single, func(q *request) time.Time { return ledger.CallLease(q, b.now).Until }))
	if err != nil {
		return fmt.Errorf("take keys: %w", err)
	}
	return nil
}

// lockRuns locks the open runs of the other keys.
func (b *beginning) lockRuns(ctx context.Context, reqs []schedule.BeginRequest) error {
	if err := b.eachOpen(ctx, func(*ledger.BeginFacts) {}, sqlLockBegun, column(reqs, beginKey)); err != nil {
		return fmt.Errorf("lock runs: %w", err)
	}
	return nil
}

func beginKey(q *schedule.BeginRequest) []byte { return q.Key[:] }

// eachOpen runs a statement that returns beginColumns and stateColumns, and collects the facts.
func (b *beginning) eachOpen(ctx context.Context, visit func(*ledger.BeginFacts), statement string, args ...any) error {
	var row openRow
	var state *string
	var revision *int64
	return eachRun(ctx, b.tx, &row, append(columnsOfBegin.targets(&row), &state, &revision), func() error {
		run := row.Run // what cannot be read permits nothing
		f := &ledger.BeginFacts{Run: &run, Lease: row.Lease}
		if state != nil {
			f.State = schedule.State{Value: json.RawMessage(*state), Revision: *revision}
		}
		b.facts[run.Key], b.sids[run.Key] = f, row.SID
		visit(f)
		return nil
	}, statement, args...)
}

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

// lockRecords makes and locks records of keys that the ledger does not have. A run of a queue has none:
// the ledger has had it.
func (b *beginning) lockRecords(ctx context.Context, reqs []schedule.BeginRequest) error {
	var outside []schedule.BeginRequest
	for _, q := range reqs {
		if q.Queued {
			b.facts[q.Key] = &ledger.BeginFacts{}
		} else {
			outside = append(outside, q)
		}
	}
	if len(outside) == 0 {
		return nil
	}
	records, err := lockRecords(ctx, b.tx, outside, b.now)
	if err != nil {
		return err
	}
	for key, known := range records {
		b.facts[key] = &ledger.BeginFacts{Known: &known}
	}
	return nil
}

// readSchedules reads which schedules are stopped, after the runs were locked. A later
// pause or deletion may be missing: a check is valid for one second.
func (b *beginning) readSchedules(ctx context.Context, s *Store, reqs []schedule.BeginRequest) error {
	sids := slices.Collect(maps.Values(b.sids))
	names, err := s.namesOf(ctx, b.tx, sids)
	if err != nil {
		return err
	}
	var (
		of     = make(map[string][]*ledger.BeginFacts, len(reqs))
		others []string // of requests without an open run
	)
	for i := range reqs {
		f, id := b.facts[reqs[i].Key], reqs[i].ScheduleID
		if sid, open := b.sids[reqs[i].Key]; open {
			id = names[sid]
			f.Run.ScheduleID = id
		} else {
			others = append(others, id)
		}
		of[id] = append(of[id], f)
	}
	enter := func(now ledger.ScheduleNow) {
		for _, f := range of[now.ScheduleID] {
			f.Deleted, f.Pause = now.Deleted, now.Pause
		}
	}
	if err := eachSchedule(ctx, b.tx, enter, sqlStopped, sids); err != nil || len(others) == 0 {
		return err
	}
	return eachSchedule(ctx, b.tx, enter, sqlStatesNamed, others)
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

// readQueues reads the queues of runs that are in one.
func (b *beginning) readQueues(ctx context.Context) error {
	var runs []*schedule.Run
	for _, f := range b.facts {
		if f.Run != nil && f.Run.Queue.In() {
			runs = append(runs, f.Run)
		}
	}
	queues, err := tables.QueuesOf(ctx, queries{b.tx}, runs)
	if err != nil {
		return err
	}
	for _, f := range b.facts {
		if f.Run != nil {
			f.Queue = queues[f.Run.Queue.No]
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
	granted := result.Permission == schedule.Granted || result.Permission == schedule.GrantedAgain
	_, taken := b.taken[key.Key]
	switch {
	case !granted && result.Permission != schedule.Refused:
	case outside:
		b.outside = append(b.outside, key)
	case !granted:
		b.refused = append(b.refused, ledger.EndOfKey(&key, b.now))
	case taken:
		delete(b.taken, key.Key) // it is written
	default:
		b.calls[key.Key] = key
	}
}

func (b *beginning) write(ctx context.Context) error {
	maps.Copy(b.calls, b.taken)
	if err := b.writeCalls(ctx); err != nil {
		return err
	}
	if err := dialect.WriteRecords(ctx, queries{b.tx}, b.outside, b.now); err != nil {
		return err
	}
	return endKeys(ctx, b.tx, b.refused, b.now)
}

// writeCalls writes the calls of locked runs, and gives the keys back that were taken and
// not granted.
func (b *beginning) writeCalls(ctx context.Context) error {
	if len(b.calls) == 0 {
		return nil
	}
	type call = schedule.ExecutionRequest
	calls := slices.Collect(maps.Values(b.calls))
	n, err := affect(ctx, b.tx, sqlWriteCalls, b.now,
		column(calls, func(c *call) []byte { return c.Key[:] }),
		column(calls, func(c *call) pgtype.Int8 { return noneOrInt(int64(c.Lease.Holder)) }),
		column(calls, func(c *call) pgtype.Timestamptz { return noneOrTime(c.Lease.Until) }),
		column(calls, func(c *call) int32 { return c.Calls }))
	if err == nil && n != len(calls) {
		err = fmt.Errorf("%d of %d locked runs were there", n, len(calls))
	}
	if err != nil {
		return fmt.Errorf("write calls: %w", err)
	}
	return nil
}

// endKeys ends open runs for which no call was made.
func endKeys(ctx context.Context, tx pgx.Tx, settlements []schedule.Settlement, now time.Time) error {
	_, ended, err := settleAll(ctx, tx, now, settlements)
	if err != nil {
		return err
	}
	wakeLeaders(tx, ended)
	return nil
}
