package sqlite

import (
	"context"
	"fmt"
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

// endRuns moves runs from open_runs to ended_runs, as they are after the rule that
// ended them. All ends go through it.
func endRuns(ctx context.Context, t tx, rows []*openRow, now time.Time) error {
	for _, r := range rows {
		t.changed.run(runEnded, r.Key, schedule.Bucket(r.OverlapKey))
	}
	return endUnnoted(ctx, t, rows, now)
}

// endUnnoted is endRuns for the verdicts of a claim, whose leader knows them.
func endUnnoted(ctx context.Context, t tx, rows []*openRow, now time.Time) error {
	if len(rows) == 0 {
		return nil
	}
	keys := make([]schedule.Key, len(rows))
	for i, r := range rows {
		keys[i] = r.Key
	}
	n, err := t.exec(ctx, sqlDeleteOpen, keyList(keys))
	if err == nil && n != int64(len(rows)) {
		err = fmt.Errorf("%d are open", n)
	}
	if err != nil {
		return fmt.Errorf("remove %d open runs: %w", len(rows), err)
	}
	var added []*openRow
	args := make([]any, 0, endedColumns*manyRows)
	for left := rows; len(left) > 0; {
		statement, n := portion(sqlInsertEnded, sqlInsertManyEnded, len(left))
		args = args[:0]
		for _, r := range left[:n] {
			args = r.endedArgs(args, now)
		}
		_, err := t.exec(ctx, statement, args...)
		switch {
		case err == nil:
			added = append(added, left[:n]...)
		case isUnique(err): // the statement has inserted nothing, and the transaction goes on
			alone, err := endAlone(ctx, t, left[:n], now)
			if err != nil {
				return err
			}
			added = append(added, alone...)
		default:
			return fmt.Errorf("write history of run %s, or one of the %d after it: %w", left[0].Key, n-1, err)
		}
		left = left[n:]
	}
	return noteOutcomes(ctx, t, added)
}

// endAlone inserts run by run: two runs of a slot can draw the same nth, and the later
// one takes the next free number. If history has the run already, the first end stays.
func endAlone(ctx context.Context, t tx, rows []*openRow, now time.Time) (added []*openRow, err error) {
	for _, r := range rows {
		there, err := isInHistory(ctx, t, r)
		if err != nil {
			return nil, err
		}
		if there {
			t.w.endedTwice.Add(1)
			t.w.log.Error("a run has ended twice", "key", r.Key, "schedule_id", r.ScheduleID, "run_at", r.RunAt, "status", r.Status)
			if err := t.insertEvents(ctx, r.ScheduleID, []schedule.Event{ledger.EndedTwice(&r.Run, now)}, now); err != nil {
				return nil, err
			}
			continue
		}
		_, err = t.exec(ctx, sqlInsertEnded, r.endedArgs(nil, now)...)
		for ; isUnique(err); _, err = t.exec(ctx, sqlInsertEnded, r.endedArgs(nil, now)...) {
			r.Nth = max(r.Nth+1, 1)
		}
		if err != nil {
			return nil, fmt.Errorf("write history of run %s: %w", r.Key, err)
		}
		added = append(added, r)
	}
	return added, nil
}

// EndedTwice counts the runs that this process ended although history had their end.
func (s *Store) EndedTwice() uint64 { return s.writer.endedTwice.Load() }

func isInHistory(ctx context.Context, t tx, r *openRow) (there bool, err error) {
	err = t.query(ctx, sqlEndedTwice, func(scan scan) error { return scan(&there) }, keyArg(r.Key), r.RunAt.UnixMicro(), int64(r.SID))
	if err != nil {
		return false, fmt.Errorf("look for run %s in history: %w", r.Key, err)
	}
	return there, nil
}

// endedArgs adds the arguments of sqlInsertEnded.
func (r *openRow) endedArgs(args []any, now time.Time) []any {
	var exitCode any
	if r.ExitCode != nil {
		exitCode = int64(*r.ExitCode)
	}
	var firstSent any // only a run that was sent again keeps it
	if r.Deliveries > 1 {
		firstSent = micros(r.FirstSentAt)
	}
	return append(args,
		r.RunAt.UnixMicro(), r.FireAt.UnixMicro(), r.CreatedAt.UnixMicro(), micros(r.ClaimedAt), micros(r.LaunchedAt), micros(r.StartedAt),
		either(r.CompletedAt, now).UnixMicro(), now.UnixMicro(), micros(r.CancelRequestedAt), micros(r.TimeoutAt), r.Epoch,
		int64(r.SID), int64(r.Nth), r.Revision, int64(r.Priority), int64(r.MaxQueued), int64(r.Attempt), int64(r.Deliveries), int64(r.FailedAttempts),
		count(r.LateReports), exitCode, schedule.Bucket(r.OverlapKey), int64(r.Status.Code()), int64(r.Trigger.Code()), int64(r.OverlapPolicy.Code()),
		keyArg(r.Key), r.OverlapKey, word(r.Reason), word(r.CancelReason), keyArg(r.RetryOf), rawArg(r.Input), word(r.RunID), word(r.TraceID),
		word(r.ErrorCode), word(r.ErrorMessage), word(r.AttemptLog), word(r.LogURL), firstSent)
}
