package launchqueue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/carillon/carillon/internal/batch"
	"github.com/carillon/carillon/internal/schedule"
)

// callTimeout bounds one exchange with Redis.
const callTimeout = 2 * time.Second

// maxEntries is how long a stream may grow. Entries are deleted once they were
// dealt with, so that this is met only when consumers are away for long. Then
// the oldest go; that is harmless, for the claim's lease puts their runs in
// again for as long as they are to be launched.
const maxEntries = 100_000

// What goes wrong is returned to whoever called; the library's own log would
// say it again, past the process' logger and as often as it tries.
func init() { logging.Disable() }

// Open makes the client of a Redis at redis://:password@host:port/database. It
// connects with the first call.
func Open(url string) (*redis.Client, error) {
	options, err := redis.ParseURL(url)
	if err != nil {
		// Not %w: the parser may repeat the URL, and with it the password.
		return nil, errors.New("is not a Redis URL; it must look like redis://:password@host:6379/0")
	}
	options.DialTimeout, options.ReadTimeout, options.WriteTimeout = callTimeout, callTimeout, callTimeout
	options.ContextTimeoutEnabled = true
	options.DialerRetries = 1
	options.MaxRetries = 1 // an entry that is then there twice is harmless
	options.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return redis.NewClient(options), nil
}

// Publisher is the launcher as the worker sees it: what it starts goes into the
// queue.
type Publisher struct {
	redis   *redis.Client
	entries *batch.Batcher[entry, error]
}

// maxPipeline is how many entries one exchange carries.
const maxPipeline = 1000

// NewPublisher makes the Publisher of a Redis.
func NewPublisher(client *redis.Client) *Publisher {
	p := &Publisher{redis: client}
	p.entries = batch.New(maxPipeline, p.add)
	return p
}

// Start hands the run over. Of an error it is not known whether the run was
// handed over all the same; it may be started again.
func (p *Publisher) Start(ctx context.Context, req schedule.StartRequest) (schedule.StartReply, error) {
	e, err := startEntry(req)
	if err == nil {
		err = p.put(ctx, e)
	}
	if err != nil {
		return schedule.StartReply{}, fmt.Errorf("put run %s into the launch queue: %w", req.Key, err)
	}
	return schedule.StartReply{Queued: true}, nil
}

// Cancel hands the cancel over. It confirms nothing: whoever takes it settles
// the run.
func (p *Publisher) Cancel(ctx context.Context, req schedule.CancelRequest) (confirmed bool, err error) {
	e, err := cancelEntry(req)
	if err == nil {
		err = p.put(ctx, e)
	}
	if err != nil {
		return false, fmt.Errorf("put the cancel of run %s into the launch queue: %w", req.Key, err)
	}
	return false, nil
}

func (p *Publisher) put(ctx context.Context, e entry) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	failed, err := p.entries.Do(ctx, e)
	return errors.Join(err, failed)
}

// add puts entries in, each for itself: of one that Redis refuses the others
// know nothing.
func (p *Publisher) add(ctx context.Context, entries []entry) ([]error, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	pipe := p.redis.Pipeline()
	added := make([]*redis.StringCmd, len(entries))
	for i, e := range entries {
		added[i] = pipe.XAdd(ctx, &redis.XAddArgs{
			Stream: e.stream, MaxLen: maxEntries, Approx: true,
			Values: []any{versionField, version, bodyField, e.body},
		})
	}
	_, _ = pipe.Exec(ctx) // each command has its own
	failed := make([]error, len(entries))
	for i := range added {
		failed[i] = added[i].Err()
	}
	return failed, nil
}
