package launchqueue

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/carillon/carillon/internal/batch"
	"github.com/carillon/carillon/internal/schedule"
)

// Launcher is what a Consumer hands runs to; the launcher in this process.
type Launcher interface {
	Start(ctx context.Context, req schedule.StartRequest) (schedule.StartReply, error)
	Cancel(ctx context.Context, req schedule.CancelRequest) (confirmed bool, err error)
}

// Store is the ledger, as far as a Consumer writes it.
type Store interface {
	// GetRun is one row of the ledger; schedule.ErrNotFound.
	GetRun(ctx context.Context, key schedule.Key) (*schedule.Run, error)
	// SettleLaunched moves runs forward, each where its status allows, under no
	// term; moved[i] says whether the i-th did.
	SettleLaunched(ctx context.Context, now time.Time, settlements []schedule.Settlement) (moved []bool, err error)
}

// Observer is told of runs, for the figures that are the same wherever runs are
// settled; the worker's metrics are one.
type Observer interface {
	RunLaunched(run *schedule.Run, at time.Time)
	RunEnded(to schedule.Status, reason schedule.Reason, neverTaken bool)
}

// Options are a Consumer's parts.
type Options struct {
	Redis    *redis.Client
	Launcher Launcher
	Store    Store
	Now      func() time.Time // default time.Now
	Logger   *slog.Logger     // default slog.Default
	Metrics  *Metrics         // default: counted nowhere
	Observer Observer         // optional

	MaxLaunches int           // open at once; default 1000
	Drain       time.Duration // how long a stop waits for what is open; default 10 s
}

// Consumer takes runs out of the queue, has them launched, and settles them.
type Consumer struct {
	Options
	name    string // of this consumer in the group, random per process start
	log     *slog.Logger
	keys    openKeys
	streams []*stream
	acks    *batch.Batcher[delivery, struct{}]
	settles *batch.Batcher[schedule.Settlement, bool]
	outage  outage

	unanswered schedule.Unanswered
}

// openCancels bounds the cancels that are open at once.
const openCancels = 1000

// New makes a Consumer of its parts.
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
	c := &Consumer{Options: o, name: rand.Text(), log: o.Logger.With("component", "launch queue"), keys: openKeys{open: make(map[schedule.Key]bool)}}
	c.outage.log, c.outage.up = c.log, o.Metrics.up
	onTime := newStream(launches, "launches", o.MaxLaunches, c.launch)
	// What is made up for shares these places, and may hold a quarter of them.
	madeUp := newStream(catchup, "catchup", max(1, o.MaxLaunches/4), func(ctx context.Context, m redis.XMessage) (done bool) {
		if onTime.reserve(ctx, 1) == 0 {
			return false
		}
		defer onTime.release(1)
		return c.launch(ctx, m)
	})
	// In the order in which they are drained: what is made up needs places of
	// what is on time.
	c.streams = []*stream{madeUp, onTime, newStream(cancels, "cancels", openCancels, c.cancel)}
	c.acks = batch.New(maxPipeline, c.acknowledge)
	c.settles = batch.New(maxPipeline, c.settleAll)
	return c
}

// Run takes and launches until ctx ends. Then it takes nothing more, waits for
// what is open, a bounded time, and leaves the rest to other consumers.
func (c *Consumer) Run(ctx context.Context) error {
	calls, giveUp := context.WithCancel(context.WithoutCancel(ctx))
	defer giveUp()
	keeping, stopKeeping := context.WithCancel(context.WithoutCancel(ctx))
	kept := make(chan struct{})
	go func() { defer close(kept); c.keep(keeping) }()
	said := make(chan struct{})
	go func() { defer close(said); c.sayReading(ctx) }()
	read := make(chan struct{}, len(c.streams))
	for _, s := range c.streams {
		go func() { c.read(ctx, calls, s); read <- struct{}{} }()
	}
	for range c.streams {
		<-read
	}
	<-said
	drained := c.drain()
	giveUp()
	stopKeeping()
	<-kept
	if drained {
		c.leave()
	}
	return nil
}

// drain waits for what is open by taking every place back.
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

// readBatch is how many entries one exchange takes out at most; readBlock is
// how long it waits for the first.
const (
	readBatch = 100
	readBlock = 500 * time.Millisecond
)

// read takes entries out of one stream for as long as there are places for
// them, until ctx ends; what it takes is performed under calls.
func (c *Consumer) read(ctx, calls context.Context, s *stream) {
	var lookedOver time.Time
	pause := leastPause
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
		if err == nil && n > 0 {
			found, err = c.next(s, n)
			c.perform(calls, s, found)
			n -= len(found)
		}
		s.release(n)
		if err == nil {
			c.outage.over()
			pause = leastPause
			continue
		}
		if redis.HasErrorPrefix(err, "NOGROUP") {
			err = c.makeGroups()
		}
		if err != nil {
			c.outage.goesOn(err)
			rest(ctx, pause)
			pause = min(2*pause, mostPause)
		}
	}
}

// next waits for entries that no consumer has taken yet.
func (c *Consumer) next(s *stream, n int) ([]redis.XMessage, error) {
	// Not the loop's context: what was taken while it ended is to be known here.
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

// makeGroups makes the streams and their group where they are missing: at the
// first start, and when Redis has forgotten everything. The group begins with
// the oldest entry: what was put in before it was made is not lost.
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

// perform deals with entries, each in a goroutine that holds one place.
func (c *Consumer) perform(calls context.Context, s *stream, entries []redis.XMessage) {
	for _, m := range entries {
		if !s.begin(m.ID) {
			s.release(1) // it is open here
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

// delivery is one entry that was dealt with.
type delivery struct{ stream, id string }

// acknowledge takes entries out of the queue for good. Those that it fails for
// come again, and are answered from the record.
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
		c.outage.goesOn(err)
	}
	return make([]struct{}, len(done)), err
}
