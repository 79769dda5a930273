package postgres

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/carillon/carillon/internal/schedule"
)

// endRuns moves locked runs from open_runs to ended_runs, as they are after the rule that
// ended them, and notes them for the leader. All ends go through it or endJudged.
func endRuns(ctx context.Context, tx pgx.Tx, rows []*openRow, now time.Time) error {
	return endAll(ctx, tx, rows, now, true)
}

// endJudged is endRuns for the verdicts of a claim, whose leader knows them. It reads and
// locks nothing first: the rows have only what a planned run's end changes. It fails with
// errRunsMoved if a run is no longer planned.
func endJudged(ctx context.Context, tx pgx.Tx, rows []*openRow, now time.Time) error {
	return endAll(ctx, tx, rows, now, false)
}

func endAll(ctx context.Context, tx pgx.Tx, rows []*openRow, now time.Time, note bool) error {
	if len(rows) == 0 {
		return nil
	}
	if one, ok := tx.(oneByOne); ok {
		return one.end(ctx, rows, now, note)
	}
	if err := endTogether(ctx, tx, rows, now, note); err != nil {
		return err
	}
	return followUp(ctx, tx, rows)
}

func endTogether(ctx context.Context, tx pgx.Tx, rows []*openRow, now time.Time, note bool) error {
	args := append([]any{
		now, note, column(rows, rowKey),
		column(rows, func(r **openRow) pgtype.Text { return noneOrText((*r).Reason) }),
		column(rows, func(r **openRow) pgtype.Timestamptz { return noneOrTime((*r).CompletedAt) }),
	}, outcomeArgs(rows)...)
	byKey := make(map[schedule.Key]*openRow, len(rows))
	for _, r := range rows {
		byKey[r.Key] = r
	}
	var (
		n           int
		raw         []byte
		sid         int32
		runAt, last time.Time
	)
	err := each(ctx, tx, []any{&raw, &sid, &runAt, &last}, func() error {
		r := byKey[schedule.Key(raw)]
		r.SID, r.RunAt, r.CompletedAt = sid, runAt.UTC(), last.UTC()
		n++
		return nil
	}, sqlEnd, args...)
	if err == nil && n != len(rows) {
		err = fmt.Errorf("%d of %d: %w", n, len(rows), errRunsMoved)
	}
	if err != nil {
		return fmt.Errorf("end runs: %w", err)
	}
	return nil
}

// oneByOne is a transaction that is repeated because history refused a run: it has a run
// of the slot with the same nth. Each run then ends under its own savepoint.
type oneByOne struct {
	pgx.Tx
	log *slog.Logger
}

func (tx oneByOne) end(ctx context.Context, rows []*openRow, now time.Time, note bool) error {
	var ended []*openRow
	for _, r := range rows {
		there, err := tx.endOne(ctx, r, now, note)
		if err != nil {
			return err
		}
		if there { // the first end stays
			tx.log.ErrorContext(ctx, "a run has ended twice", "key", r.Key, "schedule_id", r.ScheduleID, "run_at", r.RunAt, "status", r.Status)
			continue
		}
		ended = append(ended, r)
	}
	return followUp(ctx, tx, ended)
}

// endOne ends a run. there: history has it already, and it only leaves open_runs.
func (tx oneByOne) endOne(ctx context.Context, r *openRow, now time.Time, note bool) (there bool, err error) {
	end := func() error {
		return pgx.BeginFunc(ctx, tx.Tx, func(savepoint pgx.Tx) error { return endTogether(ctx, savepoint, []*openRow{r}, now, note) })
	}
	if err = end(); !nthTaken(err) {
		return false, err
	}
	if err := tx.QueryRow(ctx, sqlEndedTwice, r.Key[:]).Scan(&there); err != nil {
		return false, fmt.Errorf("look for run %s in history: %w", r.Key, err)
	}
	if there {
		_, err := tx.Exec(ctx, sqlDropEnded, keyBytes([]schedule.Key{r.Key}))
		return true, err
	}
	if _, err := tx.Exec(ctx, sqlNextNth, r.Key[:]); err != nil {
		return false, fmt.Errorf("give run %s another number: %w", r.Key, err)
	}
	return false, end()
}
