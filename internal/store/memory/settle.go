package memory

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

// Reclaim sends runs again; see worker.FireStore.
func (s *Store) Reclaim(ctx context.Context, req ledger.ReclaimRequest) (ledger.Reclaimed, error) {
	var out ledger.Reclaimed
	err := s.fenced(ctx, req.Term, func(t *tx) error {
		t.silent = true
		var again []schedule.Run
		for _, key := range req.Keys {
			r := t.runs[key]
			if r == nil {
				continue
			}
			if after, ok := req.Resend(*r); ok {
				t.change(r, func(r *schedule.Run) { *r = after })
				again = append(again, after)
			}
		}
		missing := out.Add(&req, again, func(r *schedule.Run) *schedule.Definition {
			v := t.revisions[revisionID{r.ScheduleID, r.Revision}]
			if v == nil {
				return nil
			}
			definition := v.Definition
			return &definition
		})
		for _, key := range missing {
			if r := t.runs[key]; r == nil || r.Status.Terminal() {
				out.Read.Ended = append(out.Read.Ended, key)
			} else {
				out.Read.Runs = append(out.Read.Runs, ledger.RunOf(r))
			}
		}
		return nil
	})
	if err != nil {
		return ledger.Reclaimed{}, fmt.Errorf("reclaim runs: %w", err)
	}
	return out, nil
}

// Settle moves runs forward, each where its status allows.
func (s *Store) Settle(ctx context.Context, term schedule.Term, now time.Time, settlements []schedule.Settlement) (moved []schedule.Moved, err error) {
	err = s.fenced(ctx, term, func(t *tx) error {
		moved = t.settleAll(settlements, now)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("settle runs: %w", err)
	}
	return moved, nil
}

// SettleLaunched is Settle for a launcher, which has no term: only the status of each run
// decides.
func (s *Store) SettleLaunched(ctx context.Context, now time.Time, settlements []schedule.Settlement) (moved []schedule.Moved, err error) {
	err = s.write(ctx, func(t *tx) error {
		moved = t.settleAll(settlements, now)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("settle launched runs: %w", err)
	}
	return moved, nil
}

func (t *tx) settleAll(settlements []schedule.Settlement, now time.Time) []schedule.Moved {
	moved := make([]schedule.Moved, len(settlements))
	for i := range settlements {
		if t.settle(&settlements[i], now) {
			moved[i] = t.runs[settlements[i].Key].Moved()
		}
	}
	t.wake = t.wake || schedule.AnyEnded(moved)
	return moved
}

// settle moves one run, if its status is one that To may follow.
func (t *tx) settle(e *schedule.Settlement, now time.Time) (moved bool) {
	r := t.runs[e.Key]
	if r == nil {
		return false
	}
	after, moved := ledger.Settle(*r, t.leases[r.Key], e, now)
	if !moved {
		return false
	}
	result := ledger.ResultOf(&after, e)
	if result != nil { // before the end, which is only counted without one
		setUndone(t, t.results, r.Key, result)
	}
	if c := ledger.CommitOf(&after, e); c != nil {
		if t.commits == nil {
			t.commits = make(map[schedule.Key]*schedule.Commit)
		}
		t.commits[r.Key] = c
	}
	t.change(r, func(r *schedule.Run) { *r = after })
	t.logAttempt(e)
	if key := r.Key; result != nil && t.opts.Watch.Result != nil {
		t.told = append(t.told, func() { t.opts.Watch.Result(key, result) })
	}
	if after.Status.Terminal() {
		setUndone(t, t.leases, r.Key, schedule.KeyLease{})
	}
	s := t.schedules[r.ScheduleID]
	if s != nil && ledger.WasLaunched(&after) && s.LastRunAt.Before(r.RunAt) {
		row := *s
		row.LastRunAt = r.RunAt
		t.put(&row)
	}
	return true
}

// Sweep ends the runs that are past a bound; see worker.FireStore.
func (s *Store) Sweep(ctx context.Context, req schedule.SweepRequest) (ledger.Swept, error) {
	var swept ledger.Swept
	err := s.fenced(ctx, req.Term, func(t *tx) error {
		for _, r := range t.inFlightOf(req.Term) {
			if swept.More = len(swept.Ended) == req.Limit; swept.More {
				break
			}
			if after, past := ledger.SweepRun(&req, *r, t.leases[r.Key]); past {
				swept.Ended = append(swept.Ended, schedule.Ended{Run: after, Before: r.Status})
			} else {
				swept.Open = append(swept.Open, r.Key)
			}
		}
		for i := range swept.Ended {
			run := &swept.Ended[i].Run
			t.change(t.runs[run.Key], func(r *schedule.Run) { *r = *run })
			*run = *t.runs[run.Key]
			if run.Status == schedule.StatusCancelled {
				t.note(run.ScheduleID, []schedule.Event{ledger.CancelTimedOut(run)}, req.Now)
			}
		}
		return nil
	})
	if err != nil {
		return ledger.Swept{}, fmt.Errorf("sweep runs: %w", err)
	}
	return swept, nil
}

// inFlightOf returns the runs in flight of a term's buckets, the earliest bound first.
// due_at is not stored, so each sweep looks at all of them.
func (t *tx) inFlightOf(term schedule.Term) (runs []*schedule.Run) {
	for r := range eachOf(&t.live.launching, &t.live.started) {
		if t.inShard(term, r.OverlapKey) {
			runs = append(runs, r)
		}
	}
	slices.SortFunc(runs, func(x, y *schedule.Run) int {
		return cmp.Or(ledger.DueAt(x).Compare(ledger.DueAt(y)), slices.Compare(x.Key[:], y.Key[:]))
	})
	return runs
}
