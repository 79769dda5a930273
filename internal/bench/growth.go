package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/carillon/carillon/internal/bench/record"
	"github.com/carillon/carillon/internal/bench/report"
	"github.com/carillon/carillon/internal/bench/site"
)

// growth has a herd of -herd slots fall due beside N schedules that sleep, and
// beside a ledger of -ledger rows, -expired of which retention is deleting at
// the same time.
func growth(ctx context.Context, o options, w *report.Writer) error {
	o.systems = []string{"carillon"}
	workload := fmt.Sprintf("growth, herd of %d, ledger of %d, %d expired", o.herd, o.ledger, o.expired)
	return eachRun(o, workload, w, func(name string, n, run int) (line report.Line, err error) {
		s, err := site.New(ctx, o.databaseName(), o.site())
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
		return line, o.accept(line)
	})
}

// grow fills the database, and leaves it without workers: retention begins
// with the next one's first tick.
func grow(ctx context.Context, o options, s *site.Site, n int) error {
	if err := s.Warm(ctx, o.warm); err != nil {
		return err
	}
	if err := s.StopWorkers(); err != nil {
		return err
	}
	if err := s.Sleep(ctx, n); err != nil {
		return err
	}
	if o.ledger > 0 {
		if err := s.Ledger(ctx, o.ledger, o.expired); err != nil {
			return err
		}
	}
	return errors.Join(s.Database().Rest(ctx), s.Database().Flush(ctx))
}

// shape is a deployment: how many of each.
type shape struct{ shards, workers, launchers int }

// parseShapes reads shards/workers/launchers between commas.
func parseShapes(text string) (all []shape, err error) {
	for part := range strings.SplitSeq(text, ",") {
		var d shape
		if _, err := fmt.Sscanf(part, "%d/%d/%d", &d.shards, &d.workers, &d.launchers); err != nil || min(d.shards, d.workers, d.launchers) < 1 {
			return nil, fmt.Errorf("-shapes: %q is not shards/workers/launchers, e.g. 4/2/2", part)
		}
		all = append(all, d)
	}
	return all, nil
}

// shards has a herd of N fall due with one to eight shards over one to four
// workers and launchers.
func shards(ctx context.Context, o options, w *report.Writer) error {
	for _, n := range o.ns {
		for run := range o.runs {
			for _, d := range o.shapes {
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
