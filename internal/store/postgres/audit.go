package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/carillon/carillon/internal/schedule"
)

// AppendAudit adds rows to the audit trail in a transaction of their own: of refused
// calls, and of changes that have no other transaction.
func (s *Store) AppendAudit(ctx context.Context, entries []schedule.AuditEntry) error {
	if err := s.transact(ctx, func(tx pgx.Tx) error { return insertAudit(ctx, tx, entries) }); err != nil {
		return fmt.Errorf("append to the audit trail: %w", err)
	}
	return nil
}

func insertAudit(ctx context.Context, tx pgx.Tx, entries []schedule.AuditEntry) error {
	if len(entries) == 0 {
		return nil
	}
	type entry = schedule.AuditEntry
	_, err := tx.Exec(ctx, sqlInsertAudit,
		column(entries, func(e *entry) time.Time { return e.Time }),
		column(entries, func(e *entry) string { return e.Subject }),
		column(entries, func(e *entry) string { return e.Via }),
		column(entries, func(e *entry) string { return e.Method }),
		column(entries, func(e *entry) string { return e.Target }),
		column(entries, func(e *entry) string { return e.UserID }),
		column(entries, func(e *entry) string { return e.RequestID }),
		column(entries, func(e *entry) string { return e.Code }),
		column(entries, func(e *entry) int64 { return e.RevisionBefore }),
		column(entries, func(e *entry) int64 { return e.RevisionAfter }),
		column(entries, func(e *entry) int64 { return max(e.Count, 1) }),
		column(entries, func(e *entry) bool { return e.OtherTargets }),
	)
	if err != nil {
		return fmt.Errorf("insert audit rows: %w", err)
	}
	return nil
}

// auditOf returns the audit rows of changes.
func auditOf(changes []schedule.Change) (entries []schedule.AuditEntry) {
	for i := range changes {
		if changes[i].Audit != nil {
			entries = append(entries, *changes[i].Audit)
		}
	}
	return entries
}
