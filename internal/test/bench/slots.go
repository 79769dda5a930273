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

// slots has a queue with N slots, more jobs than they can take, and an executor that takes
// some time for each. It measures how much of the slots' time the executor worked.
func slots(ctx context.Context, o options, w *report.Writer) error {
	return eachRun(o, fmt.Sprintf("slots, jobs of %s", o.busy), w, func(name string, n, run int) (line report.Line, err error) {
		q, err := startQueue(ctx, o, name, n)
		if err != nil {
			return line, err
		}
		defer func() { err = errors.Join(err, q.Close()) }()
		s, ok := q.(*site.Site)
		if !ok {
			return line, fmt.Errorf("slots is for carillon and carillon-sqlite")
		}
		if err := s.Busy(o.busy); err != nil {
			return line, err
		}
		long := time.Duration(o.seconds) * time.Second
		if err := q.Enqueue(ctx, n*int(2+long/o.busy)); err != nil {
			return line, err
		}
		m := &meter{s: q, o: o, label: fmt.Sprintf("slots-%s-%d-%d", name, n, run)}
		if err := m.watch(ctx); err != nil {
			return line, err
		}
		if err := q.Resume(ctx); err != nil {
			return line, err
		}
		first, err := firstCall(ctx, q, o.timeout)
		if err != nil {
			return line, err
		}
		if err := sleepUntil(ctx, first.Add(long)); err != nil {
			return line, err
		}
		if err := m.endWatch(ctx); err != nil {
			return line, err
		}
		calls, err := q.Calls()
		if err != nil {
			return line, err
		}
		share, most := record.Used(calls, n, o.busy, first, long)
		line.Figures = map[string]float64{"used_%": 100 * share, "calls": float64(len(calls))}
		line.Bad = map[string]int{
			"over the limit": max(0, most-n), "out of order": record.OutOfOrder(calls, q.Place, n), "doubled": record.Doubled(calls),
		}
		line.Settings = given()
		return line, o.accept(line)
	})
}

// firstCall waits for the first call, and returns when it came.
func firstCall(ctx context.Context, q queuer, within time.Duration) (time.Time, error) {
	for end := time.Now().Add(within); time.Now().Before(end); {
		calls, err := q.Calls()
		if err != nil {
			return time.Time{}, err
		}
		if len(calls) > 0 {
			return time.Unix(0, calls[0].At), nil
		}
		if err := sleepUntil(ctx, time.Now().Add(look)); err != nil {
			return time.Time{}, err
		}
	}
	return time.Time{}, fmt.Errorf("no job was called within %s", within)
}
