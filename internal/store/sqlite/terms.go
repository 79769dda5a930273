package sqlite

import (
	"context"
	"fmt"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// predecessor is the leaders row that a takeover replaces.
type predecessor struct {
	epoch   int64
	expires time.Time
}

func readPredecessor(ctx context.Context, t tx, shard int) (p predecessor, err error) {
	var expires instant
	err = t.query(ctx, sqlTerm, func(scan scan) error { return scan(&p.epoch, &expires) }, shard)
	p.expires = expires.Time
	return p, err
}

// succeed ends the rows that the previous term left open, and begins the new term.
func succeed(ctx context.Context, t tx, term schedule.Term, req *schedule.TakeoverRequest, before predecessor) error {
	reason := schedule.EndLockFreed
	if !before.expires.After(req.Now) {
		reason = schedule.EndExpired
	}
	now := req.Now.UnixMicro()
	if _, err := t.exec(ctx, sqlTermSucceed, term.Shard, before.epoch, micros(before.expires), now, string(reason)); err != nil {
		return fmt.Errorf("end the term before: %w", err)
	}
	first, last := term.Buckets()
	if _, err := t.exec(ctx, sqlTermStart, term.Shard, term.Epoch, now, first, last, req.Holder, req.Host, req.TTL.Milliseconds()); err != nil {
		return fmt.Errorf("begin the term: %w", err)
	}
	return nil
}

// noteStall splits the term's row around a time without answers.
func noteStall(ctx context.Context, t tx, term schedule.Term, req *schedule.RenewRequest) error {
	stall := req.Stall
	n, err := t.exec(ctx, sqlTermStall, term.Shard, term.Epoch, req.Now.Add(-stall.FromAgo).UnixMicro(), string(stall.End.Reason),
		word(schedule.Storable(stall.End.Detail, schedule.MaxEndDetail)))
	if err != nil || n == 0 { // the term was won by an older version
		return err
	}
	_, err = t.exec(ctx, sqlTermContinue, term.Shard, term.Epoch, req.Now.Add(-stall.UntilAgo).UnixMicro())
	return err
}

// ListTerms returns terms, newest first.
func (s *Store) ListTerms(ctx context.Context, f schedule.TermFilter) ([]schedule.LeaderTerm, error) {
	var shard any
	if f.Shard != nil {
		shard = *f.Shard
	}
	terms, err := readTerms(ctx, s.readers, sqlListTerms, f.Now.UnixMicro(), shard, f.Limit)
	if err != nil {
		return nil, fmt.Errorf("list terms: %w", err)
	}
	return terms, nil
}

// WindowTerms returns the terms that led a hash bucket in a window, oldest first.
func (s *Store) WindowTerms(ctx context.Context, w schedule.TermWindow) ([]schedule.LeaderTerm, error) {
	terms, err := windowTerms(ctx, s.readers, w)
	if err != nil {
		return nil, fmt.Errorf("list terms of bucket %d: %w", w.Bucket, err)
	}
	return terms, nil
}

func windowTerms(ctx context.Context, q querier, w schedule.TermWindow) ([]schedule.LeaderTerm, error) {
	return readTerms(ctx, q, sqlWindowTerms, w.Now.UnixMicro(), w.Bucket, w.From.UnixMicro(), w.Until.UnixMicro(), schedule.MaxWindowTerms)
}

func readTerms(ctx context.Context, q querier, statement string, args ...any) ([]schedule.LeaderTerm, error) {
	var terms []schedule.LeaderTerm
	err := q.query(ctx, statement, func(scan scan) error {
		var (
			t                       schedule.LeaderTerm
			shard, epoch            number
			started, ended, renewed instant
			worker, host, why, more text
			expired                 flag
		)
		if err := scan(&shard, &epoch, &worker, &host, &started, &ended, &why, &more, &renewed, &expired); err != nil {
			return err
		}
		t.Shard, t.Epoch, t.WorkerID, t.Host, t.Expired = int(shard), int64(epoch), string(worker), string(host), bool(expired)
		t.StartedAt, t.EndedAt, t.RenewedAt = started.Time, ended.Time, renewed.Time
		t.End = schedule.TermEnd{Reason: schedule.EndReason(why), Detail: string(more)}
		terms = append(terms, t)
		return nil
	}, args...)
	return terms, err
}

// FirstSent returns when the first call of a run that may have reached the executor
// began; zero: there was none, or the run has ended and was delivered once.
func (s *Store) FirstSent(ctx context.Context, key schedule.Key) (time.Time, error) {
	var at instant
	if err := s.readers.query(ctx, sqlFirstSent, func(scan scan) error { return scan(&at) }, keyArg(key)); err != nil {
		return time.Time{}, fmt.Errorf("read the first call of %s: %w", key, err)
	}
	return at.Time, nil
}
