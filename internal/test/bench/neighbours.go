package main

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/carillon/carillon/internal/test/bench/record"
	"github.com/carillon/carillon/internal/test/bench/report"
	"github.com/carillon/carillon/internal/test/bench/site"
)

// neighbours measures N slots a second, alone and while a caller keeps -open expensive
// calls open. All roles are in one process, so the calls and the launches share its
// processors.
func neighbours(ctx context.Context, o options, w *report.Writer) error {
	o.together = true
	for _, n := range o.ns {
		for run := range o.runs {
			for _, name := range o.systems {
				for _, open := range []int{0, o.open} {
					o.beside = open
					line, err := once(ctx, o, name, run+1, record.Work{N: n, Rounds: o.seconds})
					if err != nil {
						return fmt.Errorf("neighbours, %s, beside %d calls: %w", name, open, err)
					}
					line.Workload, line.System, line.N, line.Run = fmt.Sprintf("neighbours %d s, beside %d calls", o.seconds, open), name, n, run+1
					if err := w.Add(line); err != nil {
						return err
					}
				}
			}
		}
	}
	return nil
}

// besides runs the work while the neighbour's calls are open, and adds their results to
// the figures.
func (o options) besides(ctx context.Context, s system, figures map[string]float64, work func(context.Context) error) error {
	c, ok := s.(*site.Site)
	if o.beside == 0 || !ok {
		return work(ctx)
	}
	calling, stop := context.WithCancel(ctx)
	defer stop()
	type ended struct {
		calls site.Ahead
		err   error
	}
	done := make(chan ended, 1)
	go func() {
		calls, err := c.LookAhead(calling, o.beside)
		done <- ended{calls, err}
	}()
	err := work(ctx)
	stop()
	end := <-done
	maps.Copy(figures, map[string]float64{
		"calls_answered": float64(end.calls.Answered), "calls_refused": float64(end.calls.Refused), "calls_failed": float64(end.calls.Failed),
	})
	return errors.Join(err, end.err)
}
