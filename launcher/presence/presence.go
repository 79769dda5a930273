package presence

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/carillon/carillon/internal/backoff"
	"github.com/carillon/carillon/internal/logthrottle"
	"github.com/carillon/carillon/internal/schedule"
)

// Store keeps the table instances.
type Store interface {
	// Register writes the row of an instance and returns its new number. It replaces the
	// number of an earlier registration with the same ID.
	Register(ctx context.Context, i schedule.Instance) (no int32, err error)
	// ConfirmPresence records that the instance holds its presence lock on a server of
	// that generation. Before, a free lock proves nothing. schedule.ErrNotFound: no row.
	ConfirmPresence(ctx context.Context, no int32, generation string) error
}

// Lock takes presence locks.
type Lock interface {
	// Take waits until it holds the lock of a number.
	Take(ctx context.Context, no int32) (Session, error)
}

// Session holds a presence lock.
type Session interface {
	// Generation is that of the server, read while the lock was held.
	Generation() string
	// Wait returns why the lock is no longer held, as soon as that is known, or
	// the error of ctx.
	Wait(ctx context.Context) error
	// Close frees the lock.
	Close()
}

// Options has the parts of a Presence.
type Options struct {
	Store    Store
	Lock     Lock
	ID       string // of this process, other than at its last start
	Host     string
	Now      func() time.Time
	Logger   *slog.Logger
	Register prometheus.Registerer // nil: no metrics
}

// Presence is the presence lock of this process.
type Presence struct {
	Options
	log  *slog.Logger
	lost prometheus.Counter
	held prometheus.Gauge

	mu      sync.Mutex
	no      int32         // 0: not held
	changed chan struct{} // closed when no changes
	failed  error         // of the last registration
}

// New returns a Presence that holds no lock yet; see Run.
func New(o Options) *Presence {
	return &Presence{
		Options: o, log: o.Logger.With("component", "presence"), changed: make(chan struct{}),
		lost: promauto.With(o.Register).NewCounter(prometheus.CounterOpts{
			Name: "carillon_presence_lost_total",
			Help: "How often this process lost its presence lock while it ran: no call begins until it has registered again.",
		}),
		held: promauto.With(o.Register).NewGauge(prometheus.GaugeOpts{
			Name: "carillon_presence_held", Help: "1 while this process holds its presence lock; 0: it launches no run.",
		}),
	}
}

// Holds reports whether this process holds the lock of the number now.
func (p *Presence) Holds(no int32) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return no != 0 && p.no == no
}

// Await waits until this process holds its lock, and returns the number.
func (p *Presence) Await(ctx context.Context) (int32, error) {
	for {
		p.mu.Lock()
		no, changed := p.no, p.changed
		p.mu.Unlock()
		if no != 0 {
			return no, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return 0, fmt.Errorf("this process does not hold its presence lock in the database: %w", ctx.Err())
		}
	}
}

// Reach waits until this process holds its lock. Its error says why it cannot take it.
func (p *Presence) Reach(ctx context.Context) error {
	_, err := p.Await(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil || p.failed == nil {
		return err
	}
	cause := p.failed
	if server, ok := errors.AsType[*pgconn.PgError](cause); ok {
		cause = server // the reason of an unhealthy worker is cut at 200 bytes
	}
	return fmt.Errorf("cannot take the presence lock: %w", cause)
}

func (p *Presence) set(no int32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failed = nil
	if p.no = no; no != 0 {
		p.held.Set(1)
	} else {
		p.held.Set(0)
	}
	close(p.changed)
	p.changed = make(chan struct{})
}

// registerTimeout bounds one registration.
const registerTimeout = 10 * time.Second

// Run holds the lock until ctx ends. When it is lost, Run registers under a new
// number, calls move to give that number the keys of open calls, and goes on.
func (p *Presence) Run(ctx context.Context, move func(ctx context.Context, from, to int32)) {
	started, before := p.Now(), int32(0)
	pause := backoff.Delays{First: 20 * time.Millisecond, Last: 2 * time.Second}
	quiet := logthrottle.New(p.log)
	for ctx.Err() == nil {
		no, session, err := p.register(ctx, started)
		if err != nil {
			if ctx.Err() == nil {
				p.mu.Lock()
				p.failed = err
				p.mu.Unlock()
				quiet.Warn("cannot take the presence lock; no run can be launched here", err)
			}
			wait(ctx, pause.Next())
			continue
		}
		pause.Reset()
		quiet.Recovered("runs can be launched here again")
		if before != 0 {
			move(ctx, before, no)
		}
		p.set(no)
		before = no
		err = session.Wait(ctx)
		p.set(0)
		session.Close()
		if ctx.Err() != nil {
			return
		}
		p.lost.Inc()
		p.log.Warn("presence lock lost: other processes may take over the keys of open calls; registering again", "instance_no", no, "err", err)
	}
}

// register takes the lock of a new number.
func (p *Presence) register(ctx context.Context, started time.Time) (no int32, session Session, err error) {
	ctx, cancel := context.WithTimeout(ctx, registerTimeout)
	defer cancel()
	no, err = p.Store.Register(ctx, schedule.Instance{ID: p.ID, Host: p.Host, StartedAt: started})
	if err != nil {
		return 0, nil, err
	}
	if session, err = p.Lock.Take(ctx, no); err != nil {
		return 0, nil, fmt.Errorf("instance %d: %w", no, err)
	}
	if err := p.Store.ConfirmPresence(ctx, no, session.Generation()); err != nil {
		session.Close()
		return 0, nil, err
	}
	p.log.Info("presence lock taken", "instance_no", no)
	return no, session, nil
}

func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
