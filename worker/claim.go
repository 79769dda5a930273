package worker

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/failpoint"
	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/tracing"
)

const (
	// Window is how far ahead planned runs are kept in memory.
	Window = 10 * time.Second
	// windowStep is how far the window moves at least before more is loaded. Claims wait
	// for a load: a short step keeps each load short.
	windowStep = 100 * time.Millisecond
	// maxUnread is how long changes may stay unread. Stores keep them for a minute at
	// least; a state that has not read them for longer is rebuilt.
	maxUnread = 30 * time.Second
	// strayAfter: planned runs that were due this long ago, and up to strayWithin
	// longer, are looked for in the tables. The state must know them.
	strayAfter  = 5 * time.Second
	strayWithin = 4 * time.Second
)

// shard is what the leader of a shard keeps in memory. Only the fire loop uses it.
type shard struct {
	state    *ledger.ShardState // nil: to be loaded
	position ledger.Position
	readAt   time.Time             // when changes were last read
	loaded   time.Time             // the end of the window
	checked  time.Time             // when strays were last looked for
	unknown  map[schedule.Key]bool // found then, and not known to the state
	left     bool                  // the last pass has left due runs behind
	counted  time.Time             // when the gauges were last set
}

// load prepares the state for a pass at now: it rebuilds a stale state and moves the
// window.
func (t *term) load(ctx context.Context, now time.Time) error {
	m := &t.memory
	if m.state == nil || m.state.Stale() || now.Sub(m.readAt) > maxUnread {
		return t.rebuild(ctx, now)
	}
	if until := now.Add(Window); until.Sub(m.loaded) >= windowStep && m.state.Planned() < t.cfg.MaxWindow {
		open, err := t.Fires.LoadOpen(ctx, t.Term, m.loaded, until)
		if err != nil {
			return err
		}
		m.state.Load(&open)
		m.state.LoadedUntil(until)
		m.loaded = until
	}
	return t.findStrays(ctx, now)
}

func (t *term) rebuild(ctx context.Context, now time.Time) error {
	began, until := time.Now(), now.Add(Window)
	open, err := t.Fires.LoadOpen(ctx, t.Term, time.Time{}, until)
	if err != nil {
		return err
	}
	t.memory = shard{
		state: ledger.Rebuild(t.Epoch, &open, until), position: open.Position,
		readAt: now, loaded: until, checked: now, counted: t.memory.counted,
	}
	t.log.Debug("shard state loaded", "runs", len(open.Runs), "seen_until", open.SeenUntil, "took", time.Since(began))
	return nil
}

// findStrays loads planned runs that have been due for seconds and that the state
// does not know. There should be none. One that was planned late is unknown until the
// next claim has read its change, so a run is a stray only when it is found again.
// With a backlog the search rests: that is full of runs that have been due for seconds.
func (t *term) findStrays(ctx context.Context, now time.Time) error {
	m := &t.memory
	if now.Sub(m.checked) < time.Second || m.left {
		return nil
	}
	m.checked = now
	open, err := t.Fires.LoadOpen(ctx, t.Term, now.Add(-strayAfter-strayWithin), now.Add(-strayAfter))
	if err != nil {
		return err
	}
	unknown := make(map[schedule.Key]bool)
	open.Runs = slices.DeleteFunc(open.Runs, func(r ledger.Run) bool {
		if !m.state.Knows(r.Key) {
			unknown[r.Key] = true
		}
		return !m.unknown[r.Key]
	})
	m.unknown = unknown
	if n := m.state.Load(&open); n > 0 {
		t.strays(n, "planned runs were not known to the leader")
	}
	return nil
}

// strays counts corrections of the state. Each one is a defect.
func (t *term) strays(n int, why string) {
	t.Metrics.strays.Add(float64(n))
	t.log.Error("the shard state in memory differs from the tables", "runs", n, "why", why)
}

// claim claims and launches until nothing more is due, no launch is free, or long has
// passed: then it asks for another pass.
func (t *term) claim(ctx context.Context, ahead, long time.Duration) {
	for start := time.Now(); ctx.Err() == nil; {
		r := t.launches.reserve(maxBatch)
		began := time.Now()
		claimed, err := t.claimOnce(r, ahead)
		if err != nil {
			r.open(nil)
			t.failed(ctx, "claim", err)
			return
		}
		failpoint.Hit(failpoint.Claimed)
		t.Tracer.Claimed(tracing.Pass{Term: t.Term, Began: began, End: time.Now()}, claimed.Launches)
		r.open(claimed.Launches)
		for i := range claimed.Skipped {
			t.skipped(&claimed.Skipped[i])
		}
		for i := range claimed.Cancels {
			if c := &claimed.Cancels[i]; !c.Queue.In() { // launchers cancel the runs of queues
				t.cancels.note(c)
			}
		}
		t.entered(claimed.Entered)
		for i := range claimed.Launches {
			if claimed.Launches[i].Run.IsAutomaticRetry() {
				t.Metrics.retries.Inc()
			}
		}
		t.launchAll(claimed.Launches)
		switch v := &claimed.Verdicts; {
		case len(claimed.Missing) > 0 || !v.Left:
			return
		case !v.Moved() && !r.wanting() && !v.Unread:
			return
		case time.Since(start) >= long:
			t.wakeUp()
			return
		}
	}
}

