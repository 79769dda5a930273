package launchqueue

import (
	"context"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// takeoverIdle is how long an entry that was taken may be left alone before
	// another consumer takes it over. The lease of a dead launcher's key is over
	// by then. A consumer that was only slow loses nothing: both have the same
	// key.
	takeoverIdle  = 3 * time.Second
	takeoverEvery = time.Second
	// keepEvery is how often a live consumer says that it has not left its own.
	keepEvery = time.Second
)

// takeOver takes up to n entries that their consumer has left alone.
func (c *Consumer) takeOver(s *stream, n int) ([]redis.XMessage, error) {
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	var found []redis.XMessage
	for from := "0-0"; len(found) < n; {
		entries, next, err := c.Redis.XAutoClaim(ctx, &redis.XAutoClaimArgs{
			Stream: s.name, Group: group, Consumer: c.name, MinIdle: takeoverIdle, Start: from, Count: int64(n - len(found)),
		}).Result()
		if err != nil {
			return found, err
		}
		for _, m := range entries {
			if s.isOpen(m.ID) {
				continue // ours, and kept young too late
			}
			c.Metrics.takenOver.Inc()
			c.Metrics.redelivered.Inc()
			found = append(found, m)
		}
		if from = next; next == "0-0" {
			break
		}
	}
	if len(found) > 0 {
		c.log.Info("launch queue entries taken over", "stream", s.name, "entries", len(found))
	}
	return found, nil
}

// keep says again and again that what is open here is being dealt with,
// measures the queue, and forgets consumers that are gone.
func (c *Consumer) keep(ctx context.Context) {
	ticker := time.NewTicker(keepEvery)
	defer ticker.Stop()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if n%5 == 0 {
			c.measure(ctx)
		}
		for _, s := range c.streams {
			c.keepYoung(ctx, s)
			if n%60 == 30 {
				c.forget(ctx, s)
			}
		}
	}
}

// keepYoung keeps other consumers from taking over what is open here. If it
// fails, the loops that read say so.
func (c *Consumer) keepYoung(ctx context.Context, s *stream) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	for ids := range slices.Chunk(s.openFor(keepEvery), maxPipeline) {
		_ = c.Redis.XClaimJustID(ctx, &redis.XClaimArgs{Stream: s.name, Group: group, Consumer: c.name, Messages: ids}).Err()
	}
}

func (c *Consumer) measure(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	c.Metrics.measure(ctx, c.Redis)
}

// readFor is for how long workers believe that somebody reads the queue.
const readFor = 3 * time.Second

// sayReading tells the workers that somebody reads the queue, until ctx ends.
// If it fails, the loops that read say so.
func (c *Consumer) sayReading(ctx context.Context) {
	ticker := time.NewTicker(keepEvery)
	defer ticker.Stop()
	for ctx.Err() == nil {
		setCtx, cancel := context.WithTimeout(ctx, callTimeout)
		err := c.Redis.Set(setCtx, readMark, c.name, readFor).Err()
		cancel()
		show(c.Metrics.read, err == nil)
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
	}
}

// goneFor is how long a consumer that has nothing in hand must not have been
// heard of to be forgotten. A live one asks twice a second.
const goneFor = time.Hour

func (c *Consumer) forget(ctx context.Context, s *stream) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	consumers, err := c.Redis.XInfoConsumers(ctx, s.name, group).Result()
	if err != nil {
		return
	}
	for _, consumer := range consumers {
		if consumer.Pending == 0 && consumer.Idle > goneFor {
			c.Redis.XGroupDelConsumer(ctx, s.name, group, consumer.Name)
		}
	}
}

// leave takes this consumer out of the group. With entries in hand it stays
// there: they would go with it.
func (c *Consumer) leave() {
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	for _, s := range c.streams {
		inHand, err := c.Redis.XPendingExt(ctx, &redis.XPendingExtArgs{
			Stream: s.name, Group: group, Start: "-", End: "+", Count: 1, Consumer: c.name,
		}).Result()
		if err == nil && len(inHand) == 0 {
			c.Redis.XGroupDelConsumer(ctx, s.name, group, c.name)
		}
	}
}
