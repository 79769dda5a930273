package redislock_test

import (
	"context"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/carillon/carillon/internal/store/postgres"
	"github.com/carillon/carillon/internal/test/services"
	"github.com/carillon/carillon/internal/test/services/leaks"
	"github.com/carillon/carillon/internal/test/services/migrated"
	"github.com/carillon/carillon/worker/leader"
	"github.com/carillon/carillon/worker/leader/leadertest"
	"github.com/carillon/carillon/worker/leader/redislock"
)

func TestMain(m *testing.M) {
	leadertest.Together()
	leaks.Main(m)
}

// client connects to the Redis at url for the length of the test.
func client(t *testing.T, url string) *redis.Client {
	t.Helper()
	c, err := redislock.Client(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// store opens a migrated Postgres: where Redis is the lock, the row is there.
func store(t *testing.T) *postgres.Store {
	t.Helper()
	s, err := postgres.Open(t.Context(), migrated.Postgres(t), postgres.Options{MaxConns: 4})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestRedisLockLeads(t *testing.T) {
	t.Parallel()
	services.Postgres(t, nil) // without servers, skip here and say so once
	services.Redis(t)
	leadertest.Run(t, func(t *testing.T, test func(*testing.T, leadertest.Setting)) {
		s, url := store(t), services.Redis(t)
		test(t, leadertest.Setting{Lease: s, Now: s.Now, Soon: leadertest.Busy, Lock: func() leader.Lock {
			return redislock.New(client(t, url), 0, leadertest.TTL)
		}})
	})
}

func TestNoMessageHoldsThePassword(t *testing.T) {
	t.Parallel()
	for _, url := range []string{
		"redis://u:geheim@127.0.0.1:1/0", "redis://u:geheim@[::1", "redis://u:geheim@127.0.0.1:99999999/x", "http://u:geheim@x",
	} {
		c, err := redislock.Client(url)
		if err == nil {
			lock := redislock.New(c, 0, leadertest.TTL)
			err = lock.Acquire(t.Context())
			if closeErr := c.Close(); closeErr != nil {
				t.Error(closeErr)
			}
		}
		if err == nil || strings.Contains(err.Error(), "geheim") {
			t.Errorf("got %v, want an error without the password", err)
		}
	}
}

func TestAWrongPasswordIsSaidWithoutIt(t *testing.T) {
	t.Parallel()
	url := services.Redis(t)
	options, err := redis.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	c := client(t, "redis://default:geheim@"+options.Addr+"/0")
	err = redislock.New(c, 0, leadertest.TTL).Acquire(context.WithoutCancel(t.Context()))
	if err == nil || strings.Contains(err.Error(), "geheim") || options.Password != "" && strings.Contains(err.Error(), options.Password) {
		t.Errorf("got %v, want an error without any password", err)
	}
}
