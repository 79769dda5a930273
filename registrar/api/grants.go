package api

import (
	"context"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
	"github.com/carillon/carillon/registrar"
)

type grantServer struct {
	carillonv1.UnimplementedGrantServiceServer
	grants Grants
	actor  func(context.Context) string
	now    func() time.Time
}

func (s *grantServer) CreateGrant(ctx context.Context, req *carillonv1.CreateGrantRequest) (*carillonv1.CreateGrantResponse, error) {
	g, err := s.grants.CreateGrant(ctx, registrar.GrantInput{
		GrantID: req.GetGrantId(), UserID: req.GetUserId(), BillingAccountID: req.GetBillingAccountId(), Scopes: req.GetScopes(),
		AllowAllWorkflows: req.GetAllowAllWorkflows(), ExpiresAt: fromTimestamp(req.GetExpiresAt()),
		RequestID: req.GetRequestId(), Actor: s.actor(ctx),
	})
	if err != nil {
		return nil, err
	}
	return &carillonv1.CreateGrantResponse{Grant: grantOf(g, s.now())}, nil
}

func (s *grantServer) GetGrant(ctx context.Context, req *carillonv1.GetGrantRequest) (*carillonv1.GetGrantResponse, error) {
	g, err := s.grants.GetGrant(ctx, schedule.GrantRef{UserID: req.GetUserId(), GrantID: req.GetGrantId()})
	if err != nil {
		return nil, err
	}
	return &carillonv1.GetGrantResponse{Grant: grantOf(g, s.now())}, nil
}

func (s *grantServer) ListGrants(ctx context.Context, req *carillonv1.ListGrantsRequest) (*carillonv1.ListGrantsResponse, error) {
	after, err := grantPlace(req.GetPageToken())
	if err != nil {
		return nil, err
	}
	size := pageSize(req.GetPageSize())
	rows, err := s.grants.ListGrants(ctx, schedule.GrantFilter{
		UserID: req.GetUserId(), BillingAccountID: req.GetBillingAccountId(), State: schedule.GrantState(req.GetState()),
		After: after, Limit: size + 1,
	})
	if err != nil {
		return nil, err
	}
	shown, more := page(rows, size, small)
	resp := &carillonv1.ListGrantsResponse{}
	for i := range shown {
		resp.Grants = append(resp.Grants, grantOf(&shown[i], s.now()))
	}
	if more {
		resp.NextPageToken = grantToken(shown[len(shown)-1].Ref())
	}
	return resp, nil
}

func (s *grantServer) RevokeGrant(ctx context.Context, req *carillonv1.RevokeGrantRequest) (*carillonv1.RevokeGrantResponse, error) {
	g, err := s.grants.RevokeGrant(ctx, registrar.RevokeInput{
		Grant: schedule.GrantRef{UserID: req.GetUserId(), GrantID: req.GetGrantId()}, Note: req.GetNote(), Actor: s.actor(ctx),
	})
	if err != nil {
		return nil, err
	}
	return &carillonv1.RevokeGrantResponse{Grant: grantOf(g, s.now())}, nil
}

func grantOf(g *schedule.Grant, now time.Time) *carillonv1.Grant {
	return &carillonv1.Grant{
		GrantId: g.GrantID, UserId: g.UserID, BillingAccountId: g.BillingAccountID, Scopes: g.Scopes,
		ExpiresAt: timestamp(g.ExpiresAt), RevokedAt: timestamp(g.RevokedAt), RevokedBy: g.RevokedBy, RevokeNote: g.RevokeNote,
		CreatedBy: g.CreatedBy, CreatedAt: timestamp(g.CreatedAt), State: string(g.State(now)),
	}
}
