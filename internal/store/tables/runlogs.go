package tables

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// WriteReport writes the parts of a report that its settlement does not write.
func (d *Dialect) WriteReport(ctx context.Context, q Queries, key schedule.Key, r *schedule.RunReport, now time.Time) error {
	var calls []Call
	if r.ExitCode != nil || r.LogURL != "" || r.Progress != "" {
		var code any
		if r.ExitCode != nil {
			code = *r.ExitCode
		}
		calls = append(calls, Call{d.NoteOpenReport, []any{key, code, orNull(r.LogURL), orNull(string(r.Progress))}})
	}
	if r.Output != "" {
		p := r.Part(now)
		calls = append(calls, Call{sqlInsertReportedOutput, []any{key, p.WrittenAt, p.From, p.To, p.Text}}, Call{sqlDropReportedOutput, []any{key}})
	}
	if err := q.ExecAll(ctx, calls); err != nil {
		return fmt.Errorf("keep the report: %w", err)
	}
	return nil
}

// AppendRunLog adds parts to a run's log and removes others. An existing part stays as it
// is.
func (t *Tables) AppendRunLog(ctx context.Context, a schedule.RunLogAppend) error {
	var calls []Call
	for i := range a.Parts {
		p := &a.Parts[i]
		calls = append(calls, Call{sqlInsertLogPart, []any{a.Key, p.Seq, p.Step, p.WrittenAt, p.From, p.To, p.Text}})
	}
	for _, seq := range a.Drop {
		calls = append(calls, Call{sqlDropLogPart, []any{a.Key, seq}})
	}
	err := t.write(ctx, func(ctx context.Context, q Queries) error { return q.ExecAll(ctx, calls) })
	if err != nil {
		return fmt.Errorf("append to the log of run %s: %w", a.Key, err)
	}
	return nil
}

// ReadRunLog returns parts in order of Seq.
func (t *Tables) ReadRunLog(ctx context.Context, query schedule.RunLogQuery) ([]schedule.LogPart, error) {
	statement := t.dialect.ReadRunLog
	if query.Last {
		statement = t.dialect.ReadLastLog
	}
	parts, err := collect(ctx, t.read, func(p *schedule.LogPart) []any {
		return []any{&p.Seq, &p.Step, &p.WrittenAt, &p.From, &p.To, &p.Skipped, &p.Text}
	}, statement, query.Key, query.Step, query.After, schedule.PageSize(query.Limit))
	if err != nil {
		return nil, fmt.Errorf("read the log of run %s: %w", query.Key, err)
	}
	if query.Last {
		slices.Reverse(parts)
	}
	return parts, nil
}

// PruneRunLogs deletes up to limit parts that were written before; 0: none is left.
func (t *Tables) PruneRunLogs(ctx context.Context, before time.Time, limit int) (n int, err error) {
	err = t.write(ctx, func(ctx context.Context, q Queries) error {
		n, err = q.Exec(ctx, sqlPruneRunLogs, before, limit)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("prune logs of runs: %w", err)
	}
	return n, nil
}
