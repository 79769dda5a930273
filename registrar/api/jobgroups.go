package api

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"math"

	"google.golang.org/protobuf/proto"

	"github.com/carillon/carillon/internal/rawjson"
	"github.com/carillon/carillon/internal/schedule"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
	"github.com/carillon/carillon/registrar"
)

type groupServer struct {
	carillonv1.UnimplementedGroupServiceServer
	groups Groups
	queues Queues
	actor  func(context.Context) string
}

func (s *groupServer) CreateGroup(ctx context.Context, req *carillonv1.CreateGroupRequest) (*carillonv1.CreateGroupResponse, error) {
	in := registrar.GroupInput{
		GroupID: req.GetGroupId(), QueueID: cmp.Or(req.GetQueueId(), schedule.DefaultQueueID), UserID: req.GetUserId(), Mode: schedule.GroupMode(req.GetMode()),
		OnFailure: schedule.GroupFailure(req.GetOnFailure()), Runs: queuedInputs(req.GetRuns()), Sealed: req.GetSealed(), Webhook: req.GetWebhook(), Actor: s.actor(ctx),
	}
	if run := req.GetOnComplete(); run != nil {
		complete := queuedInput(run, run.Priority, run.DelayMs, run.MaxAttempts, run.ExpiresMs)
		in.OnComplete = &complete
	}
	done, err := s.groups.CreateGroup(ctx, in)
	if err != nil {
		return nil, err
	}
	return &carillonv1.CreateGroupResponse{Group: groupOf(done.Group), IdempotencyKeys: keyTexts(done.Keys), Repeated: done.Repeated}, nil
}

func (s *groupServer) AddToGroup(ctx context.Context, req *carillonv1.AddToGroupRequest) (*carillonv1.AddToGroupResponse, error) {
	done, err := s.groups.AddToGroup(ctx, registrar.AddInput{GroupID: req.GetGroupId(), RequestID: req.GetRequestId(), Runs: queuedInputs(req.GetRuns()), Actor: s.actor(ctx)})
	if err != nil {
		return nil, err
	}
	return &carillonv1.AddToGroupResponse{Group: groupOf(done.Group), IdempotencyKeys: keyTexts(done.Keys), Repeated: done.Repeated}, nil
}

func (s *groupServer) SealGroup(ctx context.Context, req *carillonv1.SealGroupRequest) (*carillonv1.SealGroupResponse, error) {
	g, err := s.groups.SealGroup(ctx, req.GetGroupId())
	if err != nil {
		return nil, err
	}
	return &carillonv1.SealGroupResponse{Group: groupOf(g)}, nil
}

func (s *groupServer) GetGroup(ctx context.Context, req *carillonv1.GetGroupRequest) (*carillonv1.GetGroupResponse, error) {
	g, err := s.groups.GetGroup(ctx, req.GetGroupId())
	if err != nil {
		return nil, err
	}
	return &carillonv1.GetGroupResponse{Group: groupOf(g)}, nil
}

func (s *groupServer) ListGroups(ctx context.Context, req *carillonv1.ListGroupsRequest) (*carillonv1.ListGroupsResponse, error) {
	before, err := groupsPage.positive(req.GetPageToken(), math.MaxInt32)
	if err != nil {
		return nil, err
	}
	size := pageSize(req.GetPageSize())
	f := schedule.GroupFilter{UserID: req.GetUserId(), State: schedule.GroupState(req.GetState()), Before: int32(before), Limit: size + 1}
	if id := req.GetQueueId(); id != "" {
		q, err := s.queues.GetQueue(ctx, id)
		if err != nil {
			return nil, err
		}
		f.QueueNo = q.No
	}
	rows, err := s.groups.ListGroups(ctx, f)
	if err != nil {
		return nil, err
	}
	shown, more := page(rows, size, small)
	resp := &carillonv1.ListGroupsResponse{}
	for i := range shown {
		resp.Groups = append(resp.Groups, groupOf(&shown[i]))
	}
	if more {
		resp.NextPageToken = groupsPage.number(int64(shown[len(shown)-1].No))
	}
	return resp, nil
}

func (s *groupServer) CancelGroup(ctx context.Context, req *carillonv1.CancelGroupRequest) (*carillonv1.CancelGroupResponse, error) {
	g, err := s.groups.CancelGroup(ctx, req.GetGroupId())
	if err != nil {
		return nil, err
	}
	return &carillonv1.CancelGroupResponse{Group: groupOf(g)}, nil
}

func (s *groupServer) RetryGroup(ctx context.Context, req *carillonv1.RetryGroupRequest) (*carillonv1.RetryGroupResponse, error) {
	done, err := s.groups.RetryGroup(ctx, registrar.RetryGroupInput{GroupID: req.GetGroupId(), NewGroupID: req.GetNewGroupId(), Renew: req.GetRenew(), Actor: s.actor(ctx)})
	if err != nil {
		return nil, err
	}
	return &carillonv1.RetryGroupResponse{Group: groupOf(done.Group), IdempotencyKeys: keyTexts(done.Keys), Repeated: done.Repeated}, nil
}

func queuedInputs(runs []*carillonv1.NewQueuedRun) (in []registrar.QueuedInput) {
	for _, run := range runs {
		in = append(in, queuedInput(run, run.Priority, run.DelayMs, run.MaxAttempts, run.ExpiresMs))
	}
	return in
}

func keyTexts(keys []schedule.Key) []string {
	texts := make([]string, len(keys))
	for i, key := range keys {
		texts[i] = key.String()
	}
	return texts
}

func groupOf(g *schedule.JobGroup) *carillonv1.Group {
	out := &carillonv1.Group{
		GroupId: g.GroupID, QueueId: g.QueueID, UserId: g.UserID, Mode: string(g.Mode), OnFailure: string(g.OnFailure), State: string(g.State), Sealed: g.Sealed,
		Members: uint32(g.Members), Succeeded: uint32(g.Succeeded), Failed: uint32(g.Failed), Skipped: uint32(g.Skipped), Cancelled: uint32(g.Cancelled),
		CreatedAt: timestamp(g.CreatedAt), CancelRequestedAt: timestamp(g.CancelRequestedAt), EndedAt: timestamp(g.EndedAt), Webhook: g.Webhook, RetryOf: g.RetryOf,
		Stopped: g.StopFrom > 0, SealAt: timestamp(g.SealAt),
	}
	if g.OnComplete != nil {
		out.OnCompleteWorkflowId = g.OnComplete.WorkflowID
		if !g.EndedAt.IsZero() {
			out.OnCompleteKey = g.EndKey().String()
		}
	}
	return out
}

// GroupMessages returns a function for the groups of messages about their ends: each is GetGroup's
// answer of REST.
func GroupMessages(read func(context.Context, int32) (*schedule.JobGroup, error)) func(context.Context, int32) (json.RawMessage, error) {
	return func(ctx context.Context, no int32) (json.RawMessage, error) {
		g, err := read(ctx, no)
		if err != nil {
			return nil, err
		}
		raw, err := rawjson.Marshal(proto.Message(groupOf(g)))
		return bytes.TrimSpace(raw), err
	}
}
