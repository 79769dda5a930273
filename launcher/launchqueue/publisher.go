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
	metrics *Metrics
	entries *batch.Batcher[entry, error]
}

// maxPipeline is how many entries one exchange carries.
const maxPipeline = 1000

// NewPublisher makes the Publisher of a Redis; without metrics it counts
// nowhere.
func NewPublisher(client *redis.Client, m *Metrics) *Publisher {
	if m == nil {
		m = NewMetrics(nil)
	}
	p := &Publisher{redis: client, metrics: m}
	p.entries = batch.New(maxPipeline, p.add)
	return p
}

// Reach asks whether what is put in would be launched: whether Redis answers,
// and a launcher reads the queue.
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

// Start hands the run over. Of an error it is not known whether the run was
// handed over all the same; it may be started again.
func (p *Publisher) Start(ctx context.Context, req schedule.StartRequest) (schedule.StartReply, error) {
	e, err := startEntry(req)
	if err == nil {
		err = p.hand(ctx, e)
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
		err = p.hand(ctx, e)
	}
	if err != nil {
		return false, fmt.Errorf("put the cancel of run %s into the launch queue: %w", req.Key, err)
	}
	return false, nil
}

func (p *Publisher) hand(ctx context.Context, e entry) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	failed, err := p.entries.Do(ctx, e)
	if err = errors.Join(err, failed); err != nil {
		return fmt.Errorf("%w: %w", schedule.ErrQueueAway, err)
	}
	return nil
}

// put adds an entry, unless the one that was added for its run before is still
// there: launches that wait in a long queue are sent again whenever their
// claim's lease ends, and all at once by a new leader, and must not make it
// longer still. KEYS are the stream and the run's mark; ARGV the most entries,
// the two fields, and for how long the mark is kept.
const put = `
local id = redis.call('GET', KEYS[2])
if id and #redis.call('XRANGE', KEYS[1], id, id) > 0 then
  return id
end
id = redis.call('XADD', KEYS[1], 'MAXLEN', '~', ARGV[1], '*', 'v', ARGV[2], 'body', ARGV[3])
redis.call('SET', KEYS[2], id, 'PX', ARGV[4])
return id`

// markFor is for how long an entry keeps another one of its run away. It ends,
// should the entry be there and nobody be given it: whoever meddles with the
// group by hand can bring that about.
const markFor = 2 * time.Minute

// add puts entries in, each for itself: of one that Redis refuses the others
// know nothing.
func (p *Publisher) add(ctx context.Context, entries []entry) ([]error, error) {
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
		failed[i] = added[i].Err()
	}
	return failed, nil
}
