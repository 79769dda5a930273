package api

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
	"github.com/carillon/carillon/registrar"
)

func (s *runServer) MoveRun(ctx context.Context, req *carillonv1.MoveRunRequest) (*carillonv1.MoveRunResponse, error) {
	if s.queues == nil {
		return nil, status.Error(codes.Unimplemented, "this server has no dispatch queues")
	}
	in := registrar.MoveInput{To: req.GetTo(), Position: req.GetPosition()}
	for _, text := range append([]string{req.GetIdempotencyKey()}, req.GetThen()...) {
		key, err := s.runs.RunKey(ctx, text)
		if err != nil {
			return nil, err
		}
		in.Keys = append(in.Keys, key)
	}
	if text := req.GetRelativeTo(); text != "" {
		var err error
		if in.Anchor, err = s.runs.RunKey(ctx, text); err != nil {
			return nil, err
		}
	}
	run, err := s.queues.MoveRuns(ctx, in)
	if err != nil {
		return nil, err
	}
	out := runOf(run)
	s.links.add(out)
	return &carillonv1.MoveRunResponse{Run: out}, setPosition(ctx, s.queues, run, out)
}
