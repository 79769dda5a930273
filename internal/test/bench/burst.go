package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"time"

	"github.com/carillon/carillon/internal/test/bench/record"
	"github.com/carillon/carillon/internal/test/bench/report"
	"github.com/carillon/carillon/internal/test/bench/site"
)

// eachRun calls run for each n, round and system. The systems alternate, so that a slow
// minute of the machine does not hit one only.
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

// burst has N slots fall due at one instant.
func burst(ctx context.Context, o options, w *report.Writer) error {
	return eachRun(o, "burst", w, func(name string, n, run int) (report.Line, error) {
		return once(ctx, o, name, run, record.Work{N: n, Rounds: 1})
	})
}

// errLate says that loading took longer than there was time for.
var errLate = errors.New("too little for a fair start")

// once gives the work to a fresh system and measures it. Where loading is slower
// than was thought, it begins again with more time for it.
func once(ctx context.Context, o options, name string, run int, work record.Work) (report.Line, error) {
	for stretch := 1; ; stretch *= 3 {
		line, err := attempt(ctx, o, name, run, work, stretch)
		if !errors.Is(err, errLate) || stretch > 9 {
			return line, err
		}
		fmt.Fprintln(os.Stderr, "bench:", name+":", err)
	}
}

func attempt(ctx context.Context, o options, name string, run int, work record.Work, stretch int) (line report.Line, err error) {
	s, err := start(ctx, o, name)
	if err != nil {
		return line, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if err := s.Warm(ctx, o.warm); err != nil {
		return line, err
	}
	if c, ok := s.(*site.Site); ok && o.beside > 0 {
		if err := c.RegisterAhead(ctx); err != nil {
			return line, err
		}
	}
	ahead := o.before + time.Duration(loads(name, work))*time.Duration(stretch)*time.Second/time.Duration(s.LoadRate())
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
		return line, fmt.Errorf("loading took %s and left %s before the first instant: %w", loaded, left, errLate)
	}
	m := &meter{s: s, work: work, o: o, label: fmt.Sprintf("%s-%s-%d-%d", o.workload, name, work.N, run)}
	besides := make(map[string]float64)
	if err := o.besides(ctx, s, besides, m.run); err != nil {
		return line, err
	}
	line = m.line()
	line.Figures["load_s"] = loaded.Seconds()
	maps.Copy(line.Figures, besides)
	return line, o.accept(line)
}

// accept refuses, where -strict asks for it, a run in which something went wrong.
func (o options) accept(line report.Line) error {
	if o.strict && line.Wrong() {
		return fmt.Errorf("not every slot was called once, in time, and settled: %v, ledger %v", line.Bad, line.Ledger)
	}
	return nil
}

// loads is how many rows the work is to a system before it begins: peers with
// jobs in a table have one for each slot.
func loads(name string, work record.Work) int {
	if systems[name].perSlot {
		return work.Slots()
	}
	return work.N
}
