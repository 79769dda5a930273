package tables

import (
	"context"
	"fmt"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/revision"
)

// ListAudit returns rows of the audit trail, newest first.
func (t *Tables) ListAudit(ctx context.Context, f schedule.AuditFilter) ([]schedule.AuditEntry, error) {
	f.Limit, f.BeforeID = schedule.PageSize(f.Limit), orLast(f.BeforeID)
	list := t.dialect.ListAudit(&f)
	found, err := collect(ctx, t.read, func(e *schedule.AuditEntry) []any {
		return []any{
			&e.ID, &e.Time, &e.Subject, &e.Via, &e.Method, &e.Target, &e.UserID, &e.RequestID, &e.Code,
			&e.RevisionBefore, &e.RevisionAfter, &e.Count, &e.OtherTargets,
		}
	}, list.Statement, list.Args...)
	if err != nil {
		return nil, fmt.Errorf("list the audit trail: %w", err)
	}
	return found, nil
}

// Events returns the rows of a statement.
func Events(ctx context.Context, q Queries, statement string, args ...any) ([]schedule.Event, error) {
	return collect(ctx, q, func(e *schedule.Event) []any {
		return []any{&e.ID, &e.ScheduleID, &e.Time, &e.Kind, &e.From, &e.To, &e.Count, &e.Reason, &e.Actor, &e.Note, &e.Revision}
	}, statement, args...)
}

// Revisions returns the rows of a statement. It fails at a definition that cannot be read.
func Revisions(ctx context.Context, q Queries, statement string, args ...any) (found []schedule.Revision, err error) {
	var (
		row        schedule.Revision
		definition string
	)
	err = q.Each(ctx, statement, []any{&row.ScheduleID, &row.Revision, &definition, &row.ChangedBy, &row.CreatedAt}, func(bad error) error {
		d, err := revision.Decode(definition)
		if err != nil {
			return fmt.Errorf("revision %d of %s: %w", row.Revision, row.ScheduleID, err)
		}
		row.Definition = *d
		found = append(found, row)
		return bad
	}, args...)
	return found, err
}

// ListEvents returns events, newest first; beforeID = 0 begins at the end.
func (t *Tables) ListEvents(ctx context.Context, scheduleID string, beforeID int64, limit int) ([]schedule.Event, error) {
	events, err := Events(ctx, t.read, t.dialect.ListEvents, scheduleID, orLast(beforeID), schedule.PageSize(limit))
	if err != nil {
		return nil, fmt.Errorf("list events of %s: %w", scheduleID, err)
	}
	return events, nil
}

// ListRevisions returns revisions, newest first; before = 0 begins at the end.
func (t *Tables) ListRevisions(ctx context.Context, scheduleID string, before int64, limit int) ([]schedule.Revision, error) {
	revisions, err := Revisions(ctx, t.read, t.dialect.ListRevisions, scheduleID, orLast(before), schedule.PageSize(limit))
	if err != nil {
		return nil, fmt.Errorf("list revisions of %s: %w", scheduleID, err)
	}
	return revisions, nil
}

func termFields(t *schedule.LeaderTerm) []any {
	return []any{&t.Shard, &t.Epoch, &t.WorkerID, &t.Host, &t.StartedAt, &t.EndedAt, &t.End.Reason, &t.End.Detail, &t.RenewedAt, &t.Expired}
}

// ListTerms returns terms, newest first.
func (t *Tables) ListTerms(ctx context.Context, f schedule.TermFilter) ([]schedule.LeaderTerm, error) {
	list := t.dialect.ListTerms(&f)
	terms, err := collect(ctx, t.read, termFields, list.Statement, list.Args...)
	if err != nil {
		return nil, fmt.Errorf("list terms: %w", err)
	}
	return terms, nil
}

// WindowTerms returns the terms that led a hash bucket in a window, oldest first.
func (t *Tables) WindowTerms(ctx context.Context, w schedule.TermWindow) ([]schedule.LeaderTerm, error) {
	return t.dialect.TermsIn(ctx, t.read, w)
}

// TermsIn is WindowTerms in a transaction.
func (d *Dialect) TermsIn(ctx context.Context, q Queries, w schedule.TermWindow) ([]schedule.LeaderTerm, error) {
	list := d.WindowTerms(&w)
	terms, err := collect(ctx, q, termFields, list.Statement, list.Args...)
	if err != nil {
		return nil, fmt.Errorf("list terms of bucket %d: %w", w.Bucket, err)
	}
	return terms, nil
}

// FirstSent returns when the first call of a run that may have reached the executor
// began; zero: there was none, or the run has ended and was delivered once.
func (t *Tables) FirstSent(ctx context.Context, key schedule.Key) (at time.Time, err error) {
	if _, err := one(ctx, t.read, []any{&at}, t.dialect.FirstSent, key); err != nil {
		return time.Time{}, fmt.Errorf("read the first call of %s: %w", key, err)
	}
	return at, nil
}

