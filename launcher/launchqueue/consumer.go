package launchqueue

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/carillon/carillon/internal/batch"
	"github.com/carillon/carillon/internal/retry"
	"github.com/carillon/carillon/internal/schedule"
)

// Launcher starts the runs that a Consumer takes: the launcher of this process.
type Launcher interface {
	Start(ctx context.Context, req schedule.StartRequest) (schedule.StartReply, error)
	Cancel(ctx context.Context, req schedule.CancelRequest) (confirmed bool, err error)
}

// Store has the statements that a Consumer needs.
type Store interface {
	// GetRun is one row of the ledger; schedule.ErrNotFound.
	GetRun(ctx context.Context, key schedule.Key) (*schedule.Run, error)
	// SettleLaunched moves runs forward where their status allows, without a term.
	// moved[i] is the answer to settlement i.
	SettleLaunched(ctx context.Context, now time.Time, settlements []schedule.Settlement) (moved []schedule.Moved, err error)
	// GoneInstances returns which of the instances are proven to be gone, by their
	// presence locks. Others, and ids that are not known, may live.
	GoneInstances(ctx context.Context, ids []string) (gone []string, err error)
}

// Observer counts runs in metrics that are the same wherever runs are settled. The
// worker's metrics implement it.
type Observer interface {
	RunLaunched(run *schedule.Run, at time.Time)
	RunEnded(to schedule.Status, reason schedule.Reason, neverTaken bool)
}

// Options has the parts of a Consumer.
type Options struct {
	// ID names this process in the table of instances, so that others can take its
	// entries over as soon as it is proven to be gone. "": after three seconds.
	ID       string
	Redis    *redis.Client
	Launcher Launcher
	Store    Store
	Now      func() time.Time // default time.Now
	Logger   *slog.Logger     // default slog.Default
	Metrics  *Metrics         // default: not registered
	Observer Observer         // optional

	MaxLaunches int           // open at once; default 1000
	Drain       time.Duration // how long a stop waits for what is open; default 10 s
}

// Consumer takes runs from the queue, starts them and settles them.
type Consumer struct {
	Options
	name    string // of this consumer in the group, another one per process start
	log     *slog.Logger
	keys    openKeys
	streams []*stream
	acks    *batch.Batcher[delivery, struct{}]
	settles *batch.Batcher[schedule.Settlement, schedule.Moved]
	outage  outage

	retries retry.Launches
}

// openCancels caps the open cancels.
const openCancels = 1000

// New returns a Consumer with these parts.
func New(o Options) *Consumer {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Metrics == nil {
		o.Metrics = NewMetrics(nil)
	}
	if o.MaxLaunches <= 0 {
		o.MaxLaunches = 1000
	}
	if o.Drain <= 0 {
		o.Drain = 10 * time.Second
	}
	c := &Consumer{Options: o, name: cmp.Or(o.ID, rand.Text()), log: o.Logger.With("component", "launch queue"), keys: openKeys{open: make(map[schedule.Key]bool)}}
	c.outage.log, c.outage.up = c.log, o.Metrics.up
	onTime := newStream(launches, "launches", o.MaxLaunches, c.launch)
	// Catch-up runs need a place of both streams, and get at most a quarter.
	caughtUp := newStream(catchup, "catchup", max(1, o.MaxLaunches/4), func(ctx context.Context, m redis.XMessage) (done bool) {
		if onTime.reserve(ctx, 1) == 0 {
			return false
		}
		defer onTime.release(1)
		return c.launch(ctx, m)
	})
	// The order in which they are drained: catch-up runs hold places of onTime.
	c.streams = []*stream{caughtUp, onTime, newStream(cancels, "cancels", openCancels, c.cancel)}
	c.acks = batch.New(maxPipeline, c.acknowledge)
	c.settles = batch.New(maxPipeline, c.settleAll)
	return c
}

// Run takes and starts runs until ctx ends. Then it waits up to Drain for open
// runs and leaves the rest to other consumers.
func (c *Consumer) Run(ctx context.Context) error {
	calls, giveUp := context.WithCancel(context.WithoutCancel(ctx))
	defer giveUp()
	keeping, stopKeeping := context.WithCancel(context.WithoutCancel(ctx))
	kept := make(chan struct{})
	go func() { defer close(kept); c.keep(keeping) }()
	marked := make(chan struct{})
	go func() { defer close(marked); c.markReading(ctx) }()
	read := make(chan struct{}, len(c.streams))
	for _, s := range c.streams {
		go func() { c.read(ctx, calls, s); read <- struct{}{} }()
	}
	for range c.streams {
		<-read
	}
	<-marked
	drained := c.drain()
	giveUp()
	stopKeeping()
	<-kept
	if drained {
		c.leave()
	}
	return nil
}

