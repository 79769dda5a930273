package site

import (
	"context"
	"fmt"
	"time"

	"github.com/carillon/carillon/internal/test/bench/proc"
	"github.com/carillon/carillon/internal/test/bench/record"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// queue is the dispatch queue that jobs enter. shared is a limit of all jobs, customer one with keys.
const (
	queue    = "jobs"
	shared   = "shared"
	customer = "customer"
)

// enqueueBatch is how many jobs one call of EnqueueRuns takes.
const enqueueBatch = 1000

// Pause makes the queue, and pauses it.
func (s *Site) Pause(ctx context.Context, maxInFlight int) (err error) {
	if s.conn, err = s.connect(ctx); err != nil {
		return err
	}
	client, atOnce, any := carillonv1.NewQueueServiceClient(s.conn), uint32(maxInFlight), uint32(0)
	r := &carillonv1.UpsertQueueRequest{QueueId: queue, UserId: s.owner(0), MaxInFlight: &atOnce, MaxWaiting: &any, History: &s.o.History}
	if most := uint32(s.o.Limit); most > 0 {
		r.Limits = []string{shared}
		if err := s.limit(ctx, &carillonv1.UpsertLimitRequest{LimitId: shared, MaxInFlight: &most}); err != nil {
			return err
		}
	}
	if s.o.Fair {
		turns := "key"
		r.Fair = &turns
	}
	if _, err := client.UpsertQueue(ctx, r); err != nil {
		return err
	}
	return s.Hold(ctx)
}

// Hold pauses the queue.
func (s *Site) Hold(ctx context.Context) error {
	_, err := carillonv1.NewQueueServiceClient(s.conn).PauseQueue(ctx, &carillonv1.PauseQueueRequest{QueueId: queue})
	return err
}

func (s *Site) limit(ctx context.Context, r *carillonv1.UpsertLimitRequest) error {
	r.UserId = s.owner(0)
	_, err := carillonv1.NewLimitServiceClient(s.conn).UpsertLimit(ctx, r)
	return err
}

// Enqueue puts n jobs into the queue, in batches, one after the other.
func (s *Site) Enqueue(ctx context.Context, n int) error {
	return s.enqueue(ctx, n, func(int, *carillonv1.NewQueuedRun) {})
}

// EnqueueKeys puts n jobs into the queue that use a key of a limit of one each, in turn of so many keys.
func (s *Site) EnqueueKeys(ctx context.Context, n, keys int) error {
	one := uint32(1)
	if err := s.limit(ctx, &carillonv1.UpsertLimitRequest{LimitId: customer, MaxInFlight: &one, Keyed: true}); err != nil {
		return err
	}
	return s.enqueue(ctx, n, func(i int, r *carillonv1.NewQueuedRun) { r.Limits = []string{fmt.Sprintf("%s=k%d", customer, i%keys)} })
}

// EnqueueOnce puts n jobs into the queue that are not tried again.
func (s *Site) EnqueueOnce(ctx context.Context, n int) error {
	once := uint32(1)
	return s.enqueue(ctx, n, func(_ int, r *carillonv1.NewQueuedRun) { r.MaxAttempts = &once })
}

func (s *Site) enqueue(ctx context.Context, n int, as func(i int, r *carillonv1.NewQueuedRun)) error {
	client := carillonv1.NewQueueServiceClient(s.conn)
	s.places, s.keys = make(map[uint64]int, n), nil
	for from := 0; from < n; from += enqueueBatch {
		r := &carillonv1.EnqueueRunsRequest{QueueId: queue}
		for i := from; i < min(n, from+enqueueBatch); i++ {
			job := &carillonv1.NewQueuedRun{WorkflowId: workflow, Version: 1, Input: fmt.Appendf(nil, `{"job":%d}`, i)}
			as(i, job)
			r.Runs = append(r.Runs, job)
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
			s.keys = append(s.keys, key)
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

// Answer sets what the executor answers from now on: ENQUEUED, SUCCESS or FAILED.
func (s *Site) Answer(status string) error {
	return s.sink.Call("Part.Answer", status, &proc.None{})
}

// End reports that the job at a place has succeeded.
func (s *Site) End(ctx context.Context, place int) error {
	_, err := carillonv1.NewRunServiceClient(s.conn).ReportRun(ctx, &carillonv1.ReportRunRequest{IdempotencyKey: s.keys[place], Status: "SUCCESS"})
	return err
}

// Redrive redrives all dead runs of the queue, and says how many; dry: it counts them.
func (s *Site) Redrive(ctx context.Context, dry bool) (n int, err error) {
	id := queue
	r := &carillonv1.RedriveRunsRequest{Filter: &carillonv1.DeadRunFilter{QueueId: id}, DryRun: dry}
	for {
		page, err := carillonv1.NewRunServiceClient(s.conn).RedriveRuns(ctx, r)
		if err != nil {
			return n, fmt.Errorf("redrive: %w", err)
		}
		n += int(page.GetRedriven())
		if r.PageToken = page.GetNextPageToken(); r.PageToken == "" {
			return n, nil
		}
	}
}

// Waiting is how many jobs wait in the queue.
func (s *Site) Waiting(ctx context.Context) (int, error) {
	q, err := carillonv1.NewQueueServiceClient(s.conn).GetQueue(ctx, &carillonv1.GetQueueRequest{QueueId: queue})
	return int(q.GetQueue().GetWaiting()), err
}
