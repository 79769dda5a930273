package memory

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

// Reclaim takes LAUNCHING rows that are to be sent again: of other epochs at
// once, of this one after claimed_until.
func (s *Store) Reclaim(ctx context.Context, req schedule.ReclaimRequest) ([]schedule.Launch, error) {
	var launches []schedule.Launch
	err := s.fenced(ctx, req.Term, func(t *tx) error {
		now := at(req.Now)
		var runs []*schedule.Run
		for _, r := range t.live.launching.rows {
			asked := !r.CancelRequestedAt.IsZero() && !t.answered(r.Key)
			if !asked && (r.Epoch != req.Term.Epoch || !r.ClaimedUntil.After(now)) && t.inShard(req.Term, r.OverlapKey) {
				runs = append(runs, r)
			}
		}
		for _, r := range roundRobin(runs, max(req.Limit, 0), req.Room) {
			t.change(r, func(r *schedule.Run) {
				r.Epoch, r.ClaimedUntil, r.UpdatedAt = req.Term.Epoch, now.Add(req.Lease), now
			})
			if v := t.revisions[revisionID{r.ScheduleID, r.Revision}]; v != nil { // else its timeout ends it
				definition := v.Definition
				launches = append(launches, schedule.Launch{Run: *r, Definition: &definition, Again: true})
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reclaim runs: %w", err)
	}
	return launches, nil
}

// roundRobin chooses up to limit runs as far as their owners have room, the
// first of each before the second of any, and returns them in their order.
func roundRobin(runs []*schedule.Run, limit int, room func(owner string) int) []*schedule.Run {
	slices.SortFunc(runs, schedule.ByFireAt)
	place, of := make(map[*schedule.Run]int), make(map[string]int)
	for _, r := range runs {
		owner := schedule.Owner(r.OverlapKey)
		of[owner]++
		place[r] = of[owner]
	}
	if room != nil {
		runs = slices.DeleteFunc(runs, func(r *schedule.Run) bool { return place[r] > room(schedule.Owner(r.OverlapKey)) })
	}
	slices.SortStableFunc(runs, func(a, b *schedule.Run) int { return cmp.Compare(place[a], place[b]) })
	runs = runs[:min(len(runs), limit)]
	slices.SortFunc(runs, schedule.ByFireAt)
	return runs
}

// answered says that a key has an outcome in the launcher's memory: the next
// delivery settles its run, cancel or not.
func (s *Store) answered(key schedule.Key) bool {
	q := s.requests[key]
	return q != nil && q.Done
}

// Settle moves runs forward, each where its status allows.
func (s *Store) Settle(ctx context.Context, term schedule.Term, now time.Time, settlements []schedule.Settlement) (moved []bool, err error) {
	err = s.fenced(ctx, term, func(t *tx) error {
		moved = t.settleAll(settlements, now)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("settle runs: %w", err)
	}
	return moved, nil
}

// SettleLaunched is Settle for a launcher, which leads nothing: only the status
// of each run says whether it moves.
func (s *Store) SettleLaunched(ctx context.Context, now time.Time, settlements []schedule.Settlement) (moved []bool, err error) {
	err = s.write(ctx, func(t *tx) error {
		moved = t.settleAll(settlements, now)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("settle launched runs: %w", err)
	}
	return moved, nil
}

func (t *tx) settleAll(settlements []schedule.Settlement, now time.Time) []bool {
	moved := make([]bool, len(settlements))
	for i := range settlements {
		moved[i] = t.settle(&settlements[i], now)
	}
	t.wake = t.wake || schedule.AnyEnded(settlements, moved)
	return moved
}

// settle moves one run, if its status is one that To may follow.
func (t *tx) settle(e *schedule.Settlement, now time.Time) (moved bool) {
	r := t.runs[e.Key]
	if r == nil {
		return false
	}
	after, moved := ledger.Settle(*r, e, t.recordOf(e.Key), now)
	if !moved {
		return false
	}
	t.change(r, func(r *schedule.Run) { *r = after })
	if e.To == schedule.StatusLaunching && e.Attempt != nil {
		t.attempted(e.Key, *e.Attempt)
	}
	s := t.schedules[r.ScheduleID]
	if ledger.IsLaunch(e) && s != nil && s.LastRunAt.Before(r.RunAt) {
		row := *s
		row.LastRunAt = r.RunAt
		t.put(&row)
	}
	return true
}

// Sweep ends the runs that are past a bound; see ledger.Sweep.
func (s *Store) Sweep(ctx context.Context, req schedule.SweepRequest) ([]schedule.Ended, error) {
	var ended []schedule.Ended
	err := s.fenced(ctx, req.Term, func(t *tx) (err error) {
		ended, err = ledger.Sweep(&req, func(b ledger.Bound, after *ledger.Candidate) ([]ledger.Candidate, error) {
			if after != nil {
				return nil, nil // the first page had all of them
			}
			return t.sweepCandidates(&req, b), nil
		})
		if err != nil {
			return err
		}
		for i := range ended {
			run := &ended[i].Run
			t.change(t.runs[run.Key], func(r *schedule.Run) { *r = *run })
			if run.Status == schedule.StatusCancelled {
				t.note(run.ScheduleID, []schedule.Event{ledger.CancelTimedOut(run)}, req.Now)
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("sweep runs: %w", err)
	}
	return ended, nil
}

// sweepCandidates are the runs that may be past a bound, the oldest first.
func (t *tx) sweepCandidates(req *schedule.SweepRequest, b ledger.Bound) (found []ledger.Candidate) {
	among := map[ledger.Bound]iter.Seq[*schedule.Run]{
		ledger.CancelBound: eachOf(&t.live.cancelling), ledger.LaunchBound: eachOf(&t.live.launching), ledger.TimeoutBound: t.live.timingOut(at(req.Now)),
	}[b]
	for r := range among {
		since := b.Since(r)
		if t.inShard(req.Term, r.OverlapKey) && !since.IsZero() && !since.After(at(b.Until(req))) {
			found = append(found, ledger.Candidate{Run: *r, Record: t.recordOf(r.Key)})
		}
	}
	slices.SortFunc(found, func(x, y ledger.Candidate) int {
		return cmp.Or(b.Since(&x.Run).Compare(b.Since(&y.Run)), slices.Compare(x.Run.Key[:], y.Run.Key[:]))
	})
	return found
}
