package postgres

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/carillon/carillon/internal/schedule"
)

// writeReport writes the parts of a report other than the outcome.
func writeReport(ctx context.Context, tx pgx.Tx, key schedule.Key, r *schedule.RunReport, now time.Time) error {
	if r.ExitCode != nil || r.LogURL != "" {
		code := pgtype.Int4{Valid: r.ExitCode != nil}
		if code.Valid {
			code.Int32 = *r.ExitCode
		}
		for _, statement := range []string{sqlNoteOpenReport, sqlNoteEndedReport} {
			if _, err := tx.Exec(ctx, statement, key[:], code, noneOrText(r.LogURL)); err != nil {
				return fmt.Errorf("note the report: %w", err)
			}
		}
	}
	if r.Output == "" {
		return nil
	}
	p := r.Part(now)
	if _, err := tx.Exec(ctx, sqlInsertReportedOutput, key[:], p.WrittenAt, p.From, p.To, p.Text); err != nil {
		return fmt.Errorf("keep the reported output: %w", err)
	}
	if _, err := tx.Exec(ctx, sqlDropReportedOutput, key[:]); err != nil {
		return fmt.Errorf("drop the output of earlier reports: %w", err)
	}
	return nil
}

// AppendRunLog adds parts to a run's log and removes others. An existing part stays as it
// is.
func (s *Store) AppendRunLog(ctx context.Context, a schedule.RunLogAppend) error {
	type part = schedule.LogPart
	err := s.transact(ctx, func(tx pgx.Tx) error {
		if len(a.Parts) > 0 {
			_, err := tx.Exec(ctx, sqlInsertLogParts, a.Key[:],
				column(a.Parts, func(p *part) int64 { return p.Seq }),
				column(a.Parts, func(p *part) string { return p.Step }),
				column(a.Parts, func(p *part) time.Time { return p.WrittenAt }),
				column(a.Parts, func(p *part) int64 { return p.From }),
				column(a.Parts, func(p *part) int64 { return p.To }),
				column(a.Parts, func(p *part) string { return p.Text }))
			if err != nil {
				return err
			}
		}
		if len(a.Drop) == 0 {
			return nil
		}
		_, err := tx.Exec(ctx, sqlDropLogParts, a.Key[:], a.Drop)
		return err
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
		p     schedule.LogPart
		at    pgtype.Timestamptz
		parts []schedule.LogPart
	)
	err := each(ctx, s.pool, []any{&p.Seq, &p.Step, &at, &p.From, &p.To, &p.Skipped, &p.Text}, func() error {
		p.WrittenAt = at.Time.UTC()
		parts = append(parts, p)
		return nil
	}, statement, q.Key[:], q.Step, q.After, q.Limit)
	if err != nil {
		return nil, fmt.Errorf("read the log of run %s: %w", q.Key, err)
	}
	if q.Last {
		slices.Reverse(parts)
	}
	return parts, nil
}

// PruneRunLogs deletes up to limit parts that were written before; 0: none is left.
func (s *Store) PruneRunLogs(ctx context.Context, before time.Time, limit int) (int, error) {
	n, err := s.affected(ctx, sqlPruneRunLogs, before, limit)
	if err != nil {
		return 0, fmt.Errorf("prune logs of runs: %w", err)
	}
	return n, nil
}
