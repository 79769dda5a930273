package launcher

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/carillon/carillon/internal/failpoint"
	"github.com/carillon/carillon/internal/schedule"
)

// renewals bounds the checks of one start. A check is repeated if it expired while
// the DAG was loaded or the executor was asked by key.
const renewals = 3

// busyWait is how long a start waits for another open call of its key. The pauses
// are short because the key is free as soon as its holder is proven to be gone.
const (
	busyWait     = 5 * time.Second
	minBusyPause = 20 * time.Millisecond
	maxBusyPause = 100 * time.Millisecond
)

// begun is an answer of Begin and the time of the request.
type begun struct {
	schedule.BeginResult
	checkedAt time.Time
	lease     *lease // of a granted key
}

// granted reports whether this process holds the key.
func (b *begun) granted() bool {
	return b.Permission == schedule.Granted || b.Permission == schedule.GrantedAgain
}

// beginAll begins keys in one transaction. Their starts continue in other goroutines, so
// that one that waits, for a DAG or for the executor, holds back no other.
func (l *Launcher) beginAll(starts []*start) {
	var answers []begun
	err := l.guard(func() (err error) { answers, err = l.beginKeys(starts); return err })
	go callEach(len(starts), func(i int) {
		s := starts[i]
		s.safely(func() {
			if err != nil {
				s.end(schedule.StartReply{}, fmt.Errorf("record key %s: %w", s.req.Key, err))
				return
			}
			s.begun(&answers[i])
		})
	})
}

func (l *Launcher) beginKeys(starts []*start) ([]begun, error) {
	ctx, cancel := context.WithTimeout(context.Background(), storeTimeout)
	defer cancel()
	holder, err := l.presence.Await(ctx)
	if err != nil {
		return nil, err
	}
	now := l.now()
	reqs := make([]schedule.BeginRequest, len(starts))
	for i, s := range starts {
		reqs[i] = s.beginRequest()
		reqs[i].Lease, reqs[i].Holder = l.renewer.leaseAt(now, &reqs[i]), holder
	}
	results, err := l.store.Begin(ctx, reqs, now)
	if err != nil {
		return nil, err
	}
	answers := make([]begun, len(results))
	for i := range results {
		answers[i] = begun{BeginResult: results[i], checkedAt: now}
		if at := results[i].CheckedAt; !at.IsZero() {
			answers[i].checkedAt = at
		}
		l.metrics.takenOver(results[i].TakenOver)
	}
	l.renewer.add(answers)
	return answers, nil
}

func (s *start) begin() { s.begins.Add(s) }

// beginRequest asks for the key; beginAll sets the lease.
func (s *start) beginRequest() schedule.BeginRequest {
	return schedule.BeginRequest{
		Key: s.req.Key, RequestHash: s.hash, ScheduleID: s.req.ScheduleID, ScheduledFor: s.req.ScheduledFor, Trigger: s.req.Trigger,
		Version: s.req.Version, Input: s.req.Input, Grant: s.grantUse(), FireAt: s.req.FireAt,
		Queued: s.req.InQueue,
	}
}

// grantUse is the grant that Begin checks. For a graph run, permitted checks it
// later, because the owner is not known yet.
func (s *start) grantUse() schedule.GrantUse {
	if s.graph != nil {
		return schedule.GrantUse{}
	}
	return s.req.GrantUse(s.cfg.RequireGrant)
}

// begun continues with the answer of Begin.
func (s *start) begun(b *begun) {
	if b.Permission == schedule.Busy {
		s.beginLater()
		return
	}
	s.busy = time.Time{}
	s.checks++
	s.state = b.State
	switch {
	case b.granted():
		s.granted(b)
	case b.Permission == schedule.Recorded, b.Permission == schedule.Refused:
		s.end(schedule.StartReply{Outcome: b.Request.Outcome, Deliveries: b.Request.Calls, Settled: b.Settled}, nil)
	case b.Permission == schedule.Conflict:
		s.refuse(schedule.CodeKeyConflict, schedule.ReasonKeyConflict, "the key is that of another request")
	default:
		if !s.now().Before(s.req.FireAt) {
			s.withheld(b)
			return
		}
		// A check before fire_at is not final: repeat it then.
		s.at(s.req.FireAt, s.checkAgain)
	}
}

