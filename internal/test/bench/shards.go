package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/carillon/carillon/internal/test/bench/record"
	"github.com/carillon/carillon/internal/test/bench/report"
)

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

// shards has a burst of N fall due with one to eight shards over one to four
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
