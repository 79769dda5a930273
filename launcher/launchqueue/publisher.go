package launchqueue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/carillon/carillon/internal/schedule"
)

// callTimeout bounds one exchange with Redis.
const callTimeout = 2 * time.Second

// maxEntries caps the length of a stream. Entries are deleted when they are done,
// so only a long absence of consumers reaches it. Dropping the oldest is harmless:
// their runs are queued again when the claim's lease ends.
const maxEntries = 100_000

// All errors are returned to the caller. The library would also log each of its
// attempts, bypassing the logger of the process.
func init() { logging.Disable() }

// Open returns the client of a Redis at redis://:password@host:port/database. It
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
	options.MaxRetries = 1 // a retry can add an entry twice, which is harmless
	options.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return redis.NewClient(options), nil
}

// Publisher is the worker's launcher: it adds runs to the queue.
type Publisher struct {
	redis   *redis.Client
	metrics *Metrics
}

// maxPipeline caps the entries of one exchange.
const maxPipeline = 1000

// NewPublisher returns the Publisher of a Redis. m may be nil.
func NewPublisher(client *redis.Client, m *Metrics) *Publisher {
	if m == nil {
		m = NewMetrics(nil)
	}
	return &Publisher{redis: client, metrics: m}
}

// Reach checks whether a queued run would be launched: Redis answers and a
// launcher reads the queue.
func (p *Publisher) Reach(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	marks, err := p.redis.Exists(ctx, readMark).Result()
	show(p.metrics.up, err == nil)
	show(p.metrics.read, marks > 0)
	if err != nil {
		return fmt.Errorf("the launch queue is unavailable: %w", err)
	}
	p.metrics.measure(ctx, p.redis)
	if marks == 0 {
		return errors.New("no launcher reads the launch queue: is one running, with LAUNCH_QUEUE=redis and the same REDIS_URL?")
	}
	return nil
}

// StartAll queues the runs and returns when all are answered. After an error the run may
// be queued or not; it may be started again.
func (p *Publisher) StartAll(ctx context.Context, reqs []schedule.StartRequest, answer func(i int, reply schedule.StartReply, err error)) {
	told := func(i int, err error) {
		if err != nil {
			answer(i, schedule.StartReply{}, fmt.Errorf("put run %s into the launch queue: %w", reqs[i].Key, err))
			return
		}
		answer(i, schedule.StartReply{Queued: true}, nil)
	}
	entries := make([]entry, 0, len(reqs))
	for i := range reqs {
		e, err := startEntry(&reqs[i])
		if err != nil {
			told(i, err)
			continue
		}
		e.number = i
		entries = append(entries, e)
	}
	for some := range slices.Chunk(entries, maxPipeline) {
		for i, err := range p.add(ctx, some) {
			told(some[i].number, err)
		}
	}
}

// Cancel queues the cancel. It confirms nothing: the consumer settles the run.
func (p *Publisher) Cancel(ctx context.Context, req schedule.CancelRequest) (confirmed bool, err error) {
	e, err := cancelEntry(req)
	if err == nil {
		err = p.add(ctx, []entry{e})[0]
	}
	if err != nil {
		return false, fmt.Errorf("put the cancel of run %s into the launch queue: %w", req.Key, err)
	}
	return false, nil
}

// put adds an entry unless an earlier entry of its run is still in the stream.
// Otherwise a long queue would grow further: runs are sent again when their
// claim's lease ends, and by each new leader. KEYS: stream, mark of the run. ARGV:
// maxEntries, the two fields, lifetime of the mark in ms.
const put = `
local id = redis.call('GET', KEYS[2])
if id and #redis.call('XRANGE', KEYS[1], id, id) > 0 then
  return id
end
id = redis.call('XADD', KEYS[1], 'MAXLEN', '~', ARGV[1], '*', 'v', ARGV[2], 'body', ARGV[3])
redis.call('SET', KEYS[2], id, 'PX', ARGV[4])
return id`

// markFor is how long an entry prevents another one of its run. It is bounded
// because an entry can be in the stream and never be delivered, for example after
// the group was edited by hand.
const markFor = 2 * time.Minute

// add adds entries independently: if Redis refuses one, the others are added.
func (p *Publisher) add(ctx context.Context, entries []entry) []error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	pipe := p.redis.Pipeline()
	added := make([]*redis.Cmd, len(entries))
	for i := range entries {
		e := &entries[i]
		added[i] = pipe.Eval(ctx, put, []string{e.stream, e.mark()}, maxEntries, version, e.body, markFor.Milliseconds())
	}
	_, _ = pipe.Exec(ctx) // each command has its own
	failed := make([]error, len(entries))
	for i := range added {
		if err := added[i].Err(); err != nil {
			failed[i] = fmt.Errorf("%w: %w", schedule.ErrQueueAway, err)
		}
	}
	return failed
}
