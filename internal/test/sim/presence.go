package sim

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/launcher/presence"
)

// presences is what proves that processes live: which sessions hold presence locks, and
// who holds which key.
type presences struct {
	mu       sync.Mutex
	sessions map[int32]*presenceSession // all that there ever were
	holders  map[schedule.Key]int32
}

// presenceOf is the table of instances and their locks as one process reaches them. It
// waits while the store is away, and nothing else goes wrong: a registration that fails is
// repeated after a random pause, which no seed repeats.
type presenceOf struct{ *caller }

// presenceSession holds the lock of a number.
type presenceSession struct {
	presenceOf
	no         int32
	generation string
	free       func()
	lost       chan struct{}
	held       bool // under the mutex of presences
	restarted  bool // a restart of the server has freed the lock, which proves nothing
}

func (p presenceOf) reach(ctx context.Context, no int32) error {
	d := p.dice.of(forPresence).of(uint64(no)).of(uint64(p.elapsed()))
	p.wait(ctx, sitePresence, d, d.span(50*time.Microsecond, 1500*time.Microsecond))
	for n := uint64(0); p.storeAway(p.elapsed()) && ctx.Err() == nil; n++ {
		p.sleep(d.of(n), 10*time.Millisecond)
	}
	if p.dead.Load() {
		return errCrashed
	}
	return ctx.Err()
}

func (p presenceOf) Register(ctx context.Context, i schedule.Instance) (no int32, err error) {
	if err := p.reach(ctx, 0); err != nil {
		return 0, err
	}
	return p.ledger.Register(ctx, i)
}

func (p presenceOf) ConfirmPresence(ctx context.Context, no int32, generation string) error {
	if err := p.reach(ctx, no); err != nil {
		return err
	}
	return p.ledger.ConfirmPresence(ctx, no, generation)
}

// Take holds the lock until the session is closed or a strike ends it.
func (p presenceOf) Take(ctx context.Context, no int32) (presence.Session, error) {
	if err := p.reach(ctx, no); err != nil {
		return nil, err
	}
	s := &presenceSession{presenceOf: p, no: no, lost: make(chan struct{}), held: true}
	var err error
	if s.generation, s.free, err = p.ledger.HoldPresence(ctx, no); err != nil {
		return nil, err
	}
	p.presences.mu.Lock()
	defer p.presences.mu.Unlock()
	p.presences.sessions[no] = s
	return s, nil
}

func (s *presenceSession) Generation() string { return s.generation }

// Wait hears of the end of the session some milliseconds later, or when its process goes
// on.
func (s *presenceSession) Wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-s.lost:
		d := s.dice.of(forPresence + 1).of(uint64(s.no))
		s.wait(ctx, sitePresence, d, d.span(time.Millisecond, 20*time.Millisecond))
		return errors.New("sim: the session has ended")
	}
}

func (s *presenceSession) Close() { s.presences.end(s) }

// end frees the lock of a session; its process hears of it.
func (p *presences) end(s *presenceSession) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s.held {
		s.held = false
		s.free()
		close(s.lost)
	}
}

// endOf ends the sessions of a process.
func (p *presences) endOf(c *caller) {
	p.mu.Lock()
	var sessions []*presenceSession
	for _, s := range p.sessions {
		if s.caller == c {
			sessions = append(sessions, s)
		}
	}
	p.mu.Unlock()
	for _, s := range sessions {
		p.end(s)
	}
}

// restart is one of the server: all locks are free, and none proves anything.
func (w *world) restart() {
	w.ledger.Restart()
	w.presences.mu.Lock()
	defer w.presences.mu.Unlock()
	for _, s := range w.presences.sessions {
		if s.held {
			s.held, s.restarted = false, true
			close(s.lost)
		}
	}
}

// beganBy holds what Begin has granted to who really lives.
func (w *world) beganBy(reqs []schedule.BeginRequest, results []schedule.BeginResult) {
	w.presences.mu.Lock()
	defer w.presences.mu.Unlock()
	for i := range results {
		if results[i].Permission != schedule.Granted && results[i].Permission != schedule.GrantedAgain {
			continue
		}
		before := w.presences.holders[reqs[i].Key]
		if s := w.presences.sessions[before]; results[i].TakenOver == schedule.ProofOfPresence {
			w.coverage.situations[keyTakenOver].Add(1)
			if s == nil || s.held || s.restarted {
				w.violation("instance %d was granted key %.12s of instance %d, whose lock proves nothing", reqs[i].Holder, reqs[i].Key, before)
			}
		}
		w.presences.holders[reqs[i].Key] = reqs[i].Holder
	}
}
