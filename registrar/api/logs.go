package api

import (
	"context"
	"math"

	"github.com/carillon/carillon/internal/schedule"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// logPage is the number of parts in one answer. All parts of a run together have little more than
// schedule.MaxRunOutput bytes.
const logPage = 500

// GetRunLogs answers a page of a run's output.
func (s *runServer) GetRunLogs(ctx context.Context, req *carillonv1.GetRunLogsRequest) (*carillonv1.GetRunLogsResponse, error) {
	key, err := s.runs.RunKey(ctx, req.GetIdempotencyKey())
	if err != nil {
		return nil, err
	}
	query := schedule.RunLogQuery{Key: key, Step: req.GetStep(), After: int64(req.GetAfter()), Limit: logPage}
	if req.TailLines != nil {
		return s.tailRunLogs(ctx, req, query)
	}
	run, parts, err := s.runs.RunLog(ctx, query)
	if err != nil {
		return nil, err
	}
	return logsOf(run, parts, req.GetAfter(), len(parts) < logPage), nil
}

// tailRunLogs answers the last lines of a run's output. A part has at least one
// line, so as many parts are enough.
func (s *runServer) tailRunLogs(ctx context.Context, req *carillonv1.GetRunLogsRequest, query schedule.RunLogQuery) (*carillonv1.GetRunLogsResponse, error) {
	if req.GetAfter() > 0 {
		return nil, schedule.Invalid("tail_lines", req.GetTailLines(), "cannot be combined with after", "leave out one of them")
	}
	query.Last, query.Limit = true, max(int(req.GetTailLines()), 1)
	run, parts, err := s.runs.RunLog(ctx, query)
	if err != nil {
		return nil, err
	}
	last := uint32(0)
	if len(parts) > 0 {
		last = count32(parts[len(parts)-1].Seq)
	}
	return logsOf(run, schedule.LastLines(parts, int(req.GetTailLines())), last, true), nil
}

// logsOf is the answer with parts; after is the position from which they were read; last: no
// stored part follows.
func logsOf(run *schedule.Run, parts []schedule.LogPart, after uint32, last bool) *carillonv1.GetRunLogsResponse {
	resp := &carillonv1.GetRunLogsResponse{NextAfter: after, Status: string(run.Status), Complete: run.Status.Terminal() && last}
	for i := range parts {
		p := &parts[i]
		resp.NextAfter = count32(p.Seq)
		resp.Parts = append(resp.Parts, &carillonv1.LogPart{
			Seq: count32(p.Seq), Step: p.Step, Time: timestamp(p.WrittenAt), Text: p.Text, SkippedBytes: uint32(min(p.Skipped, math.MaxUint32)),
		})
	}
	return resp
}
