package api

import (
	"context"
	"errors"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/carillon/carillon/internal/schedule"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// exportPage is how many runs an export holds in memory.
const exportPage = 500

// ExportRuns streams the ledger page by page without a transaction, so an export is not a snapshot
// of one instant.
func (s *runServer) ExportRuns(req *carillonv1.ExportRunsRequest, stream grpc.ServerStreamingServer[carillonv1.ExportRunsResponse]) error {
	ctx := stream.Context()
	f := filterOf(req)
	f.Ascending, f.Limit = true, exportPage
	if f.To.IsZero() {
		f.To = s.now() // or one that is slower than the ledger grows would never end
	}
	if err := s.exportFrom(ctx, &f, req.GetAfter()); err != nil {
		return err
	}
	for {
		rows, err := s.runs.ListRuns(ctx, f)
		if err != nil {
			return err
		}
		for i := range rows {
			if err := stream.Send(&carillonv1.ExportRunsResponse{Run: runOf(&rows[i])}); err != nil {
				return err
			}
		}
		if len(rows) < exportPage {
			return nil
		}
		last := &rows[len(rows)-1]
		f.AfterRunAt, f.AfterKey = last.RunAt, last.Key
		select {
		case <-s.ending:
			return status.Error(codes.Unavailable, "the server is shutting down; continue with after = the last idempotency_key received")
		default:
		}
	}
}

// exportFrom sets the position after a given run. run_at never changes, so the position is found
// by the run's key.
func (s *runServer) exportFrom(ctx context.Context, f *schedule.RunFilter, after string) error {
	if after == "" {
		return nil
	}
	key, err := schedule.ParseKey(after)
	if err != nil {
		return err
	}
	last, err := s.runs.GetRun(ctx, key)
	if errors.Is(err, schedule.ErrNotFound) {
		return schedule.Explain(schedule.ErrNotFound, "the run of after = %s; if retention deleted it, continue with from = its run_at", after)
	}
	if err != nil {
		return err
	}
	f.AfterRunAt, f.AfterKey = last.RunAt, last.Key
	return nil
}
