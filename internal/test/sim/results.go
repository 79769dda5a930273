package sim

import (
	"bytes"
	"context"
	"fmt"

	"github.com/carillon/carillon/internal/schedule"
)

// The checker's own rules of results: half of the ends that the executor tells have one, each with the
// exit code of the same answer or report, and nothing that comes later changes either.

// resultWatch has the results that were written.
type resultWatch struct {
	results map[schedule.Key]schedule.RunResult
}

// returns is what the executor returns with the end of a work: each time something else, so that what
// was kept shows by which answer or report. Every other work has an exit code only. Its caller has the
// executor's lock.
func (wk *work) returns() (exitCode *int32, r *schedule.RunResult) {
	wk.told++
	n := int32(wk.told)
	if !hasResult(wk.call.Key) {
		return &n, nil
	}
	return &n, &schedule.RunResult{Result: textOf(wk.call.Key, n), Artifacts: []schedule.Artifact{{Name: fmt.Sprint(n)}}}
}

func hasResult(key schedule.Key) bool { return key[len(key)-1]%2 == 0 }

func textOf(key schedule.Key, n int32) []byte {
	return fmt.Appendf(nil, `{"of": "%.12s", "n": %d}`, key, n)
}

// result: it is written once, with the end of its run, and is what the executor returned.
func (l *ledgerWatch) result(key schedule.Key, r *schedule.RunResult) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if before, twice := l.results[key]; twice {
		l.violation("the run %.12s has the result %s, and gets %s", key, before.Result, r.Result)
	}
	l.results[key] = *r
	h := l.rows[key]
	if j := l.jobs[key]; j != nil {
		h = j.history
	}
	if h == nil || h.gone || !ended(h.row.Status) {
		l.violation("the run %.12s is not over, and gets the result %s", key, r.Result)
	}
}

// returnedOnce: what the ledger has is what it was told with the end.
func (w *world) returnedOnce() {
	l := w.watch
	check := func(h *history) {
		r := &h.row
		kept, err := w.ledger.RunResult(context.Background(), r.Key)
		if err != nil {
			w.violation("read a result: %v", err)
			return
		}
		written, has := l.results[r.Key]
		told := ended(r.Status) && !h.gone && (r.Status == "SUCCESS" && r.Reason != "accepted" || r.Reason == "snoozed" ||
			r.Status == "FAILED" && (r.ErrorCode == "sim_failed" || r.ErrorCode == "interrupted"))
		switch {
		case h.gone:
		case has != (kept != nil), has && !bytes.Equal(kept.Result, written.Result):
			w.violation("the run %.12s has the result %+v, and %+v was written", r.Key, kept, written)
		case has && r.ExitCode == nil, told && r.ExitCode == nil, has != (r.ExitCode != nil && hasResult(r.Key)):
			w.violation("the run %.12s is %s(%s), has an exit code: %t, and has the result %+v", r.Key, r.Status, r.Reason, r.ExitCode != nil, kept)
		case has && !bytes.Equal(kept.Result, textOf(r.Key, *r.ExitCode)):
			w.violation("the run %.12s has the exit code %d and the result %s", r.Key, *r.ExitCode, kept.Result)
		case has:
			l.coverage.situations[runReturned].Add(1)
			if wk := l.executor.works[r.Key]; wk != nil && wk.told > int(*r.ExitCode) {
				l.coverage.situations[returnedAgain].Add(1)
			}
		}
	}
	for _, h := range l.order {
		if l.jobs[h.row.Key] == nil {
			check(h)
		}
	}
	for _, j := range l.jobOrder {
		check(j.history)
	}
}
