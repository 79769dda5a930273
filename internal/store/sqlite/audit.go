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

// ListAudit returns rows, newest first.
func (s *Store) ListAudit(ctx context.Context, f schedule.AuditFilter) ([]schedule.AuditEntry, error) {
	q := conditions{args: []any{orLast(f.BeforeID)}}
	q.add(f.Subject != "", sqlAuditSubject, f.Subject)
	q.add(f.Target != "", sqlAuditTarget, f.Target)
	q.add(f.Method != "", sqlAuditMethod, f.Method)
	q.add(!f.From.IsZero(), sqlAuditFrom, f.From.UnixMicro())
	q.add(!f.To.IsZero(), sqlAuditTo, f.To.UnixMicro())
	var (
		id, before, after, count, others               number
		at                                             instant
		subject, via, method, target, user, request, c text
		found                                          []schedule.AuditEntry
	)
	err := s.readers.query(ctx, sqlListAudit+q.where.String()+sqlAuditOrder, func(scan scan) error {
		if err := scan(&id, &at, &subject, &via, &method, &target, &user, &request, &c, &before, &after, &count, &others); err != nil {
			return err
		}
		found = append(found, schedule.AuditEntry{
			ID: int64(id), Time: at.Time, Subject: string(subject), Via: string(via), Method: string(method), Target: string(target),
			UserID: string(user), RequestID: string(request), Code: string(c), RevisionBefore: int64(before), RevisionAfter: int64(after),
			Count: int64(count), OtherTargets: others != 0,
		})
		return nil
	}, append(q.args, limitOf(f.Limit))...)
	if err != nil {
		return nil, fmt.Errorf("list the audit trail: %w", err)
	}
	return found, nil
}
