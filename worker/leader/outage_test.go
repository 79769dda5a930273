package leader_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/worker/leader"
	"github.com/carillon/carillon/worker/leader/solo"
)

// outage is a store and a lock that answer nothing but errors for a while.
type outage struct {
	leader.LeaseStore
	leader.Lock
	down  atomic.Bool
	calls atomic.Int64
}

func (o *outage) err() error {
	if o.down.Load() {
		o.calls.Add(1)
		return errors.New("connection refused")
	}
	return nil
}

func (o *outage) Takeover(ctx context.Context, req schedule.TakeoverRequest) (schedule.Term, bool, error) {
	if err := o.err(); err != nil {
		return schedule.Term{}, false, err
	}
	return o.LeaseStore.Takeover(ctx, req)
}

func (o *outage) Renew(ctx context.Context, term schedule.Term, req schedule.RenewRequest) (bool, error) {
	if err := o.err(); err != nil {
		return false, err
	}
	return o.LeaseStore.Renew(ctx, term, req)
}

func (o *outage) Resign(ctx context.Context, term schedule.Term, r schedule.Resignation) error {
	if err := o.err(); err != nil {
		return err
	}
	return o.LeaseStore.Resign(ctx, term, r)
}

func (o *outage) Acquire(ctx context.Context) error {
	if err := o.err(); err != nil {
		return err
	}
	return o.Lock.Acquire(ctx)
}

func (o *outage) Keep(ctx context.Context) error {
	if err := o.err(); err != nil {
		return err
	}
	return o.Lock.Keep(ctx)
}

// log counts lines.
type log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *log) lines() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return bytes.Count(l.text.Bytes(), []byte("\n"))
}

func TestAnOutageIsQuietAndEndsAtOnce(t *testing.T) {
	for _, c := range []struct {
		name string
		long time.Duration
	}{
		{"short", 2 * time.Second},
		{"shorter than the term", 8 * time.Second},
		{"long", time.Hour},
	} {
		t.Run(c.name, func(t *testing.T) {
			inTown(t, 1, func(town *town) {
				o := &outage{LeaseStore: town.store, Lock: solo.New(fmt.Sprint(town.path, ".lock"), quiet)}
				log := &log{}
				terms := make(chan context.Context, 100)
				elector := leader.New(leader.Options{Lease: o, Lock: o, Now: town.store.Now, Logger: slog.New(slog.NewTextHandler(log, nil))})
				ctx, cancel := context.WithCancel(context.WithoutCancel(town.Context()))
				done := make(chan struct{})
				go func() {
					defer close(done)
					_ = elector.Run(ctx, func(ctx, _ context.Context, _ schedule.Term) error {
						terms <- ctx
						<-ctx.Done()
						return nil
					})
				}()
				first := <-terms
				time.Sleep(30 * time.Second)
				before := log.lines()

				o.down.Store(true)
				time.Sleep(c.long)
				if first.Err() == nil {
					t.Error("the term goes on without a store")
				}
				o.down.Store(false)
				over := time.Now()
				<-terms
				if took := time.Since(over); took > 1500*time.Millisecond {
					t.Errorf("leads again %s after the outage", took)
				}
				seconds := int64(c.long / time.Second)
				if n := o.calls.Load(); n > 20+6*seconds {
					t.Errorf("%d calls in %d seconds of outage", n, seconds)
				}
				if n := log.lines() - before; n > 20+int(seconds)/10 {
					t.Errorf("%d lines for %d seconds of outage", n, seconds)
				}
				cancel()
				<-done
			})
		})
	}
}
