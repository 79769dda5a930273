package memory

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// ListUpcoming lists active schedules by their next slots.
func (s *Store) ListUpcoming(ctx context.Context, f schedule.ScheduleFilter) ([]schedule.Upcoming, error) {
	list := []schedule.Upcoming{}
	f.Now, f.State = either(f.Now, s.Now()), schedule.StateActive
	err := s.read(ctx, func() error {
		for id, row := range s.schedules {
			at := s.nextSlot(row, f.Now)
			place := cmp.Or(at.Compare(f.AfterNext), cmp.Compare(id, f.After))
			if row.Alive() && s.unreadable[id] == nil && matches(row, &f, f.Now) && !at.IsZero() &&
				(f.NextBefore.IsZero() || at.Before(f.NextBefore)) && (f.AfterNext.IsZero() || place > 0) {
				list = append(list, schedule.Upcoming{Schedule: *copyOf(row), NextAt: at})
			}
		}
		return nil
	})
	slices.SortFunc(list, func(a, b schedule.Upcoming) int {
		return cmp.Or(a.NextAt.Compare(b.NextAt), cmp.Compare(a.Schedule.ScheduleID, b.Schedule.ScheduleID))
	})
	return list[:min(len(list), schedule.PageSize(f.Limit))], err
}

// nextSlot returns Upcoming.NextAt; zero: there is none.
func (s *Store) nextSlot(row *schedule.Schedule, now time.Time) (next time.Time) {
	if next = row.NextRunAt; !next.IsZero() && next.Before(now) {
		next = now
	}
	for _, r := range s.runs {
		if r.ScheduleID == row.ScheduleID && r.Status == schedule.StatusPlanned && r.WaitingSince.IsZero() &&
			r.Trigger == schedule.TriggerSchedule && r.RunAt.After(now) && (next.IsZero() || r.RunAt.Before(next)) {
			next = r.RunAt
		}
	}
	return next
}

// CountFleet counts schedules and runs.
func (s *Store) CountFleet(ctx context.Context, q schedule.FleetQuery) (n schedule.FleetCounts, err error) {
	f := schedule.ScheduleFilter{UserID: q.UserID, State: schedule.StateActive}
	now := either(q.Now, s.Now())
	err = s.read(ctx, func() error {
		for _, row := range s.schedules {
			if !row.Alive() || !matches(row, &f, now) {
				continue
			}
			n.Active++
			switch next := s.nextSlot(row, now); {
			case next.IsZero() || !q.NextBefore.IsZero() && !next.Before(q.NextBefore):
			case next.After(now):
				n.Upcoming++
			default:
				n.Behind++
			}
		}
		for _, r := range s.runs {
			if q.UserID == "" || r.UserID == q.UserID {
				countRun(&n, r, &q)
			}
		}
		return nil
	})
	return n, err
}

func countRun(n *schedule.FleetCounts, r *schedule.Run, q *schedule.FleetQuery) {
	switch r.Status {
	case schedule.StatusEnqueued, schedule.StatusStarted:
		if !r.Queue.In() {
			n.InFlight++
		}
	case schedule.StatusLaunching:
		n.InFlight++
	case schedule.StatusPlanned:
		if !r.WaitingSince.IsZero() {
			n.Waiting++
		}
	case schedule.StatusFailed:
		if !r.RunAt.Before(q.FailedSince) {
			n.Failed++
		}
	}
	if due(r, q.DueBefore) {
		n.Late++
	}
}
