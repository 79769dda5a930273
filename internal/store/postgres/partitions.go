package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

// partition is one of ended_runs. The first one has no from and the last one no to.
type partition struct {
	name     string
	from, to pgtype.Timestamptz
	bytes    int64
}

// partitions are the partitions of ended_runs in order.
type partitions []partition

// begin and end limit the partitions that are dropped as a whole.
func (p partitions) begin() pgtype.Timestamptz { return p[0].to }
func (p partitions) end() pgtype.Timestamptz   { return p[len(p)-1].from }

const (
	partitionsEvery = time.Minute
	lockTries       = 3 // tries in a row that find a lock held are worth a warning
	partitionsAhead = 2 // whole days after today
	day             = 24 * time.Hour
	// largeBefore is the size from which ended_runs_before does not replace the partition
	// after it, as in carillon_drop_partition.
	largeBefore = 16 << 20
	// dropTimeout is for statements that read a whole partition.
	dropTimeout = "10min"
)

// keepPartitions adds partitions ahead and drops old ones, at most once a minute, and
// returns all partitions. A failure of either stops nothing else: the next call tries again.
func (s *Store) keepPartitions(ctx context.Context, before time.Time) (partitions, error) {
	parts, now, err := s.readPartitions(ctx)
	if err != nil {
		return nil, err
	}
	last := s.partitions.kept.Load()
	if last != nil && time.Since(*last) < partitionsEvery {
		return parts, nil
	}
	s.partitions.kept.Store(new(time.Now()))
	added, dropped := s.addPartitions(ctx, parts, now), s.dropPartitions(ctx, parts, before)
	if ctx.Err() == nil {
		s.countTry(errors.Join(added, dropped))
	}
	parts, _, err = s.readPartitions(ctx)
	return parts, err
}

// countTry logs a try that failed. A lock that others hold is normal now and then: a try
// waits 50 ms, because all ends of runs wait with it.
func (s *Store) countTry(err error) {
	if err == nil {
		s.partitions.inARow.Store(0)
		return
	}
	s.partitions.failures.Add(1)
	tries := s.partitions.inARow.Add(1)
	if stateOf(err) == stateLockTimeout && tries < lockTries {
		s.log.Info("partitions of ended_runs are in use, trying again within ten minutes", "err", err)
		return
	}
	s.log.Warn("partitions of ended_runs were not added or dropped, trying again within ten minutes", "tries", tries, "err", err)
}

// PartitionFailures counts the tries of this process to add or drop partitions that failed.
func (s *Store) PartitionFailures() uint64 { return s.partitions.failures.Load() }

func (s *Store) readPartitions(ctx context.Context) (parts partitions, now time.Time, err error) {
	var p partition
	err = each(ctx, s.pool, []any{&p.name, &p.from, &p.to, &p.bytes, &now}, func() error {
		parts = append(parts, p)
		return nil
	}, sqlPartitions)
	if err == nil && len(parts) < 2 {
		err = errors.New("ended_runs has no first and last partition")
	}
	if err != nil {
		return nil, now, fmt.Errorf("read partitions: %w", err)
	}
	return parts, now, nil
}

// History is the state of the partitions of ended_runs.
type History struct {
	Partitions int
	Until      time.Time // runs before it have a partition of their day
	Ahead      int       // rows after it, all in one partition; counting stops at HistoryAheadLimit
}

// HistoryAheadLimit is the number of rows after History.Until that is too many: each new
// partition has to move its rows.
const HistoryAheadLimit = 10_000

// History reads the state of the partitions.
func (s *Store) History(ctx context.Context) (h History, err error) {
	parts, _, err := s.readPartitions(ctx)
	if err != nil {
		return h, err
	}
	h.Partitions, h.Until = len(parts), parts.end().Time.UTC()
	if err = s.pool.QueryRow(ctx, sqlHistoryAhead, h.Until, HistoryAheadLimit).Scan(&h.Ahead); err != nil {
		return h, fmt.Errorf("count runs after the last partition: %w", err)
	}
	return h, nil
}

// addPartitions gives each day up to two days ahead a partition. After a pause the
// first one has all days up to today.
func (s *Store) addPartitions(ctx context.Context, parts partitions, now time.Time) error {
	today := now.UTC().Truncate(day)
	for from := parts.end().Time.UTC(); !from.After(today.Add(partitionsAhead * day)); {
		to := from.Add(day)
		if from.Before(today) {
			to = today.Add(day)
		}
		if _, err := s.pool.Exec(ctx, sqlAddPartition, from, to); err != nil {
			return fmt.Errorf("add partition of %s: %w", from.Format(time.DateOnly), err)
		}
		from = to
	}
	return nil
}

// dropPartitions drops partitions that ended before an instant, if all of their runs did.
func (s *Store) dropPartitions(ctx context.Context, parts partitions, before time.Time) error {
	for i, p := range parts[1 : len(parts)-1] {
		if p.to.Time.After(before) {
			break
		}
		var newest pgtype.Timestamptz
		if err := s.pool.QueryRow(ctx, sqlNewestOfPartition, p.from, p.to).Scan(&newest); err != nil {
			return fmt.Errorf("read partition %s: %w", p.name, err)
		}
		stays := newest.Valid && !newest.Time.Before(before) // a run of it ended late
		empty := !newest.Valid && (i > 0 || parts[0].bytes >= largeBefore)
		if stays || empty {
			continue
		}
		if err := s.dropPartition(ctx, p, before); err != nil {
			return fmt.Errorf("drop partition %s: %w", p.name, err)
		}
		s.log.Info("partition dropped", "partition", p.name, "before", before)
	}
	return nil
}

func (s *Store) dropPartition(ctx context.Context, p partition, before time.Time) error {
	return s.onceWith(ctx, pgx.TxOptions{}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SET LOCAL statement_timeout = '"+dropTimeout+"'"); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, sqlLastRunsOfPartition, p.from, p.to); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, sqlDropPartition, p.name, before)
		return err
	})
}
