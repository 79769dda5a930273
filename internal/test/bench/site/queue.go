package site

import (
	"context"
	"fmt"
	"time"

	"github.com/carillon/carillon/internal/test/bench/proc"
	"github.com/carillon/carillon/internal/test/bench/record"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// queue is the dispatch queue that jobs enter.
const queue = "jobs"

// enqueueBatch is how many jobs one call of EnqueueRuns takes.
const enqueueBatch = 1000

// Pause makes the queue, and pauses it.
func (s *Site) Pause(ctx context.Context, maxInFlight int) (err error) {
	if s.conn, err = s.connect(ctx); err != nil {
		return err
	}
	client, atOnce, any := carillonv1.NewQueueServiceClient(s.conn), uint32(maxInFlight), uint32(0)
	if _, err := client.UpsertQueue(ctx, &carillonv1.UpsertQueueRequest{
		QueueId: queue, UserId: s.owner(0), MaxInFlight: &atOnce, MaxWaiting: &any, History: &s.o.History,
	}); err != nil {
		return err
	}
	_, err = client.PauseQueue(ctx, &carillonv1.PauseQueueRequest{QueueId: queue})
	return err
}

// Enqueue puts n jobs into the queue, in batches, one after the other.
func (s *Site) Enqueue(ctx context.Context, n int) error {
	client := carillonv1.NewQueueServiceClient(s.conn)
	s.places = make(map[uint64]int, n)
	for from := 0; from < n; from += enqueueBatch {
		r := &carillonv1.EnqueueRunsRequest{QueueId: queue}
		for i := from; i < min(n, from+enqueueBatch); i++ {
			r.Runs = append(r.Runs, &carillonv1.NewQueuedRun{WorkflowId: workflow, Version: 1, Input: fmt.Appendf(nil, `{"job":%d}`, i)})
		}
		entered, err := client.EnqueueRuns(ctx, r)
		if err != nil {
			return fmt.Errorf("enqueue: %w", err)
		}
		for i, key := range entered.GetIdempotencyKeys() {
			slot, err := slotOfKey(key)
			if err != nil {
				return err
			}
			s.places[slot] = from + i
		}
	}
	return nil
}

// Resume lets the jobs of the queue run.
func (s *Site) Resume(ctx context.Context) error {
	_, err := carillonv1.NewQueueServiceClient(s.conn).ResumeQueue(ctx, &carillonv1.ResumeQueueRequest{QueueId: queue})
	return err
}

// Place of the job of a call in the order of entry.
func (s *Site) Place(c record.Call) int { return s.places[c.Slot] }

// Busy sets how long each call of the executor takes from now on.
func (s *Site) Busy(long time.Duration) error { return s.sink.Call("Part.Busy", long, &proc.None{}) }
