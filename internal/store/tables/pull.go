package tables

import (
	"context"
	"fmt"
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

// Workers that fetch runs of queues.
const (
	sqlHeldRuns = `SELECT o.idempotency_key, o.queue_no, o.worker_slot, o.cancel_requested_at FROM open_runs o WHERE o.worker_id = $1 ORDER BY o.worker_slot`
	// sqlNoteWorker never moves a heartbeat back: a launcher may have stopped after it looked at its clock.
	sqlNoteWorker = `INSERT INTO queue_workers (queue_no, worker_id, slots, seen_at) VALUES ($1, $2, $3, $4)
ON CONFLICT (queue_no, worker_id) DO UPDATE SET slots = excluded.slots,
	seen_at = CASE WHEN excluded.seen_at > queue_workers.seen_at THEN excluded.seen_at ELSE queue_workers.seen_at END`
	// A worker that comes back is noted again.
	sqlForgetWorkers = `DELETE FROM queue_workers WHERE queue_no = $1 AND seen_at < $2`
	sqlLastFetch     = `SELECT max(w.seen_at) FROM queue_workers w WHERE w.queue_no = $1`
	sqlWorkerSeen    = `SELECT w.seen_at FROM queue_workers w WHERE w.queue_no = $1 AND w.worker_id = $2`
	sqlQueueWorkers  = `SELECT w.queue_no, w.worker_id, w.slots, w.seen_at FROM queue_workers w WHERE w.queue_no = $1 ORDER BY w.seen_at DESC, w.worker_id LIMIT $2`
	sqlRunsOfWorkers = `SELECT o.idempotency_key, o.worker_id FROM open_runs o WHERE o.queue_no = $1 AND o.queue_state >= 4 AND o.worker_id IS NOT NULL
ORDER BY o.worker_id, o.worker_slot LIMIT $2`
	// sqlHandOver writes an admitted run as one that a worker has: STARTED, and held by no launcher.
	sqlHandOver = `UPDATE open_runs SET status = 4, queue_state = 5, deliveries = $2, claimed_at = $3, launched_at = $4, timeout_at = $5, deadline_at = $6,
	due_at = $7, worker_id = $8, worker_slot = $9, holder = NULL, lease_until = NULL, send_after = NULL, error_code = NULL, error_message = NULL,
	first_sent_at = coalesce(first_sent_at, $10), updated_at = $10, admitted_as = $11
WHERE idempotency_key = $1 AND status = 3`
)

// listedWorkers bounds the workers and runs of a list.
const listedWorkers = 1000

// readFetch reads the runs of the worker that fetches, and notes its heartbeat unless the fetch is
// refused.
func readFetch(ctx context.Context, q Queries, f *ledger.QueueFacts, req *schedule.AdmitRequest) (err error) {
	var asked time.Time
	var held schedule.HeldRun
	err = q.Each(ctx, sqlHeldRuns, []any{&held.Key, &held.QueueNo, &held.Slot, &asked}, func(bad error) error {
		held.Cancel = !asked.IsZero()
		f.Held = append(f.Held, held)
		return bad
	}, req.Fetch.Worker)
	if err != nil {
		return fmt.Errorf("read the runs of the worker: %w", err)
	}
	if err := f.CheckFetch(req.Fetch); err != nil {
		return err
	}
	if _, err = q.Exec(ctx, sqlNoteWorker, req.QueueNo, req.Fetch.Worker, req.Fetch.Slots, req.Now); err == nil {
		_, err = q.Exec(ctx, sqlForgetWorkers, req.QueueNo, req.Now.Add(-schedule.WorkerKept))
	}
	if err != nil {
		return fmt.Errorf("note the worker: %w", err)
	}
	return nil
}

// HandOver writes admitted runs as those of the worker that has fetched them.
func HandOver(ctx context.Context, q Queries, out *ledger.Dispatched, now time.Time) error {
	for i := range out.Dispatches {
		d := &out.Dispatches[i]
		r := &d.Run
		n, err := q.Exec(ctx, sqlHandOver, r.Key, r.Deliveries, r.ClaimedAt, r.LaunchedAt, r.TimeoutAt, r.DeadlineAt, d.Due, r.Queue.Worker, r.Queue.WorkerSlot, now, r.Queue.AdmittedAs.Code())
		if err == nil && n != 1 {
			err = fmt.Errorf("%d rows", n)
		}
		if err != nil {
			return fmt.Errorf("hand run %s over to worker %s: %w", r.Key, schedule.Quote(r.Queue.Worker), err)
		}
	}
	return nil
}

// ReadSeen reads when the workers of runs have fetched last.
func ReadSeen(ctx context.Context, q Queries, runs []*schedule.Run) (map[schedule.WorkerRef]time.Time, error) {
	seen := make(map[schedule.WorkerRef]time.Time)
	for _, r := range runs {
		w := schedule.WorkerRef{QueueNo: r.Queue.No, ID: r.Queue.Worker}
		if _, known := seen[w]; known || w.ID == "" {
			continue
		}
		var at time.Time
		if _, err := one(ctx, q, []any{&at}, sqlWorkerSeen, w.QueueNo, w.ID); err != nil {
			return nil, fmt.Errorf("read the heartbeat of worker %s: %w", schedule.Quote(w.ID), err)
		}
		seen[w] = at
	}
	return seen, nil
}

// QueueWorkers are the workers that have fetched runs of a queue in the last day, the last one
// first, and the runs that they have.
func (t *Tables) QueueWorkers(ctx context.Context, queueNo int32) (workers []schedule.QueueWorker, runs map[string][]schedule.Key, err error) {
	if workers, err = readWorkers(ctx, t.read, queueNo); err != nil {
		return nil, nil, err
	}
	runs = make(map[string][]schedule.Key)
	var key schedule.Key
	var worker string
	err = t.read.Each(ctx, sqlRunsOfWorkers, []any{&key, &worker}, func(bad error) error {
		runs[worker] = append(runs[worker], key)
		return bad
	}, queueNo, listedWorkers)
	if err != nil {
		return nil, nil, fmt.Errorf("read the runs of the workers of queue %d: %w", queueNo, err)
	}
	return workers, runs, nil
}

func readWorkers(ctx context.Context, q Queries, queueNo int32) ([]schedule.QueueWorker, error) {
	workers, err := collect(ctx, q, func(w *schedule.QueueWorker) []any {
		return []any{&w.QueueNo, &w.ID, &w.Slots, &w.SeenAt}
	}, sqlQueueWorkers, queueNo, listedWorkers)
	if err != nil {
		return nil, fmt.Errorf("read the workers of queue %d: %w", queueNo, err)
	}
	return workers, nil
}
