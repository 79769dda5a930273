package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/carillon/carillon/internal/test/bench/report"
	"github.com/carillon/carillon/internal/test/bench/site"
)

// redrive has N jobs fail for good, and measures how long it takes until one redrive has made a new run
// of each. The queue is paused meanwhile: the new runs wait.
func redrive(ctx context.Context, o options, w *report.Writer) error {
	return eachRun(o, "redrive", w, func(name string, n, run int) (line report.Line, err error) {
		q, err := startQueue(ctx, o, name, drainInFlight)
		if err != nil {
			return line, err
		}
		defer func() { err = errors.Join(err, q.Close()) }()
		s, ok := q.(*site.Site)
		if !ok {
			return line, fmt.Errorf("redrive is for carillon and carillon-sqlite")
		}
		if err := errors.Join(s.Answer("FAILED"), s.EnqueueOnce(ctx, n), q.Resume(ctx)); err != nil {
			return line, err
		}
		if err := awaitDead(ctx, s, n, o.timeout); err != nil {
			return line, err
		}
		if err := s.Hold(ctx); err != nil {
			return line, err
		}
		if db := q.Database(); db != nil {
			if err := db.Rest(ctx); err != nil {
				return line, err
			}
		}
		m := &meter{s: registering{s}, o: o, label: fmt.Sprintf("redrive-%s-%d-%d", name, n, run)}
		if err := m.watch(ctx); err != nil {
			return line, err
		}
		began := time.Now()
		redriven, err := s.Redrive(ctx, false)
		if err != nil {
			return line, err
		}
		took := time.Since(began)
		if err := m.endWatch(ctx); err != nil {
			return line, err
		}
		waiting, err := awaitWaiting(ctx, s, n, o.timeout)
		if err != nil {
			return line, err
		}
		dead, err := s.Redrive(ctx, true)
		if err != nil {
			return line, err
		}
		line.Figures = map[string]float64{"redrive_ms": float64(took.Microseconds()) / 1000, "runs_a_second": float64(redriven) / took.Seconds()}
		line.Bad = map[string]int{"left dead": dead, "not redriven": n - redriven, "not waiting": n - waiting}
		line.Settings = given()
		return line, o.accept(line)
	})
}

// awaitDead waits until n runs of the queue are dead.
func awaitDead(ctx context.Context, s *site.Site, n int, within time.Duration) error {
	for end := time.Now().Add(within); ; {
		dead, err := s.Redrive(ctx, true)
		switch {
		case err != nil || dead >= n:
			return err
		case time.Now().After(end):
			return fmt.Errorf("%d of %d jobs are dead after %s", dead, n, within)
		}
		if err := sleepUntil(ctx, time.Now().Add(100*time.Millisecond)); err != nil {
			return err
		}
	}
}

// awaitWaiting waits until the queue counts n waiting jobs, or no longer than a time: counts are a second
// old. They end at 100,000.
func awaitWaiting(ctx context.Context, s *site.Site, n int, within time.Duration) (waiting int, err error) {
	for end := time.Now().Add(within); ; {
		if waiting, err = s.Waiting(ctx); err != nil || waiting >= n || time.Now().After(end) {
			return waiting, err
		}
		if err := sleepUntil(ctx, time.Now().Add(100*time.Millisecond)); err != nil {
			return 0, err
		}
	}
}
