package preview

import (
	"fmt"
	"strings"
	"time"

	"github.com/carillon/carillon/internal/cli/render"
	"github.com/carillon/carillon/internal/schedule"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// writeSimulation writes the slots, then the totals.
func writeSimulation(p *render.Page, resp *carillonv1.SimulateSchedulesResponse, limit int) {
	slots := resp.GetSlots()
	if limit > 0 && len(slots) > limit {
		slots = slots[:limit]
	}
	if len(slots) > 0 {
		rows := make([][]string, len(slots))
		for i, s := range slots {
			rows[i] = p.WideCells([]string{
				s.GetLocal(), s.GetScheduleId(), s.GetStatus() + because(s.GetReason()), stampOf(s.GetLaunchedAt().AsTime(), s.GetLaunchedAt() != nil),
				milliseconds(s.GetLatenessMs()), milliseconds(s.GetQueuedMs()), stampOf(s.GetCompletedAt().AsTime(), s.GetCompletedAt() != nil && (s.GetLaunchedAt() != nil || s.GetStatus() == string(schedule.StatusFailed))), caughtUp(s),
			}, render.Stamp(s.GetRunAt().AsTime()), render.Stamp(s.GetFireAt().AsTime()))
		}
		p.Table(p.WideCells([]string{"slot", "schedule", "status", "launched", "delay", "queued for", "ended", ""}, "run at", "fires at"), rows)
		if more := len(resp.GetSlots()) - len(slots); more > 0 {
			p.Line("… and %d more; --limit 0 shows all", more)
		}
		p.Line("")
	}
	sums := resp.GetSchedules()
	if len(sums) > 1 {
		sums = append(sums, resp.GetSums())
	}
	rows := make([][]string, len(sums))
	for i, s := range sums {
		name := s.GetScheduleId()
		if name == "" {
			name = "(all)"
		}
		n := func(n uint32) string { return fmt.Sprint(n) }
		rows[i] = []string{
			name, n(s.GetSlots()), n(s.GetLaunched()), n(s.GetSucceeded()), n(s.GetFailed()), n(s.GetSkipped()), n(s.GetCancelled()), n(s.GetUnfinished()),
			n(s.GetCaughtUp()), n(s.GetQueued()), n(s.GetMostInFlight()), milliseconds(s.GetMaxLatenessMs()), reasons(s),
		}
	}
	p.Table([]string{"schedule", "slots", "launched", "succeeded", "failed", "skipped", "cancelled", "unfinished", "caught up", "queued", "at once", "latest", "reasons"}, rows)
}

func because(reason string) string {
	if reason == "" {
		return ""
	}
	return " (" + reason + ")"
}

func stampOf(t time.Time, there bool) string {
	if !there {
		return ""
	}
	return render.Stamp(t)
}

// milliseconds is a duration as text; "" for zero.
func milliseconds(ms uint32) string {
	if ms == 0 {
		return ""
	}
	return render.Millis(ms)
}

func caughtUp(s *carillonv1.SimulatedSlot) string {
	if s.GetTrigger() == string(schedule.TriggerCatchup) {
		return "caught up"
	}
	return ""
}

func reasons(s *carillonv1.SimulationSums) string {
	out := make([]string, len(s.GetReasons()))
	for i, r := range s.GetReasons() {
		out[i] = fmt.Sprintf("%s %d", r.GetReason(), r.GetCount())
	}
	return strings.Join(out, ", ")
}