// drain waits for open entries by taking back all places.
func (c *Consumer) drain() (drained bool) {
	timeout := time.NewTimer(c.Drain)
	defer timeout.Stop()
	for _, s := range c.streams {
		for range cap(s.free) {
			select {
			case <-s.free:
			case <-timeout.C:
				c.log.Warn("launches or cancels still open at shutdown; other consumers take them over")
				return false
			}
		}
	}
	return true
}

// readBatch caps the entries of one read. readBlock is how long a read waits for
// the first.
const (
	readBatch = 100
	readBlock = 500 * time.Millisecond
)

// read takes entries from one stream while it has free places, until ctx ends.
// Entries are performed with the context calls.
func (c *Consumer) read(ctx, calls context.Context, s *stream) {
	var lookedOver, lookedForGone time.Time
	pause := minPause
	for {
		n := s.reserve(ctx, readBatch)
		if n == 0 {
			return
		}
		var found []redis.XMessage
		var err error
		if time.Since(lookedOver) >= takeoverEvery {
			if found, err = c.takeOver(s, n); err == nil {
				lookedOver = time.Now()
			}
		}
		c.perform(calls, s, found)
		n -= len(found)
		if err == nil && n > 0 && time.Since(lookedForGone) >= goneEvery {
			if found, err = c.takeOverGone(s, n); err == nil {
				lookedForGone = time.Now()
			}
			c.perform(calls, s, found)
			n -= len(found)
		}
		if err == nil && n > 0 {
			found, err = c.next(s, n)
			c.perform(calls, s, found)
			n -= len(found)
		}
		s.release(n)
		if err == nil {
			c.outage.recovered()
			pause = minPause
			continue
		}
		if redis.HasErrorPrefix(err, "NOGROUP") {
			err = c.makeGroups()
		}
		if err != nil {
			c.outage.failed(err)
			sleep(ctx, pause)
			pause = min(2*pause, maxPause)
		}
	}
}

// next waits for new entries.
func (c *Consumer) next(s *stream, n int) ([]redis.XMessage, error) {
	// Not the loop's context: entries that Redis assigned while it ended must be
	// known here.
	ctx, cancel := context.WithTimeout(context.Background(), readBlock+callTimeout)
	defer cancel()
	found, err := c.Redis.XReadGroup(ctx, &redis.XReadGroupArgs{
		Group: group, Consumer: c.name, Streams: []string{s.name, ">"}, Count: int64(n), Block: readBlock,
	}).Result()
	switch {
	case errors.Is(err, redis.Nil):
		return nil, nil // there is none
	case err != nil:
		return nil, err
	}
	var entries []redis.XMessage
	for _, of := range found {
		entries = append(entries, of.Messages...)
	}
	return entries, nil
}

// makeGroups creates missing streams and groups: at the first start, and after
// Redis has lost its data. The group begins with the oldest entry, so that earlier
// entries are not lost.
func (c *Consumer) makeGroups() error {
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	for _, s := range c.streams {
		err := c.Redis.XGroupCreateMkStream(ctx, s.name, group, "0").Err()
		switch {
		case err == nil:
			c.log.Info("launch queue created", "stream", s.name)
		case !redis.HasErrorPrefix(err, "BUSYGROUP"): // it is there already
			return err
		}
	}
	return nil
}

// perform handles entries, each in a goroutine that holds one place.
func (c *Consumer) perform(calls context.Context, s *stream, entries []redis.XMessage) {
	for _, m := range entries {
		if !s.begin(m.ID) {
			s.release(1) // already open here
			continue
		}
		go func() {
			defer s.release(1)
			defer s.end(m.ID)
			if s.perform(calls, m) {
				_, _ = c.acks.Do(calls, delivery{s.name, m.ID})
			}
		}()
	}
}

// delivery is one handled entry.
type delivery struct{ stream, id string }

// acknowledge deletes entries from the queue. After an error they are delivered
// again and answered from the record.
func (c *Consumer) acknowledge(ctx context.Context, done []delivery) ([]struct{}, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	ids := make(map[string][]string)
	for _, d := range done {
		ids[d.stream] = append(ids[d.stream], d.id)
	}
	_, err := c.Redis.TxPipelined(ctx, func(tx redis.Pipeliner) error {
		for stream, ids := range ids {
			tx.XAck(ctx, stream, group, ids...)
			tx.XDel(ctx, stream, ids...)
		}
		return nil
	})
	if err != nil {
		c.outage.failed(err)
	}
	return make([]struct{}, len(done)), err
}
