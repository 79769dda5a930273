// Package heartbeat keeps the row of this process in the table instances: that it lives,
// with which roles, and whether its launches would fail.
package heartbeat

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/carillon/carillon/internal/logthrottle"
	"github.com/carillon/carillon/internal/schedule"
)

// Store keeps the table instances.
type Store interface {
	// Heartbeat writes the row of an instance, or makes one. The store sets SeenAt; No and
	// Generation are not written.
	Heartbeat(ctx context.Context, i schedule.Instance) error
	// Leave takes the roles from an instance that ends, so that nobody counts on it.
	Leave(ctx context.Context, id string) error
	// Instances returns the instances with roles that were seen within a duration, in order
	// of id.
	Instances(ctx context.Context, within time.Duration) ([]schedule.Instance, error)
}

// Options are a Heart's parts.
type Options struct {
	Store Store
	Self  schedule.Instance
	// Unhealthy returns why launches of this process would fail; nil, or empty: it is
	// healthy.
	Unhealthy func() string
	// Changed asks for a heartbeat now, because Unhealthy has changed. Optional.
	Changed <-chan struct{}
	Logger  *slog.Logger
}

// Heart writes the heartbeats of one process.
type Heart struct {
	Options
	log *slog.Logger

	mu sync.Mutex
	at time.Time // of the last written heartbeat, by this machine's clock
}

const (
	// every is the interval of heartbeats.
	every = time.Second
	// aliveWithin: others count a process as alive if its last heartbeat is not older.
	aliveWithin = 5 * time.Second
	// writeTimeout bounds one heartbeat, leaveTimeout the end.
	writeTimeout = 10 * time.Second
	leaveTimeout = time.Second
)

// New returns a Heart that has not written anything yet.
func New(o Options) *Heart {
	return &Heart{Options: o, log: o.Logger.With("component", "heartbeat")}
}

// Run writes a heartbeat each second, and at once when the health changes. When ctx ends,
// it tells the others that this process leaves, so that they share its shards at once.
func (h *Heart) Run(ctx context.Context) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	quiet := logthrottle.New(h.log)
	for ctx.Err() == nil {
		err := h.beat(ctx)
		switch {
		case err == nil:
			quiet.Recovered("heartbeats are written again")
		case ctx.Err() == nil:
			quiet.Warn("cannot write the heartbeat", err)
		}
		select {
		case <-ctx.Done():
		case <-ticker.C:
		case <-h.Changed:
		}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTimeout)
	defer cancel()
	if err := h.Store.Leave(ctx, h.Self.ID); err != nil {
		h.log.Warn("cannot tell the other processes that this one leaves; they notice within seconds", "err", err)
	}
}

func (h *Heart) beat(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	self := h.Self
	if h.Unhealthy != nil {
		self.Unhealthy = h.Unhealthy()
	}
	if err := h.Store.Heartbeat(ctx, self); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.at = time.Now()
	return nil
}

// Alive returns why others do not count this process as alive; nil: they do.
func (h *Heart) Alive(context.Context) error {
	h.mu.Lock()
	at := h.at
	h.mu.Unlock()
	switch since := time.Since(at); {
	case at.IsZero():
		return errors.New("no heartbeat was written yet")
	case since > aliveWithin:
		return fmt.Errorf("no heartbeat was written for %s", since.Round(time.Second))
	}
	return nil
}
