package redislock_test

import (
	"context"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/postgres"
	"github.com/carillon/carillon/internal/test/services"
	"github.com/carillon/carillon/internal/test/services/reserve"
	"github.com/carillon/carillon/worker/leader"
	"github.com/carillon/carillon/worker/leader/redislock"
)

const (
	key = "carillon:leader:0"
	ttl = 3 * time.Second
	// renewal is how often a leader looks after its lock, and a bit.
	renewal = ttl/4 + 1500*time.Millisecond
)

// scene is two processes that compete over one Redis, with a row in Postgres.
type scene struct {
	*testing.T
	store *postgres.Store
	redis *redis.Client // the test's own connection, which causes failures
	terms chan term
}

type term struct {
	schedule.Term
	by   *leader.Elector
	ctx  context.Context
	over chan struct{} // closed when lead has returned
}

func newScene(t *testing.T, url string) *scene {
	s := &scene{T: t, store: store(t), redis: client(t, url), terms: make(chan term, 100)}
	for range 2 {
		s.compete(url)
	}
	return s
}

func (s *scene) compete(url string) {
	elector := leader.New(leader.Options{
		Lease: s.store, Lock: redislock.New(client(s.T, url), 0, ttl), TTL: ttl, Now: s.store.Now, Logger: slog.New(slog.DiscardHandler),
	})
	ctx, cancel := context.WithCancel(context.WithoutCancel(s.Context()))
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = elector.Run(ctx, func(ctx, _ context.Context, won schedule.Term) error {
			began := term{won, elector, ctx, make(chan struct{})}
			defer close(began.over)
			s.terms <- began
			<-ctx.Done()
			return nil
		})
	}()
	s.Cleanup(func() { cancel(); <-done })
}

func (s *scene) next(within time.Duration, why string) term {
	s.Helper()
	select {
	case t := <-s.terms:
		return t
	case <-time.After(within):
		s.Fatalf("%s: nobody leads after %s", why, within)
		return term{}
	}
}

// holds watches that a term goes on for a while.
func (s *scene) holds(t term, d time.Duration, why string) {
	s.Helper()
	select {
	case other := <-s.terms:
		s.Errorf("%s: epoch %d began", why, other.Epoch)
	case <-t.over:
		s.Errorf("%s: epoch %d ended", why, t.Epoch)
	case <-time.After(d):
	}
}

func (s *scene) ends(t term, within time.Duration, why string) {
	s.Helper()
	select {
	case <-t.over:
	case <-time.After(within):
		s.Fatalf("%s: epoch %d goes on after %s", why, t.Epoch, within)
	}
}

func (s *scene) waitForLock(within time.Duration) {
	s.Helper()
	for end := time.Now().Add(within); ; <-time.After(50 * time.Millisecond) {
		rows, err := s.store.Leaders(s.Context(), s.store.Now())
		if err != nil {
			s.Fatal(err)
		}
		if len(rows) == 1 && rows[0].LockHeld && !rows[0].Expired {
			return
		}
		if time.Now().After(end) {
			s.Fatalf("no leader has the lock after %s", within)
		}
	}
}

func (s *scene) do(args ...any) {
	s.Helper()
	if err := s.redis.Do(s.Context(), args...).Err(); err != nil {
		s.Fatal(err)
	}
}

// What a test does with its own database, FLUSHALL does with all of them, which
// are other tests'.
func TestARedisThatForgetsHandsOver(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		command []any
	}{
		{"everything is flushed", []any{"FLUSHDB"}},
		{"a stranger deletes the key", []any{"DEL", key}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, services.Redis(t))
			first := s.next(5*time.Second, "the start")
			for range 3 {
				s.do(c.command...)
				// The first one: the follower, or the leader once it has noticed.
				next := s.next(renewal+2*time.Second, c.name)
				if next.Epoch <= first.Epoch {
					t.Errorf("epoch %d came after %d: an epoch is not Redis' to forget", next.Epoch, first.Epoch)
				}
				s.ends(first, renewal, c.name)
				first = next
			}
			s.holds(first, ttl, "after the failure")
		})
	}
}

func TestAStrangersKeyEndsTheTermAndIsOvercome(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		command []any
	}{
		{"it expires", []any{"SET", key, "stranger", "PX", 4000}},
		{"it never expires", []any{"SET", key, "stranger"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, services.Redis(t))
			first := s.next(5*time.Second, "the start")
			s.do(c.command...)
			s.ends(first, renewal, c.name)
			next := s.next(3*time.Second, "the row was given back, so nobody need wait")
			s.waitForLock(8 * time.Second)
			s.holds(next, ttl, "after the failure")
		})
	}
}

func TestAPausedRedisIsDoneWithout(t *testing.T) {
	t.Parallel()
	url, _ := ownRedis(t)
	s := newScene(t, url)
	first := s.next(5*time.Second, "the start")
	s.do("CLIENT", "PAUSE", 6000)
	s.ends(first, ttl, "the lock cannot be kept")
	next := s.next(3*time.Second, "the row was given back, so nobody need wait")
	s.holds(next, ttl+time.Second, "the new leader does without the lock")
	s.waitForLock(6*time.Second + ttl)
	s.holds(next, ttl, "after the failure")
}

func TestARedisThatIsKilledAndComesBackEmpty(t *testing.T) {
	t.Parallel()
	url, restart := ownRedis(t)
	s := newScene(t, url)
	first := s.next(5*time.Second, "the start")
	start := restart()
	s.ends(first, renewal, "the lock cannot be kept")
	next := s.next(3*time.Second, "the row was given back, so nobody need wait")
	if next.Epoch <= first.Epoch {
		t.Errorf("epoch %d came after %d", next.Epoch, first.Epoch)
	}
	start()
	s.waitForLock(ttl + 2*time.Second)
	s.holds(next, ttl, "after the failure")
}

// ownRedis starts a Redis for this test alone, for what would disturb others.
// kill ends it at once, and gives back what starts it again, empty.
func ownRedis(t *testing.T) (url string, kill func() (start func())) {
	t.Helper()
	services.Redis(t) // skips or fails where there is to be none
	program, err := exec.LookPath("redis-server")
	if err != nil {
		t.Skip("redis-server is not in PATH, and only a Redis of its own may be paused or killed")
	}
	addr := reserve.Addr(t)
	_, port, _ := net.SplitHostPort(addr)
	folder := t.TempDir()
	var end func()
	start := func() {
		cmd := exec.CommandContext(context.WithoutCancel(t.Context()), program, "--port", port, "--bind", "127.0.0.1",
			"--save", "", "--appendonly", "no", "--dir", folder)
		cmd.Env = os.Environ()
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		end = sync.OnceFunc(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
		for limit := time.Now().Add(30 * time.Second); ; <-time.After(20 * time.Millisecond) {
			conn, err := net.Dial("tcp", addr)
			if err == nil {
				_ = conn.Close()
				return
			}
			if time.Now().After(limit) {
				t.Fatal("redis-server does not listen")
			}
		}
	}
	start()
	t.Cleanup(func() { end() })
	return "redis://" + addr + "/0", func() func() { end(); return start }
}
