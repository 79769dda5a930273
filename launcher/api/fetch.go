package api

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/carillon/carillon/internal/auth"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/launcher/dispatch"
	"github.com/carillon/carillon/launcher/wire"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// Puller gives workers runs of queues. It is implemented by *dispatch.Dispatcher.
type Puller interface {
	GetQueue(ctx context.Context, queueID string) (*schedule.Queue, error)
	Fetch(ctx context.Context, q *schedule.Queue, f schedule.Fetch, wait time.Duration) (dispatch.Given, error)
}

// subject names a caller; where authentication is off all have one name.
func subject(ctx context.Context) string { return cmp.Or(auth.FromContext(ctx).Subject, "anonymous") }

func (s *server) FetchRuns(ctx context.Context, req *carillonv1.FetchRunsRequest) (*carillonv1.FetchRunsResponse, error) {
	if s.o.Puller == nil {
		return nil, schedule.ErrUnsupported
	}
	queue, err := s.fetchableQueue(ctx, req.GetQueueId())
	if err != nil {
		return nil, err
	}
	fetch := schedule.Fetch{Worker: subject(ctx) + "/" + req.GetWorkerId(), Slots: 1}
	if req.Slots != nil {
		fetch.Slots = int32(req.GetSlots())
	}
	for _, text := range req.GetRunning() {
		key, err := schedule.ParseKey(text)
		if err != nil {
			return nil, schedule.Invalid("running", text, "is not the key of a run", "")
		}
		fetch.Running = append(fetch.Running, key)
	}
	given, err := s.o.Puller.Fetch(ctx, queue, fetch, time.Duration(req.GetWaitMs())*time.Millisecond)
	if err != nil {
		return nil, err
	}
	resp := &carillonv1.FetchRunsResponse{HeartbeatMs: uint32(queue.Heartbeat().Milliseconds())}
	for i := range given.Calls {
		resp.Runs = append(resp.Runs, wire.Run(&given.Calls[i], s.o.Environment))
	}
	for _, key := range given.Cancel {
		resp.Cancel = append(resp.Cancel, key.String())
	}
	return resp, nil
}

// fetchableQueue is a queue if the caller may fetch its runs: the answer has the inputs of all owners
// in it.
func (s *server) fetchableQueue(ctx context.Context, queueID string) (*schedule.Queue, error) {
	queue, err := s.o.Puller.GetQueue(ctx, queueID)
	if err != nil {
		return nil, err
	}
	caller := auth.FromContext(ctx)
	if caller.Owner != "" && (queue.Shared || !caller.Sees(queue.UserID)) {
		return nil, fmt.Errorf("queue %s: %w", schedule.Quote(queueID), schedule.ErrNotFound)
	}
	if name := subject(ctx); !queue.MayFetch(name) {
		return nil, schedule.Explain(schedule.ErrForbidden, "queue %s lists workers, and %s is not one of them", schedule.Quote(queueID), schedule.Quote(name))
	}
	return queue, nil
}
