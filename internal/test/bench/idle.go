package main

import (
	"context"
	"errors"
	"time"

	"github.com/carillon/carillon/internal/test/bench/proc"
	"github.com/carillon/carillon/internal/test/bench/report"
	"github.com/carillon/carillon/internal/test/bench/site"
)

// idle measures the cost of N schedules without due slots.
func idle(ctx context.Context, o options, w *report.Writer) error {
	return eachRun(o, "idle", w, func(name string, n, run int) (line report.Line, err error) {
		s, err := start(ctx, o, name)
		if err != nil {
			return line, err
		}
		defer func() { err = errors.Join(err, s.Close()) }()
		if err := s.Warm(ctx, o.warm); err != nil {
			return line, err
		}
		began := time.Now()
		if err := s.Sleep(ctx, n); err != nil {
			return line, err
		}
		if c, ok := s.(*site.Site); ok {
			if err := c.AllPlanned(ctx); err != nil {
				return line, err
			}
			if err := c.EndRegistrar(); err != nil {
				return line, err
			}
		}
		if db := s.Database(); db != nil {
			if err := errors.Join(db.Rest(ctx), db.Flush(ctx)); err != nil {
				return line, err
			}
		}
		loaded := time.Since(began)
		if err := sleepUntil(ctx, time.Now().Add(o.before)); err != nil {
			return line, err
		}
		line, err = watchIdle(ctx, o, s)
		if err == nil {
			line.Figures["load_s"] = loaded.Seconds()
		}
		return line, err
	})
}

// watchIdle measures for -seconds; CPU is in percent of one core.
func watchIdle(ctx context.Context, o options, s system) (line report.Line, err error) {
	m := &meter{s: s, o: o, label: o.workload}
	steps, err := stepsOf(ctx, s)
	if err != nil {
		return line, err
	}
	if err := m.watch(ctx); err != nil {
		return line, err
	}
	began := time.Now()
	scheduler, sql, err := m.usage()
	if err != nil {
		return line, err
	}
	workers, err := workersOf(s)
	if err != nil {
		return line, err
	}
	if err := sleepUntil(ctx, began.Add(time.Duration(o.seconds)*time.Second)); err != nil {
		return line, err
	}
	if err := m.endWatch(ctx); err != nil {
		return line, err
	}
	schedulerAfter, sqlAfter, err := m.usage()
	if err != nil {
		return line, err
	}
	workersAfter, err := workersOf(s)
	if err != nil {
		return line, err
	}
	percent := 100 / time.Since(began).Seconds()
	line = report.Line{Settings: given(), Figures: map[string]float64{
		"scheduler_cpu_%": schedulerAfter.Sub(scheduler).CPU * percent,
		"worker_cpu_%":    workersAfter.Sub(workers).CPU * percent,
		"worker_rss_mb":   float64(workersAfter.RSS >> 20),
	}}
	if s.Database() != nil {
		line.Figures["postgres_cpu_%"] = sqlAfter.Sub(sql).CPU * percent
	}
	if steps, err = stepsSince(ctx, s, steps); err == nil {
		addSteps(line.Figures, steps)
	}
	return line, err
}

// workersOf is the usage of the processes that schedule, without those that
// only launch.
func workersOf(s system) (total proc.Usage, err error) {
	workers := s.Scheduler()[:1]
	if c, ok := s.(*site.Site); ok && len(c.Workers()) > 0 {
		workers = c.Workers()
	}
	for _, c := range workers {
		u, err := c.Usage()
		if err != nil {
			return total, err
		}
		total = total.Add(u)
	}
	return total, nil
}
