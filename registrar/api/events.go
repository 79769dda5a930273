package api

import (
	"context"
	"fmt"
	"math"

	"google.golang.org/protobuf/proto"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/topic"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
	"github.com/carillon/carillon/registrar"
)

type eventServer struct {
	carillonv1.UnimplementedEventServiceServer
	events Events
}

func (s *eventServer) PublishEvents(ctx context.Context, req *carillonv1.PublishEventsRequest) (*carillonv1.PublishEventsResponse, error) {
	in, err := publishOf(req)
	if err != nil {
		return nil, err
	}
	events, done, err := s.events.Publish(ctx, in)
	if err != nil {
		return nil, err
	}
	resp := &carillonv1.PublishEventsResponse{}
	for i := range done {
		if done[i].Duplicate {
			resp.Duplicates++
		} else {
			resp.Accepted++
		}
		resp.Results = append(resp.Results, &carillonv1.PublishedEvent{
			Topic: events[i].Topic, EventId: events[i].EventID, Duplicate: done[i].Duplicate, Differs: done[i].Differs, Fanout: uint32(done[i].Fanout),
		})
	}
	return resp, nil
}

// publishOf is a request as the registrar takes it: its events, or the one that it is.
func publishOf(req *carillonv1.PublishEventsRequest) (in registrar.PublishInput, err error) {
	in = registrar.PublishInput{
		UserID: req.GetUserId(), Topic: req.GetTopic(), RequestID: req.GetRequestId(), Strict: req.GetStrict(), RequireSubscriber: req.GetRequireSubscriber(),
	}
	one := &carillonv1.NewEvent{
		EventId: req.GetEventId(), Source: req.GetSource(), Type: req.GetType(), Subject: req.GetSubject(), Time: req.GetTime(), Data: req.GetData(),
	}
	alone := proto.Size(one) > 0
	switch {
	case len(req.GetEvents()) == 0 && alone:
		in.Single = true
		in.Events = []topic.Event{newEventOf(one)}
		return in, nil
	case alone:
		return in, schedule.Invalid("events", len(req.GetEvents()), "are given with the fields of one event", "give either events, or event_id, source, type, subject, time and data")
	}
	for _, e := range req.GetEvents() {
		in.Events = append(in.Events, newEventOf(e))
	}
	return in, nil
}

func newEventOf(e *carillonv1.NewEvent) topic.Event {
	return topic.Event{
		Topic: e.GetTopic(), EventID: e.GetEventId(), Source: e.GetSource(), Type: e.GetType(), Subject: e.GetSubject(), Time: fromTimestamp(e.GetTime()),
		Data: e.GetData(),
	}
}

func (s *eventServer) GetEvent(ctx context.Context, req *carillonv1.GetEventRequest) (*carillonv1.GetEventResponse, error) {
	e, entries, err := s.events.GetEvent(ctx, req.GetUserId(), topic.ID{Topic: req.GetTopic(), Source: req.GetSource(), EventID: req.GetEventId()})
	if err != nil {
		return nil, err
	}
	resp := &carillonv1.GetEventResponse{Event: topicEventOf(e)}
	for i := range entries {
		resp.Inbox = append(resp.Inbox, entryOf(&entries[i]))
	}
	return resp, nil
}

func (s *eventServer) ListEvents(ctx context.Context, req *carillonv1.ListEventsRequest) (*carillonv1.ListEventsResponse, error) {
	before, err := topicPage.positive(req.GetPageToken(), math.MaxInt64)
	if err != nil {
		return nil, err
	}
	size := pageSize(req.GetPageSize())
	found, err := s.events.ListTopicEvents(ctx, topic.EventFilter{UserID: req.GetUserId(), Topic: req.GetTopic(), Before: before, Limit: size + 1})
	if err != nil {
		return nil, err
	}
	shown, more := page(found, size, func(e *topic.Event) int { return len(e.Data) + eventBytes })
	resp := &carillonv1.ListEventsResponse{}
	for i := range shown {
		resp.Events = append(resp.Events, topicEventOf(&shown[i]))
	}
	if more {
		resp.NextPageToken = topicPage.number(shown[len(shown)-1].Seq)
	}
	return resp, nil
}

// eventBytes is about what an event has besides its data.
const eventBytes = 400

func (s *eventServer) ListInbox(ctx context.Context, req *carillonv1.ListInboxRequest) (*carillonv1.ListInboxResponse, error) {
	f := topic.InboxFilter{ScheduleID: req.GetScheduleId()}
	f.State, _ = topic.StateOf(req.GetState())
	after, err := inboxPage.key(req.GetPageToken())
	if err == nil && after != "" {
		if _, bad := fmt.Sscanf(after, "%d.%d", &f.AfterSeq, &f.AfterRound); bad != nil || fmt.Sprintf("%d.%d", f.AfterSeq, f.AfterRound) != after {
			err = forged(req.GetPageToken())
		}
	}
	if err != nil {
		return nil, err
	}
	size := pageSize(req.GetPageSize())
	f.Limit = size + 1
	found, err := s.events.ListInbox(ctx, f)
	if err != nil {
		return nil, err
	}
	shown, more := page(found.Entries, size, small)
	resp := &carillonv1.ListInboxResponse{Counts: make(map[string]uint32, len(found.Counts))}
	for i := range shown {
		entry := entryOf(&shown[i].Entry)
		entry.Event = topicEventOf(&shown[i].Event)
		resp.Entries = append(resp.Entries, entry)
	}
	for state, n := range found.Counts {
		resp.Counts[state.String()] = uint32(n)
	}
	if more {
		last := &shown[len(shown)-1]
		resp.NextPageToken = inboxPage.token(fmt.Sprintf("%d.%d", last.Seq, last.Round))
	}
	return resp, nil
}

func topicEventOf(e *topic.Event) *carillonv1.Event {
	return &carillonv1.Event{
		Topic: e.Topic, EventId: e.EventID, Source: e.Source, Type: e.Type, Subject: e.Subject, Time: timestamp(e.Time), Data: e.Data,
		UserId: e.UserID, PublishedAt: timestamp(e.PublishedAt), PublishedBy: e.PublishedBy, Fanout: uint32(e.Fanout), Hops: uint32(e.Hops),
		CausedBy: keyText(e.CausedBy),
	}
}

func entryOf(e *topic.Entry) *carillonv1.InboxEntry {
	out := &carillonv1.InboxEntry{
		ScheduleId: e.ScheduleID, Round: uint32(e.Round), State: e.State.String(), Reason: string(e.Reason), Attempts: uint32(e.Attempts),
		CreatedAt: timestamp(e.CreatedAt), OfferedAt: timestamp(e.OfferedAt), EndedAt: timestamp(e.EndedAt),
	}
	if !e.Run.IsZero() {
		out.Run = e.Run.String()
	}
	return out
}

func consumeIn(c *carillonv1.Consume) schedule.Consume {
	return schedule.Consume{Topics: c.GetTopics(), MaxEvents: c.GetMaxEvents(), Filter: rawOf(c.GetFilter())}
}

// consumeOut is nil for a schedule that consumes nothing.
func consumeOut(c *schedule.Consume) *carillonv1.Consume {
	if !c.Any() {
		return nil
	}
	return &carillonv1.Consume{Topics: c.Topics, MaxEvents: c.MaxEvents, Filter: c.Filter}
}
