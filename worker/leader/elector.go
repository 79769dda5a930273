package leader

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/carillon/carillon/internal/failpoint"
	"github.com/carillon/carillon/internal/logthrottle"
	"github.com/carillon/carillon/internal/schedule"
)

// Lead does the work of one term. ctx ends when it should stop planning and claiming,
// trusted when it may write nothing any more. The leadership is given back when it returns.
type Lead = func(ctx, trusted context.Context, term schedule.Term) error

// Options are an Elector's parts.
type Options struct {
	Lease LeaseStore
	// Terms is optional: with it the log says which leader a new one replaces.
	Terms TermStore
	Lock  Lock
	// LockKind is the kind of Lock, as in LEADER_LOCK. A lock proves nothing about a leader
	// with another kind. Empty: all are of one kind.
	LockKind string
	Shard    int
	Shards   int    // number of shards; 0 counts as 1
	Holder   string // one for each process start; default random
	Host     string // host:pid, for people
	TTL      time.Duration
	Now      func() time.Time
	Logger   *slog.Logger
	// MayLead returns why this process must not lead now, e.g. a wrong clock; nil: it may. It is
	// called before each takeover and renewal.
	MayLead func() error
	// Defer reports that the shard is free and another worker should take it first; nil:
	// never. It is called before each takeover. Balancer.Defer implements it.
	Defer func(ctx context.Context) bool
	// OnChange is called when a term begins (leading) and when it ends.
	OnChange func(term schedule.Term, leading bool)
	// Jitter spreads the pauses of processes that failed together; by default it returns a
	// random duration between half and all of pause.
	Jitter func(pause time.Duration) time.Duration
}

// Elector campaigns for one shard.
type Elector struct {
	Options
	holder string
	quiet  *logthrottle.Logger

	failures       int         // since the last term that lasted
	deferringSince time.Time   // since when other workers go first
	unresigned     *unresigned // its term has ended, its row could not be written
	unanswered     bool        // the last takeover failed, and may have been committed
	refused        bool        // logged that the number of shards differs
	otherLock      string      // logged: the leader's lock is of this other kind

	mu   sync.Mutex
	stop context.CancelCauseFunc // ends the current term on purpose; nil: there is none
}

// unresigned is a term that ended while the store did not answer.
type unresigned struct {
	schedule.Term
	end schedule.TermEnd
}

const (
	// defaultTTL is the time after which a leader without renewals is replaced.
	defaultTTL = 10 * time.Second
	// followerPoll is how often a follower reads whether the row has expired.
	followerPoll = 500 * time.Millisecond
	// behind is the pause after giving the lock back: longer than the slowest kind of lock
	// needs to reach the next process.
	behind = 500 * time.Millisecond
	// deferFor is how long a free shard waits for the worker that should take it: as long as
	// a pause lasts.
	deferFor = 250 * time.Millisecond
	// refusedPause is the pause after a refusal that only an operator can resolve.
	refusedPause = 3 * time.Second
)

// ErrTermLost is the cause of a term's context after a failed renewal.
var ErrTermLost = errors.New("leadership lost")

// errDeferred ends a campaign that let another worker go first.
var errDeferred = errors.New("deferred to another worker")

