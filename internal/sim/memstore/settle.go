package memstore

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
func (s *Store) Reclaim(ctx context.Context, req schedule.ClaimRequest) ([]schedule.Launch, error) {
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

// callsMade is how many calls of a run that is LAUNCHING may have reached the executor.
func (t *tx) callsMade(r *schedule.Run) int32 {
	if q := t.requests[r.Key]; q != nil && q.Sent && r.Status == schedule.StatusLaunching {
		return q.Calls
	}
	return 0
}

// Sweep ends what is past its bound: cancels that nobody confirmed, launches
// of which nothing was ever sent, and runs without a sign of life.
func (s *Store) Sweep(ctx context.Context, req schedule.SweepRequest) ([]schedule.Ended, error) {
	var ended []schedule.Ended
	err := s.fenced(ctx, req.Term, func(t *tx) error {
		now := at(req.Now)
		for _, b := range t.bounds(req, now) {
			var runs []*schedule.Run
			for r := range b.among {
				if t.inShard(req.Term, r.OverlapKey) && b.past(r) {
					runs = append(runs, r)
				}
			}
			slices.SortFunc(runs, func(x, y *schedule.Run) int {
				return cmp.Or(b.since(x).Compare(b.since(y)), slices.Compare(x.Key[:], y.Key[:]))
			})
			for _, r := range runs[:min(len(runs), max(req.Limit-len(ended), 0))] {
				before, made := r.Status, t.callsMade(r)
				t.change(r, func(r *schedule.Run) {
					r.Deliveries = max(r.Deliveries, made)
					b.end(r)
					r.ClaimedUntil, r.CompletedAt, r.UpdatedAt = time.Time{}, now, now
				})
				if r.Status == schedule.StatusCancelled {
					t.note(r.ScheduleID, []schedule.Event{{
						Kind: schedule.EventCancelTimedOut, From: r.RunAt, To: r.RunAt, Count: 1,
						Reason: r.Reason, Note: r.Key.String(), Revision: r.Revision,
					}}, now)
				}
				ended = append(ended, schedule.Ended{Run: *r, Before: before})
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("sweep runs: %w", err)
	}
	return ended, nil
}

// bound is one that a run in flight may be past, and what it then ends as.
type bound struct {
	among iter.Seq[*schedule.Run] // of the rows in flight
	past  func(*schedule.Run) bool
	since func(*schedule.Run) time.Time // who goes first
	end   func(*schedule.Run)
}

func (t *tx) bounds(req schedule.SweepRequest, now time.Time) []bound {
	pastBound := func(r *schedule.Run, at time.Time) bool { return !r.TimeoutAt.IsZero() && !r.TimeoutAt.After(at) }
	hard := func(r *schedule.Run) bool {
		return pastBound(r, now.Add(-req.RetryFor)) && r.Epoch >= req.Term.Epoch
	}
	return []bound{
		{
			among: eachOf(&t.live.cancelling),
			past: func(r *schedule.Run) bool {
				awaited := r.Status == schedule.StatusLaunching && !hard(r) && t.answered(r.Key)
				return !r.CancelRequestedAt.IsZero() && !r.CancelRequestedAt.After(now.Add(-req.CancelWait)) && !awaited
			},
			since: func(r *schedule.Run) time.Time { return r.CancelRequestedAt },
			end:   func(r *schedule.Run) { r.Status, r.Reason = schedule.StatusCancelled, r.CancelReason },
		},
		{
			among: eachOf(&t.live.launching),
			past: func(r *schedule.Run) bool {
				return r.Status == schedule.StatusLaunching && pastBound(r, now) && (hard(r) || t.givenUp(r, req.Term, now))
			},
			since: func(r *schedule.Run) time.Time { return r.TimeoutAt },
			end: func(r *schedule.Run) {
				q := t.requests[r.Key]
				r.GiveUp(q != nil && (q.Sent || q.Done))
			},
		},
		{
			among: t.live.timingOut(now),
			past:  func(r *schedule.Run) bool { return r.Status != schedule.StatusLaunching && pastBound(r, now) },
			since: func(r *schedule.Run) time.Time { return r.TimeoutAt },
			end:   func(r *schedule.Run) { r.Status, r.Reason = schedule.StatusFailed, schedule.ReasonTimeout },
		},
	}
}

// givenUp reports whether nothing is done any more for a LAUNCHING row past its
// bound: no outcome is recorded, no call is open, and what may have reached the
// executor was tried in this term.
func (t *tx) givenUp(r *schedule.Run, term schedule.Term, now time.Time) bool {
	q := t.requests[r.Key]
	return q == nil || !q.Done && !q.LeaseUntil.After(now) && (!q.Sent || r.Epoch >= term.Epoch && !r.ClaimedUntil.After(now))
}
