// Package redislock is the leader lock on Redis: a key with a random value that
// expires unless it is kept. It says which process tries to lead steps 2 to 4
// of a slot's life; who may write is decided by the epoch in SQL, which Redis
// can neither forget nor hand out twice. See package leader.
package redislock

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"sync"
	"time"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"
)

// Lock is a key in Redis.
type Lock struct {
	client redis.Scripter
	locks  *redislock.Client
	key    string
	ttl    time.Duration

	mu   sync.Mutex
	held *redislock.Lock // nil: not held
}

const (
	// poll is how often a waiting process tries again.
	poll = 100 * time.Millisecond
	// maxCall bounds one call, see callLimit.
	maxCall = 3 * time.Second
	// leftBehindLimit bounds how long a wait that was given up cleans up.
	leftBehindLimit = 250 * time.Millisecond
)

// New makes the Lock of one shard. It is lost when it has not been kept for
// ttl, which is the term's (LEADER_TTL_MS).
func New(client redis.Scripter, shard int, ttl time.Duration) *Lock {
	return &Lock{client: client, locks: redislock.New(client), key: fmt.Sprintf("carillon:leader:%d", shard), ttl: ttl}
}

// callLimit bounds one call: a leader whose Redis is paused gives its term back
// before it expires.
func (l *Lock) callLimit() time.Duration { return min(l.ttl/2, maxCall) }

// Acquire waits until nobody else holds the key. The value is new each time, so
// that a late command of an earlier hold touches nothing of this one.
func (l *Lock) Acquire(ctx context.Context) error {
	token := rand.Text()
	for {
		held, err := l.obtain(ctx, token)
		if err == nil {
			l.mu.Lock()
			l.held = held
			l.mu.Unlock()
			return nil
		}
		if !errors.Is(err, redislock.ErrNotObtained) {
			// A call without an answer may have set the key.
			l.leaveNothing(ctx, token)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return fmt.Errorf("set %s in Redis: %w", l.key, err)
		}
		timer := time.NewTimer(poll*3/4 + mathrand.N(poll/2))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
	}
}

func (l *Lock) obtain(ctx context.Context, token string) (*redislock.Lock, error) {
	ctx, cancel := context.WithTimeout(ctx, l.callLimit())
	defer cancel()
	return l.locks.Obtain(ctx, l.key, l.ttl, &redislock.Options{Token: token})
}

// deleteOwn deletes the key if it is the token's.
var deleteOwn = redis.NewScript(`
if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("DEL", KEYS[1]) end
return 0`)

// leaveNothing deletes a key that was set without our learning of it. Where
// that fails too, the key expires.
func (l *Lock) leaveNothing(ctx context.Context, token string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leftBehindLimit)
	defer cancel()
	_ = deleteOwn.Run(ctx, l.client, []string{l.key}, token).Err()
}

// Keep extends the key, if it still is our own.
func (l *Lock) Keep(ctx context.Context) error {
	l.mu.Lock()
	held := l.held
	l.mu.Unlock()
	if held == nil {
		return errors.New("the key in Redis is not held")
	}
	ctx, cancel := context.WithTimeout(ctx, l.callLimit())
	defer cancel()
	err := held.Refresh(ctx, l.ttl, nil)
	if errors.Is(err, redislock.ErrNotObtained) {
		return fmt.Errorf("%s in Redis is gone or another's", l.key)
	}
	if err != nil {
		return fmt.Errorf("extend %s in Redis: %w", l.key, err)
	}
	return nil
}

// Release deletes the key, if it still is our own.
func (l *Lock) Release(ctx context.Context) error {
	l.mu.Lock()
	held := l.held
	l.held = nil
	l.mu.Unlock()
	if held == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, l.callLimit())
	defer cancel()
	if err := held.Release(ctx); err != nil && !errors.Is(err, redislock.ErrLockNotHeld) {
		return fmt.Errorf("delete %s in Redis: %w", l.key, err)
	}
	return nil
}

// deleteEndless deletes the key if it never expires.
var deleteEndless = redis.NewScript(`
if redis.call("PTTL", KEYS[1]) == -1 then return redis.call("DEL", KEYS[1]) end
return 0`)

// Break removes a key that never expires, which none of ours is: a stranger's.
// A holder's own key needs no breaking.
func (l *Lock) Break(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, l.callLimit())
	defer cancel()
	if err := deleteEndless.Run(ctx, l.client, []string{l.key}).Err(); err != nil {
		return fmt.Errorf("look for a stranger's %s in Redis: %w", l.key, err)
	}
	return nil
}
