package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/carillon/carillon/internal/test/bench/record"
	"github.com/carillon/carillon/internal/test/bench/report"
)

// What the p99 of a rate must stay below, in milliseconds.
const (
	heldWithin   = 1000.0
	heldWellWith = 250
)

// sustained has N slots fall due at every second: at the rates given, or
// searching for the highest that a system holds.
func sustained(ctx context.Context, o options, w *report.Writer) error {
	workload := fmt.Sprintf("sustained %d s", o.seconds)
	stream := func(name string, n, run int) (report.Line, error) {
		line, err := once(ctx, o, name, run, record.Work{N: n, Rounds: o.seconds})
		line.Workload = workload
		return line, err
	}
	if !o.search {
		return eachRun(o, workload, w, stream)
	}
	for run := range o.runs {
		for _, name := range o.systems {
			s := newSearch(o, func(rate int) (report.Line, error) {
				line, err := stream(name, rate, run+1)
				if err != nil {
					return line, err
				}
				line.System, line.N, line.Run, line.Apart = name, rate, run+1, true
				return line, w.Add(line)
			})
			line, err := s.run()
			if s.steps > 0 { // how far it came counts also where it was cut short
				line.Workload = fmt.Sprintf("%s, highest rate in steps of ×%g", workload, o.factor)
				line.System, line.Run = name, run+1
				err = errors.Join(err, w.Add(line))
			}
			if err != nil {
				return fmt.Errorf("sustained, %s: %w", name, err)
			}
		}
	}
	return nil
}
