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

// growth measures bursts of -burst slots, at each of -seconds, with N idle schedules and
// -ledger rows of history. If -expired of those are older than retention, it measures
// twice on one database: while they are kept, and while retention deletes them.
func growth(ctx context.Context, o options, w *report.Writer) error {
	for _, n := range o.ns {
		for run := range o.runs {
			if err := growOnce(ctx, o, w, n, run+1); err != nil {
				return fmt.Errorf("growth, n = %d: %w", n, err)
			}
		}
	}
	return nil
}

// phase is one measurement of growth.
type phase struct {
	name    string
	workers map[string]string // settings of the workers
}

func (o options) phases() []phase {
	if o.expired == 0 {
		return []phase{{name: "kept"}}
	}
	return []phase{
		{name: "kept", workers: site.KeepAll()},
		{name: fmt.Sprintf("retention deletes %d of it", o.expired)},
	}
}

func growOnce(ctx context.Context, o options, w *report.Writer, n, run int) (err error) {
	s, err := site.New(ctx, o.databaseName(), o.site())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	began := time.Now()
	if err := grow(ctx, o, s, n); err != nil {
		return err
	}
	loaded := time.Since(began)
	for i, p := range o.phases() {
		line, err := besideGrown(ctx, o, s, p, fmt.Sprintf("growth-%d-%d-%d", n, run, i))
		if err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		line.System, line.N, line.Run = fmt.Sprintf("ledger of %d, %s", o.ledger, p.name), n, run
		line.Workload = fmt.Sprintf("growth, %d slots a second for %d s with n idle schedules", o.burst, o.seconds)
		line.Figures["load_s"] = loaded.Seconds()
		if err := errors.Join(w.Add(line), o.accept(line)); err != nil {
			return err
		}
		if err := s.StopWorkers(); err != nil {
			return err
		}
	}
	return nil
}

// besideGrown starts the workers and has the burst fall due.
func besideGrown(ctx context.Context, o options, s *site.Site, p phase, label string) (line report.Line, err error) {
	work := record.Work{N: o.burst, Rounds: o.seconds}
	ahead := o.before + time.Duration(work.N)*time.Second/time.Duration(s.LoadRate())
	if work.Rounds > 1 {
		work.Tail = int(s.Tail() / time.Second)
		ahead += s.Tail()
	}
	work.First = time.Now().Add(ahead).Truncate(time.Second).Add(time.Second)
	if err := errors.Join(s.Forget(), s.Fill(ctx, label+"-", work), s.StartWorkers(p.workers)); err != nil {
		return line, err
	}
	before, err := s.Expired(ctx)
	if err != nil {
		return line, err
	}
	m := &meter{s: s, work: work, o: o, label: label}
	if err := m.run(ctx); err != nil {
		return line, err
	}
	after, err := s.Expired(ctx)
	if err != nil {
		return line, err
	}
	line = m.line()
	if line.Figures["database_mb"], err = s.Database().Size(ctx); err != nil {
		return line, err
	}
	if before > 0 {
		line.Figures["expired_deleted"], line.Figures["expired_left"] = float64(before-after), float64(after)
	}
	addSteps(line.Figures, m.steps)
	// The next phase must begin after the slots of this one's tail.
	return line, sleepUntil(ctx, work.End().Add(tailEnds))
}

// tailEnds is how long after its last instant a stream's tail may take to end.
const tailEnds = 2 * time.Second

// grow fills the database, and leaves it without workers: retention begins
// with the next one's first tick.
func grow(ctx context.Context, o options, s *site.Site, n int) error {
	end, err := s.Database().Bulk(ctx)
	if err != nil {
		return err
	}
	err = s.Warm(ctx, o.warm)
	if err == nil {
		err = errors.Join(s.Sleep(ctx, n), s.StopWorkers())
	}
	if err == nil && o.ledger > 0 {
		err = s.Ledger(ctx, o.ledger, o.expired)
	}
	// What Bulk has set is taken back however this ends.
	return errors.Join(err, s.Database().Rest(ctx), s.Database().Flush(ctx), end(context.WithoutCancel(ctx)))
}
