package api

import (
	"context"

	"github.com/carillon/carillon/internal/topic"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
	"github.com/carillon/carillon/registrar/explain"
)

func (s *eventServer) ExplainEvent(ctx context.Context, req *carillonv1.ExplainEventRequest) (*carillonv1.ExplainEventResponse, error) {
	id := topic.ID{Topic: req.GetTopic(), Source: req.GetSource(), EventID: req.GetEventId()}
	a, err := s.events.ExplainEvent(ctx, req.GetUserId(), id, req.GetHandler())
	if err != nil {
		return nil, err
	}
	resp := &carillonv1.ExplainEventResponse{Event: topicEventOf(a.Event), Now: timestamp(a.Now)}
	for i := range a.Consumers {
		resp.Handlers = append(resp.Handlers, explainedConsumer(&a.Consumers[i]))
	}
	return resp, nil
}

func explainedConsumer(c *explain.ConsumerAnswer) *carillonv1.ExplainedConsumer {
	return &carillonv1.ExplainedConsumer{
		ScheduleId: c.ScheduleID, Round: uint32(c.Round), Verdict: string(c.Verdict), Reason: c.Reason, Since: timestamp(c.Since), Until: timestamp(c.Until),
		Attempts: uint32(c.Attempts), WaitMs: *span32(c.Wait, true), PausedBy: c.Pause.By, PauseNote: c.Pause.Note, Sentences: c.Lines,
		Run: keyText(c.Run), BlockedBy: keyText(c.BlockedBy),
	}
}
