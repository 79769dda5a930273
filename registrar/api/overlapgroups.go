package api

import (
	"context"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/schedule/describe"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
	"github.com/carillon/carillon/registrar"
)

type overlapServer struct {
	carillonv1.UnimplementedOverlapGroupServiceServer
	overlaps Overlaps
	actor    func(context.Context) string
}

func (s *overlapServer) ListOverlapGroups(ctx context.Context, req *carillonv1.ListOverlapGroupsRequest) (*carillonv1.ListOverlapGroupsResponse, error) {
	after, err := overlapsPage.key(req.GetPageToken())
	if err != nil {
		return nil, err
	}
	size := pageSize(req.GetPageSize())
	groups, err := s.overlaps.ListOverlapGroups(ctx, schedule.OverlapKeyFilter{UserID: req.GetUserId(), After: after, Limit: size + 1})
	if err != nil {
		return nil, err
	}
	shown, more := page(groups, size, small)
	resp := &carillonv1.ListOverlapGroupsResponse{}
	for i := range shown {
		resp.Groups = append(resp.Groups, overlapGroupOf(&shown[i]))
	}
	if more {
		last := &shown[len(shown)-1]
		resp.NextPageToken = overlapsPage.token(last.UserID + "/" + last.OverlapKey)
	}
	return resp, nil
}

func (s *overlapServer) GetOverlapGroup(ctx context.Context, req *carillonv1.GetOverlapGroupRequest) (*carillonv1.GetOverlapGroupResponse, error) {
	g, err := s.overlaps.GetOverlapGroup(ctx, req.GetUserId(), req.GetOverlapKey())
	if err != nil {
		return nil, err
	}
	return &carillonv1.GetOverlapGroupResponse{Group: overlapGroupOf(&g)}, nil
}

func (s *overlapServer) RunOverlapGroup(ctx context.Context, req *carillonv1.RunOverlapGroupRequest) (*carillonv1.RunOverlapGroupResponse, error) {
	runs, repeated, err := s.overlaps.RunOverlapGroup(ctx, registrar.RunOverlapInput{
		UserID: req.GetUserId(), OverlapKey: req.GetOverlapKey(), RequestID: req.GetRequestId(), Actor: s.actor(ctx),
	})
	if err != nil {
		return nil, err
	}
	resp := &carillonv1.RunOverlapGroupResponse{Repeated: repeated}
	for i := range runs {
		resp.Runs = append(resp.Runs, runOf(&runs[i]))
	}
	return resp, nil
}

func overlapGroupOf(g *registrar.OverlapGroup) *carillonv1.OverlapGroup {
	out := &carillonv1.OverlapGroup{
		OverlapKey: g.OverlapKey, UserId: g.UserID, WorkflowId: g.WorkflowID, Status: string(g.Status), Issue: g.Issue,
		Pending: &carillonv1.OverlapPending{Runs: uint32(len(g.Waiting)), OldestAt: timestamp(g.OldestAt)},
	}
	for i := range g.Schedules {
		v := &g.Schedules[i]
		out.Schedules = append(out.Schedules, &carillonv1.OverlapSchedule{
			ScheduleId: v.Schedule.ScheduleID, Words: describe.Spec(&v.Schedule.Definition), NextRunAt: timestamp(v.NextRunAt), Paused: v.Paused,
			OverlapPolicy: string(v.Schedule.OverlapPolicy), WorkflowId: v.Schedule.WorkflowID, Priority: v.Schedule.Priority,
		})
	}
	for i := range g.Recent {
		a := &g.Recent[i]
		out.Recent = append(out.Recent, &carillonv1.OverlapActivity{
			ScheduleId: a.ScheduleID, IdempotencyKey: a.Key.String(), RunAt: timestamp(a.RunAt), Status: string(a.Status), Reason: string(a.Reason),
			ErrorCode: a.ErrorCode, CompletedAt: timestamp(a.EndedAt),
		})
	}
	for i := range g.Running {
		out.Running = append(out.Running, runOf(&g.Running[i]))
	}
	for i := range g.Waiting {
		out.Waiting = append(out.Waiting, &carillonv1.WaitingOverlapRun{Run: runOf(&g.Waiting[i].Run), Why: g.Waiting[i].Why})
	}
	return out
}
