package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/carillon/carillon/internal/bench/record"
	"github.com/carillon/carillon/internal/bench/report"
	"github.com/carillon/carillon/internal/bench/site"
)

// seeds is how many runs the ledger is copied from.
const seeds = 100

// growth has a herd of -herd slots fall due beside N schedules that sleep, and
// beside a ledger of -ledger rows, -expired of which retention is deleting at
// the same time.
func growth(ctx context.Context, o options, w *report.Writer) error {
	o.systems = []string{"carillon"}
	workload := fmt.Sprintf("growth, herd of %d, ledger of %d, %d expired", o.herd, o.ledger, o.expired)
	return eachRun(o, workload, w, func(name string, n, run int) (line report.Line, err error) {
		s, err := site.New(ctx, databaseName(name, run), o.site())
		if err != nil {
			return line, err
		}
		defer func() { err = errors.Join(err, s.Close()) }()
		began := time.Now()
		if err := grow(ctx, o, s, n); err != nil {
			return line, err
		}
		loaded := time.Since(began)
		work := record.Work{N: o.herd, Rounds: 1}
		ahead := o.before + time.Duration(work.N)*time.Second/time.Duration(s.LoadRate())
		work.First = time.Now().Add(ahead).Truncate(time.Second).Add(time.Second)
		if err := errors.Join(s.Fill(ctx, "herd-", work), s.EndRegistrar(), s.StartWorkers()); err != nil {
			return line, err
		}
		before, err := s.Expired(ctx)
		if err != nil {
			return line, err
		}
		m := &meter{s: s, work: work, o: o, label: fmt.Sprintf("growth-%d-%d", n, run)}
		if err := m.run(ctx); err != nil {
			return line, err
		}
		after, err := s.Expired(ctx)
		if err != nil {
			return line, err
		}
		line = m.line()
		line.Figures["load_s"] = loaded.Seconds()
		if before > 0 {
			line.Figures["expired_deleted"], line.Figures["expired_left"] = float64(before-after), float64(after)
		}
		addSteps(line.Figures, m.steps)
		if o.strict && line.Wrong() {
			return line, fmt.Errorf("not all %d slots were called once, in time, and settled: %v", work.Slots(), line.Bad)
		}
		return line, nil
	})
}

// grow fills the database, and leaves it without workers: retention begins
// with the next one's first tick.
func grow(ctx context.Context, o options, s *site.Site, n int) error {
	if o.ledger > 0 {
		work := record.Work{N: seeds, Rounds: 1, First: time.Now().Add(o.before).Truncate(time.Second).Add(time.Second)}
		if err := s.Fill(ctx, "seed-", work); err != nil {
			return err
		}
		m := &meter{s: s, work: work, o: o}
		if err := m.awaitAll(ctx); err != nil {
			return err
		}
		if m.settled < seeds {
			return fmt.Errorf("%d of %d runs have ended, which the ledger is to be copied from", m.settled, seeds)
		}
	}
	if err := errors.Join(s.StopWorkers(), s.Forget()); err != nil {
		return err
	}
	if err := s.Sleep(ctx, n); err != nil {
		return err
	}
	if o.ledger > 0 {
		return s.Ledger(ctx, o.ledger, o.expired)
	}
	return s.Database().Rest(ctx)
}

// shape is a deployment: how many of each.
type shape struct{ shards, workers, launchers int }

// shapes are those of the growth table.
var shapes = []shape{{1, 1, 1}, {2, 1, 1}, {2, 2, 1}, {2, 2, 2}, {4, 4, 1}, {4, 4, 4}, {8, 2, 2}, {8, 4, 1}, {8, 4, 4}}

// shards has a herd of N fall due with one to eight shards over one to four
// workers and launchers.
func shards(ctx context.Context, o options, w *report.Writer) error {
	for _, n := range o.ns {
		for run := range o.runs {
			for _, d := range shapes {
				o.shards, o.workers, o.launchers = d.shards, d.workers, d.launchers
				line, err := once(ctx, o, "carillon", run+1, record.Work{N: n, Rounds: 1})
				if err != nil {
					return fmt.Errorf("%+v: %w", d, err)
				}
				line.Workload, line.N, line.Run = "shards", n, run+1
				line.System = fmt.Sprintf("shards %d, workers %d, launchers %d", d.shards, d.workers, d.launchers)
				if err := w.Add(line); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
