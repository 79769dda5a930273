package leader_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/worker/leader"
	"github.com/carillon/carillon/worker/leader/solo"
)

// slowStore answers renewals late while it is slow.
type slowStore struct {
	leader.LeaseStore
	mu   sync.Mutex
	slow time.Duration
}

func (s *slowStore) Renew(ctx context.Context, term schedule.Term, req schedule.RenewRequest) (bool, error) {
	s.mu.Lock()
	slow := s.slow
	s.slow = 0
	s.mu.Unlock()
	time.Sleep(slow)
	return s.LeaseStore.Renew(ctx, term, req)
}

func TestWhyATermEndedIsRecorded(t *testing.T) {
	wrongClock := errors.New("the clock is 5 s off")
	for _, c := range []struct {
		name string
		do   func(p *onlyWorker)
		want []string // terms, oldest first: epoch, reason and how long it lasted
		log  string
	}{
		{
			name: "a process that is told to end",
			do:   func(p *onlyWorker) { p.stop() },
			want: []string{"1 stopped 1m0s"},
		},
		{
			name: "a worker that is asked to resign",
			do:   func(p *onlyWorker) { p.elector.Resign(); time.Sleep(5 * time.Second) },
			want: []string{"1 resigned 1m0s", "2 goes on"}, log: "from_ended=resigned",
		},
		{
			name: "a worker whose launcher is away",
			do: func(p *onlyWorker) {
				p.elector.ResignBecause(schedule.TermEnd{Reason: schedule.EndUnhealthy, Detail: "no launcher"})
				time.Sleep(5 * time.Second)
			},
			want: []string{"1 unhealthy (no launcher) 1m0s", "2 goes on"},
		},
		{
			name: "a database that refuses connections",
			do: func(p *onlyWorker) {
				p.outage.down.Store(true)
				time.Sleep(12 * time.Second)
				p.outage.down.Store(false)
				time.Sleep(5 * time.Second)
			},
			want: []string{"1 database_unreachable (keep lock: connection refused) 1m0s", "2 goes on"}, log: "from_ended=database_unreachable",
		},
		{
			name: "a database that answers late, within the TTL",
			do: func(p *onlyWorker) {
				p.slow.mu.Lock()
				p.slow.slow = 5 * time.Second
				p.slow.mu.Unlock()
				time.Sleep(20 * time.Second)
			},
			want: []string{"1 database_unreachable (no renewal was answered for 6s) 1m0s", "1 goes on"},
		},
		{
			name: "a clock that goes wrong",
			do: func(p *onlyWorker) {
				p.barred.Store(&wrongClock)
				time.Sleep(5 * time.Second)
			},
			want: []string{"1 clock (the clock is 5 s off) 1m0s"},
		},
		{
			name: "a term that another worker took over",
			do: func(p *onlyWorker) {
				if _, ok, err := p.town.store.Takeover(p.town.Context(), schedule.TakeoverRequest{
					Holder: "other", Host: "box:2", TTL: time.Hour, LockHeld: true, Now: p.town.store.Now(),
				}); !ok || err != nil {
					p.town.Fatal(ok, err)
				}
				time.Sleep(5 * time.Second)
			},
			want: []string{"1 lock_freed 1m0s", "2 lock_freed 0s", "3 goes on"}, // the first has the lock, and takes over again
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			inTown(t, 1, func(town *town) {
				p := town.alone()
				time.Sleep(time.Minute)
				c.do(p)
				terms, err := town.store.ListTerms(town.Context(), schedule.TermFilter{Limit: 10, Now: town.store.Now()})
				if err != nil {
					t.Fatal(err)
				}
				var got []string
				for i := range terms {
					got = append([]string{short(&terms[i])}, got...)
				}
				if fmt.Sprint(got) != fmt.Sprint(c.want) {
					t.Errorf("the terms are\n%q, want\n%q", got, c.want)
				}
				p.stop()
				if !strings.Contains(p.log.text.String(), c.log) {
					t.Errorf("the log does not say %q:\n%s", c.log, p.log.text.String())
				}
			})
		})
	}
}

func short(t *schedule.LeaderTerm) string {
	if t.EndedAt.IsZero() {
		return fmt.Sprint(t.Epoch, " goes on")
	}
	detail := ""
	if t.End.Detail != "" {
		detail = " (" + t.End.Detail + ")"
	}
	return fmt.Sprint(t.Epoch, " ", t.End.Reason, detail, " ", t.EndedAt.Sub(t.StartedAt).Round(5*time.Second))
}

// onlyWorker is a town's only worker, with a store that fails on demand.
type onlyWorker struct {
	town    *town
	elector *leader.Elector
	outage  *outage
	slow    *slowStore
	log     *log
	barred  atomic.Pointer[error]
	stop    func()
}

func (t *town) alone() *onlyWorker {
	p := &onlyWorker{town: t, log: &log{}}
	p.slow = &slowStore{LeaseStore: t.store}
	p.outage = &outage{LeaseStore: p.slow, Lock: solo.New(t.path+".lock", quiet)}
	p.elector = leader.New(leader.Options{
		Lease: p.outage, Terms: t.store, Lock: p.outage, Host: "box:1", Now: t.store.Now, Logger: slog.New(slog.NewTextHandler(p.log, nil)),
		MayLead: func() error {
			if err := p.barred.Load(); err != nil {
				return *err
			}
			return nil
		},
	})
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = p.elector.Run(ctx, func(ctx, _ context.Context, _ schedule.Term) error {
			<-ctx.Done()
			return nil
		})
	}()
	p.stop = sync.OnceFunc(func() { cancel(); <-done })
	t.Cleanup(p.stop)
	return p
}
