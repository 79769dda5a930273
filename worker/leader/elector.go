package leader

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/carillon/carillon/internal/schedule"
)

// Lock makes handing over fast. It decides who tries, never who may write.
type Lock interface {
	// Acquire blocks until the lock is held or ctx ends.
	Acquire(ctx context.Context) error
	// Release frees it, if it is held.
	Release(ctx context.Context) error
}

// Options are an Elector's parts.
type Options struct {
	Lease  LeaseStore
	Lock   Lock
	Shard  int
	TTL    time.Duration // default 10 s
	Now    func() time.Time
	Logger *slog.Logger
	// Fit says why this process must not lead now, e.g. because its clock is too
	// far off; nil: it may. It is asked before every takeover and renewal.
	Fit func() error
	// OnChange is told of every term that begins (leading) and ends.
	OnChange func(term schedule.Term, leading bool)
}

// Elector campaigns for one shard.
type Elector struct {
	Options
	holder   string
	lockHeld bool // when the present term began
}

// margin is taken off the trust in a term.
const margin = time.Second

// followerPoll is how often a follower looks whether the row has expired.
const followerPoll = time.Second

// ErrTermLost is the cause with which a term's context ends when a renewal
// failed.
var ErrTermLost = errors.New("leadership lost")

// New makes an Elector with a random holder name: the same process started
// again is somebody else.
func New(o Options) *Elector {
	if o.TTL <= 0 {
		o.TTL = 10 * time.Second
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Fit == nil {
		o.Fit = func() error { return nil }
	}
	if o.OnChange == nil {
		o.OnChange = func(schedule.Term, bool) {}
	}
	o.Logger = o.Logger.With("component", "leader", "shard", o.Shard)
	return &Elector{Options: o, holder: rand.Text()}
}

// Holder is this process' name in the leaders row.
func (e *Elector) Holder() string { return e.holder }

// Run campaigns until ctx ends. For every term that is won it calls lead and
// waits for it. lead gets two contexts: ctx, which ends when it should stop
// and drain, and trusted, which ends when nothing may be written any more.
func (e *Elector) Run(ctx context.Context, lead func(ctx, trusted context.Context, term schedule.Term) error) error {
	for ctx.Err() == nil {
		if err := e.campaign(ctx, lead); err != nil && ctx.Err() == nil {
			e.Logger.Warn("campaign failed", "err", err)
			pause(ctx, time.Second)
		}
	}
	return ctx.Err()
}

// campaign is one follower's wait and, if it is won, one term.
func (e *Elector) campaign(ctx context.Context, lead func(ctx, trusted context.Context, term schedule.Term) error) error {
	lockCtx, stopWaiting := context.WithCancel(context.WithoutCancel(ctx))
	held := make(chan error, 1)
	var g errgroup.Group
	g.Go(func() error { held <- e.Lock.Acquire(lockCtx); return nil })
	defer func() {
		stopWaiting()
		_ = g.Wait()
		releaseCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer cancel()
		if err := e.Lock.Release(releaseCtx); err != nil {
			e.Logger.Warn("lock not released", "err", err)
		}
	}()

	term, since, err := e.follow(ctx, held)
	if err != nil {
		return err
	}
	return e.lead(ctx, term, since, lead)
}

// follow waits for the lock or for the row to expire, and takes over. since is
// when the successful attempt began.
//
// The lock comes first: whoever took over an expired row at once would often
// lose it again to the one that gets the lock a moment later.
func (e *Elector) follow(ctx context.Context, held <-chan error) (term schedule.Term, since time.Time, err error) {
	lockHeld := false
	for {
		var lockErr error
		poll := time.NewTimer(followerPoll)
		select {
		case <-ctx.Done():
			poll.Stop()
			return term, since, ctx.Err()
		case lockErr = <-held:
			lockHeld, held = lockErr == nil, nil
			poll.Stop()
		case <-poll.C:
		}
		since = time.Now()
		attempt, cancel := context.WithTimeout(ctx, e.TTL/2)
		term, won, err := e.takeOver(attempt, lockHeld)
		cancel()
		switch {
		case err != nil:
			return term, since, fmt.Errorf("take over: %w", err)
		case won:
			e.lockHeld = lockHeld
			return term, since, nil
		case lockErr != nil: // to be tried again, with a new connection or file
			return term, since, fmt.Errorf("acquire lock: %w", lockErr)
		}
	}
}

func (e *Elector) takeOver(ctx context.Context, lockHeld bool) (schedule.Term, bool, error) {
	if err := e.Fit(); err != nil {
		return schedule.Term{}, false, err
	}
	return e.Lease.Takeover(ctx, schedule.TakeoverRequest{
		Shard: e.Shard, Holder: e.holder, TTL: e.TTL, LockHeld: lockHeld, Now: e.Now(),
	})
}

// lead runs one term: renewals beside lead, until lead returns.
func (e *Elector) lead(ctx context.Context, term schedule.Term, since time.Time, lead func(ctx, trusted context.Context, term schedule.Term) error) error {
	trusted, distrust := context.WithCancelCause(context.WithoutCancel(ctx))
	defer distrust(nil)
	leadCtx, stop := context.WithCancel(ctx)
	defer stop()
	context.AfterFunc(trusted, stop)

	e.Logger.Info("leadership won", "epoch", term.Epoch, "holder", term.Holder)
	e.OnChange(term, true)
	defer e.OnChange(term, false)

	var g errgroup.Group
	done := make(chan struct{})
	g.Go(func() error { e.renew(trusted, distrust, done, term, since); return nil })
	err := lead(leadCtx, trusted, term)
	close(done)
	_ = g.Wait()

	if trusted.Err() == nil {
		resignCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer cancel()
		if err := e.Lease.Resign(resignCtx, term, e.Now()); err != nil {
			e.Logger.Warn("not resigned, the term will expire", "epoch", term.Epoch, "err", err)
		}
		e.Logger.Info("leadership given back", "epoch", term.Epoch)
	}
	return err
}

// renew extends the row until done. Any error means: not the leader.
func (e *Elector) renew(trusted context.Context, distrust context.CancelCauseFunc, done <-chan struct{}, term schedule.Term, since time.Time) {
	every := e.TTL / 3
	timer := time.NewTimer(every)
	defer timer.Stop()
	// Trust ends in time whatever a renewal is doing, e.g. waiting for a disk.
	trustEnds := time.AfterFunc(time.Until(since.Add(e.TTL-margin)), func() {
		distrust(fmt.Errorf("%w: no renewal in time", ErrTermLost))
	})
	defer trustEnds.Stop()
	for {
		select {
		case <-done:
			return
		case <-timer.C:
		}
		began := time.Now()
		// The attempt may not outlive the trust in the last one.
		attempt, cancel := context.WithDeadline(trusted, since.Add(e.TTL-margin))
		err := e.Fit()
		if err == nil {
			_, err = e.Lease.Renew(attempt, term, schedule.RenewRequest{TTL: e.TTL, LockHeld: e.lockHeld, Now: e.Now()})
		}
		cancel()
		if err != nil {
			e.Logger.Warn("leadership lost", "epoch", term.Epoch, "err", err)
			distrust(fmt.Errorf("%w: %w", ErrTermLost, err))
			return
		}
		since = began
		trustEnds.Reset(time.Until(since.Add(e.TTL - margin)))
		timer.Reset(every)
	}
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
