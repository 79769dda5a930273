package leader

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/carillon/carillon/internal/failpoint"
	"github.com/carillon/carillon/internal/schedule"
)

// errResigned is why a term ends on purpose.
var errResigned = errors.New("asked to resign")

const (
	// maxMargin caps the margin by which trust is shorter than the TTL.
	maxMargin = time.Second
	// maxRenewal is the longest time between renewals.
	maxRenewal = time.Second
	// resignLimit bounds the resignation, for which the lock waits.
	resignLimit = time.Second
	// stableAfter is how long a term must last so that earlier failures no longer count.
	stableAfter = 10 * time.Second
)

// trust is how long a term is trusted after the start of a successful attempt: the TTL less
// a margin for clocks of different speed.
func (e *Elector) trust() time.Duration { return e.TTL - min(maxMargin, e.TTL/4) }

// renewal is the time between renewals.
func (e *Elector) renewal() time.Duration { return min(maxRenewal, e.TTL/4) }

// tenure is one term being served.
type tenure struct {
	*hold
	term     schedule.Term
	stop     context.CancelCauseFunc // the term should end
	distrust context.CancelCauseFunc // the term is over

	trustEnds *time.Timer
	attempts  attempts

	mu  sync.Mutex
	end schedule.TermEnd // why it was lost; set once
}

// serve runs one term: it renews the term until lead returns, then gives the row back.
func (e *Elector) serve(ctx context.Context, h *hold, term schedule.Term, since time.Time, lead Lead) error {
	trusted, distrust := context.WithCancelCause(context.WithoutCancel(ctx))
	defer distrust(nil)
	leading, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	defer context.AfterFunc(trusted, func() { stop(context.Cause(trusted)) })()
	t := &tenure{hold: h, term: term, stop: stop, distrust: distrust}
	t.attempts.next(t.renewal())
	// Trust ends in time even if a renewal hangs, and also while lead waits for open calls
	// to settle under the term.
	t.trustEnds = time.AfterFunc(time.Until(since.Add(t.trust())), func() {
		t.lose(fmt.Errorf("no renewal in time: %w", context.DeadlineExceeded))
	})
	defer t.trustEnds.Stop()

	e.refused = false
	e.OnChange(term, true)
	defer e.OnChange(term, false)
	e.resignBy(stop)
	defer e.resignBy(nil)

	beside, done := context.WithCancel(trusted)
	defer done()
	var others sync.WaitGroup
	others.Go(func() { t.logWon(beside) })
	others.Go(func() { t.renewAll(beside, since) })
	others.Go(func() { h.breakOff(beside) })
	err := lead(leading, trusted, term)
	done()
	others.Wait()

	if time.Since(since) > stableAfter {
		e.failures = 0
	}
	lost := context.Cause(trusted)
	end := endOf(ctx, leading, err)
	if lost != nil {
		end = t.lostBecause()
	}
	t.giveRowBack(ctx, end)
	e.deferringSince = time.Time{}
	return errors.Join(lost, err)
}

// resignBy sets the function that ends the current term on purpose.
func (e *Elector) resignBy(stop context.CancelCauseFunc) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.stop = stop
}

// giveRowBack lets the row expire and records why the term ended. If another
// worker has taken over, only the record changes.
func (t *tenure) giveRowBack(ctx context.Context, end schedule.TermEnd) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), resignLimit)
	defer cancel()
	if err := t.Lease.Resign(ctx, t.term, schedule.Resignation{Now: t.Now(), End: end}); err != nil {
		if end.Reason == schedule.EndLock { // the database is away as well, which explains the lock
			end.Reason = schedule.EndDatabase
		}
		t.unresigned = &unresigned{t.term, end}
		t.quiet.Warn("cannot resign; the term expires by itself", err)
		return
	}
	failpoint.Hit(failpoint.Resigned)
	if !end.Reason.Lost() {
		t.Logger.Info("leadership released", "epoch", t.term.Epoch, "reason", string(end.Reason))
	}
}

// renewAll keeps the lock and extends the row until ctx ends. After any error the term is
// lost.
func (t *tenure) renewAll(ctx context.Context, since time.Time) {
	asked, unreported, stalled := false, t.held, (*stall)(nil)
	answered := since
	if t.wonBy {
		unreported = nil
	}
	timer := time.NewTimer(t.renewal())
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-unreported: // until the row has the lock, a crash costs a TTL
			unreported = nil
		}
		t.attempts.begin()
		suspended := t.attempts.suspended()
		began := time.Now()
		askedNow, err := t.renew(ctx, since, stalled)
		switch {
		case ctx.Err() != nil: // the term is over: the error means nothing
			return
		case err != nil:
			t.lose(err)
			return
		case askedNow && !asked:
			t.Logger.Info("leader was asked to resign", "epoch", t.term.Epoch)
			t.stop(because(schedule.EndResigned, errResigned))
		}
		asked = askedNow
		stalled = t.stallOf(answered, time.Now(), suspended)
		since = began
		answered = time.Now()
		t.attempts.next(t.renewal())
		t.trustEnds.Reset(time.Until(since.Add(t.trust())))
		timer.Reset(t.renewal())
	}
}

// renew is one attempt. It ends before the trust in the last one does.
func (t *tenure) renew(ctx context.Context, since time.Time, stalled *stall) (asked bool, err error) {
	ctx, cancel := context.WithDeadline(ctx, since.Add(t.trust()))
	defer cancel()
	if err := t.MayLead(); err != nil {
		return false, because(schedule.EndClock, err)
	}
	held := t.isHeld()
	if held {
		if err := t.Lock.Keep(ctx); err != nil {
			return false, because(schedule.EndLock, fmt.Errorf("keep lock: %w", err))
		}
	}
	failpoint.Hit(failpoint.Renewing)
	asked, err = t.Lease.Renew(ctx, t.term, schedule.RenewRequest{TTL: t.TTL, LockHeld: held, Now: t.Now(), Stall: stalled.ago()})
	failpoint.Hit(failpoint.Renewed)
	return asked, err
}

func (t *tenure) lose(err error) {
	end := t.lostEnd(err)
	t.mu.Lock()
	if t.end.Reason == "" {
		t.end = end
	}
	t.mu.Unlock()
	t.distrust(fmt.Errorf("%w: %w", ErrTermLost, err))
	t.Logger.Warn("leadership lost", "epoch", t.term.Epoch, "reason", string(end.Reason), "err", err)
}

func (t *tenure) lostBecause() schedule.TermEnd {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.end
}
