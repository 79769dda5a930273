package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

// followUp writes what follows runs that are in history.
func followUp(ctx context.Context, tx pgx.Tx, ended []*openRow) error {
	var failed []*openRow // few, so only these read their schedules
	for _, r := range ended {
		if r.Status == schedule.StatusFailed {
			failed = append(failed, r)
		}
	}
	if err := nameSchedules(ctx, tx, failed); err != nil {
		return err
	}
	read := endReader{ctx: ctx, tx: tx, sids: make(map[schedule.Key]int32, len(ended))}
	runs := make([]*schedule.Run, len(ended))
	for i, r := range ended {
		runs[i] = &r.Run
		read.sids[r.Key] = r.SID
	}
	after, err := ledger.FollowUp(runs, &read)
	if err != nil {
		return fmt.Errorf("follow up: %w", err)
	}
	if len(after.Recovered) > 0 {
		if _, err := tx.Exec(ctx, sqlDropFailures, after.Recovered); err != nil {
			return fmt.Errorf("end failures: %w", err)
		}
	}
	if err := writeFailures(ctx, tx, sqlGoOnFailing, after.Continued); err != nil {
		return err
	}
	return writeFailures(ctx, tx, sqlBeginFailing, after.Began)
}

func writeFailures(ctx context.Context, tx pgx.Tx, statement string, failing []*schedule.Failure) error {
	if len(failing) == 0 {
		return nil
	}
	type failure = *schedule.Failure
	n, err := affect(ctx, tx, statement,
		column(failing, func(f *failure) string { return (*f).ScheduleID }),
		column(failing, func(f *failure) int64 { return (*f).Failures }),
		column(failing, func(f *failure) time.Time { return (*f).FirstRunAt }),
		column(failing, func(f *failure) time.Time { return (*f).FirstEndedAt }),
		column(failing, func(f *failure) time.Time { return (*f).LastRunAt }),
		column(failing, func(f *failure) time.Time { return (*f).LastEndedAt }),
		column(failing, func(f *failure) []byte { return (*f).LastKey[:] }),
		column(failing, func(f *failure) string { return string((*f).Reason) }),
		column(failing, func(f *failure) string { return (*f).ErrorCode }))
	if err == nil && n != len(failing) {
		err = errAgain
	}
	if err != nil {
		return fmt.Errorf("note failing schedules: %w", err)
	}
	return nil
}

// endReader is the ledger.EndReader of a transaction.
type endReader struct {
	ctx  context.Context
	tx   pgx.Tx
	sids map[schedule.Key]int32
}

func (r *endReader) keysAndSids(runs []*schedule.Run) (keys [][]byte, sids []int32) {
	for _, run := range runs {
		keys, sids = append(keys, run.Key[:]), append(sids, r.sids[run.Key])
	}
	return keys, sids
}

func (r *endReader) Failures(ended []*schedule.Run) (map[schedule.Key]*schedule.Failure, error) {
	var (
		raw  []byte
		f    failureRow
		keys = make(map[schedule.Key]*schedule.Failure)
	)
	of, sids := r.keysAndSids(ended)
	err := each(r.ctx, r.tx, append([]any{&raw}, f.targets()...), func() error {
		keys[schedule.Key(raw)] = f.failure()
		return nil
	}, sqlFailing, of, sids)
	return keys, err
}

func (r *endReader) Successes(failed []*schedule.Run) (map[schedule.Key]ledger.Decided, error) {
	var (
		raw          []byte
		runAt, ended time.Time
		newest       = make(map[schedule.Key]ledger.Decided)
	)
	of, sids := r.keysAndSids(failed)
	err := each(r.ctx, r.tx, []any{&raw, &runAt, &ended}, func() error {
		newest[schedule.Key(raw)] = ledger.Decided{RunAt: runAt, EndedAt: ended}
		return nil
	}, sqlNewestSuccesses, of, sids, column(failed, func(run **schedule.Run) time.Time { return (*run).RunAt }))
	return newest, err
}

// dropRecovered drops failures since an instant that have outlived a success; see
// ledger.StillFails.
func (s *Store) dropRecovered(ctx context.Context, since time.Time) error {
	var (
		f            schedule.Failure
		raw          []byte
		runAt, ended time.Time
		ids          []string
		keys         [][]byte
	)
	err := each(ctx, s.pool, []any{&f.ScheduleID, &raw, &f.LastRunAt, &f.LastEndedAt, &runAt, &ended}, func() error {
		if !ledger.StillFails(&f, ledger.Decided{RunAt: runAt, EndedAt: ended}) {
			ids, keys = append(ids, f.ScheduleID), append(keys, append([]byte(nil), raw...))
		}
		return nil
	}, sqlLateSuccesses, since)
	if err != nil || len(ids) == 0 {
		return err
	}
	_, err = s.pool.Exec(ctx, sqlDropRecovered, ids, keys)
	return err
}
