package api

import (
	"context"
	"math"

	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
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
	stored, err := s.workflows.PutWorkflow(ctx, req.GetWorkflowId(), req.GetVersion(), req.GetDag())
	if err != nil {
		return nil, err
	}
	shown := workflowOf(stored)
	shown.Dag = nil // the caller has just sent it
	return &carillonv1.PutWorkflowVersionResponse{WorkflowVersion: shown}, nil
}

func (s *workflowServer) GetWorkflowVersion(ctx context.Context, req *carillonv1.GetWorkflowVersionRequest) (*carillonv1.GetWorkflowVersionResponse, error) {
	found, err := s.workflows.GetWorkflow(ctx, req.GetWorkflowId(), req.GetVersion())
	if err != nil {
		return nil, err
	}
	return &carillonv1.GetWorkflowVersionResponse{WorkflowVersion: workflowOf(found)}, nil
}

func (s *workflowServer) ListWorkflowVersions(ctx context.Context, req *carillonv1.ListWorkflowVersionsRequest) (*carillonv1.ListWorkflowVersionsResponse, error) {
	before, err := workflowsPage.positive(req.GetPageToken(), math.MaxInt32)
	if err != nil {
		return nil, err
	}
	size := pageSize(req.GetPageSize())
	rows, err := s.workflows.ListWorkflows(ctx, req.GetWorkflowId(), int32(before), size+1)
	if err != nil {
		return nil, err
	}
	shown, more := page(rows, size, small)
	resp := &carillonv1.ListWorkflowVersionsResponse{}
	for i := range shown {
		resp.WorkflowVersions = append(resp.WorkflowVersions, workflowOf(&shown[i]))
	}
	if more {
		resp.NextPageToken = workflowsPage.number(int64(shown[len(shown)-1].Version))
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
