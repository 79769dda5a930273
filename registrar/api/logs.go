package api

import (
	"context"
	"math"

	"github.com/carillon/carillon/internal/schedule"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// logPage is how many parts one answer holds. All parts of a run together have
// little more than schedule.MaxRunOutput bytes.
const logPage = 500

// GetRunLogs answers a page of a run's output.
func (s *runServer) GetRunLogs(ctx context.Context, req *carillonv1.GetRunLogsRequest) (*carillonv1.GetRunLogsResponse, error) {
	key, err := s.runs.RunKey(ctx, req.GetIdempotencyKey())
	if err != nil {
		return nil, err
	}
	run, parts, err := s.runs.RunLog(ctx, schedule.RunLogQuery{Key: key, Step: req.GetStep(), After: int64(req.GetAfter()), Limit: logPage})
	if err != nil {
		return nil, err
	}
	resp := &carillonv1.GetRunLogsResponse{
		NextAfter: req.GetAfter(), Status: string(run.Status), Complete: run.Status.Terminal() && len(parts) < logPage,
	}
	for i := range parts {
		p := &parts[i]
		resp.NextAfter = count32(p.Seq)
		resp.Parts = append(resp.Parts, &carillonv1.LogPart{
			Seq: count32(p.Seq), Step: p.Step, Time: timestamp(p.WrittenAt), Text: p.Text, SkippedBytes: uint32(min(p.Skipped, math.MaxUint32)),
		})
	}
	return resp, nil
}
