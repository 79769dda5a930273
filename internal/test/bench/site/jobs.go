package site

import (
	"context"
	"fmt"
	"sync"
	"time"

	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// asleep is a queue that is paused; blocked is a limit that is full for its key.
const (
	asleep     = "asleep"
	blocked    = "blocked"
	blockedKey = "blocked=x"
)

// Backlog has n jobs wait during the work: half of them in a queue that is paused, half in the
// queue of the work, behind a full limit.
func (s *Site) Backlog(ctx context.Context, n int) error {
	queues, limits := carillonv1.NewQueueServiceClient(s.conn), carillonv1.NewLimitServiceClient(s.conn)
	any, none := uint32(0), uint32(0)
	if _, err := queues.UpsertQueue(ctx, &carillonv1.UpsertQueueRequest{QueueId: asleep, UserId: s.owner(0), MaxWaiting: &any}); err != nil {
		return err
	}
	if _, err := queues.PauseQueue(ctx, &carillonv1.PauseQueueRequest{QueueId: asleep}); err != nil {
		return err
	}
	most := uint32(1)
	if _, err := limits.UpsertLimit(ctx, &carillonv1.UpsertLimitRequest{LimitId: blocked, UserId: s.owner(0), MaxInFlight: &most, Keyed: true}); err != nil {
		return err
	}
	if _, err := limits.SetLimitKey(ctx, &carillonv1.SetLimitKeyRequest{LimitId: blocked, Key: "x", MaxInFlight: &none}); err != nil {
		return err
	}
	for from := 0; from < n; from += 2 * enqueueBatch {
		for id, limit := range map[string][]string{asleep: nil, queue: {blockedKey}} {
			r := &carillonv1.EnqueueRunsRequest{QueueId: id}
			for range min((n-from+1)/2, enqueueBatch) {
				r.Runs = append(r.Runs, &carillonv1.NewQueuedRun{WorkflowId: workflow, Version: 1, Input: []byte(`{"job":0}`), Limits: limit})
			}
			if _, err := queues.EnqueueRuns(ctx, r); err != nil {
				return fmt.Errorf("enqueue the backlog: %w", err)
			}
		}
	}
	return nil
}

// Stream enqueues n jobs a second for some time, in requests every pace, and returns when the
// request of each job began, by its slot. Requests do not wait for one another. The jobs count in
// turn for the keys, in a fair queue; without keys for their owner.
func (s *Site) Stream(ctx context.Context, n int, long, pace time.Duration, keys ...string) (began map[uint64]time.Time, err error) {
	client := carillonv1.NewQueueServiceClient(s.conn)
	began = make(map[uint64]time.Time, int(long.Seconds()*float64(n)))
	var (
		mu     sync.Mutex
		failed error
		open   sync.WaitGroup
	)
	first, sent := time.Now(), 0
	for tick := time.Duration(0); tick < long; tick += pace {
		time.Sleep(time.Until(first.Add(tick)))
		due := int(float64(n) * (tick + pace).Seconds())
		r := &carillonv1.EnqueueRunsRequest{QueueId: queue}
		for ; sent < due; sent++ {
			job := &carillonv1.NewQueuedRun{WorkflowId: workflow, Version: 1, Input: fmt.Appendf(nil, `{"job":%d}`, sent)}
			if len(keys) > 0 {
				job.FairKey = keys[sent%len(keys)]
			}
			r.Runs = append(r.Runs, job)
		}
		if len(r.Runs) == 0 {
			continue
		}
		at := time.Now()
		open.Go(func() {
			entered, err := client.EnqueueRuns(ctx, r)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				failed = err
				return
			}
			for _, key := range entered.GetIdempotencyKeys() {
				slot, err := slotOfKey(key)
				if err != nil {
					failed = err
				}
				began[slot] = at
			}
		})
	}
	open.Wait()
	return began, failed
}
