package api

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/topic"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

func (s *eventServer) ListTopics(ctx context.Context, req *carillonv1.ListTopicsRequest) (*carillonv1.ListTopicsResponse, error) {
	after, err := topicPlace(req.GetPageToken())
	if err != nil {
		return nil, err
	}
	size := pageSize(req.GetPageSize())
	found, err := s.events.ListTopics(ctx, topic.NameFilter{UserID: req.GetUserId(), After: after, Limit: size + 1})
	if err != nil {
		return nil, err
	}
	shown, more := page(found, size, small)
	resp := &carillonv1.ListTopicsResponse{}
	for i := range shown {
		resp.Topics = append(resp.Topics, topicOf(&shown[i]))
	}
	if more {
		last := &shown[len(shown)-1]
		resp.NextPageToken = topicsPage.token(last.Topic + "/" + last.UserID)
	}
	return resp, nil
}

// topicPlace is a place in the list of topics, topic/user_id: a topic has no slash.
func topicPlace(token string) (topic.Name, error) {
	key, err := topicsPage.key(token)
	if err != nil || key == "" {
		return topic.Name{}, err
	}
	name, userID, _ := strings.Cut(key, "/")
	if !schedule.ValidID(name) || !schedule.ValidOwner(userID) {
		return topic.Name{}, forged(token)
	}
	return topic.Name{UserID: userID, Topic: name}, nil
}

func (s *eventServer) GetTopic(ctx context.Context, req *carillonv1.GetTopicRequest) (*carillonv1.GetTopicResponse, error) {
	found, err := s.events.GetTopic(ctx, topic.Name{UserID: req.GetUserId(), Topic: req.GetTopic()})
	if err != nil {
		return nil, err
	}
	return &carillonv1.GetTopicResponse{Topic: topicOf(&found)}, nil
}

func topicOf(s *topic.Stats) *carillonv1.Topic {
	pending, dead, oldest := s.Waiting()
	out := &carillonv1.Topic{
		Topic: s.Topic, UserId: s.UserID, PublishedLastHour: uint32(s.LastHour), PublishedLastDay: uint32(s.LastDay), LastPublishedAt: timestamp(s.LastAt),
		Pending: uint32(pending), OldestPendingAt: timestamp(oldest), Dead: uint32(dead), AtLeast: s.AtLeast,
	}
	for i := range s.Consumers {
		c := &s.Consumers[i]
		out.Handlers = append(out.Handlers, &carillonv1.TopicConsumer{
			ScheduleId: c.ScheduleID, By: c.By, Pending: uint32(c.Pending), OldestPendingAt: timestamp(c.OldestAt), Dead: uint32(c.Dead),
		})
	}
	return out
}

func (s *eventServer) AuditTopic(ctx context.Context, req *carillonv1.AuditTopicRequest) (*carillonv1.AuditTopicResponse, error) {
	a, of, cut, err := s.events.AuditTopic(ctx, topic.AuditFilter{
		UserID: req.GetUserId(), Topic: req.GetTopic(), From: fromTimestamp(req.GetFrom()), Until: fromTimestamp(req.GetUntil()),
	})
	if err != nil {
		return nil, err
	}
	resp := &carillonv1.AuditTopicResponse{
		From: timestamp(of.From), Until: timestamp(of.Until), Cut: cut, Events: uint32(a.Events), Fanout: uint32(a.Fanout), Pruned: uint32(a.Pruned), Broken: uint32(a.Broken),
	}
	for _, id := range slices.Sorted(maps.Keys(a.Entries)) {
		n := a.Entries[id]
		resp.Handlers = append(resp.Handlers, &carillonv1.AuditedConsumer{
			ScheduleId: id, Pending: uint32(n[topic.Pending]), Reserved: uint32(n[topic.Reserved]), Consumed: uint32(n[topic.Consumed]),
			Skipped: uint32(n[topic.Skipped]), Dead: uint32(n[topic.Dead]),
		})
	}
	for i := range a.Violations {
		v := &a.Violations[i]
		resp.Violations = append(resp.Violations, &carillonv1.AuditViolation{EventId: v.EventID, ScheduleId: v.ScheduleID, Run: keyText(v.Run), Problem: v.What})
	}
	return resp, nil
}
