package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/carillon/carillon/internal/test/bench/record"
	"github.com/carillon/carillon/internal/test/bench/report"
	"github.com/carillon/carillon/internal/test/bench/site"
)

// The queue of fair: its slots take fairSlots/fairBusy jobs a second, five hundred.
const (
	fairSlots = 10
	fairBusy  = 20 * time.Millisecond
	fairKeys  = 10
	fairFlood = 100 // jobs of one more key for each job of another
)

// fair has ten keys of a fair queue enqueue N jobs a second each, first alone, and then together with a
// key that enqueues a hundred times as many, more than the slots can take. It measures how long the jobs of
// the ten wait: from the begin of their request to the executor's call.
func fair(ctx context.Context, o options, w *report.Writer) error {
	return eachRun(o, fmt.Sprintf("fair %d s", o.seconds), w, func(name string, n, run int) (line report.Line, err error) {
		q, err := startQueue(ctx, o, name, fairSlots)
		if err != nil {
			return line, err
		}
		defer func() { err = errors.Join(err, q.Close()) }()
		s, ok := q.(*site.Site)
		if !ok {
			return line, fmt.Errorf("fair is for carillon and carillon-sqlite")
		}
		if err := errors.Join(s.Busy(fairBusy), q.Resume(ctx)); err != nil {
			return line, err
		}
		m := &meter{s: q, o: o, label: fmt.Sprintf("fair-%s-%d-%d", name, n, run)}
		if err := m.watch(ctx); err != nil {
			return line, err
		}
		f := fairRun{s: s, n: n, long: time.Duration(o.seconds) * time.Second, o: o}
		alone, bad, err := f.measure(ctx, false)
		if err != nil {
			return line, err
		}
		flooded, worse, err := f.measure(ctx, true)
		if err != nil {
			return line, err
		}
		if err := m.endWatch(ctx); err != nil {
			return line, err
		}
		line.Figures, line.Bad, line.Settings = make(map[string]float64), make(map[string]int), given()
		for figure, ms := range alone {
			line.Figures["alone_"+figure], line.Figures[figure] = ms, flooded[figure]
		}
		line.Figures["p99_times"] = flooded["p99_ms"] / max(alone["p99_ms"], 0.001)
		for what := range maps.Keys(bad) {
			line.Bad[what] = bad[what] + worse[what]
		}
		return line, o.accept(line)
	})
}

// fairRun is the work of one run.
type fairRun struct {
	s    *site.Site
	n    int
	long time.Duration
	o    options
}

// measure streams the jobs of the ten keys, with or without the others, and measures their waits.
func (f *fairRun) measure(ctx context.Context, flooded bool) (figures map[string]float64, bad map[string]int, err error) {
	keys := make([]string, fairKeys)
	for i := range keys {
		keys[i] = fmt.Sprint("k", i)
	}
	flood := make(chan error, 1)
	if flooded {
		go func() {
			_, err := f.s.Stream(ctx, fairFlood*f.n, f.long, f.o.pace, "flood")
			flood <- err
		}()
	} else {
		flood <- nil
	}
	began, err := f.s.Stream(ctx, fairKeys*f.n, f.long, f.o.pace, keys...)
	if err := errors.Join(err, <-flood); err != nil {
		return nil, nil, err
	}
	var calls []record.Call
	for end := time.Now().Add(f.o.timeout); ; {
		if calls, err = f.s.Calls(); err != nil {
			return nil, nil, err
		}
		figures, bad = waits(calls, began)
		if bad["lost"] == 0 || time.Now().After(end) {
			break
		}
		if err := sleepUntil(ctx, time.Now().Add(100*time.Millisecond)); err != nil {
			return nil, nil, err
		}
	}
	delete(bad, "strange") // the calls of the others and of the measurement before
	bad["doubled"] = record.Doubled(calls)
	return figures, bad, nil
}
