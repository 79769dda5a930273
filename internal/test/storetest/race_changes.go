package storetest

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/carillon/carillon/internal/schedule"
)

// racePauseAndClaim pauses schedules while two workers claim their slots one by
// one: in the midst of it, once the first has been claimed.
func racePauseAndClaim(r *rig) {
	r.lead()
	for round := range 15 {
		s := r.create(fmt.Sprint("raced-", round))
		var rows []schedule.Run
		for i := range 12 {
			rows = append(rows, r.due(s, i))
		}
		r.add(rows...)
		paused := s
		paused.Pause = schedule.Pause{Paused: true, By: "op"}
		pause := schedule.Change{Row: &paused, DropPlannedAfter: r.now}
		pause.EndDue.To, pause.EndDue.Reason = schedule.StatusSkipped, schedule.ReasonPaused
		var acknowledged atomic.Bool
		begun := make(chan struct{}, 2)
		r.crowd(3, func(i int) {
			if i == 0 {
				<-begun
				if err := r.tryChange(schedule.ChangeRequest{}, pause); err != nil {
					r.Errorf("pause: %v", err)
				}
				acknowledged.Store(true)
				return
			}
			for j := range 8 {
				late := acknowledged.Load() // before the claim begins
				if launches := r.claimOne(); late && launches > 0 {
					r.Errorf("a slot is launched after its schedule's pause has returned")
				}
				if j == 0 {
					begun <- struct{}{}
				}
			}
		})
		r.launchedOrPaused(rows)
		r.settleEverything()
	}
}

// claimOne claims at most one run and says how many that were.
func (r *rig) claimOne() int {
	req := r.claimRequest()
	req.Limit = 1
	result, err := r.tryClaim(req)
	if err != nil {
		r.Errorf("claim: %v", err)
	}
	return len(result.Launches)
}

func (r *rig) launchedOrPaused(rows []schedule.Run) {
	r.Helper()
	for _, run := range rows {
		switch got := r.ledger(run.Key); {
		case got.Status == schedule.StatusLaunching && !got.ClaimedAt.IsZero() && got.Reason == schedule.ReasonNone:
		case got.Status == schedule.StatusSkipped && got.Reason == schedule.ReasonPaused && got.ClaimedAt.IsZero():
		default:
			r.Fatalf("a slot is launched once or SKIPPED(paused), got %s(%s), claimed at %s", got.Status, got.Reason, got.ClaimedAt)
		}
	}
}

// settleEverything ends all that is in flight.
func (r *rig) settleEverything() {
	r.Helper()
	runs, err := r.ListRuns(r.ctx, schedule.RunFilter{Statuses: schedule.InFlight, Now: r.now, Limit: 1000})
	r.ok(err, "list runs in flight")
	for _, run := range runs {
		r.succeed(run)
	}
}

func raceReclaims(r *rig) {
	r.lead()
	s := r.create("again")
	for i := range 20 {
		r.bring(r.manual(s, fmt.Sprint(i), r.now), schedule.StatusLaunching)
	}
	r.lead()
	var sent atomic.Int64
	r.crowd(4, func(int) {
		for range 5 {
			req := r.claimRequest()
			req.Limit = 3
			sentAgain, err := r.tryReclaim(req)
			if err != nil {
				r.Errorf("reclaim: %v", err)
			}
			sent.Add(int64(len(sentAgain.Launches)))
		}
	})
	sent.Add(int64(len(r.reclaim())))
	r.hold(sent.Load() == 20, "each run is sent again once, got %d", sent.Load())
	for _, run := range r.runsOf(s) {
		r.hold(run.Epoch == r.term.Epoch, "each run is the new leader's, got epoch %d", run.Epoch)
	}
}

func raceReports(r *rig) {
	s := r.create("reported")
	for i := range 10 {
		run := r.bring(r.manual(s, fmt.Sprint(i), r.now), schedule.StatusStarted)
		statuses := []schedule.Status{schedule.StatusSuccess, schedule.StatusFailed, schedule.StatusCancelled}
		var moves atomic.Int64
		var winner atomic.Value
		r.crowd(len(statuses), func(i int) {
			settlement := schedule.Settlement{Key: run.Key, To: statuses[i]}
			got, moved, err := r.ChangeRun(r.ctx, run.Key, schedule.Key{}, func(schedule.RunInput) (schedule.RunChange, error) {
				return schedule.RunChange{Settle: &settlement, Now: r.now}, nil
			})
			if err != nil {
				r.Errorf("report: %v", err)
			}
			if moved {
				moves.Add(1)
				winner.Store(got.Status)
			}
		})
		r.hold(moves.Load() == 1, "one report moves, got %d", moves.Load())
		r.hold(r.ledger(run.Key).Status == winner.Load(), "the run is as the one that moved it says, got %s, not %v", r.ledger(run.Key).Status, winner.Load())
	}
}

func raceCreations(r *rig) {
	for round := range 5 {
		s := r.schedule(fmt.Sprint("raced-", round))
		taken := errors.New("taken")
		var created, refused atomic.Int64
		r.crowd(6, func(int) {
			err := r.ChangeSchedules(r.ctx, schedule.ChangeRequest{ScheduleIDs: []string{s.ScheduleID}}, func(in []schedule.ChangeInput) ([]schedule.Change, error) {
				if in[0].Schedule != nil {
					return nil, taken
				}
				return []schedule.Change{{ScheduleID: s.ScheduleID, Row: &s, NewRevision: true, Now: r.now}}, nil
			})
			switch {
			case err == nil:
				created.Add(1)
			case errors.Is(err, taken):
				refused.Add(1)
			default:
				r.Errorf("create: %v", err)
			}
		})
		r.hold(created.Load() == 1 && refused.Load() == 5, "one creates, five see it, got %d and %d", created.Load(), refused.Load())
	}
}

// raceChanges raises the revisions of three schedules, one of them new, named
// in another order by each.
func raceChanges(r *rig) {
	ids := []string{r.create("a").ScheduleID, r.create("b").ScheduleID, r.id("c")}
	const each = 5
	r.crowd(4, func(i int) {
		order := []string{ids[i%3], ids[(i+1)%3], ids[(i+2)%3]}
		if i%2 == 0 {
			order[0], order[2] = order[2], order[0]
		}
		for range each {
			err := r.ChangeSchedules(r.ctx, schedule.ChangeRequest{ScheduleIDs: order}, func(in []schedule.ChangeInput) ([]schedule.Change, error) {
				var raised []schedule.Change
				for i, input := range in {
					next := r.schedule(order[i][len(r.name)+1:])
					if input.Schedule != nil {
						next.Revision = input.Schedule.Revision + 1
					}
					raised = append(raised, schedule.Change{ScheduleID: order[i], Row: &next, NewRevision: true, Now: r.now})
				}
				return raised, nil
			})
			if err != nil {
				r.Errorf("change: %v", err)
			}
		}
	})
	for i, first := range []int64{1, 1, 0} {
		got, err := r.GetSchedule(r.ctx, ids[i])
		r.ok(err, "get schedule")
		r.hold(got.Revision == first+4*each, "%s: no change is lost, revision %d, got %d", ids[i], first+4*each, got.Revision)
	}
}
