package redislock

import (
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
)

// What goes wrong is returned to whoever called. The library's own log would
// say it again, past the process' logger and as often as it tries.
func init() { logging.Disable() }

// Client makes a client for the locks of one process. It connects when it is
// first used; the caller closes it.
func Client(url string) (*redis.Client, error) {
	options, err := redis.ParseURL(url)
	if err != nil {
		// Not %w: the parser repeats the URL, and with it the password.
		return nil, errors.New("REDIS_URL is not a Redis URL; it must look like redis://user:password@host:6379/0 (rediss:// for TLS)")
	}
	options.DialTimeout = maxCall
	options.ReadTimeout, options.WriteTimeout = maxCall, maxCall
	options.ContextTimeoutEnabled = true
	// A second try within a call would hide a Redis that is in trouble; whoever
	// calls tries again.
	options.MaxRetries = -1
	options.DialerRetries = 1
	options.PoolTimeout = maxCall
	options.ConnMaxIdleTime = 5 * time.Minute
	return redis.NewClient(options), nil
}
