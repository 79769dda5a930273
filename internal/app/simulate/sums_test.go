package simulate_test

import (
	"fmt"
	"maps"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/registrar"
)

// differInSums counts the slots in another way than the sums do.
func differInSums(s *registrar.Simulation) string {
	for i := range s.Scenario.Schedules {
		id := s.Scenario.Schedules[i].Schedule.ScheduleID
		if difference := differInSum(s.Each[i], s.Slots, func(x registrar.SimulatedSlot) bool { return x.ScheduleID == id }); difference != "" {
			return id + ": " + difference
		}
	}
	return differInSum(s.All, s.Slots, func(registrar.SimulatedSlot) bool { return true })
}

func differInSum(sum registrar.SimulationSums, slots []registrar.SimulatedSlot, belongs func(registrar.SimulatedSlot) bool) string {
	count := func(is func(registrar.SimulatedSlot) bool) (n int) {
		for _, s := range slots {
			if belongs(s) && is(s) {
				n++
			}
		}
		return n
	}
	ended := func(status schedule.Status) int {
		return count(func(s registrar.SimulatedSlot) bool { return s.Status == status })
	}
	launched := func(s registrar.SimulatedSlot) bool { return !s.LaunchedAt.IsZero() }
	reasons, want := make(map[schedule.Reason]int), make(map[schedule.Reason]int)
	for _, r := range sum.Reasons {
		reasons[r.Reason] = r.Count
	}
	most, latest, late := 0, time.Duration(0), time.Duration(0)
	for _, s := range slots {
		if belongs(s) && s.Reason != "" {
			want[s.Reason]++
		}
		if !belongs(s) || !launched(s) {
			continue
		}
		most = max(most, count(func(o registrar.SimulatedSlot) bool {
			return launched(o) && !o.LaunchedAt.After(s.LaunchedAt) && (o.CompletedAt.IsZero() || o.CompletedAt.After(s.LaunchedAt))
		}))
		latest, late = max(latest, s.LaunchedAt.Sub(s.FireAt)), late+s.LaunchedAt.Sub(s.FireAt)
	}
	told := []any{
		sum.Slots, sum.Launched, sum.Succeeded, sum.Failed, sum.Skipped, sum.Cancelled, sum.Unfinished, sum.CaughtUp, sum.Queued, sum.MostInFlight,
		sum.MaxLateness, sum.MeanLateness,
	}
	n, all := count(launched), count(func(registrar.SimulatedSlot) bool { return true })
	over := ended(schedule.StatusSuccess) + ended(schedule.StatusFailed) + ended(schedule.StatusSkipped) + ended(schedule.StatusCancelled)
	counted := []any{
		all, n, ended(schedule.StatusSuccess), ended(schedule.StatusFailed), ended(schedule.StatusSkipped), ended(schedule.StatusCancelled), all - over,
		count(func(s registrar.SimulatedSlot) bool { return launched(s) && s.Trigger == schedule.TriggerCatchup }),
		count(func(s registrar.SimulatedSlot) bool { return !s.WaitingSince.IsZero() }), most,
		latest, late / time.Duration(max(n, 1)),
	}
	for i := range told {
		if told[i] != counted[i] {
			return fmt.Sprintf("the sums are %v, the slots come to %v", told, counted)
		}
	}
	if !maps.Equal(reasons, want) {
		return fmt.Sprintf("the sums have the reasons %v, the slots %v", reasons, want)
	}
	return ""
}
