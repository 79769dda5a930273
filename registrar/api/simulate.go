package api

import (
	"context"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/schedule/cronexpr"
	"github.com/carillon/carillon/internal/schedule/describe"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
	"github.com/carillon/carillon/registrar"
)

func (s *scheduleServer) SimulateSchedules(ctx context.Context, req *carillonv1.SimulateSchedulesRequest) (*carillonv1.SimulateSchedulesResponse, error) {
	in := registrar.SimulateInput{
		From: fromTimestamp(req.GetFrom()), Until: fromTimestamp(req.GetUntil()), Outages: spansOf(req.GetOutages()), Seed: req.GetSeed(),
		ExecutorOutages: spansOf(req.GetExecutorOutages()),
	}
	for _, asked := range req.GetSchedules() {
		in.Schedules = append(in.Schedules, registrar.SimulateSchedule{
			Over: simulatedOf(asked), LaunchTimeoutMS: asked.LaunchTimeoutMs, Run: assumedOf(asked.GetRun()), Pauses: spansOf(asked.GetPauses()),
		})
	}
	done, err := s.read.Simulate(ctx, in)
	if err != nil {
		return nil, err
	}
	resp := &carillonv1.SimulateSchedulesResponse{Sums: simulationSumsOf(&done.All)}
	for i := range done.Each {
		resp.Schedules = append(resp.Schedules, simulationSumsOf(&done.Each[i]))
	}
	if req.GetSumsOnly() {
		return resp, nil
	}
	zones := make(map[string]*time.Location)
	for i := range done.Scenario.Schedules {
		of := &done.Scenario.Schedules[i].Schedule
		zone, err := cronexpr.LoadLocation(of.Timezone)
		if err != nil {
			return nil, schedule.Invalid("timezone", of.Timezone, err.Error(), "")
		}
		zones[of.ScheduleID] = zone
	}
	for i := range done.Slots {
		resp.Slots = append(resp.Slots, simulatedSlotOf(&done.Slots[i], zones[done.Slots[i].ScheduleID]))
	}
	return resp, nil
}

func spansOf(spans []*carillonv1.SimulatedSpan) []registrar.Span {
	out := make([]registrar.Span, len(spans))
	for i, s := range spans {
		out[i] = registrar.Span{From: fromTimestamp(s.GetFrom()), Until: fromTimestamp(s.GetUntil())}
	}
	return out
}

func assumedOf(run *carillonv1.AssumedRun) registrar.AssumedRun {
	out := registrar.AssumedRun{Duration: registrar.DefaultAssumedRun, P95: millis(run.GetP95Ms()), FailurePercent: int(run.GetFailurePercent())}
	if run != nil && run.DurationMs != nil {
		out.Duration = millis(run.GetDurationMs())
	}
	return out
}

func millis(ms uint32) time.Duration { return time.Duration(ms) * time.Millisecond }

func simulatedOf(s *carillonv1.SimulatedSchedule) registrar.UpsertInput {
	return registrar.UpsertInput{
		Definition: schedule.Definition{
			ScheduleID: s.GetScheduleId(), UserID: s.GetUserId(),
			CronExpr: s.GetCronExpr(), IntervalMS: s.GetIntervalMs(), OnceAt: fromTimestamp(s.GetOnceAt()),
			Timezone: s.GetTimezone(), StartAt: fromTimestamp(s.GetStartAt()), EndAt: fromTimestamp(s.GetEndAt()), DST: schedule.DST(s.GetDst()),
			OverlapPolicy: schedule.OverlapPolicy(s.GetOverlapPolicy()), OverlapKey: s.GetOverlapKey(),
			CatchupPolicy: schedule.CatchupPolicy(s.GetCatchupPolicy()),
		},
		JitterMS: s.JitterMs, MaxQueued: s.MaxQueued, CatchupWindowMS: s.CatchupWindowMs, RunTimeoutMS: s.RunTimeoutMs, Priority: s.Priority,
	}
}

func simulatedSlotOf(s *registrar.SimulatedSlot, zone *time.Location) *carillonv1.SimulatedSlot {
	return &carillonv1.SimulatedSlot{
		ScheduleId: s.ScheduleID, RunAt: timestamp(s.RunAt), FireAt: timestamp(s.FireAt), Local: s.RunAt.In(zone).Format(describe.LocalFormat),
		Status: string(s.Status), Reason: string(s.Reason), Trigger: string(s.Trigger),
		LaunchedAt: timestamp(s.LaunchedAt), CompletedAt: timestamp(s.CompletedAt),
		LatenessMs: count32(s.Lateness().Milliseconds()), QueuedMs: count32(s.Queued().Milliseconds()),
	}
}

func simulationSumsOf(s *registrar.SimulationSums) *carillonv1.SimulationSums {
	n := func(n int) uint32 { return count32(int64(n)) }
	out := &carillonv1.SimulationSums{
		ScheduleId: s.ScheduleID, Slots: n(s.Slots), Launched: n(s.Launched), Succeeded: n(s.Succeeded), Failed: n(s.Failed),
		Skipped: n(s.Skipped), Cancelled: n(s.Cancelled), Unfinished: n(s.Unfinished), CaughtUp: n(s.CaughtUp), Queued: n(s.Queued),
		MostInFlight: n(s.MostInFlight), MeanLatenessMs: count32(s.MeanLateness.Milliseconds()), MaxLatenessMs: count32(s.MaxLateness.Milliseconds()),
	}
	for _, r := range s.Reasons {
		out.Reasons = append(out.Reasons, &carillonv1.SimulationReason{Reason: string(r.Reason), Count: n(r.Count)})
	}
	return out
}
