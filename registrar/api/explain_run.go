package api

import (
	"context"

	"github.com/carillon/carillon/internal/ledger"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
	"github.com/carillon/carillon/registrar/explain"
)

func (s *runServer) ExplainRun(ctx context.Context, req *carillonv1.ExplainRunRequest) (*carillonv1.ExplainRunResponse, error) {
	key, err := s.runs.RunKey(ctx, req.GetIdempotencyKey())
	if err != nil {
		return nil, err
	}
	a, err := s.runs.ExplainRun(ctx, key)
	if err != nil {
		return nil, err
	}
	out := &carillonv1.ExplainRunResponse{Run: runOf(a.Run), Now: timestamp(a.Now), Sentences: a.Lines}
	out.Run.Position = uint32(a.Position)
	out.WouldStart = startOf(a.WouldStart)
	s.links.add(out.Run)
	for i := range a.BlockedBy {
		out.BlockedBy = append(out.BlockedBy, runBlockOf(&a.BlockedBy[i]))
	}
	return out, nil
}

func runBlockOf(b *explain.RunBlock) *carillonv1.RunBlock {
	out := &carillonv1.RunBlock{What: string(b.What), Used: uint32(b.Used), Max: uint32(b.Max), Until: timestamp(b.Until), Note: b.Note}
	if b.Limit.ID != "" {
		out.Limit = b.Limit.String()
	}
	for _, key := range b.UsedBy {
		out.UsedBy = append(out.UsedBy, key.String())
	}
	return out
}

// startOf is an estimate; nil: there is none.
func startOf(e *ledger.Estimate) *carillonv1.StartEstimate {
	if e == nil {
		return nil
	}
	return &carillonv1.StartEstimate{P50: timestamp(e.P50), P90: timestamp(e.P90), Assumes: e.Assumes}
}
