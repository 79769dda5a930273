package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/carillon/carillon/internal/bench/record"
	"github.com/carillon/carillon/internal/bench/report"
)

// eachRun calls run for every n, round and system: the systems take turns, so
// that a bad minute of the machine is nobody's.
func eachRun(o options, workload string, w *report.Writer, run func(name string, n, run int) (report.Line, error)) error {
	for _, n := range o.ns {
		for i := range o.runs {
			for _, name := range o.systems {
				line, err := run(name, n, i+1)
				if err != nil {
					return fmt.Errorf("%s, n = %d, %s: %w", workload, n, name, err)
				}
				line.Workload, line.System, line.N, line.Run = workload, name, n, i+1
				if err := w.Add(line); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// herd has N slots fall due at one instant.
func herd(ctx context.Context, o options, w *report.Writer) error {
	return eachRun(o, "herd", w, func(name string, n, run int) (report.Line, error) {
		return once(ctx, o, name, run, record.Work{N: n, Rounds: 1})
	})
}

// once starts a system, gives it the work and judges it.
func once(ctx context.Context, o options, name string, run int, work record.Work) (line report.Line, err error) {
	s, err := start(ctx, o, name)
	if err != nil {
		return line, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if err := s.Warm(ctx, o.warm); err != nil {
		return line, err
	}
	ahead := o.before + time.Duration(loads(name, work))*time.Second/time.Duration(s.LoadRate())
	if work.Rounds > 1 {
		work.Tail = int(s.Tail() / time.Second)
		ahead += s.Tail()
	}
	work.First = time.Now().Add(ahead).Truncate(time.Second).Add(time.Second)
	began := time.Now()
	if err := s.Load(ctx, work); err != nil {
		return line, err
	}
	loaded := time.Since(began)
	if left := time.Until(work.First); left < o.before/2 {
		return line, fmt.Errorf("loading took %s and left %s before the first instant: too little for a fair start, raise -before", loaded, left)
	}
	m := &meter{s: s, work: work, o: o, label: fmt.Sprintf("%s-%s-%d-%d", o.workload, name, work.N, run)}
	if err := m.run(ctx); err != nil {
		return line, err
	}
	line = m.line()
	line.Figures["load_s"] = loaded.Seconds()
	if o.strict && line.Wrong() {
		return line, fmt.Errorf("not all %d slots were called once, in time, and settled: %v", work.Slots(), line.Bad)
	}
	return line, nil
}

// loads is how many rows the work is to a system before it begins: peers with
// jobs in a table have one for each slot.
func loads(name string, work record.Work) int {
	if systems[name].perSlot {
		return work.Slots()
	}
	return work.N
}
