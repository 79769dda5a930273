package memory

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// termRow is a row of leader_terms.
type termRow struct {
	schedule.LeaderTerm
	first, last int // hash buckets
	ttl         time.Duration
}

// open is the row of a shard's term that has not ended, or nil.
func (s *Store) openTerm(shard int) *termRow {
	i := slices.IndexFunc(s.terms, func(t *termRow) bool { return t.Shard == shard && t.EndedAt.IsZero() })
	if i < 0 {
		return nil
	}
	return s.terms[i]
}

func (t *tx) endTerm(row *termRow, at time.Time, end schedule.TermEnd) {
	row.EndedAt, row.End = schedule.Later(row.StartedAt, at), end
}

// succeed ends the rows that the previous term left open, and begins the new term.
func (t *tx) succeed(term schedule.Term, req *schedule.TakeoverRequest, expires, now time.Time) {
	if row := t.openTerm(term.Shard); row != nil {
		reason := schedule.EndLockFreed
		if !expires.After(now) {
			reason = schedule.EndExpired
		}
		t.endTerm(row, expires.Add(-row.ttl), schedule.TermEnd{Reason: reason})
	}
	first, last := term.Buckets()
	t.terms = append(t.terms, &termRow{first: first, last: last, ttl: req.TTL, LeaderTerm: schedule.LeaderTerm{
		Shard: term.Shard, Epoch: term.Epoch, WorkerID: req.Holder, Host: req.Host, StartedAt: now,
	}})
}

// noteStall splits the term's row around a time without answers.
func (t *tx) noteStall(term schedule.Term, stall *schedule.Stall, now time.Time) {
	row := t.openTerm(term.Shard)
	if row == nil || row.Epoch != term.Epoch {
		return
	}
	next := *row
	t.endTerm(row, at(now.Add(-stall.FromAgo)), stall.End)
	next.StartedAt = schedule.Later(row.EndedAt.Add(time.Microsecond), at(now.Add(-stall.UntilAgo)))
	t.terms = append(t.terms, &next)
}

// resignTerm records why a term ended; expires is zero where the leaders row is
// another's.
func (t *tx) resignTerm(term schedule.Term, end schedule.TermEnd, expires, now time.Time) {
	end.Reason = cmp.Or(end.Reason, schedule.EndResigned)
	for _, row := range t.terms {
		switch {
		case row.Shard != term.Shard || row.Epoch != term.Epoch || row.WorkerID != term.Holder:
		case !row.EndedAt.IsZero():
			if end.Reason.Amends() && row.End.Reason.Inferred() {
				row.End = end
			}
		case !expires.IsZero() && end.Reason.Lost():
			t.endTerm(row, expires.Add(-row.ttl), end)
		case !expires.IsZero() && expires.Before(now):
			t.endTerm(row, expires, end)
		default:
			t.endTerm(row, now, end)
		}
	}
}

// told is a row as it is read at an instant.
func (s *Store) told(row *termRow, now time.Time) schedule.LeaderTerm {
	t := row.LeaderTerm
	if l := s.leaders[t.Shard]; t.EndedAt.IsZero() && l != nil && l.Epoch == t.Epoch {
		t.RenewedAt, t.Expired = l.expires.Add(-row.ttl), !l.expires.After(now)
	}
	return t
}

// ListTerms returns terms, newest first.
func (s *Store) ListTerms(ctx context.Context, f schedule.TermFilter) (terms []schedule.LeaderTerm, err error) {
	err = s.read(ctx, func() error {
		for _, row := range s.terms {
			if f.Shard == nil || *f.Shard == row.Shard {
				terms = append(terms, s.told(row, s.clock(f.Now)))
			}
		}
		return nil
	})
	slices.SortFunc(terms, func(a, b schedule.LeaderTerm) int {
		return cmp.Or(b.StartedAt.Compare(a.StartedAt), cmp.Compare(a.Shard, b.Shard), cmp.Compare(b.Epoch, a.Epoch))
	})
	return terms[:min(f.Limit, len(terms))], err
}

// WindowTerms returns the terms that led a hash bucket in a window, oldest first.
func (s *Store) WindowTerms(ctx context.Context, w schedule.TermWindow) (terms []schedule.LeaderTerm, err error) {
	err = s.read(ctx, func() error {
		terms = s.windowTerms(w)
		return nil
	})
	return terms, err
}

func (s *Store) windowTerms(w schedule.TermWindow) (terms []schedule.LeaderTerm) {
	var all []schedule.LeaderTerm
	for _, row := range s.terms {
		if row.first <= w.Bucket && w.Bucket <= row.last {
			all = append(all, s.told(row, s.clock(w.Now)))
		}
	}
	slices.SortFunc(all, func(a, b schedule.LeaderTerm) int {
		return cmp.Or(a.StartedAt.Compare(b.StartedAt), cmp.Compare(a.Epoch, b.Epoch))
	})
	for i, t := range all {
		switch {
		case !t.StartedAt.After(w.From):
			if i+1 < len(all) && !all[i+1].StartedAt.After(w.From) {
				continue
			}
		case t.StartedAt.After(w.Until):
			return append(terms, t)
		}
		terms = append(terms, t)
	}
	return terms
}

func (t *tx) pruneTerms(before time.Time, limit int) (pruned int) {
	t.terms = slices.DeleteFunc(t.terms, func(row *termRow) bool {
		old := row.StartedAt.Before(before) && !row.EndedAt.IsZero() && row.EndedAt.Before(before) && pruned < limit
		if old {
			pruned++
		}
		return old
	})
	return pruned
}

// FirstSent returns when the first call of a run that may have reached the executor
// began; zero: there was none, or the run has ended and was delivered once.
func (s *Store) FirstSent(ctx context.Context, key schedule.Key) (first time.Time, err error) {
	err = s.read(ctx, func() error {
		if r := s.runs[key]; r != nil && (!r.Status.Terminal() || r.Deliveries > 1) {
			first = s.firstSent[key]
		}
		return nil
	})
	return first, err
}