// checkAgain begins the key once more: the check was too old, or not final.
func (s *start) checkAgain() {
	if s.checks == renewals {
		s.end(schedule.StartReply{}, fmt.Errorf("%w: the check of pause and cancel was too old %d times", ErrWithheld, renewals))
		return
	}
	s.begin()
}

// beginLater waits, up to busyWait, for another open call of the key.
func (s *start) beginLater() {
	now := s.now()
	if s.busy.IsZero() {
		s.busy, s.pause = now, minBusyPause/2
	}
	if now.Sub(s.busy) >= busyWait {
		s.end(schedule.StartReply{}, ErrBusy)
		return
	}
	s.pause = min(2*s.pause, maxBusyPause)
	// The random part separates two starts of one key that waited for one batch.
	s.at(now.Add(s.pause+s.renewer.spread(s.req.Key, maxBusyPause/4)), s.begin)
}

// granted continues with a key that this process holds. If an earlier call may
// have arrived it asks the executor by key. Then it loads the DAG and calls the
// executor.
//
// Crash before the call: the run names this process as holder, so the next sender
// asks or sends the same key when the lease is over. Crash between the call and
// Finish: the executor knows the key and honours it.
func (s *start) granted(b *begun) {
	failpoint.Hit(failpoint.KeyRecorded)
	s.lease, s.before, s.checkedAt = b.lease, b.Request.Calls-1, b.checkedAt
	switch {
	case b.Sent && !s.asked && s.ask():
	case s.overdue():
		s.release(fmt.Errorf("%w: it ended at %s", schedule.ErrOverdue, s.req.SendUntil.Format(time.RFC3339)))
	case s.graph != nil && !s.permitted(b.Sent):
	default:
		s.load(b.Sent)
	}
}

// release ends the start without an outcome; its key may be sent again at once.
func (s *start) release(err error) {
	s.releaseKey(s.before)
	s.end(schedule.StartReply{}, err)
}

// overdue reports whether the run may no longer be sent.
func (s *start) overdue() bool {
	return !s.req.SendUntil.IsZero() && s.now().After(s.req.SendUntil)
}

// ask asks the executor for the outcome of the key. over = false: the executor
// does not know the key or cannot answer.
func (s *start) ask() (over bool) {
	outcome, err := s.getByKey()
	switch {
	case err == nil:
		s.finish(outcome, time.Time{})
		return true
	case errors.Is(err, schedule.ErrNotFound), errors.Is(err, ErrUnsupported):
		s.asked = true
		return false
	}
	s.release(s.failed(fmt.Errorf("%w: ask by key: %w", ErrOutcomeUnknown, err)))
	return true
}

func (s *start) getByKey() (schedule.Outcome, error) {
	ctx, cancel := context.WithTimeout(s.sender, s.cfg.CallTimeout)
	defer cancel()
	return s.executor.GetByKey(ctx, schedule.RunRef{
		Key: s.req.Key, ScheduleID: s.req.ScheduleID, ScheduledFor: s.req.ScheduledFor,
	})
}

// withheld answers for a key that may not be sent. If the key was sent before, it
// asks the executor by key first.
func (s *start) withheld(b *begun) {
	if b.Sent {
		if outcome, err := s.getByKey(); err == nil {
			s.finish(outcome, time.Time{})
			return
		}
	}
	withheld := ErrWithheld
	if s.overdue() {
		withheld = schedule.ErrOverdue
	}
	s.end(schedule.StartReply{}, fmt.Errorf("%w: %s", withheld, b.Reason))
}
