package sqlite

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// changeKind is the kind of a row of changes. The numbers are stored.
type changeKind int

const (
	scheduleChanged changeKind = 1 // edited, paused, resumed or deleted
	runChanged      changeKind = 2 // inserted or moved by another writer than the claim
	runEnded        changeKind = 3
	cancelRequested changeKind = 4
	consumerWoken   changeKind = 5
)

var changeKinds = []changeKind{scheduleChanged, runChanged, runEnded, cancelRequested, consumerWoken}

// How long changes are kept. A leader that has not read for half a minute rebuilds
// its state.
const (
	keepEnded   = time.Minute
	keepChanges = time.Hour
)

// changed collects what a transaction changes. Store.write turns it into rows of
// changes before the commit, so a change and its row are durable together.
type changed map[changeKind]*changeRow

type changeRow struct {
	first, last int // hash buckets
	schedules   []string
	keys        []byte
}

func (c changed) row(kind changeKind, bucket int) *changeRow {
	row := c[kind]
	if row == nil {
		row = &changeRow{first: bucket, last: bucket}
		c[kind] = row
	}
	row.first, row.last = min(row.first, bucket), max(row.last, bucket)
	return row
}

func (c changed) run(kind changeKind, key schedule.Key, bucket int) {
	row := c.row(kind, bucket)
	row.keys = append(row.keys, key[:]...)
}

// noteRun notes a run for its leader, and wakes those who admit a run of a queue. Nobody leads a
// job.
func (t tx) noteRun(kind changeKind, r *schedule.Run) {
	if r.Queue.In() {
		*t.queues = true
	}
	if r.IsJob() {
		return
	}
	t.changed.run(kind, r.Key, schedule.Bucket(r.OverlapKey))
}

// schedule names a schedule in the buckets of its old and its new overlap key.
func (c changed) schedule(id string, buckets ...int) {
	for _, bucket := range buckets {
		c.name(scheduleChanged, id, bucket)
	}
}

// consumer names a consumer with a wake row.
func (c changed) consumer(id string, bucket int) { c.name(consumerWoken, id, bucket) }

func (c changed) name(kind changeKind, id string, bucket int) {
	row := c.row(kind, bucket)
	if !slices.Contains(row.schedules, id) {
		row.schedules = append(row.schedules, id)
	}
}

// returned notes the runs of a statement that returns key and bucket.
func (c changed) returned(kind changeKind) func(scan) error {
	return func(scan scan) error {
		var k key
		var bucket int
		err := scan(&k, &bucket)
		if err == nil {
			c.run(kind, schedule.Key(k), bucket)
		}
		return err
	}
}

func (t tx) writeChanges(ctx context.Context, now time.Time) error {
	for _, kind := range changeKinds {
		row := t.changed[kind]
		if row == nil {
			continue
		}
		var schedules, keys any
		if len(row.schedules) > 0 {
			schedules = list(row.schedules)
		}
		if len(row.keys) > 0 {
			keys = row.keys
		}
		if _, err := t.exec(ctx, sqlNoteChange, now.UnixMicro(), row.first, row.last, int(kind), schedules, keys); err != nil {
			return fmt.Errorf("note what has changed: %w", err)
		}
	}
	return nil
}

// pruneChanges deletes changes that no reader needs, and records the last one, so that a
// reader that still needs them notices.
func pruneChanges(ctx context.Context, t tx, now time.Time, limit int) (int, error) {
	args := []any{now.Add(-keepEnded).UnixMicro(), now.Add(-keepChanges).UnixMicro(), limit}
	if _, err := t.exec(ctx, sqlNotePruned, args...); err != nil {
		return 0, fmt.Errorf("note which changes are pruned: %w", err)
	}
	n, err := t.exec(ctx, sqlPruneChanges, args...)
	if err != nil {
		return 0, fmt.Errorf("prune changes: %w", err)
	}
	return int(n), nil
}

// loseChanges makes all leaders rebuild their memory.
func loseChanges(ctx context.Context, t tx, now time.Time) error {
	// With a row of its own, so that positions at the end are lost too.
	if _, err := t.exec(ctx, sqlNoteChange, now.UnixMicro(), 0, schedule.Buckets-1, int(scheduleChanged), nil, nil); err != nil {
		return fmt.Errorf("end the read positions: %w", err)
	}
	if _, err := t.exec(ctx, sqlLoseChanges); err != nil {
		return fmt.Errorf("end the read positions: %w", err)
	}
	return nil
}
