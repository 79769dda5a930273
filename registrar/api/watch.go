package api

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/carillon/carillon/internal/schedule"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

const (
	// watchEvery is how often the feed is read.
	watchEvery = 250 * time.Millisecond
	// watchOverlap is read again each time: a transaction that stamped
	// updated_at earlier may commit after one that stamped it later.
	watchOverlap = 2 * time.Second
	// watchSpan is read again while no run matches. Without it a watch of a quiet
	// schedule would read all changes since the call, at each poll.
	watchSpan = 10 * time.Second
)

func (s *runServer) WatchRuns(req *carillonv1.WatchRunsRequest, stream grpc.ServerStreamingServer[carillonv1.WatchRunsResponse]) error {
	// At once, so that the client knows from when on it sees every change.
	if err := stream.SendHeader(metadata.MD{}); err != nil {
		return err
	}
	ctx := stream.Context()
	w := watch{runs: s.runs, filter: filterOf(req), since: s.now(), sent: make(map[schedule.Key]time.Time)}
	every := time.NewTicker(watchEvery)
	defer every.Stop()
	for {
		changed, err := w.changed(ctx, s.now())
		if err != nil {
			return err
		}
		for i := range changed {
			if err := stream.Send(&carillonv1.WatchRunsResponse{Run: runOf(&changed[i])}); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.ending:
			return status.Error(codes.Unavailable, "the server is shutting down; watch again")
		case <-every.C:
		}
	}
}

// watch remembers the runs that a stream has sent.
type watch struct {
	runs   Runs
	filter schedule.RunFilter
	since  time.Time                  // the call: earlier changes are not sent
	newest time.Time                  // the latest updated_at seen
	read   time.Time                  // the beginning of the last complete read
	sent   map[schedule.Key]time.Time // updated_at as it was sent, within the overlap
}

// from is the position of the next read. It depends on the last read and not on the
// present: a slow client may hold up the next one for long.
func (w *watch) from() time.Time {
	from := w.since
	for _, at := range []time.Time{w.newest.Add(-watchOverlap), w.read.Add(-watchSpan)} {
		if at.After(from) {
			from = at
		}
	}
	return from
}

// changed are the runs that changed since the last time, in the feed's order.
func (w *watch) changed(ctx context.Context, now time.Time) ([]schedule.Run, error) {
	f := w.filter
	f.Limit = schedule.MaxPageSize
	f.UpdatedAfter, f.UpdatedKey = w.from(), schedule.Key{}
	var out []schedule.Run
	for {
		rows, err := w.runs.ListRuns(ctx, f)
		if err != nil {
			return nil, err
		}
		for i := range rows {
			r := &rows[i]
			if r.UpdatedAt.After(w.newest) {
				w.newest = r.UpdatedAt
			}
			if !w.sent[r.Key].Equal(r.UpdatedAt) {
				w.sent[r.Key] = r.UpdatedAt
				out = append(out, *r)
			}
		}
		if len(rows) < f.Limit {
			break
		}
		last := &rows[len(rows)-1]
		f.UpdatedAfter, f.UpdatedKey = last.UpdatedAt, last.Key
	}
	for key, at := range w.sent {
		if at.Before(w.newest.Add(-watchOverlap)) {
			delete(w.sent, key)
		}
	}
	w.read = now
	return out, nil
}
