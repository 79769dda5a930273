package postgres

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

// loading begins a transaction that sees one state of the database.
var loading = pgx.TxOptions{BeginQuery: `BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY` + setGenericPlans}

// LoadOpen reads what the term's buckets have open; see worker.FireStore.
func (s *Store) LoadOpen(ctx context.Context, term schedule.Term, from, until time.Time) (ledger.Open, error) {
	var open ledger.Open
	err := pgx.BeginTxFunc(ctx, s.pool, loading, func(tx pgx.Tx) (err error) {
		open, err = s.loadOpen(ctx, tx, term, from, until)
		return err
	})
	if err != nil {
		return ledger.Open{}, fmt.Errorf("load open runs: %w", err)
	}
	return open, nil
}

func (s *Store) loadOpen(ctx context.Context, tx pgx.Tx, term schedule.Term, from, until time.Time) (open ledger.Open, err error) {
	var seenUntil pgtype.Timestamptz
	if err := tx.QueryRow(ctx, sqlOpenPosition, term.Shard).Scan(&open.Position, &seenUntil); err != nil {
		return open, fmt.Errorf("read the position: %w", err)
	}
	open.SeenUntil = utc(seenUntil)
	first, last := term.Buckets()
	var others []shardRun
	after := noneOrTime(from)
	if from.IsZero() {
		after = pgtype.Timestamptz{InfinityModifier: pgtype.NegativeInfinity, Valid: true}
		if others, err = s.shardRuns(ctx, tx, sqlOpenOthers, first, last); err != nil {
			return open, fmt.Errorf("read runs in flight: %w", err)
		}
	}
	planned, err := s.shardRuns(ctx, tx, sqlOpenPlanned, after, until, first, last)
	if err != nil {
		return open, fmt.Errorf("read planned runs: %w", err)
	}
	runs := append(others, planned...)
	open.Runs = make([]ledger.Run, len(runs))
	for i := range runs {
		open.Runs[i] = runs[i].Run
	}
	if from.IsZero() {
		if open.Wakes, err = dialect.WakesOf(ctx, queries{tx}, nil, first, last); err != nil {
			return open, err
		}
	}
	err = eachSchedule(ctx, tx, func(now ledger.ScheduleNow) { open.Stopped = append(open.Stopped, now) },
		sqlStopped, column(runs, func(r *shardRun) int32 { return r.sid }))
	return open, err
}

// eachSchedule runs a statement that returns the columns of scheduleStateOf.
func eachSchedule(ctx context.Context, q querier, visit func(ledger.ScheduleNow), statement string, schedules any) error {
	var (
		id string
		of scheduleState
	)
	err := each(ctx, q, append([]any{&id}, of.targets()...), func() error {
		visit(of.now(id))
		return nil
	}, statement, schedules)
	if err != nil {
		return fmt.Errorf("read the states of schedules: %w", err)
	}
	return nil
}

// shardRun is a run for the shard state.
type shardRun struct {
	ledger.Run
	sid     int32
	bucket  int
	retryOf []byte
}

// shardRuns runs a statement that returns shardColumns.
func (s *Store) shardRuns(ctx context.Context, q querier, statement string, args ...any) ([]shardRun, error) {
	var (
		row  shardRow
		runs []shardRun
		sids []int32
	)
	err := each(ctx, q, row.targets(), func() error {
		runs, sids = append(runs, shardRun{row.run(), row.sid, row.bucket, row.retryOf}), append(sids, row.sid)
		return nil
	}, statement, args...)
	if err != nil {
		return nil, err
	}
	names, err := s.namesOf(ctx, q, sids)
	for i := range runs {
		r := &runs[i]
		r.ScheduleID = names[r.sid]
		if len(r.retryOf) == len(r.Key) {
			r.NoteRetry(schedule.Key(r.retryOf))
		}
	}
	return runs, err
}

// namesOf returns which schedules the sids are of, from memory or from the table.
func (s *Store) namesOf(ctx context.Context, q querier, sids []int32) (map[int32]string, error) {
	names, missing := s.names.Known(sids)
	if len(missing) == 0 {
		return names, nil
	}
	read, err := readNames(ctx, q, missing)
	if err != nil {
		return nil, err
	}
	s.names.Keep(read)
	maps.Copy(names, read)
	return names, nil
}

// readNames is namesOf from the table.
func readNames(ctx context.Context, q querier, sids []int32) (map[int32]string, error) {
	var (
		sid   int32
		id    string
		names = make(map[int32]string, len(sids))
	)
	err := each(ctx, q, []any{&sid, &id}, func() error {
		names[sid] = id
		return nil
	}, sqlSchedulesOf, sids)
	if err != nil {
		return nil, fmt.Errorf("read the schedules of runs: %w", err)
	}
	return names, nil
}

// shardRow is a row as shardColumns list it.
type shardRow struct {
	key, retryOf                []byte
	sid                         int32
	overlapKey                  string
	status, trigger, policy     wordOrCode
	revision, maxQueued, epoch  int64
	priority                    int32
	runAt, fireAt, claimedUntil pgtype.Timestamptz
	waitingSince, startBy       pgtype.Timestamptz
	exclusive, cancelRequested  bool
	queued                      bool
	bucket                      int
}

func (w *shardRow) targets() []any {
	return []any{
		&w.key, &w.sid, &w.revision, &w.overlapKey, &w.runAt, &w.fireAt, &w.status, &w.waitingSince,
		&w.trigger, &w.policy, &w.exclusive, &w.maxQueued, &w.priority, &w.epoch, &w.claimedUntil, &w.cancelRequested, &w.bucket,
		&w.startBy, &w.retryOf, &w.queued,
	}
}

// run is without its schedule. It ignores columns that cannot be read: in flight the run
// blocks others all the same, and planned it ends when it is claimed.
func (w *shardRow) run() ledger.Run {
	var d decoding
	return ledger.Run{
		Key: schedule.Key(w.key), Revision: w.revision, OverlapKey: w.overlapKey,
		RunAt: d.time("run_at", w.runAt), FireAt: d.time("fire_at", w.fireAt),
		Status: decodeWord(&d, "status", w.status, schedule.StatusOf), WaitingSince: d.time("waiting_since", w.waitingSince),
		Trigger: decodeWord(&d, "trigger", w.trigger, schedule.TriggerOf),
		Policy:  decodeWord(&d, "policy", w.policy, schedule.OverlapPolicyOf), Exclusive: w.exclusive, MaxQueued: d.unsigned("max_queued", w.maxQueued),
		Priority: w.priority, Epoch: w.epoch, NextSend: d.time("send_after", w.claimedUntil), CancelRequested: w.cancelRequested,
		StartBy: d.time("start_by", w.startBy), Queued: w.queued,
	}
}
