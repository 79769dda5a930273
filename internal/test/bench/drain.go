package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/carillon/carillon/internal/test/bench/record"
	"github.com/carillon/carillon/internal/test/bench/report"
	"github.com/carillon/carillon/internal/test/bench/site"
)

// queuer is a system with one queue of jobs.
type queuer interface {
	system
	Pause(ctx context.Context, maxInFlight int) error // no job is called until Resume
	Enqueue(ctx context.Context, n int) error
	Resume(ctx context.Context) error
	Place(c record.Call) int // in the order of entry
}

// drainInFlight is how many jobs of the queue may be with the executor.
const drainInFlight = 10_000

// drain has N jobs wait in a queue that is paused, and measures how fast they run once it is
// resumed. With -limit each of them uses a limit.
func drain(ctx context.Context, o options, w *report.Writer) error {
	name, most := "drain", drainInFlight
	if o.limit > 0 {
		name, most = fmt.Sprintf("drain, a limit of %d", o.limit), min(most, o.limit)
	}
	return eachRun(o, name, w, func(name string, n, run int) (line report.Line, err error) {
		q, err := startQueue(ctx, o, name, drainInFlight)
		if err != nil {
			return line, err
		}
		defer func() { err = errors.Join(err, q.Close()) }()
		began := time.Now()
		entered, err := enter(ctx, o, q, n, fmt.Sprintf("enqueue-%s-%d-%d", name, n, run))
		if err != nil {
			return line, err
		}
		if db := q.Database(); db != nil {
			if err := db.Rest(ctx); err != nil {
				return line, err
			}
		}
		m := &meter{
			s: q, o: o, label: fmt.Sprintf("drain-%s-%d-%d", name, n, run), queue: q, maxInFlight: most,
			work: record.Work{N: n, Rounds: 1, First: began.Truncate(time.Second), Spread: entered + time.Second},
		}
		if err := m.run(ctx); err != nil {
			return line, err
		}
		line = m.line()
		line.Figures["enqueued_a_second"] = float64(n) / entered.Seconds()
		settled := line.Figures["settled_ms"]
		if o.history == "failed" { // its ends have no stamp
			settled = line.Figures["settled_seen_ms"]
		}
		line.Figures["jobs_a_second"] = 1000 * float64(n) / max(line.Figures["max_ms"], settled)
		return line, o.accept(line)
	})
}

// enter has n jobs enter the queue, and returns how long it took.
func enter(ctx context.Context, o options, q queuer, n int, label string) (took time.Duration, err error) {
	m := &meter{s: q, o: o, label: label}
	if s, ok := q.(*site.Site); ok {
		m.s = registering{s}
	}
	if err := m.watch(ctx); err != nil {
		return 0, err
	}
	began := time.Now()
	if err := q.Enqueue(ctx, n); err != nil {
		return 0, err
	}
	return time.Since(began), m.endWatch(ctx)
}

// startQueue starts a system with an empty queue that is paused.
func startQueue(ctx context.Context, o options, name string, maxInFlight int) (q queuer, err error) {
	s, err := start(ctx, o, name)
	if err != nil {
		return nil, err
	}
	q, ok := s.(queuer)
	if !ok {
		err = fmt.Errorf("%s has no queue", name)
	} else if err = q.Warm(ctx, o.warm); err == nil {
		err = q.Pause(ctx, maxInFlight)
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return q, nil
}
