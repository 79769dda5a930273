package api

import (
	"context"

	"github.com/carillon/carillon/internal/schedule"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
	"github.com/carillon/carillon/registrar"
)

type limitServer struct {
	carillonv1.UnimplementedLimitServiceServer
	limits Limits
}

func (s *limitServer) UpsertLimit(ctx context.Context, req *carillonv1.UpsertLimitRequest) (*carillonv1.UpsertLimitResponse, error) {
	done, err := s.limits.UpsertLimit(ctx, registrar.LimitInput{
		LimitDefinition: schedule.LimitDefinition{
			LimitID: req.GetLimitId(), UserID: req.GetUserId(), Shared: req.GetShared(), Keyed: req.GetKeyed(), Ordered: req.GetOrdered(), Rate: rateFrom(req.GetRate()), Note: req.GetNote(),
		},
		MaxInFlight: req.MaxInFlight,
	})
	if err != nil {
		return nil, err
	}
	resp := &carillonv1.UpsertLimitResponse{Limit: limitOf(done.Limit)}
	if done.Warning != "" {
		resp.Warning = &done.Warning
	}
	return resp, nil
}

func (s *limitServer) GetLimit(ctx context.Context, req *carillonv1.GetLimitRequest) (*carillonv1.GetLimitResponse, error) {
	after, err := limitKeysPage.key(req.GetPageToken())
	if err == nil && after != "" && !schedule.ValidLimitKey(after) {
		err = forged(req.GetPageToken())
	}
	if err != nil {
		return nil, err
	}
	d, err := s.limits.GetLimit(ctx, req.GetLimitId(), after, pageSize(req.GetPageSize()))
	if err != nil {
		return nil, err
	}
	resp := &carillonv1.GetLimitResponse{Limit: limitOf(d.Limit), MoreUsers: uint32(max(0, d.Used-len(d.Users)))}
	for i := range d.Keys {
		resp.Keys = append(resp.Keys, limitKeyOf(&d.Keys[i], d.UsedOf[d.Keys[i].Key]))
	}
	for _, c := range d.Counts {
		resp.Uses = append(resp.Uses, &carillonv1.LimitUse{Key: c.Key, Used: uint32(c.Used)})
	}
	for i := range d.Users {
		u := &d.Users[i]
		resp.Users = append(resp.Users, &carillonv1.LimitUser{
			Key: u.Key, IdempotencyKey: u.Run.Key.String(), QueueId: u.Run.Queue.ID, WorkflowId: u.Run.WorkflowID, UserId: u.Run.UserID,
			Status: string(u.Run.Status), DispatchedAt: timestamp(u.Run.ClaimedAt), Kept: u.Kept,
		})
	}
	if d.After != "" {
		resp.NextPageToken = limitKeysPage.token(d.After)
	}
	return resp, nil
}

func (s *limitServer) ListLimits(ctx context.Context, req *carillonv1.ListLimitsRequest) (*carillonv1.ListLimitsResponse, error) {
	after, err := limitsPage.id(req.GetPageToken())
	if err != nil {
		return nil, err
	}
	size := pageSize(req.GetPageSize())
	rows, err := s.limits.ListLimits(ctx, schedule.LimitFilter{UserID: req.GetUserId(), After: after, Limit: size + 1})
	if err != nil {
		return nil, err
	}
	shown, more := page(rows, size, small)
	resp := &carillonv1.ListLimitsResponse{}
	for i := range shown {
		resp.Limits = append(resp.Limits, limitOf(&shown[i]))
	}
	if more {
		resp.NextPageToken = limitsPage.token(shown[len(shown)-1].LimitID)
	}
	return resp, nil
}

func (s *limitServer) DeleteLimit(ctx context.Context, req *carillonv1.DeleteLimitRequest) (*carillonv1.DeleteLimitResponse, error) {
	if err := s.limits.DeleteLimit(ctx, req.GetLimitId()); err != nil {
		return nil, err
	}
	return &carillonv1.DeleteLimitResponse{}, nil
}

func (s *limitServer) SetLimitKey(ctx context.Context, req *carillonv1.SetLimitKeyRequest) (*carillonv1.SetLimitKeyResponse, error) {
	done, err := s.limits.SetLimitKey(ctx, registrar.LimitKeyInput{
		LimitID: req.GetLimitId(),
		LimitKey: schedule.LimitKey{
			Key: req.GetKey(), MaxInFlight: req.MaxInFlight, Rate: rateFrom(req.GetRate()), Note: req.GetNote(), Until: fromTimestamp(req.GetUntil()),
		},
	})
	if err != nil {
		return nil, err
	}
	resp := &carillonv1.SetLimitKeyResponse{Key: limitKeyOf(&done.LimitKey, done.Used)}
	if done.Warning != "" {
		resp.Warning = &done.Warning
	}
	return resp, nil
}

func limitOf(l *schedule.Limit) *carillonv1.Limit {
	out := &carillonv1.Limit{
		LimitId: l.LimitID, UserId: l.UserID, Shared: l.Shared, Keyed: l.Keyed, Ordered: l.Ordered, Rate: rateOf(l.Rate), Note: l.Note,
		Revision: count32(l.Revision), CreatedAt: timestamp(l.CreatedAt), UpdatedAt: timestamp(l.UpdatedAt), Used: uint32(l.Used),
	}
	if n := l.MaxInFlight; n > 0 {
		out.MaxInFlight = &n
	}
	return out
}

func limitKeyOf(k *schedule.LimitKey, used int) *carillonv1.LimitKey {
	return &carillonv1.LimitKey{Key: k.Key, MaxInFlight: k.MaxInFlight, Rate: rateOf(k.Rate), Note: k.Note, Until: timestamp(k.Until), Used: uint32(used)}
}
