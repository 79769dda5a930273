package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/carillon/carillon/internal/schedule"
)

// predecessor is the leaders row that a takeover replaces.
type predecessor struct {
	epoch   int64
	expires time.Time
	expired bool
}

// succeed ends the rows that the previous term left open, and begins the new term.
func succeed(ctx context.Context, tx pgx.Tx, term schedule.Term, req *schedule.TakeoverRequest, before predecessor) error {
	reason := schedule.EndLockFreed
	if before.expired {
		reason = schedule.EndExpired
	}
	if _, err := tx.Exec(ctx, sqlTermSucceed, term.Shard, before.epoch, before.expires, string(reason)); err != nil {
		return fmt.Errorf("end the term before: %w", err)
	}
	first, last := term.Buckets()
	if _, err := tx.Exec(ctx, sqlTermStart, term.Shard, term.Epoch, first, last, req.Holder, req.Host, req.TTL.Milliseconds()); err != nil {
		return fmt.Errorf("begin the term: %w", err)
	}
	return nil
}

// noteStall splits the term's row around a time without answers.
func noteStall(ctx context.Context, tx pgx.Tx, term schedule.Term, stall *schedule.Stall) error {
	n, err := affect(ctx, tx, sqlTermStall, term.Shard, term.Epoch, interval(stall.FromAgo), string(stall.End.Reason),
		noneOrText(schedule.Storable(stall.End.Detail, schedule.MaxEndDetail)))
	if err != nil || n == 0 { // the term was won by an older version
		return err
	}
	_, err = affect(ctx, tx, sqlTermContinue, term.Shard, term.Epoch, interval(stall.UntilAgo))
	return err
}

// ListTerms returns terms, newest first.
func (s *Store) ListTerms(ctx context.Context, f schedule.TermFilter) ([]schedule.LeaderTerm, error) {
	var shard pgtype.Int4
	if f.Shard != nil {
		shard = pgtype.Int4{Int32: int32(*f.Shard), Valid: true}
	}
	terms, err := collectTerms(ctx, s.pool, sqlListTerms, shard, f.Limit)
	if err != nil {
		return nil, fmt.Errorf("list terms: %w", err)
	}
	return terms, nil
}

// WindowTerms returns the terms that led a hash bucket in a window, oldest first.
func (s *Store) WindowTerms(ctx context.Context, w schedule.TermWindow) ([]schedule.LeaderTerm, error) {
	terms, err := windowTerms(ctx, s.pool, w)
	if err != nil {
		return nil, fmt.Errorf("list terms of bucket %d: %w", w.Bucket, err)
	}
	return terms, nil
}

func windowTerms(ctx context.Context, q querier, w schedule.TermWindow) ([]schedule.LeaderTerm, error) {
	return collectTerms(ctx, q, sqlWindowTerms, w.Bucket, w.From, w.Until, schedule.MaxWindowTerms)
}

func collectTerms(ctx context.Context, q querier, statement string, args ...any) ([]schedule.LeaderTerm, error) {
	var (
		t              schedule.LeaderTerm
		ended, renewed pgtype.Timestamptz
		reason, detail pgtype.Text
		terms          []schedule.LeaderTerm
	)
	err := each(ctx, q, []any{&t.Shard, &t.Epoch, &t.WorkerID, &t.Host, &t.StartedAt, &ended, &reason, &detail, &renewed, &t.Expired}, func() error {
		row := t
		row.StartedAt, row.EndedAt, row.RenewedAt = t.StartedAt.UTC(), utc(ended), utc(renewed)
		row.End = schedule.TermEnd{Reason: schedule.EndReason(reason.String), Detail: detail.String}
		terms = append(terms, row)
		return nil
	}, statement, args...)
	return terms, err
}

// utc is a column's time; zero where it is NULL.
func utc(t pgtype.Timestamptz) time.Time {
	if !t.Valid {
		return time.Time{}
	}
	return t.Time.UTC()
}

// FirstSent returns when the first call of a run that may have reached the executor
// began; zero: there was none, or the run has ended and was delivered once.
func (s *Store) FirstSent(ctx context.Context, key schedule.Key) (time.Time, error) {
	var at pgtype.Timestamptz
	if err := s.pool.QueryRow(ctx, sqlFirstSent, key[:]).Scan(&at); err != nil {
		return time.Time{}, fmt.Errorf("read the first call of %s: %w", key, err)
	}
	return utc(at), nil
}
