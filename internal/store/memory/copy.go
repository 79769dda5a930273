package memory

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

// ReadQueueCopy copies a queue with its open runs.
func (s *Store) ReadQueueCopy(ctx context.Context, req schedule.QueueCopyRequest) (c ledger.QueueCopy, err error) {
	err = s.read(ctx, func() error {
		q := s.queueOf(req.QueueNo)
		if q == nil {
			return nil
		}
		c.QueueFacts = s.queueFacts(q)
		rows := s.waiting(q.No)
		rows = append(rows, sortedRuns(s.ofQueue(q.No, schedule.QueueDelayed), func(a, b *schedule.Run) int { return a.FireAt.Compare(b.FireAt) })...)
		rows = append(rows, sortedRuns(s.ofQueue(q.No, schedule.QueueChained), func(a, b *schedule.Run) int { return cmp.Compare(a.Queue.Position, b.Queue.Position) })...)
		for _, r := range rows[:min(len(rows), req.Runs)] {
			c.Runs = append(c.Runs, s.copied(r))
		}
		c.More = len(rows) > req.Runs
		for _, r := range s.ofQueue(q.No, schedule.QueueDispatching, schedule.QueueRunning) {
			c.Flights = append(c.Flights, s.copied(r))
		}
		c.Heads = ledger.HeadsOfSets(c.Runs, req.Limits)
		s.limitsNow(&c.QueueFacts, req.Now)
		c.Heads = nil
		c.Ended = s.runTimes(q.No)
		s.copyElsewhere(&c)
		return nil
	})
	return c, err
}

func sortedRuns(runs []*schedule.Run, compare func(a, b *schedule.Run) int) []*schedule.Run {
	slices.SortStableFunc(runs, compare)
	return runs
}

func (s *Store) copied(r *schedule.Run) ledger.CopiedRun {
	c := ledger.CopiedRun{
		WaitingRun: ledger.Waiting(r), QueueNo: r.Queue.No, Workflow: s.schedules[r.ScheduleID].WorkflowID, State: r.Queue.State, Ready: r.FireAt,
		FairKey: cmp.Or(r.Queue.FairKey, schedule.Owner(r.OverlapKey)), GroupNo: r.Queue.GroupNo, Seq: r.Queue.GroupSeq, Began: ledger.InFlightSince(r.ClaimedAt, r.LaunchedAt),
	}
	return c
}

// runTimes are the run times of the runs of a queue that have ended, newest first. Minutes come
// before: they have the successes that history does not keep.
func (s *Store) runTimes(queueNo int32) []ledger.RunTime {
	times := ledger.MinuteRunTimes(s.minutesOf(queueNo, time.Time{}))
	var ended []*schedule.Run
	for _, r := range s.runs {
		if r.Queue.No == queueNo && r.Status.Terminal() && ledger.TellsRunTime(r.Status, r.ClaimedAt) {
			ended = append(ended, r)
		}
	}
	slices.SortFunc(ended, func(a, b *schedule.Run) int {
		return cmp.Or(b.CompletedAt.Compare(a.CompletedAt), bytes.Compare(a.Key[:], b.Key[:]))
	})
	for _, r := range ended {
		times = append(times, ledger.RunTime{
			QueueNo: queueNo, Workflow: s.schedules[r.ScheduleID].WorkflowID, Took: r.CompletedAt.Sub(ledger.InFlightSince(r.ClaimedAt, r.LaunchedAt)),
		})
	}
	return times
}

// copyElsewhere adds what runs and reservations of other queues use of the limits.
func (s *Store) copyElsewhere(c *ledger.QueueCopy) {
	c.UsesCut = make(map[schedule.LimitRef]bool)
	known := make(map[int32]bool)
	for _, ref := range c.UsedElsewhere() {
		c.UsesCut[ref] = false
		for _, u := range s.usesOf(c.Limits[ref].No) {
			if u.Key != ref.Key {
				continue
			}
			r := s.runs[u.UsedBy]
			if r == nil {
				if held, there := s.reservations[u.UsedBy]; there && held.QueueNo != c.Queue.No {
					c.Elsewhere = append(c.Elsewhere, ledger.HeldLimit{Ref: ref, Until: held.EndsAt, Run: ledger.CopiedRun{WaitingRun: ledger.WaitingRun{Key: u.UsedBy}, State: schedule.QueueRunning}})
				}
				continue
			}
			if c.AddElsewhere(ref, s.copied(r)) && !known[r.Queue.No] && r.Queue.No != c.Queue.No {
				known[r.Queue.No] = true
				c.Ended = append(c.Ended, s.runTimes(r.Queue.No)...)
			}
		}
	}
}
