package api

import (
	"context"

	"github.com/carillon/carillon/internal/schedule"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

func (s *queueServer) workersOf(ctx context.Context, q *schedule.Queue) (out []*carillonv1.QueueWorker, err error) {
	workers, runs, err := s.queues.QueueWorkers(ctx, q)
	for i := range workers {
		w := &workers[i]
		shown := &carillonv1.QueueWorker{WorkerId: w.ID, Slots: uint32(w.Slots), SeenAt: timestamp(w.SeenAt), Silent: w.Silent(&q.QueueDefinition, s.now())}
		for _, key := range runs[w.ID] {
			shown.Running = append(shown.Running, key.String())
		}
		out = append(out, shown)
	}
	return out, err
}
