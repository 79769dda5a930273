package registrar

import (
	"cmp"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// SimulationSums are the slots of a simulation, added up.
type SimulationSums struct {
	ScheduleID                 string // "" = of all
	Slots                      int
	Launched                   int
	Succeeded, Failed, Skipped int
	Cancelled                  int
	Unfinished                 int // planned, waiting or running when the window ended
	CaughtUp                   int // launched after they were missed
	Queued                     int // waited for an earlier run
	Reasons                    []ReasonCount
	MostInFlight               int
	MeanLateness, MaxLateness  time.Duration // of launched slots
}

// ReasonCount is how many slots ended with a reason.
type ReasonCount struct {
	Reason schedule.Reason
	Count  int
}

func (s *Simulation) sum() {
	of := make(map[string][]SimulatedSlot)
	for _, slot := range s.Slots {
		of[slot.ScheduleID] = append(of[slot.ScheduleID], slot)
	}
	s.All = sums("", s.Slots)
	for i := range s.Scenario.Schedules {
		id := s.Scenario.Schedules[i].Schedule.ScheduleID
		s.Each = append(s.Each, sums(id, of[id]))
	}
}

func sums(scheduleID string, slots []SimulatedSlot) SimulationSums {
	out := SimulationSums{ScheduleID: scheduleID, Slots: len(slots), MostInFlight: mostInFlight(slots)}
	reasons := make(map[schedule.Reason]int)
	var late time.Duration
	for i := range slots {
		s := &slots[i]
		out.count(s)
		if s.Reason != "" {
			reasons[s.Reason]++
		}
		if !s.LaunchedAt.IsZero() {
			late += s.Lateness()
			out.MaxLateness = max(out.MaxLateness, s.Lateness())
		}
	}
	if out.Launched > 0 {
		out.MeanLateness = late / time.Duration(out.Launched)
	}
	for reason, n := range reasons {
		out.Reasons = append(out.Reasons, ReasonCount{reason, n})
	}
	slices.SortFunc(out.Reasons, func(a, b ReasonCount) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Reason, b.Reason))
	})
	return out
}

func (o *SimulationSums) count(s *SimulatedSlot) {
	switch s.Status {
	case schedule.StatusSuccess:
		o.Succeeded++
	case schedule.StatusFailed:
		o.Failed++
	case schedule.StatusSkipped:
		o.Skipped++
	case schedule.StatusCancelled:
		o.Cancelled++
	default:
		o.Unfinished++
	}
	if !s.WaitingSince.IsZero() {
		o.Queued++
	}
	if s.LaunchedAt.IsZero() {
		return
	}
	o.Launched++
	if s.Trigger == schedule.TriggerCatchup {
		o.CaughtUp++
	}
}

// Lateness is how long after fire_at the slot was launched.
func (s *SimulatedSlot) Lateness() time.Duration {
	if s.LaunchedAt.IsZero() {
		return 0
	}
	return s.LaunchedAt.Sub(s.FireAt)
}

// Queued is how long it waited before it was launched, or ended.
func (s *SimulatedSlot) Queued() time.Duration {
	until := s.LaunchedAt
	if until.IsZero() {
		until = s.CompletedAt
	}
	if s.WaitingSince.IsZero() || until.IsZero() {
		return 0
	}
	return until.Sub(s.WaitingSince)
}

// mostInFlight is the largest number of concurrent runs.
func mostInFlight(slots []SimulatedSlot) (most int) {
	type edge struct {
		at time.Time
		by int
	}
	var edges []edge
	for i := range slots {
		if s := &slots[i]; !s.LaunchedAt.IsZero() {
			edges = append(edges, edge{s.LaunchedAt, 1})
			if !s.CompletedAt.IsZero() {
				edges = append(edges, edge{s.CompletedAt, -1})
			}
		}
	}
	slices.SortFunc(edges, func(a, b edge) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.by, b.by)) })
	n := 0
	for _, e := range edges {
		n += e.by
		most = max(most, n)
	}
	return most
}
