package api

import (
	"context"

	"github.com/carillon/carillon/internal/schedule"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
	"github.com/carillon/carillon/registrar"
)

type workflowServer struct {
	carillonv1.UnimplementedWorkflowServiceServer
	workflows Workflows
	actor     func(context.Context) string
}

func (s *workflowServer) PutWorkflowVersion(ctx context.Context, req *carillonv1.PutWorkflowVersionRequest) (*carillonv1.PutWorkflowVersionResponse, error) {
	if _, err := readDAG(req.GetDag()); err != nil {
		return nil, err
	}
	stored, err := s.workflows.PutWorkflow(ctx, registrar.WorkflowInput{
		WorkflowID: req.GetWorkflowId(), Version: req.GetVersion(), UserID: req.GetUserId(), DAG: req.GetDag(),
	})
	if err != nil {
		return nil, err
	}
	shown := workflowOf(stored)
	shown.Dag = nil // the caller has just sent it
	return &carillonv1.PutWorkflowVersionResponse{WorkflowVersion: shown}, nil
}

func (s *workflowServer) GetWorkflowVersion(ctx context.Context, req *carillonv1.GetWorkflowVersionRequest) (*carillonv1.GetWorkflowVersionResponse, error) {
	found, err := s.workflows.GetWorkflow(ctx, req.GetUserId(), req.GetWorkflowId(), req.GetVersion())
	if err != nil {
		return nil, err
	}
	return &carillonv1.GetWorkflowVersionResponse{WorkflowVersion: workflowOf(found)}, nil
}

func (s *workflowServer) ListWorkflowVersions(ctx context.Context, req *carillonv1.ListWorkflowVersionsRequest) (*carillonv1.ListWorkflowVersionsResponse, error) {
	size := pageSize(req.GetPageSize())
	f := schedule.WorkflowFilter{WorkflowID: req.GetWorkflowId(), Limit: size + 1}
	var err error
	if f.Before.Version, f.Before.UserID, err = versionAfter(req.GetPageToken()); err != nil {
		return nil, err
	}
	rows, err := s.workflows.ListWorkflows(ctx, req.GetUserId(), f)
	if err != nil {
		return nil, err
	}
	shown, more := page(rows, size, small)
	resp := &carillonv1.ListWorkflowVersionsResponse{}
	for i := range shown {
		resp.WorkflowVersions = append(resp.WorkflowVersions, workflowOf(&shown[i]))
	}
	if more {
		last := &shown[len(shown)-1]
		resp.NextPageToken = versionPlace(last.Version, last.UserID)
	}
	return resp, nil
}

func (s *workflowServer) DeployWorkflow(ctx context.Context, req *carillonv1.DeployWorkflowRequest) (*carillonv1.DeployWorkflowResponse, error) {
	in, err := deployment(req, s.actor(ctx))
	if err != nil {
		return nil, err
	}
	results, err := s.workflows.DeployWorkflow(ctx, in)
	if err != nil {
		return nil, err
	}
	resp := &carillonv1.DeployWorkflowResponse{}
	for _, r := range results {
		resp.Schedules = append(resp.Schedules, &carillonv1.DeployedSchedule{
			ScheduleId: r.Schedule.ScheduleID, NextRunAt: timestamp(r.NextRunAt), Created: r.Created, Changed: r.Changed,
		})
	}
	return resp, nil
}
