package api

import (
	"context"

	"github.com/carillon/carillon/internal/schedule"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
	"github.com/carillon/carillon/registrar"
)

func (s *runServer) RedriveRuns(ctx context.Context, req *carillonv1.RedriveRunsRequest) (*carillonv1.RedriveRunsResponse, error) {
	place, err := redrivePlace(req.GetPageToken())
	if err != nil {
		return nil, err
	}
	filter, err := deadFilter(req.GetFilter())
	if err != nil {
		return nil, err
	}
	filter.Limit = int(req.GetPageSize())
	if filter.QueueNo, err = s.queueNo(ctx, req.GetFilter().GetQueueId()); err != nil {
		return nil, err
	}
	done, err := s.runs.RedriveRuns(ctx, registrar.RedriveInput{
		Filter: filter, All: req.GetAll(), Renew: req.GetRenew(), RatePerMinute: req.GetRatePerMinute(), DryRun: req.GetDryRun(),
		RequestID: req.GetRequestId(), Page: place, Actor: s.actor(ctx),
	})
	if err != nil {
		return nil, err
	}
	resp := &carillonv1.RedriveRunsResponse{Redriven: uint32(done.Redriven), LeftDead: uint32(done.Left), RequestId: done.RequestID}
	for _, of := range done.Schedules {
		resp.Schedules = append(resp.Schedules, &carillonv1.RedrivenSchedule{ScheduleId: of.ScheduleID, Redriven: uint32(of.Runs)})
	}
	for i := range done.Sample {
		run := runOf(&done.Sample[i])
		s.links.add(run)
		resp.Sample = append(resp.Sample, run)
	}
	if done.Next != nil {
		resp.NextPageToken = redriveToken(done.Next)
	}
	return resp, nil
}

func deadFilter(f *carillonv1.DeadRunFilter) (schedule.RunFilter, error) {
	out := schedule.RunFilter{
		ScheduleID: f.GetScheduleId(), UserID: f.GetUserId(), WorkflowID: f.GetWorkflowId(),
		Reason: schedule.Reason(f.GetReason()), ErrorCode: f.GetErrorCode(), Class: schedule.FailureClass(f.GetFailureClass()),
		From: fromTimestamp(f.GetFrom()), To: fromTimestamp(f.GetTo()),
	}
	var err error
	out.AnyOf, err = keysIn(f.GetKeys())
	return out, err
}
