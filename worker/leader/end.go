package leader

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// endError carries why a term ends.
type endError struct {
	reason schedule.EndReason
	err    error
}

func (e *endError) Error() string { return e.err.Error() }
func (e *endError) Unwrap() error { return e.err }

func because(reason schedule.EndReason, err error) error {
	if err == nil {
		return nil
	}
	return &endError{reason, err}
}

// suspendedAfter is how late a renewal must begin to show that the process did not run. A
// busy machine delays it less.
const suspendedAfter = 2 * time.Second

// attempts records whether renewals began on time. It distinguishes a store that does not
// answer from a process that did not run.
type attempts struct {
	mu   sync.Mutex
	due  time.Time // of the attempt under way, or of the next; with monotonic and wall clock
	open bool      // one is under way
	late bool      // it began late
}

func (a *attempts) next(after time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.due, a.open, a.late = time.Now().Add(after), false, false
}

func (a *attempts) begin() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.open, a.late = true, a.overdue()
}

// suspended reports whether the process did not run when it should have.
func (a *attempts) suspended() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.late || !a.open && a.overdue()
}

// overdue compares by the wall clock too: the monotonic clock stops while
// a machine is suspended.
func (a *attempts) overdue() bool {
	now := time.Now()
	return now.Sub(a.due) > suspendedAfter || now.Round(0).Sub(a.due.Round(0)) > suspendedAfter
}

// lostEnd returns why a term was lost.
func (t *tenure) lostEnd(err error) schedule.TermEnd {
	var known *endError
	end := schedule.TermEnd{Reason: schedule.EndDatabase, Detail: err.Error()}
	switch {
	case errors.As(err, &known) && known.reason == schedule.EndClock:
		end.Reason = schedule.EndClock
	case t.attempts.suspended():
		end = schedule.TermEnd{Reason: schedule.EndSuspended}
	case errors.Is(err, schedule.ErrFenced):
		end.Reason = schedule.EndReplaced
	case known != nil:
		end.Reason = known.reason
	}
	return end
}

// endOf returns why a term ended that was not lost: leading has ended, or lead returned by
// itself.
func endOf(ctx, leading context.Context, err error) schedule.TermEnd {
	var known *endError
	switch {
	case ctx.Err() != nil:
		return schedule.TermEnd{Reason: schedule.EndStopped}
	case errors.As(context.Cause(leading), &known):
		return schedule.TermEnd{Reason: known.reason, Detail: detail(known.err)}
	case err != nil:
		return schedule.TermEnd{Reason: schedule.EndStopped, Detail: err.Error()}
	}
	return schedule.TermEnd{Reason: schedule.EndStopped}
}

func detail(err error) string {
	if errors.Is(err, errResigned) {
		return ""
	}
	return err.Error()
}

// stallOf returns the gap between the answers to two renewals; nil: it was short.
func (t *tenure) stallOf(from, until time.Time, suspended bool) *stall {
	if until.Sub(from) <= t.renewal()+suspendedAfter {
		return nil
	}
	end := schedule.TermEnd{Reason: schedule.EndDatabase, Detail: "no renewal was answered for " + until.Sub(from).Round(100*time.Millisecond).String()}
	if suspended {
		end = schedule.TermEnd{Reason: schedule.EndSuspended}
	}
	return &stall{from: from, until: until, end: end}
}

// stall is a schedule.Stall on this machine's monotonic clock.
type stall struct {
	from, until time.Time
	end         schedule.TermEnd
}

func (s *stall) ago() *schedule.Stall {
	if s == nil {
		return nil
	}
	return &schedule.Stall{FromAgo: time.Since(s.from), UntilAgo: time.Since(s.until), End: s.end}
}

// logWon logs the new leader, and which one it replaced, since when and why.
func (t *tenure) logWon(ctx context.Context) {
	fields := []any{"epoch", t.term.Epoch, "holder", t.term.Holder, "lock_held", t.isHeld()}
	if from := t.predecessor(ctx); from != nil {
		fields = append(fields, "from_host", from.Host, "from_holder", from.WorkerID, "from_epoch", from.Epoch,
			"from_ended_at", from.EndedAt, "from_ended", string(from.End.Reason))
		if from.End.Detail != "" {
			fields = append(fields, "from_error", from.End.Detail)
		}
	}
	t.Logger.Info("leadership won", fields...)
}

// predecessor returns the term before this one; nil: there was none, or it cannot be read.
func (t *tenure) predecessor(ctx context.Context) *schedule.LeaderTerm {
	if t.Terms == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, resignLimit)
	defer cancel()
	terms, err := t.Terms.ListTerms(ctx, schedule.TermFilter{Shard: &t.Shard, Limit: 2, Now: t.Now()})
	if err != nil {
		return nil
	}
	for i := range terms {
		if terms[i].Epoch < t.term.Epoch {
			return &terms[i]
		}
	}
	return nil
}
