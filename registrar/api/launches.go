package api

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/carillon/carillon/internal/plan"
	"github.com/carillon/carillon/internal/schedule"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
	"github.com/carillon/carillon/registrar"
)

// Limits of a forecast's lists.
const (
	peaksNamed    = 5 // unless asked otherwise; and as many schedules for each
	membersNamed  = 100
	kindJitter    = "jitter"
	kindMinute    = "minute_offset"
	minutesOfText = 3
)

func (s *scheduleServer) ForecastLaunches(ctx context.Context, req *carillonv1.ForecastLaunchesRequest) (*carillonv1.ForecastLaunchesResponse, error) {
	label, value, err := labelFilter(req.GetLabel())
	if err != nil {
		return nil, err
	}
	in := registrar.LaunchesInput{
		Filter: schedule.ScheduleFilter{
			UserID: req.GetUserId(), WorkflowID: req.GetWorkflowId(), ManagedBy: req.GetManagedBy(), LabelKey: label, LabelValue: value,
		},
		From: fromTimestamp(req.GetFrom()), Until: fromTimestamp(req.GetUntil()), Peaks: peaksNamed, Contributors: peaksNamed,
	}
	if req.Peaks != nil {
		in.Peaks = int(req.GetPeaks())
	}
	if req.Contributors != nil {
		in.Contributors = int(req.GetContributors())
	}
	f, err := s.read.ForecastLaunches(ctx, in)
	if err != nil {
		return nil, err
	}
	resp := &carillonv1.ForecastLaunchesResponse{
		From: timestamp(f.From), Until: timestamp(f.Until), Launches: count32(int64(f.Launches)),
		LaunchesPerMinute: make([]uint32, len(f.Minutes.Count)),
		Schedules:         count32(int64(f.Schedules)), Paused: count32(int64(f.Paused)), Unreadable: count32(int64(f.Unreadable)),
		Launching: count32(int64(f.Launching)),
	}
	for i, n := range f.Minutes.Count {
		resp.LaunchesPerMinute[i] = count32(int64(n))
	}
	for i := range f.Peaks {
		resp.Peaks = append(resp.Peaks, launchesPeakOf(&f.Peaks[i]))
	}
	for i := range f.Flattenings {
		resp.Flattenings = append(resp.Flattenings, flatteningOf(&f.Flattenings[i]))
	}
	return resp, nil
}

func launchesPeakOf(p *registrar.LaunchesPeak) *carillonv1.ForecastPeak {
	out := &carillonv1.ForecastPeak{Minute: timestamp(p.Minute), Launches: count32(int64(p.Launches)), Schedules: count32(int64(p.Schedules))}
	for _, c := range p.Contributors {
		out.Contributors = append(out.Contributors, &carillonv1.ForecastContributor{
			ScheduleId: c.Schedule.ScheduleID, UserId: c.Schedule.UserID, WorkflowId: c.Schedule.WorkflowID, Launches: count32(int64(c.Launches)),
		})
	}
	return out
}

func flatteningOf(f *plan.Flattening) *carillonv1.ForecastFlattening {
	out := &carillonv1.ForecastFlattening{
		Kind: kindJitter, JitterMs: uint32(f.Jitter.Milliseconds()), Schedules: count32(int64(len(f.Members))),
		Peak: count32(int64(f.Peak)), PeakMinute: timestamp(f.PeakAt), Change: changeText(f),
	}
	out.Text = fmt.Sprintf("%s: the busiest minute would be %s with %s", out.GetChange(), f.PeakAt.UTC().Format("2006-01-02T15:04Z"), launchesText(f.Peak))
	if f.Jitter == 0 {
		out.Kind = kindMinute
	}
	for _, s := range f.Members[:min(len(f.Members), membersNamed)] {
		out.ScheduleIds = append(out.ScheduleIds, s.ScheduleID)
	}
	for _, m := range f.Moves[:min(len(f.Moves), membersNamed)] {
		out.Moves = append(out.Moves, &carillonv1.ForecastMove{
			ScheduleId: m.Schedule.ScheduleID, CronExprFrom: m.Schedule.CronExpr, CronExprTo: m.CronExpr, Minutes: int32(m.Minutes),
		})
	}
	return out
}

// changeText is the change in words, for people.
func changeText(f *plan.Flattening) string {
	if f.Jitter > 0 {
		whom := fmt.Sprintf("%d schedules", len(f.Members))
		if len(f.Members) == 1 {
			whom = f.Members[0].ScheduleID
		}
		return fmt.Sprintf("give %s jitter_ms %d (%s)", whom, f.Jitter.Milliseconds(), shortly(f.Jitter))
	}
	var moves []string
	for _, m := range f.Moves[:min(len(f.Moves), minutesOfText)] {
		moves = append(moves, fmt.Sprintf("%s to %q (%+d min)", m.Schedule.ScheduleID, m.CronExpr, m.Minutes))
	}
	words := "move " + strings.Join(moves, ", ")
	if n := len(f.Moves) - len(moves); n > 0 {
		words += fmt.Sprintf(" and %d more", n)
	}
	return words
}

func launchesText(n int) string {
	if n == 1 {
		return "1 launch"
	}
	return fmt.Sprintf("%d launches", n)
}

// shortly is a duration of whole minutes or seconds: 5m, 30s.
func shortly(d time.Duration) string {
	if d%time.Minute == 0 {
		return fmt.Sprintf("%dm", d/time.Minute)
	}
	return d.String()
}
