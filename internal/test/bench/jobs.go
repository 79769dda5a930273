package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/test/bench/record"
	"github.com/carillon/carillon/internal/test/bench/report"
	"github.com/carillon/carillon/internal/test/bench/site"
)

// jobs has N jobs a second enter a queue, and measures how long each waits: from the begin of its
// request to the executor's call. With -backlog other jobs wait all the time, with -hold a
// transaction is open on the database.
func jobs(ctx context.Context, o options, w *report.Writer) error {
	name := fmt.Sprintf("jobs %d s", o.seconds)
	if o.backlog > 0 {
		name += fmt.Sprintf(", %d others wait", o.backlog)
	}
	if o.hold {
		name += ", an open transaction"
	}
	return eachRun(o, name, w, func(name string, n, run int) (line report.Line, err error) {
		q, err := startQueue(ctx, o, name, drainInFlight)
		if err != nil {
			return line, err
		}
		defer func() { err = errors.Join(err, q.Close()) }()
		s, ok := q.(*site.Site)
		if !ok {
			return line, fmt.Errorf("jobs is for carillon and carillon-sqlite")
		}
		release, err := surround(ctx, o, s)
		if err != nil {
			return line, err
		}
		defer func() { err = errors.Join(err, release(ctx)) }()
		if err := q.Resume(ctx); err != nil {
			return line, err
		}
		m := &meter{s: q, o: o, label: fmt.Sprintf("jobs-%s-%d-%d", name, n, run)}
		before, sqlBefore, err := m.usage()
		if err != nil {
			return line, err
		}
		if err := m.watch(ctx); err != nil {
			return line, err
		}
		long := time.Duration(o.seconds) * time.Second
		began, err := s.Stream(ctx, n, long, o.pace)
		if err != nil {
			return line, err
		}
		calls, err := awaitCalls(ctx, q, len(began), o.timeout)
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
		line.Figures, line.Bad = waits(calls, began)
		line.Figures["cpu_s"], line.Figures["postgres_cpu_s"] = after.CPU-before.CPU, sqlAfter.CPU-sqlBefore.CPU
		line.Settings = given()
		return line, o.accept(line)
	})
}

// surround brings about what the jobs have around them: others that wait, and an open transaction,
// which release ends.
func surround(ctx context.Context, o options, s *site.Site) (release func(context.Context) error, err error) {
	release = func(context.Context) error { return nil }
	if o.backlog > 0 {
		if err := s.Backlog(ctx, o.backlog); err != nil {
			return release, err
		}
	}
	db := s.Database()
	if db == nil {
		return release, nil
	}
	if err := db.Rest(ctx); err != nil || !o.hold {
		return release, err
	}
	return db.Hold(ctx)
}

// awaitCalls waits until the executor was called n times, or no longer than a time.
func awaitCalls(ctx context.Context, q queuer, n int, within time.Duration) (calls []record.Call, err error) {
	for end := time.Now().Add(within); ; {
		if calls, err = q.Calls(); err != nil || len(calls) >= n || time.Now().After(end) {
			return calls, err
		}
		if err := sleepUntil(ctx, time.Now().Add(100*time.Millisecond)); err != nil {
			return nil, err
		}
	}
}

// waits are the waits of jobs, in milliseconds, and what must not be.
func waits(calls []record.Call, began map[uint64]time.Time) (figures map[string]float64, bad map[string]int) {
	waited, strange := make([]float64, 0, len(calls)), 0
	seen := make(map[uint64]bool, len(calls))
	for _, c := range calls {
		at, ours := began[c.Slot]
		if !ours {
			strange++
			continue
		}
		if !seen[c.Slot] {
			seen[c.Slot] = true
			waited = append(waited, float64(time.Unix(0, c.At).Sub(at).Microseconds())/1000)
		}
	}
	bad = map[string]int{"lost": len(began) - len(seen), "doubled": len(calls) - strange - len(seen), "strange": strange}
	return quantiles(waited), bad
}

// quantiles of waits in milliseconds, which it sorts.
func quantiles(waited []float64) map[string]float64 {
	figures := make(map[string]float64)
	if len(waited) > 0 {
		slices.Sort(waited)
		at := func(q float64) float64 { return waited[min(len(waited)-1, int(q*float64(len(waited))))] }
		figures["p50_ms"], figures["p99_ms"], figures["max_ms"] = at(0.5), at(0.99), waited[len(waited)-1]
	}
	return figures
}
