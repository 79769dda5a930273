package sqlite

import (
	"context"
	"fmt"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// AppendAudit adds rows to the audit trail in a transaction of their own: of refused
// calls, and of changes that have no other transaction.
func (s *Store) AppendAudit(ctx context.Context, entries []schedule.AuditEntry) error {
	now := s.Now()
	err := s.write(ctx, func(ctx context.Context, t tx) error {
		for i := range entries {
			if err := t.insertAudit(ctx, &entries[i], now); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("append to the audit trail: %w", err)
	}
	return nil
}

// insertAudit adds a row; nil is none.
func (t tx) insertAudit(ctx context.Context, e *schedule.AuditEntry, now time.Time) error {
	if e == nil {
		return nil
	}
	_, err := t.exec(ctx, sqlInsertAudit, either(e.Time, now).UnixMicro(), e.Subject, e.Via, e.Method, e.Target, e.UserID, e.RequestID,
		e.Code, e.RevisionBefore, e.RevisionAfter, max(e.Count, 1), e.OtherTargets)
	if err != nil {
		return fmt.Errorf("insert audit row: %w", err)
	}
	return nil
}
