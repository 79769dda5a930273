package main

import (
	"context"
	"fmt"

	"github.com/carillon/carillon/internal/bench/record"
	"github.com/carillon/carillon/internal/bench/report"
)

// What a rate must keep to, in milliseconds.
const (
	heldWithin   = 1000.0
	heldWellWith = 250.0
)

// sustained has N slots fall due at every second: at the rates given, or
// searching for the highest that a system holds.
func sustained(ctx context.Context, o options, w *report.Writer) error {
	stream := func(name string, n, run int) (report.Line, error) {
		line, err := once(ctx, o, name, run, record.Work{N: n, Rounds: o.seconds})
		line.Workload = fmt.Sprintf("sustained %d s", o.seconds)
		return line, err
	}
	if !o.search {
		return eachRun(o, fmt.Sprintf("sustained %d s", o.seconds), w, stream)
	}
	for run := range o.runs {
		for _, name := range o.systems {
			line, err := highest(o, name, w, func(n int) (report.Line, error) { return stream(name, n, run+1) })
			if err != nil {
				return fmt.Errorf("sustained, %s: %w", name, err)
			}
			line.Run = run + 1
			if err := w.Add(line); err != nil {
				return err
			}
		}
	}
	return nil
}

// highest climbs from the first -n by -factor until a rate fails twice. Where
// the first fails already, it goes down until one holds.
func highest(o options, name string, w *report.Writer, stream func(n int) (report.Line, error)) (report.Line, error) {
	var best, well float64
	rate, failures, down := o.ns[0], 0, false
	for {
		line, err := stream(rate)
		if err != nil {
			return line, err
		}
		line.System, line.N, line.Apart = name, rate, true
		if err := w.Add(line); err != nil {
			return line, err
		}
		held := !line.Wrong() && line.Figures["p99_ms"] < heldWithin
		if held {
			best = max(best, float64(rate))
		}
		if held && line.Figures["p99_ms"] < heldWellWith {
			well = max(well, float64(rate))
		}
		switch {
		case held && !down && rate < o.most:
			rate, failures = min(o.most, max(rate+1, int(float64(rate)*o.factor))), 0
			continue
		case !held && best == 0 && rate > 1:
			rate, down = int(float64(rate)/o.factor), true
			continue
		case !held && best > 0 && failures == 0:
			failures++
			continue
		}
		return report.Line{
			Workload: fmt.Sprintf("sustained %d s, highest rate in steps of ×%g", o.seconds, o.factor), System: name, Settings: line.Settings,
			Figures: map[string]float64{"rate_p99_1s": best, "rate_p99_250ms": well},
		}, nil
	}
}
