// Package redislock is the leader lock on Redis: a key with a random value that expires
// unless it is extended. It decides which process tries to lead. The epoch in SQL decides
// which may write; Redis can neither lose it nor hand it out twice. See package leader.
package redislock

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// Lock is a key in Redis.
type Lock struct {
	client redis.Scripter
	key    string
	ttl    time.Duration

	mu   sync.Mutex
	held string // token that the key has; empty: not held
}

const (
	// poll is how often a waiting process tries again.
	poll = 100 * time.Millisecond
	// maxCall bounds one call, see callLimit.
	maxCall = 3 * time.Second
	// leftBehindLimit bounds how long a wait that was given up cleans up.
	leftBehindLimit = 250 * time.Millisecond
)

// New returns the Lock of one shard. It expires if Keep was not called for ttl, the TTL of
// the term (LEADER_TTL_MS).
func New(client redis.Scripter, shard int, ttl time.Duration) *Lock {
	return &Lock{client: client, key: fmt.Sprintf("carillon:leader:%d", shard), ttl: ttl}
}

// callLimit bounds one call: a leader whose Redis is paused gives its term back
// before it expires.
func (l *Lock) callLimit() time.Duration { return min(l.ttl/2, maxCall) }

// Acquire waits until no other process holds the key. The value is new each time, so a late
// command of an earlier hold does not change this one.
func (l *Lock) Acquire(ctx context.Context) error {
	token := rand.Text()
	for {
		obtained, err := l.run(ctx, obtain, token, l.ttl.Milliseconds())
		if err == nil && obtained {
			l.mu.Lock()
			l.held = token
			l.mu.Unlock()
			return nil
		}
		if err != nil {
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

// The scripts answer 1 if the key is the token's (or was, for deleteOwn), else 0.
var (
	// obtain sets the key if there is none. The client repeats a command that got
	// no answer, so the key may already be the token's.
	obtain = redis.NewScript(`
if redis.call("SET", KEYS[1], ARGV[1], "NX", "PX", ARGV[2]) then return 1 end
if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("PEXPIRE", KEYS[1], ARGV[2]) end
return 0`)
	extendOwn = redis.NewScript(`
if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("PEXPIRE", KEYS[1], ARGV[2]) end
return 0`)
	deleteOwn = redis.NewScript(`
if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("DEL", KEYS[1]) end
return 0`)
)

// run calls a script within callLimit.
func (l *Lock) run(ctx context.Context, script *redis.Script, args ...any) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, l.callLimit())
	defer cancel()
	return script.Run(ctx, l.client, []string{l.key}, args...).Bool()
}

// leaveNothing deletes a key that a call without an answer may have set. If that fails too,
// the key expires.
func (l *Lock) leaveNothing(ctx context.Context, token string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leftBehindLimit)
	defer cancel()
	_ = deleteOwn.Run(ctx, l.client, []string{l.key}, token).Err()
}

// Keep extends the key if it is still this Lock's.
func (l *Lock) Keep(ctx context.Context) error {
	l.mu.Lock()
	held := l.held
	l.mu.Unlock()
	if held == "" {
		return errors.New("the key in Redis is not held")
	}
	extended, err := l.run(ctx, extendOwn, held, l.ttl.Milliseconds())
	if err != nil {
		return fmt.Errorf("extend %s in Redis: %w", l.key, err)
	}
	if !extended {
		return fmt.Errorf("%s in Redis is gone or another's", l.key)
	}
	return nil
}

// Release deletes the key if it is still this Lock's.
func (l *Lock) Release(ctx context.Context) error {
	l.mu.Lock()
	held := l.held
	l.held = ""
	l.mu.Unlock()
	if held == "" {
		return nil
	}
	if _, err := l.run(ctx, deleteOwn, held); err != nil {
		return fmt.Errorf("delete %s in Redis: %w", l.key, err)
	}
	return nil
}

// deleteEndless deletes the key if it never expires.
var deleteEndless = redis.NewScript(`
if redis.call("PTTL", KEYS[1]) == -1 then return redis.call("DEL", KEYS[1]) end
return 0`)

// Break removes a key that never expires: Carillon writes none. A holder's key expires by
// itself.
func (l *Lock) Break(ctx context.Context) error {
	if _, err := l.run(ctx, deleteEndless); err != nil {
		return fmt.Errorf("look for a stranger's %s in Redis: %w", l.key, err)
	}
	return nil
}
