package launchqueue

import (
	"context"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// takeoverIdle is how long a taken entry may be idle before another consumer
	// takes it over. By then the key lease of a dead launcher has ended. If the first
	// consumer was only slow, both send the same key, which is harmless.
	takeoverIdle  = 3 * time.Second
	takeoverEvery = time.Second
	// keepEvery is the interval at which a live consumer refreshes its entries.
	keepEvery = time.Second
	// goneEvery is the interval at which a consumer looks for entries of processes
	// that are proven to be gone. A consumer that lives reads all the time, so one
	// that was silent for goneIdle is worth a look.
	goneEvery = 250 * time.Millisecond
	goneIdle  = readBlock
)

// takeOver takes up to n idle entries of other consumers.
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
				continue // our own, refreshed too late
			}
			c.Metrics.takenOver.Inc()
			c.Metrics.redelivered.Inc()
			found = append(found, m)
		}
		if from = next; next == "0-0" {
			break
		}
	}
	c.tookOver(s, found)
	return found, nil
}

func (c *Consumer) tookOver(s *stream, found []redis.XMessage) {
	if len(found) > 0 {
		c.log.Info("launch queue entries taken over", "stream", s.name, "entries", len(found))
	}
}

// takeOverGone takes up to n entries of consumers whose processes are proven to be
// gone. What it misses takeOver finds.
func (c *Consumer) takeOverGone(s *stream, n int) ([]redis.XMessage, error) {
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	consumers, err := c.Redis.XInfoConsumers(ctx, s.name, group).Result()
	if err != nil {
		return nil, err
	}
	var silent []string
	for _, x := range consumers {
		if x.Name != c.name && x.Pending > 0 && x.Idle >= goneIdle {
			silent = append(silent, x.Name)
		}
	}
	if len(silent) == 0 {
		return nil, nil
	}
	gone, err := c.Store.GoneInstances(ctx, silent)
	if err != nil {
		c.log.Debug("cannot look for processes that are gone; their entries are taken over after three seconds", "err", err)
		return nil, nil
	}
	var found []redis.XMessage
	for _, name := range gone {
		some, err := c.takeFrom(ctx, s, name, n-len(found))
		if found = append(found, some...); err != nil || len(found) == n {
			c.tookOver(s, found)
			return found, err
		}
	}
	c.tookOver(s, found)
	return found, nil
}

// takeFrom takes up to n entries of one consumer. Of several that try at once one
// gets an entry, because taking it ends its idle time.
func (c *Consumer) takeFrom(ctx context.Context, s *stream, name string, n int) (found []redis.XMessage, err error) {
	pending, err := c.Redis.XPendingExt(ctx, &redis.XPendingExtArgs{
		Stream: s.name, Group: group, Start: "-", End: "+", Count: int64(n), Consumer: name,
	}).Result()
	if err != nil || len(pending) == 0 {
		return nil, err
	}
	ids := make([]string, len(pending))
	for i := range pending {
		ids[i] = pending[i].ID
	}
	found, err = c.Redis.XClaim(ctx, &redis.XClaimArgs{Stream: s.name, Group: group, Consumer: c.name, MinIdle: goneIdle, Messages: ids}).Result()
	c.Metrics.takenOver.Add(float64(len(found)))
	c.Metrics.redelivered.Add(float64(len(found)))
	return found, err
}

// keep refreshes the entries that are open here, measures the queue and deletes
// consumers that are gone.
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
			c.refresh(ctx, s)
			if n%60 == 30 {
				c.forget(ctx, s)
			}
		}
	}
}

// refresh prevents other consumers from taking over open entries. Errors are
// ignored: the read loops log an outage.
func (c *Consumer) refresh(ctx context.Context, s *stream) {
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

// readFor is the lifetime of readMark.
const readFor = 3 * time.Second

// markReading sets readMark each second until ctx ends. Errors are ignored: the
// read loops log an outage.
func (c *Consumer) markReading(ctx context.Context) {
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

// goneFor is how long a consumer without entries must be idle to be deleted. A
// live one reads twice a second.
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

// leave deletes this consumer from the group unless it has entries, which would be
// deleted with it.
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
