package memory

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// ReadSlot reads all facts about one instant of a schedule.
func (s *Store) ReadSlot(ctx context.Context, q schedule.SlotQuery) (f schedule.SlotFacts, err error) {
	err = s.read(ctx, func() error {
		row := s.schedules[q.ScheduleID]
		if row == nil {
			return schedule.ErrNotFound
		}
		if err := s.unreadable[q.ScheduleID]; err != nil {
			return err
		}
		f.Schedule = copyOf(row)
		f.Runs = s.slotRuns(q)
		f.Revisions = s.slotRevisions(q, f.Runs)
		f.Events = s.slotEvents(q)
		f.Blocking = s.blocking(f.AskBlocking(q))
		return nil
	})
	if err != nil {
		return schedule.SlotFacts{}, fmt.Errorf("read slot of schedule %s: %w", q.ScheduleID, err)
	}
	return f, nil
}

func (s *Store) slotRuns(q schedule.SlotQuery) (runs []schedule.Run) {
	for _, r := range s.runs {
		if r.ScheduleID == q.ScheduleID && !r.IsJob() && !r.RunAt.Before(q.At) && r.RunAt.Before(q.At.Add(time.Second)) {
			runs = append(runs, *r)
		}
	}
	own := schedule.SlotKey(q.ScheduleID, q.At)
	slices.SortFunc(runs, func(a, b schedule.Run) int {
		switch {
		case a.Key == own:
			return -1
		case b.Key == own:
			return 1
		}
		return bytes.Compare(a.Key[:], b.Key[:])
	})
	return runs[:min(len(runs), schedule.SlotRuns)]
}

func (s *Store) slotRevisions(q schedule.SlotQuery, runs []schedule.Run) (picked []schedule.Revision) {
	var all []schedule.Revision
	for id, v := range s.revisions {
		if id.scheduleID == q.ScheduleID {
			all = append(all, *v)
		}
	}
	slices.SortFunc(all, func(a, b schedule.Revision) int { return cmp.Compare(b.Revision, a.Revision) })
	before, since := 0, -1
	for i := range all {
		if !all[i].CreatedAt.Before(q.At) {
			since = i
		}
	}
	for i := range all {
		pick := i == since || i == len(all)-1 || slices.ContainsFunc(runs, func(r schedule.Run) bool { return r.Revision == all[i].Revision })
		if all[i].CreatedAt.Before(q.At) && before < 2 {
			before, pick = before+1, true
		}
		if pick {
			picked = append(picked, all[i])
		}
	}
	return picked
}

// Lag returns the oldest instants that should have been claimed and planned by now.
func (s *Store) Lag(ctx context.Context, now time.Time) (l schedule.Lag, err error) {
	older := func(t, oldest time.Time) time.Time {
		if oldest.IsZero() || t.Before(oldest) {
			return t
		}
		return oldest
	}
	err = s.read(ctx, func() error {
		if due := s.live.due(now); len(due) > 0 {
			l.Due, l.OldestDue = len(due), due[0].FireAt
		}
		for _, row := range s.schedules {
			if !row.PlanAt.IsZero() && !row.PlanAt.After(now) {
				l.Unplanned, l.OldestPlan = l.Unplanned+1, older(row.PlanAt, l.OldestPlan)
			}
		}
		return nil
	})
	return l, err
}

// slotEvents takes a number of events of each kind from either side.
func (s *Store) slotEvents(q schedule.SlotQuery) []schedule.Event {
	var of []schedule.Event
	for i := range s.events {
		if s.events[i].ScheduleID == q.ScheduleID {
			of = append(of, s.events[i])
		}
	}
	before := func(e *schedule.Event) bool { return e.Time.Before(q.At) }
	since := func(e *schedule.Event) bool { return !e.Time.Before(q.At) }
	holds := func(e *schedule.Event) bool {
		return !e.From.After(q.At) && !e.To.Before(q.At) && !e.From.IsZero() && !e.To.IsZero()
	}
	always := func(*schedule.Event) bool { return true }
	picked := slices.Concat(
		newest(of, schedule.LifeEvents, before, schedule.SlotChanges), newest(of, schedule.PauseEvents, before, schedule.SlotChanges),
		oldest(of, schedule.LifeEvents, since, schedule.SlotChanges), oldest(of, schedule.PauseEvents, since, schedule.SlotChanges),
		newest(of, schedule.PlanFailureEvents, always, schedule.SlotChanges), newest(of, schedule.RangeEvents, holds, schedule.SlotRanges),
	)
	slices.SortFunc(picked, func(a, b schedule.Event) int { return cmp.Compare(a.ID, b.ID) })
	return picked
}

func oldest(of []schedule.Event, kinds []schedule.EventKind, fits func(*schedule.Event) bool, most int) (picked []schedule.Event) {
	for i := range of {
		if len(picked) < most && slices.Contains(kinds, of[i].Kind) && fits(&of[i]) {
			picked = append(picked, of[i])
		}
	}
	return picked
}

func newest(of []schedule.Event, kinds []schedule.EventKind, fits func(*schedule.Event) bool, most int) []schedule.Event {
	back := slices.Clone(of)
	slices.Reverse(back)
	return oldest(back, kinds, fits, most)
}

// blocking goes the way of the stores that have indexes: the newest run of each
// schedule that has the key now, then by looser clocks, then of all its owner's.
func (s *Store) blocking(b schedule.Blocking) (runs []schedule.Run) {
	if !b.Asks() {
		return nil
	}
	for _, try := range []struct {
		slack time.Duration
		all   bool
	}{{0, false}, {schedule.BlockingSlack, false}, {schedule.BlockingSlack, true}} {
		if runs = s.inFlightThen(b, try.slack, try.all); len(runs) > 0 || b.At.IsZero() {
			break
		}
	}
	slices.SortFunc(runs, func(x, y schedule.Run) int {
		return cmp.Or(y.FlightSince().Compare(x.FlightSince()), bytes.Compare(x.Key[:], y.Key[:]))
	})
	return runs[:min(len(runs), schedule.SlotBlocking)]
}

func (s *Store) inFlightThen(b schedule.Blocking, slack time.Duration, all bool) (runs []schedule.Run) {
	first := make(map[string]schedule.Run)
	for _, r := range s.runs {
		kin := s.schedules[r.ScheduleID]
		switch {
		case r.OverlapKey != b.OverlapKey || r.Key == b.Not || r.IsJob(): // jobs take no part in overlap
		case b.At.IsZero():
			if r.Status.InFlight() {
				runs = append(runs, *r)
			}
		case !all && r.ScheduleID != b.ScheduleID && (kin == nil || kin.QualifiedOverlapKey() != b.OverlapKey):
		case r.InFlightAt(b.At, slack):
			if was, ok := first[r.ScheduleID]; !ok || r.RunAt.After(was.RunAt) || r.RunAt.Equal(was.RunAt) && bytes.Compare(r.Key[:], was.Key[:]) > 0 {
				first[r.ScheduleID] = *r
			}
		}
	}
	for _, r := range first {
		runs = append(runs, r)
	}
	return runs
}
