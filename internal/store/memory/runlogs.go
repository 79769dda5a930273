package memory

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// writeReport writes the parts of a report that its settlement does not write.
func (t *tx) writeReport(run *schedule.Run, r *schedule.RunReport, now time.Time) {
	if run.Status == schedule.StatusStarted {
		t.change(run, func(run *schedule.Run) {
			if r.ExitCode != nil {
				run.ExitCode = new(*r.ExitCode)
			}
			if r.LogURL != "" {
				run.LogURL = r.LogURL
			}
			run.Progress = cmp.Or(r.Progress, run.Progress)
		})
	}
	if r.Output == "" {
		return
	}
	part := r.Part(at(now))
	for _, p := range t.logs[run.Key] {
		part.Seq = max(part.Seq, p.Seq)
	}
	part.Seq++
	kept := slices.DeleteFunc(slices.Clone(t.logs[run.Key]), func(p schedule.LogPart) bool { return p.Step == "" })
	t.setLog(run.Key, append(kept, part))
}

func (t *tx) setLog(key schedule.Key, parts []schedule.LogPart) {
	before := t.logs[key]
	t.logs[key] = parts
	t.undo = append(t.undo, func() { t.logs[key] = before })
}

// AppendRunLog adds parts to a run's log and removes others. An existing part stays as it
// is.
func (s *Store) AppendRunLog(ctx context.Context, a schedule.RunLogAppend) error {
	return s.write(ctx, func(t *tx) error {
		parts := slices.Clone(t.logs[a.Key])
		for _, p := range a.Parts {
			if !slices.ContainsFunc(parts, func(other schedule.LogPart) bool { return other.Seq == p.Seq }) {
				p.WrittenAt = at(p.WrittenAt)
				parts = append(parts, p)
			}
		}
		t.setLog(a.Key, slices.DeleteFunc(parts, func(p schedule.LogPart) bool { return slices.Contains(a.Drop, p.Seq) }))
		return nil
	})
}

// ReadRunLog returns parts in order of Seq.
func (s *Store) ReadRunLog(ctx context.Context, q schedule.RunLogQuery) (found []schedule.LogPart, err error) {
	err = s.read(ctx, func() error {
		parts := slices.Clone(s.logs[q.Key])
		slices.SortFunc(parts, func(a, b schedule.LogPart) int { return int(a.Seq - b.Seq) })
		until := make(map[string]int64)
		for _, p := range parts {
			p.Skipped = max(p.From-until[p.Step], 0)
			until[p.Step] = p.To
			if (q.Step == "" || q.Step == p.Step) && p.Seq > q.After {
				found = append(found, p)
			}
		}
		if over := len(found) - q.Limit; over > 0 && q.Last {
			found = found[over:]
		} else if over > 0 {
			found = found[:q.Limit]
		}
		return nil
	})
	return found, err
}

// PruneRunLogs deletes up to limit parts that were written before; 0: none is left.
func (s *Store) PruneRunLogs(ctx context.Context, before time.Time, limit int) (n int, err error) {
	err = s.write(ctx, func(t *tx) error {
		for key, parts := range t.logs {
			kept := slices.DeleteFunc(slices.Clone(parts), func(p schedule.LogPart) bool {
				old := p.WrittenAt.Before(before) && n < limit
				if old {
					n++
				}
				return old
			})
			t.setLog(key, kept)
		}
		return nil
	})
	return n, err
}
