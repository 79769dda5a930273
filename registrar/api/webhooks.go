package api

import (
	"context"

	"github.com/carillon/carillon/internal/schedule"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
	"github.com/carillon/carillon/registrar"
)

// addWebhookStates sets the states of the messages about runs; out are the runs as they are shown.
func (s *runServer) addWebhookStates(ctx context.Context, runs []schedule.Run, out []*carillonv1.Run) error {
	messages, err := s.runs.WebhookMessages(ctx, runs)
	if err != nil {
		return err
	}
	for i := range runs {
		out[i].WebhookState = string(schedule.WebhookStateOf(messages[runs[i].Key].State))
	}
	return nil
}

func (s *runServer) RedeliverWebhooks(ctx context.Context, req *carillonv1.RedeliverWebhooksRequest) (*carillonv1.RedeliverWebhooksResponse, error) {
	in := registrar.RedeliverInput{Dead: req.GetDead(), Target: req.GetWebhook(), Limit: int(req.GetPageSize())}
	if named := req.GetIdempotencyKey(); named != "" {
		var err error
		if in.Key, err = s.runs.RunKey(ctx, named); err != nil {
			return nil, err
		}
	}
	done, err := s.runs.RedeliverWebhooks(ctx, in)
	if err != nil {
		return nil, err
	}
	return &carillonv1.RedeliverWebhooksResponse{Redelivered: uint32(done.Count), More: done.More}, nil
}