// New returns an Elector with its defaults.
func New(o Options) *Elector {
	if o.TTL <= 0 {
		o.TTL = defaultTTL
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.MayLead == nil {
		o.MayLead = func() error { return nil }
	}
	if o.Defer == nil {
		o.Defer = func(context.Context) bool { return false }
	}
	if o.OnChange == nil {
		o.OnChange = func(schedule.Term, bool) {}
	}
	if o.Jitter == nil {
		o.Jitter = jitter
	}
	if o.Holder == "" {
		o.Holder = rand.Text()
	}
	o.Logger = o.Logger.With("component", "leader", "shard", o.Shard)
	return &Elector{Options: o, holder: o.Holder, quiet: logthrottle.New(o.Logger)}
}

// Holder returns this process's name in the leaders row.
func (e *Elector) Holder() string { return e.holder }

// Resign ends the current term: it stops planning, and the leadership is given back. Without
// a term it does nothing.
func (e *Elector) Resign() { e.ResignBecause(schedule.TermEnd{Reason: schedule.EndResigned}) }

// ResignBecause is Resign with the reason to record.
func (e *Elector) ResignBecause(end schedule.TermEnd) {
	e.mu.Lock()
	stop := e.stop
	e.mu.Unlock()
	if stop == nil {
		return
	}
	err := errResigned
	if end.Detail != "" {
		err = errors.New(end.Detail)
	}
	stop(because(end.Reason, err))
}

// Run campaigns until ctx ends. For each term that it wins it calls lead and waits for it.
func (e *Elector) Run(ctx context.Context, lead Lead) error {
	for ctx.Err() == nil {
		pause(ctx, e.campaign(ctx, lead))
	}
	return ctx.Err()
}

// campaign waits as a follower and serves the term if it wins one. away is the pause before
// the next campaign.
func (e *Elector) campaign(ctx context.Context, lead Lead) (away time.Duration) {
	err := e.MayLead()
	if err == nil {
		err = e.contend(ctx, lead)
	}
	switch {
	case err == nil, errors.Is(err, errDeferred):
		return e.Jitter(behind)
	case ctx.Err() != nil:
		return 0
	case errors.Is(err, schedule.ErrShardCount):
		if !e.refused {
			e.refused = true
			e.Logger.Error("this worker cannot lead", "err", err)
		}
		return e.Jitter(refusedPause)
	case errors.Is(err, ErrTermLost): // logged already
		return e.Jitter(behind + e.backoff())
	}
	e.quiet.Warn("leader election failed", err)
	return e.Jitter(e.backoff())
}

// backoff grows from 50 ms to a second while attempts fail.
func (e *Elector) backoff() time.Duration {
	e.failures++
	return backoff(e.failures)
}

func (e *Elector) contend(ctx context.Context, lead Lead) error {
	h := &hold{Elector: e, held: make(chan struct{})}
	lockCtx, stopWaiting := context.WithCancel(ctx)
	var waiting sync.WaitGroup
	waiting.Go(func() { h.wait(lockCtx) })
	defer func() {
		stopWaiting()
		waiting.Wait()
		h.giveBack(ctx)
	}()
	term, since, err := e.follow(ctx, h)
	if err != nil {
		return err
	}
	return e.serve(ctx, h, term, since, lead)
}

// follow waits for the lock or for the row to expire, and takes over. since is when the
// successful attempt began.
//
// It waits for the lock first: a process that took over an expired row at once would often
// lose it to the one that gets the lock a moment later.
func (e *Elector) follow(ctx context.Context, h *hold) (term schedule.Term, since time.Time, err error) {
	poll := time.NewTimer(e.Jitter(followerPoll) + followerPoll/2)
	defer poll.Stop()
	for {
		select {
		case <-ctx.Done():
		case <-h.held:
		case <-poll.C:
		}
		if ctx.Err() != nil {
			return term, since, ctx.Err()
		}
		lockHeld := h.isHeld()
		poll.Reset(e.Jitter(followerPoll) + followerPoll/4)
		if e.shouldDefer(ctx) {
			if lockHeld {
				return term, since, errDeferred
			}
			continue
		}
		since = time.Now()
		term, won, err := e.takeOver(ctx, lockHeld)
		switch {
		case won:
			h.wonBy = lockHeld
			return term, since, nil
		case errors.Is(err, schedule.ErrShardCount), err != nil && lockHeld: // another process may use the lock better
			return term, since, err
		case err != nil:
			e.quiet.Warn("cannot read the leader", err)
		case lockHeld: // the leader leads without this lock, and waits for it or uses another kind
			e.noticeOtherLock(ctx)
			return term, since, errDeferred
		}
	}
}

// shouldDefer reports whether to leave a free shard to a worker that has fewer. It does for
// deferFor only: that worker may be unable to lead.
func (e *Elector) shouldDefer(ctx context.Context) bool {
	if !e.Defer(ctx) {
		e.deferringSince = time.Time{}
		return false
	}
	if e.deferringSince.IsZero() || time.Since(e.deferringSince) > 20*deferFor { // another handover than the last
		e.deferringSince = time.Now()
	}
	return time.Since(e.deferringSince) < deferFor
}

func (e *Elector) takeOver(ctx context.Context, lockHeld bool) (schedule.Term, bool, error) {
	if err := e.MayLead(); err != nil {
		return schedule.Term{}, false, err
	}
	ctx, cancel := context.WithTimeout(ctx, e.trust()/2)
	defer cancel()
	if err := e.findUnheard(ctx); err != nil {
		return schedule.Term{}, false, err
	}
	if e.unresigned != nil { // else the own row would have to expire
		if err := e.Lease.Resign(ctx, e.unresigned.Term, schedule.Resignation{Now: e.Now(), End: e.unresigned.end}); err != nil {
			return schedule.Term{}, false, fmt.Errorf("resign the last term: %w", err)
		}
		e.unresigned = nil
	}
	failpoint.Hit(failpoint.TakingOver)
	term, won, err := e.Lease.Takeover(ctx, schedule.TakeoverRequest{
		Shard: e.Shard, Shards: e.Shards, Holder: e.holder, Host: e.Host, TTL: e.TTL, LockHeld: lockHeld, LockKind: e.LockKind, Now: e.Now(),
	})
	e.unanswered = err != nil
	if err != nil {
		return schedule.Term{}, false, fmt.Errorf("take over: %w", err)
	}
	if won {
		e.otherLock = ""
		failpoint.Hit(failpoint.TookOver)
	}
	return term, won, nil
}

// noticeOtherLock logs, once, that the leader uses another kind of lock.
func (e *Elector) noticeOtherLock(ctx context.Context) {
	if e.LockKind == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, e.trust()/2)
	defer cancel()
	rows, err := e.Lease.Leaders(ctx, e.Now())
	if err != nil {
		return // the next refusal tries again
	}
	for _, row := range rows {
		if row.Shard != e.Shard || row.Expired || row.Holder == e.holder {
			continue
		}
		was := e.otherLock
		if e.otherLock = row.LockKind; schedule.SameLock(e.LockKind, row.LockKind) {
			e.otherLock = ""
		}
		if e.otherLock != "" && e.otherLock != was {
			e.Logger.Warn("the leader uses another lock: set the same LEADER_LOCK in every worker, or taking over from a killed one takes up to LEADER_TTL_MS",
				"leader_lock", row.LockKind, "lock", e.LockKind, "leader", row.Holder, "ttl", e.TTL)
		}
	}
}

// findUnheard looks for a term of this process with an unanswered takeover.
func (e *Elector) findUnheard(ctx context.Context) error {
	if !e.unanswered {
		return nil
	}
	rows, err := e.Lease.Leaders(ctx, e.Now())
	if err != nil {
		return fmt.Errorf("look for a term of our own: %w", err)
	}
	for _, row := range rows {
		if row.Shard == e.Shard && row.Holder == e.holder && !row.Expired {
			e.unresigned = &unresigned{row.Term, schedule.TermEnd{Reason: schedule.EndDatabase, Detail: "its takeover was not answered"}}
		}
	}
	return nil
}
