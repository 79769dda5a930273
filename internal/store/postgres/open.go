package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

// loading begins a transaction that sees one state of the database.
var loading = pgx.TxOptions{BeginQuery: `BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY` + genericPlans}

// LoadOpen reads what the term's buckets have open; see worker.FireStore.
func (s *Store) LoadOpen(ctx context.Context, term schedule.Term, from, until time.Time) (ledger.Open, error) {
	var open ledger.Open
	err := pgx.BeginTxFunc(ctx, s.pool, loading, func(tx pgx.Tx) (err error) {
		open, err = loadOpen(ctx, tx, term, from, until)
		return err
	})
	if err != nil {
		return ledger.Open{}, fmt.Errorf("load open runs: %w", err)
	}
	return open, nil
}

func loadOpen(ctx context.Context, tx pgx.Tx, term schedule.Term, from, until time.Time) (open ledger.Open, err error) {
	var seenUntil pgtype.Timestamptz
	if err := tx.QueryRow(ctx, sqlOpenPosition, term.Shard).Scan(&open.Position, &seenUntil); err != nil {
		return open, fmt.Errorf("read the position: %w", err)
	}
	open.SeenUntil = utc(seenUntil)
	var (
		row     shardRow
		of      scheduleState
		stopped = make(map[string]bool)
	)
	read := func(statement string, args ...any) error {
		return each(ctx, tx, append(row.targets(), of.targets()...), func() error {
			run := row.run()
			open.Runs = append(open.Runs, run)
			if (of.deleted || of.paused) && !stopped[run.ScheduleID] {
				stopped[run.ScheduleID] = true
				open.Stopped = append(open.Stopped, of.now(run.ScheduleID))
			}
			return nil
		}, statement, args...)
	}
	first, last := term.Buckets()
	after := noneOrTime(from)
	if from.IsZero() {
		after = pgtype.Timestamptz{InfinityModifier: pgtype.NegativeInfinity, Valid: true}
		if err := read(sqlOpenOthers, first, last); err != nil {
			return open, fmt.Errorf("read runs in flight: %w", err)
		}
	}
	if err := read(sqlOpenPlanned, after, until, first, last); err != nil {
		return open, fmt.Errorf("read planned runs: %w", err)
	}
	return open, nil
}

// shardRow is a row as shardColumns list it.
type shardRow struct {
	key                                 []byte
	scheduleID, overlapKey              string
	status, trigger, policy             wordOrCode
	revision, maxQueued, epoch          int64
	priority                            int32
	runAt, fireAt, claimedUntil         pgtype.Timestamptz
	waiting, exclusive, cancelRequested bool
	bucket                              int
}

func (w *shardRow) targets() []any {
	return []any{
		&w.key, &w.scheduleID, &w.revision, &w.overlapKey, &w.runAt, &w.fireAt, &w.status, &w.waiting,
		&w.trigger, &w.policy, &w.exclusive, &w.maxQueued, &w.priority, &w.epoch, &w.claimedUntil, &w.cancelRequested, &w.bucket,
	}
}

// run ignores columns that cannot be read: in flight the run blocks others all the
// same, and planned it ends when it is claimed.
func (w *shardRow) run() ledger.Run {
	var d decoding
	return ledger.Run{
		Key: schedule.Key(w.key), ScheduleID: w.scheduleID, Revision: w.revision, OverlapKey: w.overlapKey,
		RunAt: d.time("run_at", w.runAt), FireAt: d.time("fire_at", w.fireAt),
		Status: decodeWord(&d, "status", w.status, schedule.StatusOf), Waiting: w.waiting,
		Trigger: decodeWord(&d, "trigger", w.trigger, schedule.TriggerOf),
		Policy:  decodeWord(&d, "policy", w.policy, schedule.OverlapPolicyOf), Exclusive: w.exclusive, MaxQueued: d.unsigned("max_queued", w.maxQueued),
		Priority: w.priority, Epoch: w.epoch, NextSend: d.time("send_after", w.claimedUntil), CancelRequested: w.cancelRequested,
	}
}
