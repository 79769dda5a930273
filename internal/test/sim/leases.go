package sim

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// Takeover, Renew and Resign are one process' calls for the leaders row.
func (s store) Takeover(ctx context.Context, req schedule.TakeoverRequest) (term schedule.Term, won bool, err error) {
	began := s.elapsed()
	err = s.tell(ctx, siteTakeover, uint64(req.Shard), func() (err error) {
		term, won, err = s.ledger.Takeover(context.WithoutCancel(ctx), req)
		return err
	})
	if err == nil && won {
		s.trusts[req.Shard].Store(int64(began))
	}
	return term, won, err
}

func (s store) Renew(ctx context.Context, term schedule.Term, req schedule.RenewRequest) (asked bool, err error) {
	began := s.elapsed()
	err = s.tell(ctx, siteRenew, shard(term), func() (err error) {
		asked, err = s.ledger.Renew(context.WithoutCancel(ctx), term, req)
		if err == nil {
			s.watch.renewed(term.Epoch)
		}
		return err
	})
	if err == nil {
		s.trusts[term.Shard].Store(int64(began))
	}
	return asked, err
}

func (s store) Resign(ctx context.Context, term schedule.Term, r schedule.Resignation) error {
	return s.tell(ctx, siteResign, shard(term), func() error { return s.ledger.Resign(context.WithoutCancel(ctx), term, r) })
}

// AskToResign is for operators.
func (s store) AskToResign(ctx context.Context, shard int, now time.Time) (asked schedule.Leadership, err error) {
	err = s.tell(ctx, siteAskToResign, uint64(shard), func() (err error) {
		asked, err = s.ledger.AskToResign(context.WithoutCancel(ctx), shard, now)
		return err
	})
	return asked, err
}

// Leaders and Instances are the input of the balancer.
func (s store) Leaders(ctx context.Context, now time.Time) (rows []schedule.Leadership, err error) {
	err = s.tell(ctx, siteLeaders, 0, func() (err error) {
		rows, err = s.ledger.Leaders(context.WithoutCancel(ctx), now)
		return err
	})
	return rows, err
}

func (s store) Instances(ctx context.Context, within time.Duration) (rows []schedule.Instance, err error) {
	err = s.tell(ctx, siteInstances, 0, func() (err error) {
		rows, err = s.ledger.Instances(context.WithoutCancel(ctx), within)
		return err
	})
	return rows, err
}

// Leave removes an ending process from the list of instances.
func (s store) Leave(ctx context.Context, id string) error {
	return s.tell(ctx, siteLeave, 0, func() error { return s.ledger.Leave(context.WithoutCancel(ctx), id) })
}

// lockService gives each shard's lock to one session at a time. As in real services, a
// terminated session is not told.
type lockService struct {
	mu      sync.Mutex
	holders map[int]*lock
	waiting map[int][]*lock
}

// lock is one process' session for one shard.
type lock struct {
	*caller
	service *lockService
	shard   int
	granted chan struct{} // of the present Acquire; closed when it is ours
}

// Acquire waits for its turn.
func (l *lock) Acquire(ctx context.Context) error {
	granted := make(chan struct{})
	err := l.call(ctx, siteAcquire, uint64(l.shard), l.lockAway, func() error {
		l.service.ask(l, granted)
		return nil
	})
	if err == nil {
		select {
		case <-granted:
			return nil
		case <-ctx.Done():
			err = ctx.Err()
		case <-l.crashed:
			err = errCrashed
		}
	}
	l.service.drop(l) // an abandoned attempt may have taken the lock
	return err
}

var errNotHeld = errors.New("sim: the lock is not held any more")

// Keep reports whether the lock is still held.
func (l *lock) Keep(ctx context.Context) error {
	return l.call(ctx, siteKeep, uint64(l.shard), l.lockAway, func() error {
		l.service.mu.Lock()
		defer l.service.mu.Unlock()
		if l.service.holders[l.shard] != l {
			return errNotHeld
		}
		return nil
	})
}

// Break ends the session of the lock's holder.
func (l *lock) Break(ctx context.Context) error {
	return l.call(ctx, siteBreak, uint64(l.shard), l.lockAway, func() error {
		l.service.mu.Lock()
		own := l.service.holders[l.shard] == l
		l.service.mu.Unlock()
		if !own {
			l.service.terminate(l.shard)
		}
		return nil
	})
}

// Release gives it back.
func (l *lock) Release(ctx context.Context) error {
	return l.call(ctx, siteRelease, uint64(l.shard), l.lockAway, func() error {
		l.service.drop(l)
		return nil
	})
}

func (s *lockService) ask(l *lock, granted chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l.granted = granted
	s.waiting[l.shard] = append(s.waiting[l.shard], l)
	s.grant(l.shard)
}

func (s *lockService) grant(shard int) {
	if s.holders[shard] != nil || len(s.waiting[shard]) == 0 {
		return
	}
	next := s.waiting[shard][0]
	s.waiting[shard] = s.waiting[shard][1:]
	s.holders[shard] = next
	close(next.granted)
}

// drop ends a session, whether it holds the lock or waits for it.
func (s *lockService) drop(l *lock) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, w := range s.waiting[l.shard] {
		if w == l {
			s.waiting[l.shard] = append(s.waiting[l.shard][:i:i], s.waiting[l.shard][i+1:]...)
			break
		}
	}
	if s.holders[l.shard] == l {
		s.holders[l.shard] = nil
		s.grant(l.shard)
	}
}

// terminate takes the lock from its holder without notice.
func (s *lockService) terminate(shard int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.holders[shard] = nil
	s.grant(shard)
}
