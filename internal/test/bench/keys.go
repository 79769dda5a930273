package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/test/bench/record"
	"github.com/carillon/carillon/internal/test/bench/report"
	"github.com/carillon/carillon/internal/test/bench/site"
)

// keyEnds is how many ends keys measures in a run, at most.
const keyEnds = 200

// keys has N keys of a limit of one, each with a job that the executor works on and one that waits
// behind it. It ends one job after the other, and measures the time until the next of its key is called.
func keys(ctx context.Context, o options, w *report.Writer) error {
	return eachRun(o, "keys of a limit of 1", w, func(name string, n, run int) (line report.Line, err error) {
		q, err := startQueue(ctx, o, name, min(n, drainInFlight))
		if err != nil {
			return line, err
		}
		defer func() { err = errors.Join(err, q.Close()) }()
		s, ok := q.(*site.Site)
		if !ok || n > drainInFlight {
			return line, fmt.Errorf("keys is for carillon and carillon-sqlite, with at most %d keys", drainInFlight)
		}
		if err := errors.Join(s.Answer("ENQUEUED"), s.EnqueueKeys(ctx, 2*n, n), q.Resume(ctx)); err != nil {
			return line, err
		}
		if err := awaitCalled(ctx, q, n, o.timeout); err != nil {
			return line, err
		}
		if db := q.Database(); db != nil {
			if err := db.Rest(ctx); err != nil {
				return line, err
			}
		}
		m := &meter{s: q, o: o, label: fmt.Sprintf("keys-%s-%d-%d", name, n, run)}
		before, sqlBefore, err := m.usage()
		if err != nil {
			return line, err
		}
		if err := m.watch(ctx); err != nil {
			return line, err
		}
		began, err := endKeys(ctx, o, s, n)
		if err != nil {
			return line, err
		}
		if err := m.endWatch(ctx); err != nil {
			return line, err
		}
		after, sqlAfter, err := m.usage()
		if err != nil {
			return line, err
		}
		calls, err := q.Calls()
		if err != nil {
			return line, err
		}
		slices.SortFunc(calls, func(a, b record.Call) int { return cmp.Compare(a.At, b.At) })
		waited, other := make([]float64, len(began)), 0
		for i := range began {
			c := calls[n+i]
			waited[i] = float64(time.Unix(0, c.At).Sub(began[i]).Microseconds()) / 1000
			if q.Place(c) != n+i {
				other++
			}
		}
		line.Figures = quantiles(waited)
		line.Figures["cpu_s"], line.Figures["postgres_cpu_s"] = after.CPU-before.CPU, sqlAfter.CPU-sqlBefore.CPU
		line.Bad = map[string]int{"of another key": other, "doubled": record.Doubled(calls)}
		line.Settings = given()
		return line, o.accept(line)
	})
}

// endKeys ends one job after the other, and returns when each end began.
func endKeys(ctx context.Context, o options, s *site.Site, n int) ([]time.Time, error) {
	began := make([]time.Time, min(n, keyEnds))
	for i := range began {
		began[i] = time.Now()
		if err := s.End(ctx, i); err != nil {
			return nil, err
		}
		if err := awaitCalled(ctx, s, n+i+1, o.timeout); err != nil {
			return nil, err
		}
	}
	return began, nil
}

// awaitCalled waits until the executor was called n times.
func awaitCalled(ctx context.Context, q queuer, n int, within time.Duration) error {
	for end := time.Now().Add(within); ; {
		called, err := q.Called()
		switch {
		case err != nil || called >= n:
			return err
		case time.Now().After(end):
			return fmt.Errorf("%d of %d jobs were called within %s", called, n, within)
		}
		if err := sleepUntil(ctx, time.Now().Add(time.Millisecond)); err != nil {
			return err
		}
	}
}
