package api

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// workersWithin is how long workers are listed after they were last seen: long enough to see which
// one has just died.
const workersWithin = time.Minute

type workerServer struct {
	carillonv1.UnimplementedWorkerServiceServer
	workers Workers
	now     func() time.Time
}

func (s *workerServer) ListWorkers(ctx context.Context, _ *carillonv1.ListWorkersRequest) (*carillonv1.ListWorkersResponse, error) {
	now := s.now()
	shards, err := s.workers.Shards(ctx)
	if err != nil {
		return nil, err
	}
	leaders, err := s.workers.Leaders(ctx, now)
	if err != nil {
		return nil, err
	}
	instances, err := s.workers.Instances(ctx, workersWithin)
	if err != nil {
		return nil, err
	}
	resp := &carillonv1.ListWorkersResponse{Shards: uint32(shards)}
	leads := make(map[string][]*carillonv1.Leadership)
	for i := range leaders {
		l := leadershipOf(&leaders[i])
		resp.Leaderships = append(resp.Leaderships, l)
		if !l.GetExpired() {
			leads[l.GetWorkerId()] = append(leads[l.GetWorkerId()], l)
		}
	}
	for _, w := range schedule.Workers(instances) {
		resp.Workers = append(resp.Workers, &carillonv1.Worker{
			WorkerId: w.ID, StartedAt: timestamp(w.StartedAt), SeenAt: timestamp(w.SeenAt), Leads: leads[w.ID],
			Host: w.Host, Unhealthy: w.Unhealthy, Version: w.Version, Roles: strings.Join(w.Roles, ","),
		})
	}
	return resp, nil
}

func (s *workerServer) ListProcesses(ctx context.Context, _ *carillonv1.ListProcessesRequest) (*carillonv1.ListProcessesResponse, error) {
	instances, err := s.workers.Instances(ctx, workersWithin)
	if err != nil {
		return nil, err
	}
	resp := &carillonv1.ListProcessesResponse{}
	for i := range instances {
		p := &instances[i]
		resp.Processes = append(resp.Processes, &carillonv1.Process{
			ProcessId: p.ID, Host: p.Host, Version: p.Version, Roles: strings.Join(p.Roles, ","), StartedAt: timestamp(p.StartedAt), SeenAt: timestamp(p.SeenAt),
			Unhealthy: p.Unhealthy,
		})
	}
	return resp, nil
}

// defaultTerms is the page size of ListLeaderTerms.
const defaultTerms = 50

func (s *workerServer) ListLeaderTerms(ctx context.Context, req *carillonv1.ListLeaderTermsRequest) (*carillonv1.ListLeaderTermsResponse, error) {
	f := schedule.TermFilter{Limit: cmp.Or(int(req.GetPageSize()), defaultTerms), Now: s.now()}
	if req.Shard != nil {
		shard := int(req.GetShard())
		f.Shard = &shard
	}
	terms, err := s.workers.ListTerms(ctx, f)
	if err != nil {
		return nil, err
	}
	resp := &carillonv1.ListLeaderTermsResponse{}
	for i := range terms {
		t := &terms[i]
		resp.Terms = append(resp.Terms, &carillonv1.LeaderTerm{
			Shard: uint32(t.Shard), Epoch: uint32(t.Epoch), WorkerId: t.WorkerID, Host: t.Host, StartedAt: timestamp(t.StartedAt),
			EndedAt: timestamp(t.EndedAt), RenewedAt: timestamp(t.RenewedAt), Expired: t.Expired,
			EndReason: string(t.End.Reason), EndDetail: t.End.Detail,
		})
	}
	return resp, nil
}

func (s *workerServer) Resign(ctx context.Context, req *carillonv1.ResignRequest) (*carillonv1.ResignResponse, error) {
	shards, err := s.workers.Shards(ctx)
	if err != nil {
		return nil, err
	}
	if shards > 0 && int(req.GetShard()) >= shards {
		return nil, schedule.Invalid("shard", req.GetShard(), fmt.Sprintf("is not one of the %d shards", shards),
			fmt.Sprintf("they are numbered from 0 to %d", shards-1))
	}
	asked, err := s.workers.AskToResign(ctx, int(req.GetShard()), s.now())
	if err != nil {
		return nil, fmt.Errorf("shard %d: %w", req.GetShard(), err)
	}
	return &carillonv1.ResignResponse{Leadership: leadershipOf(&asked)}, nil
}

func leadershipOf(l *schedule.Leadership) *carillonv1.Leadership {
	return &carillonv1.Leadership{
		Shard: uint32(l.Shard), WorkerId: l.Holder, Epoch: uint32(l.Epoch), ExpiresAt: timestamp(l.ExpiresAt),
		Expired: l.Expired, LockHeld: l.LockHeld, AskedToResign: l.AskedTo, LockKind: l.LockKind,
	}
}
