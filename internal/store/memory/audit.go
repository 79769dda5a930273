package memory

import (
	"context"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// AppendAudit adds rows to the audit trail by themselves.
func (s *Store) AppendAudit(ctx context.Context, entries []schedule.AuditEntry) error {
	return s.write(ctx, func(t *tx) error {
		for i := range entries {
			t.audit(&entries[i], s.Now())
		}
		return nil
	})
}

// audit adds a row; nil is none.
func (t *tx) audit(e *schedule.AuditEntry, now time.Time) {
	if e == nil {
		return
	}
	row := *e
	t.lastAudit++
	row.ID, row.Time, row.Count = t.lastAudit, either(e.Time, now), max(e.Count, 1)
	t.trail = append(t.trail, row)
	t.undo = append(t.undo, func() { t.trail = t.trail[:len(t.trail)-1] })
}

// ListAudit returns rows, newest first.
func (s *Store) ListAudit(ctx context.Context, f schedule.AuditFilter) (found []schedule.AuditEntry, err error) {
	err = s.read(ctx, func() error {
		for i := len(s.trail) - 1; i >= 0 && len(found) < schedule.PageSize(f.Limit); i-- {
			e := s.trail[i]
			switch {
			case f.BeforeID > 0 && e.ID >= f.BeforeID, f.Subject != "" && e.Subject != f.Subject,
				f.Target != "" && e.Target != f.Target, f.Method != "" && e.Method != f.Method,
				!f.From.IsZero() && e.Time.Before(f.From), !f.To.IsZero() && !e.Time.Before(f.To):
			default:
				found = append(found, e)
			}
		}
		return nil
	})
	return found, err
}

func (t *tx) pruneAudit(before time.Time, limit int) (pruned int) {
	t.trail = slices.DeleteFunc(t.trail, func(e schedule.AuditEntry) bool {
		old := e.Time.Before(before) && pruned < limit
		if old {
			pruned++
		}
		return old
	})
	return pruned
}
