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
	// maxMargin is taken off the trust in a term, see margin.
	maxMargin = time.Second
	// maxRenewal is how often a term is renewed at least.
	maxRenewal = time.Second
	// resignLimit bounds how long the lock waits for the row to be given back.
	resignLimit = time.Second
	// steady is how long a term lasts after which earlier failures count no more.
	steady = 10 * time.Second
)

// trust is how long a term is believed in after the start of an attempt that
// was successful: the TTL less a margin for clocks that run at different speeds.
func (e *Elector) trust() time.Duration { return e.TTL - min(maxMargin, e.TTL/4) }

// renewal is how often a term is renewed.
func (e *Elector) renewal() time.Duration { return min(maxRenewal, e.TTL/4) }

// tenure is one term being served.
type tenure struct {
	*hold
	term     schedule.Term
	stop     context.CancelCauseFunc // it should end
	distrust context.CancelCauseFunc // it is over

	trustEnds *time.Timer
	attempts  attempts

	mu  sync.Mutex
	end schedule.TermEnd // why it was lost; set once
}

// serve runs one term: renewals beside lead, until lead returns; then it gives
// the row back.
func (e *Elector) serve(ctx context.Context, h *hold, term schedule.Term, since time.Time, lead Lead) error {
	trusted, distrust := context.WithCancelCause(context.WithoutCancel(ctx))
	defer distrust(nil)
	leading, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	defer context.AfterFunc(trusted, func() { stop(context.Cause(trusted)) })()
	t := &tenure{hold: h, term: term, stop: stop, distrust: distrust}
	t.attempts.next(t.renewal())
	// Trust ends in time whatever a renewal is doing, e.g. waiting for a disk, and
	// also while what runs beside the term takes its time to end: open calls still
	// settle under it.
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

	if time.Since(since) > steady {
		e.failures = 0
	}
	lost := context.Cause(trusted)
	end := endOf(ctx, leading, err)
	if lost != nil {
		end = t.lostBecause()
	}
	t.giveRowBack(ctx, end)
	e.yieldingAt = time.Time{}
	return errors.Join(lost, err)
}

// resignBy says how the present term is ended on purpose.
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

// renewAll keeps the lock and extends the row until ctx ends. Any error means:
// not the leader.
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
		case <-unreported: // while the row says otherwise, a crash costs a TTL
			unreported = nil
		}
		t.attempts.begin()
		suspended := t.attempts.suspended()
		began := time.Now()
		askedNow, err := t.renew(ctx, since, stalled)
		switch {
		case ctx.Err() != nil: // over, and nothing is to be judged any more
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

// renew is one attempt. It may not outlive the trust in the last one.
func (t *tenure) renew(ctx context.Context, since time.Time, stalled *stall) (asked bool, err error) {
	ctx, cancel := context.WithDeadline(ctx, since.Add(t.trust()))
	defer cancel()
	if err := t.Fit(); err != nil {
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
