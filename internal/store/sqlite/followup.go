package sqlite

import (
	"context"
	"fmt"
	"slices"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/tables"
)

// followUp writes what follows runs that are in history.
func followUp(ctx context.Context, t tx, ended []*openRow) error {
	read := endReader{ctx: ctx, t: t, sids: make(map[schedule.Key]int32, len(ended))}
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
		if _, err := t.exec(ctx, sqlDropFailures, list(after.Recovered)); err != nil {
			return fmt.Errorf("end failures: %w", err)
		}
	}
	for _, f := range slices.Concat(after.Began, after.Continued) {
		_, err := t.exec(ctx, sqlWriteFailure, f.ScheduleID, f.Failures, f.FirstRunAt.UnixMicro(), f.FirstEndedAt.UnixMicro(),
			f.LastRunAt.UnixMicro(), f.LastEndedAt.UnixMicro(), keyArg(f.LastKey), string(f.Reason), f.ErrorCode)
		if err != nil {
			return fmt.Errorf("note that %s fails: %w", f.ScheduleID, err)
		}
	}
	return nil
}

// endReader is the ledger.EndReader of a transaction.
type endReader struct {
	ctx  context.Context
	t    tx
	sids map[schedule.Key]int32
}

// Failures looks up nothing where no schedule fails, which is most of the time.
func (r *endReader) Failures(ended []*schedule.Run) (map[schedule.Key]*schedule.Failure, error) {
	var any flag
	if err := r.t.query(r.ctx, sqlAnyFailing, func(scan scan) error { return scan(&any) }); err != nil || !bool(any) {
		return nil, err
	}
	ids := make([]string, len(ended))
	for i := range ended {
		ids[i] = ended[i].ScheduleID
	}
	slices.Sort(ids)
	failing, err := tables.Failures(r.ctx, queries{r.t}, sqlFailing, slices.Compact(ids))
	if err != nil {
		return nil, err
	}
	found := make(map[schedule.Key]*schedule.Failure)
	for _, run := range ended {
		if f := failing[run.ScheduleID]; f != nil {
			found[run.Key] = f
		}
	}
	return found, nil
}

func (r *endReader) Successes(failed []*schedule.Run) (map[schedule.Key]ledger.Decided, error) {
	found := make(map[schedule.Key]ledger.Decided)
	var runAt, ended instant
	for _, run := range failed {
		err := r.t.query(r.ctx, sqlNewestSuccess, func(scan scan) error {
			err := scan(&runAt, &ended)
			found[run.Key] = ledger.Decided{RunAt: runAt.Time, EndedAt: ended.Time}
			return err
		}, int64(r.sids[run.Key]), run.RunAt.UnixMicro())
		if err != nil {
			return nil, err
		}
	}
	return found, nil
}
