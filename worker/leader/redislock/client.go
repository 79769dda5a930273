package redislock

import (
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
)

// Errors are returned to the caller. The library's own log would repeat them for each try,
// past the process's logger.
func init() { logging.Disable() }

// Client returns a client for the locks of one process. It connects at its first use; the
// caller closes it.
func Client(url string) (*redis.Client, error) {
	options, err := redis.ParseURL(url)
	if err != nil {
		// Not %w: the parser repeats the URL, and with it the password.
		return nil, errors.New("REDIS_URL is not a Redis URL; it must look like redis://user:password@host:6379/0 (rediss:// for TLS)")
	}
	options.DialTimeout = maxCall
	options.ReadTimeout, options.WriteTimeout = maxCall, maxCall
	options.ContextTimeoutEnabled = true
	// A retry within a call would hide a failing Redis; the caller retries.
	options.MaxRetries = -1
	options.DialerRetries = 1
	options.PoolTimeout = maxCall
	options.ConnMaxIdleTime = 5 * time.Minute
	return redis.NewClient(options), nil
}