// claimOnce is one claim transaction. With nothing reserved it only reads changes and
// records that due runs were seen in time: they can then no longer be missed.
func (t *term) claimOnce(r *reservation, ahead time.Duration) (ledger.Claimed, error) {
	began := time.Now()
	ctx, cancel := t.storeContext()
	defer cancel()
	t.firing.Add(1)
	defer t.firing.Add(-1)
	claimed, err := t.claimFrom(ctx, r, ahead)
	t.Metrics.step("claim", began, err)
	return claimed, err
}

func (t *term) claimFrom(ctx context.Context, r *reservation, ahead time.Duration) (ledger.Claimed, error) {
	now, accepted := t.now(), t.accepted.take()
	if err := t.load(ctx, now); err != nil {
		return ledger.Claimed{}, err
	}
	t.memory.state.Accepted(accepted)
	m := &t.memory
	claim := &ledger.Claim{State: m.state, Swept: t.swept.take(), Clock: t.now, Pass: ledger.Pass{
		Now: now, ClaimAhead: ahead, Grace: t.cfg.Grace, Limit: r.n, Capacity: r.capacity, RequireGrant: t.cfg.RequireGrant,
	}}
	claimed, err := t.Fires.Claim(ctx, ledger.ClaimRequest{
		Term: t.Term, Now: now, Position: m.position, Lease: t.cfg.ClaimLease, RetryFor: t.cfg.RetryFor,
		JobAttempts: uint32(t.cfg.JobAttempts), BoundQueues: t.cfg.BoundQueues,
	}, claim)
	if err != nil {
		m.state.Discard() // whether it was committed is not known
		if errors.Is(err, ledger.ErrPositionLost) && !m.readAt.Equal(now) {
			t.wakeUp() // once: a state that was just loaded waits for the next tick
		}
		return ledger.Claimed{}, err
	}
	m.state.Commit(claimed.Verdicts, t.cfg.ClaimLease)
	m.position, m.readAt, m.left = claimed.Position, now, claimed.Verdicts.Left
	if len(claim.Strays) > 0 {
		t.strays(len(claim.Strays), "runs in flight were unknown, runs that blocked others were over, or a free group was overlooked")
	}
	t.refused(&claimed)
	t.gauge(now)
	return claimed, nil
}

// refused discards the state after verdicts that could not be written: it differs from
// the tables.
func (t *term) refused(claimed *ledger.Claimed) {
	if len(claimed.Missing) > 0 {
		t.memory.state.Discard()
	}
	if len(claimed.Refused) > 0 {
		t.memory.state.Discard()
		t.Metrics.refuted.Add(float64(len(claimed.Refused)))
		t.log.Error("the database refused claims: another exclusive run of the overlap group is in flight", "runs", len(claimed.Refused))
	}
}

// gauge sets the gauges from the state, once a tick.
func (t *term) gauge(now time.Time) {
	if m := &t.memory; now.Sub(m.counted) >= t.cfg.Tick || now.Before(m.counted) {
		m.counted = now
		t.Metrics.gauges(t.Term, m.state.Counts())
	}
}

// untilArmed is the time until the next planned run can be claimed early, or until a run
// is due that could not be claimed early, or until a consumer is looked at.
func (t *term) untilArmed(now time.Time, ahead time.Duration) time.Duration {
	s := t.memory.state
	if s == nil || s.Stale() {
		return never // a tick or a wake-up comes first
	}
	wait := untilTime(now, s.NextFireAt(now))
	if wait > ahead {
		wait -= ahead
	} else {
		wait = min(wait, untilTime(now, s.NextFireAt(now.Add(ahead)))-ahead)
	}
	return min(wait, untilTime(now, s.NextWake()))
}

// untilTime is the time from now until at; never if at is zero.
func untilTime(now, at time.Time) time.Duration {
	if at.IsZero() {
		return never
	}
	return at.Sub(now)
}

// never is longer than any sleep.
const never = 200 * 365 * 24 * time.Hour

// entered notes runs that went into their queues. What they wait there is not lateness.
func (t *term) entered(runs []schedule.Run) {
	for i := range runs {
		r := &runs[i]
		t.Metrics.launched(r, r.Queue.EnqueuedAt)
		t.log.Debug("run entered its queue", "schedule_id", r.ScheduleID, "run_at", r.RunAt, "key", r.Key.String(), "queue_no", r.Queue.No)
	}
}
