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
	t.logAttempt(e)
	s := t.schedules[r.ScheduleID]
	if ledger.IsLaunch(e) && s != nil && s.LastRunAt.Before(r.RunAt) {
		row := *s
		row.LastRunAt = r.RunAt
		t.put(&row)
	}
	return true
}

// Sweep ends the runs that are past a bound; see ledger.SweepRun.
func (s *Store) Sweep(ctx context.Context, req schedule.SweepRequest) ([]schedule.Ended, error) {
	var ended []schedule.Ended
	err := s.fenced(ctx, req.Term, func(t *tx) error {
		for _, r := range t.sweepDue(&req) {
			if len(ended) == req.Limit {
				break
			}
			if after, past := ledger.SweepRun(&req, *r, t.recordOf(r.Key)); past {
				ended = append(ended, schedule.Ended{Run: after, Before: r.Status})
			}
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

// sweepDue are the runs in flight whose due_at has come, the oldest first. A run that
// may not end yet comes again in each sweep: due_at is not stored.
func (t *tx) sweepDue(req *schedule.SweepRequest) (due []*schedule.Run) {
	now := at(req.Now)
	for r := range eachOf(&t.live.launching, &t.live.started) {
		since := ledger.DueAt(r)
		if t.inShard(req.Term, r.OverlapKey) && !since.IsZero() && !since.After(now) {
			due = append(due, r)
		}
	}
	slices.SortFunc(due, func(x, y *schedule.Run) int {
		return cmp.Or(ledger.DueAt(x).Compare(ledger.DueAt(y)), slices.Compare(x.Key[:], y.Key[:]))
	})
	return due
}
