package api

import (
	"context"

	"github.com/carillon/carillon/internal/schedule"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
	"github.com/carillon/carillon/registrar"
)

func (s *workflowServer) ShareWorkflow(ctx context.Context, req *carillonv1.ShareWorkflowRequest) (*carillonv1.ShareWorkflowResponse, error) {
	share, err := s.workflows.ShareWorkflow(ctx, registrar.ShareInput{
		WorkflowID: req.GetWorkflowId(), UserID: req.GetUserId(), AllOwners: req.GetAllOwners(), Actor: s.actor(ctx),
	})
	if err != nil {
		return nil, err
	}
	return &carillonv1.ShareWorkflowResponse{Share: shareOf(&share)}, nil
}

func (s *workflowServer) UnshareWorkflow(ctx context.Context, req *carillonv1.UnshareWorkflowRequest) (*carillonv1.UnshareWorkflowResponse, error) {
	still, err := s.workflows.UnshareWorkflow(ctx, registrar.ShareInput{
		WorkflowID: req.GetWorkflowId(), UserID: req.GetUserId(), AllOwners: req.GetAllOwners(), Actor: s.actor(ctx),
	})
	if err != nil {
		return nil, err
	}
	return &carillonv1.UnshareWorkflowResponse{SharedWithAllOwners: still}, nil
}

func (s *workflowServer) ListWorkflowShares(ctx context.Context, req *carillonv1.ListWorkflowSharesRequest) (*carillonv1.ListWorkflowSharesResponse, error) {
	after, err := sharesPage.key(req.GetPageToken())
	if err == nil && after != "" && after != schedule.AllOwners && !schedule.ValidOwner(after) {
		err = forged(req.GetPageToken())
	}
	if err != nil {
		return nil, err
	}
	size := pageSize(req.GetPageSize())
	rows, err := s.workflows.ListShares(ctx, req.GetWorkflowId(), after, size+1)
	if err != nil {
		return nil, err
	}
	shown, more := page(rows, size, small)
	resp := &carillonv1.ListWorkflowSharesResponse{}
	for i := range shown {
		resp.Shares = append(resp.Shares, shareOf(&shown[i]))
	}
	if more {
		resp.NextPageToken = sharesPage.token(shown[len(shown)-1].UserID)
	}
	return resp, nil
}

func shareOf(s *schedule.WorkflowShare) *carillonv1.WorkflowShare {
	out := &carillonv1.WorkflowShare{WorkflowId: s.WorkflowID, UserId: s.UserID, GivenBy: s.GivenBy, GivenAt: timestamp(s.GivenAt)}
	if s.UserID == schedule.AllOwners {
		out.UserId, out.AllOwners = "", true
	}
	return out
}
