package sqlite

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// writeReport writes the parts of a report other than the outcome.
func writeReport(ctx context.Context, t tx, key schedule.Key, r *schedule.RunReport, now time.Time) error {
	if r.ExitCode != nil || r.LogURL != "" {
		var code any
		if r.ExitCode != nil {
			code = int64(*r.ExitCode)
		}
		for _, statement := range []string{sqlNoteReport, sqlNoteEndReport} {
			if _, err := t.exec(ctx, statement, code, word(r.LogURL), keyArg(key)); err != nil {
				return fmt.Errorf("note the report: %w", err)
			}
		}
	}
	if r.Output == "" {
		return nil
	}
	p := r.Part(now)
	if _, err := t.exec(ctx, sqlInsertReportedOutput, keyArg(key), p.WrittenAt.UnixMicro(), p.From, p.To, p.Text); err != nil {
		return fmt.Errorf("keep the reported output: %w", err)
	}
	if _, err := t.exec(ctx, sqlDropReportedOutput, keyArg(key)); err != nil {
		return fmt.Errorf("drop the output of earlier reports: %w", err)
	}
	return nil
}

// AppendRunLog adds parts to a run's log and removes others. An existing part stays as it
// is.
func (s *Store) AppendRunLog(ctx context.Context, a schedule.RunLogAppend) error {
	err := s.write(ctx, func(ctx context.Context, t tx) error {
		for i := range a.Parts {
			p := &a.Parts[i]
			if _, err := t.exec(ctx, sqlInsertLogPart, keyArg(a.Key), p.Seq, p.Step, p.WrittenAt.UnixMicro(), p.From, p.To, p.Text); err != nil {
				return err
			}
		}
		for _, seq := range a.Drop {
			if _, err := t.exec(ctx, sqlDropLogPart, keyArg(a.Key), seq); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("append to the log of run %s: %w", a.Key, err)
	}
	return nil
}

// ReadRunLog returns parts in order of Seq.
func (s *Store) ReadRunLog(ctx context.Context, q schedule.RunLogQuery) ([]schedule.LogPart, error) {
	statement := sqlReadRunLog
	if q.Last {
		statement = sqlReadLastLog
	}
	var (
		seq, from, to, skipped number
		step, content          text
		at                     instant
		parts                  []schedule.LogPart
	)
	err := s.readers.query(ctx, statement, func(scan scan) error {
		if err := scan(&seq, &step, &at, &from, &to, &skipped, &content); err != nil {
			return err
		}
		parts = append(parts, schedule.LogPart{
			Seq: int64(seq), Step: string(step), WrittenAt: at.Time, From: int64(from), To: int64(to), Skipped: int64(skipped), Text: string(content),
		})
		return nil
	}, keyArg(q.Key), q.Step, q.After, limitOf(q.Limit))
	if err != nil {
		return nil, fmt.Errorf("read the log of run %s: %w", q.Key, err)
	}
	if q.Last {
		slices.Reverse(parts)
	}
	return parts, nil
}

// PruneRunLogs deletes up to limit parts that were written before; 0: none is left.
func (s *Store) PruneRunLogs(ctx context.Context, before time.Time, limit int) (n int, err error) {
	err = s.write(ctx, func(ctx context.Context, t tx) error {
		gone, err := t.exec(ctx, sqlPruneRunLogs, before.UnixMicro(), limit)
		n = int(gone)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("prune logs of runs: %w", err)
	}
	return n, nil
}