// FailuresOf returns the failures of those schedules that are failing.
func (d *Dialect) FailuresOf(ctx context.Context, q Queries, scheduleIDs []string) (map[string]*schedule.Failure, error) {
	return Failures(ctx, q, d.Failing, append([]string{}, scheduleIDs...))
}

// Failures returns the rows of a statement by schedule.
func Failures(ctx context.Context, q Queries, statement string, args ...any) (map[string]*schedule.Failure, error) {
	failures, err := collect(ctx, q, func(f *schedule.Failure) []any {
		return []any{
			&f.ScheduleID, &f.Failures, &f.FirstRunAt, &f.FirstEndedAt, &f.LastRunAt, &f.LastEndedAt, &f.LastKey,
			&f.Reason, &f.ErrorCode, &f.ErrorMessage,
		}
	}, statement, args...)
	if err != nil {
		return nil, fmt.Errorf("read failures: %w", err)
	}
	found := make(map[string]*schedule.Failure, len(failures))
	for i := range failures {
		found[failures[i].ScheduleID] = &failures[i]
	}
	return found, nil
}

// CountEnded counts runs that ended since an instant; see registrar.OutcomeStore.
func (t *Tables) CountEnded(ctx context.Context, since time.Time, limit int) ([]schedule.EndedCount, error) {
	counts, err := collect(ctx, t.read, func(c *schedule.EndedCount) []any {
		return []any{&c.ScheduleID, &c.Status, &c.Reason, &c.ErrorCode, &c.Runs}
	}, t.dialect.CountEnded, since, limit)
	if err != nil {
		return nil, fmt.Errorf("count runs that ended: %w", err)
	}
	return counts, nil
}

// CountDead counts dead runs by schedule; see registrar.OutcomeStore.
func (t *Tables) CountDead(ctx context.Context, since time.Time, limit int) ([]schedule.DeadCount, error) {
	counts, err := collect(ctx, t.read, func(c *schedule.DeadCount) []any { return []any{&c.ScheduleID, &c.Runs} }, t.dialect.CountDead, since, limit)
	if err != nil {
		return nil, fmt.Errorf("count dead runs: %w", err)
	}
	return counts, nil
}

// CountCalls counts executor calls by result; see registrar.OutcomeStore.
func (t *Tables) CountCalls(ctx context.Context, since time.Time, limit int) (schedule.CallCounts, error) {
	found, err := collect(ctx, t.read, func(c *schedule.CallCount) []any {
		return []any{&c.Result, &c.ErrorCode, &c.Calls, &c.Last, &c.ScheduleID, &c.ErrorMessage}
	}, t.dialect.CountCalls, since, limit, since.UnixMicro())
	if err != nil {
		return schedule.CallCounts{}, fmt.Errorf("count executor calls: %w", err)
	}
	return schedule.CallCountsOf(found, since, limit), nil
}

// RecentOutcomes returns the newest n outcomes of each schedule, and whether it fails;
// see registrar.OutcomeStore.
func (t *Tables) RecentOutcomes(ctx context.Context, scheduleIDs []string, n int) (map[string]schedule.Recent, error) {
	recent := make(map[string]schedule.Recent, len(scheduleIDs))
	if len(scheduleIDs) == 0 {
		return recent, nil
	}
	var (
		id string
		o  schedule.EndedRun
	)
	err := t.read.Each(ctx, t.dialect.RecentOutcomes, []any{&id, &o.Key, &o.RunAt, &o.EndedAt, &o.Status, &o.Reason, &o.ErrorCode, &o.Retried}, func(bad error) error {
		recent[id] = schedule.Recent{Outcomes: append(recent[id].Outcomes, o)}
		return bad
	}, scheduleIDs, n)
	if err != nil {
		return nil, fmt.Errorf("read recent outcomes: %w", err)
	}
	failures, err := t.dialect.FailuresOf(ctx, t.read, scheduleIDs)
	if err != nil {
		return nil, err
	}
	for id, f := range failures {
		recent[id] = schedule.Recent{Outcomes: recent[id].Outcomes, Failure: f}
	}
	return recent, nil
}

// Lag returns the oldest instants that should have been claimed and planned by now.
func (t *Tables) Lag(ctx context.Context, now time.Time) (l schedule.Lag, err error) {
	if _, err := one(ctx, t.read, []any{&l.Due, &l.OldestDue, &l.Unplanned, &l.OldestPlan}, t.dialect.Lag, now); err != nil {
		return schedule.Lag{}, fmt.Errorf("measure lag: %w", err)
	}
	return l, nil
}
