package memory

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

// readFetch reads the runs of the worker that fetches, and notes its heartbeat unless the fetch is
// refused.
func (t *tx) readFetch(f *ledger.QueueFacts, req *schedule.AdmitRequest) error {
	for _, r := range t.live.queued.rows {
		if r.Queue.Worker == req.Fetch.Worker {
			f.Held = append(f.Held, schedule.HeldRun{Key: r.Key, QueueNo: r.Queue.No, Slot: r.Queue.WorkerSlot, Cancel: !r.CancelRequestedAt.IsZero()})
		}
	}
	slices.SortFunc(f.Held, func(a, b schedule.HeldRun) int { return cmp.Compare(a.Slot, b.Slot) })
	if err := f.CheckFetch(req.Fetch); err != nil {
		return err
	}
	w := schedule.QueueWorker{WorkerRef: schedule.WorkerRef{QueueNo: req.QueueNo, ID: req.Fetch.Worker}, Slots: req.Fetch.Slots, SeenAt: at(req.Now)}
	if known := t.workers[w.WorkerRef].SeenAt; known.After(w.SeenAt) {
		w.SeenAt = known // a launcher may have stopped after it looked at its clock
	}
	putUndone(t, t.workers, w.WorkerRef, w, true)
	for ref, known := range t.workers {
		if ref.QueueNo == req.QueueNo && known.SeenAt.Before(req.Now.Add(-schedule.WorkerKept)) {
			putUndone(t, t.workers, ref, known, false)
		}
	}
	return nil
}

// seen has when each worker has fetched last.
func (s *Store) seen() map[schedule.WorkerRef]time.Time {
	seen := make(map[schedule.WorkerRef]time.Time, len(s.workers))
	for ref, w := range s.workers {
		seen[ref] = w.SeenAt
	}
	return seen
}

func (s *Store) workersOf(queueNo int32) (workers []schedule.QueueWorker) {
	for ref, w := range s.workers {
		if ref.QueueNo == queueNo {
			workers = append(workers, w)
		}
	}
	slices.SortFunc(workers, func(a, b schedule.QueueWorker) int {
		return cmp.Or(b.SeenAt.Compare(a.SeenAt), cmp.Compare(a.ID, b.ID))
	})
	return workers
}

// QueueWorkers are the workers that have fetched runs of a queue in the last day, the last one
// first, and the runs that they have.
func (s *Store) QueueWorkers(ctx context.Context, queueNo int32) (workers []schedule.QueueWorker, runs map[string][]schedule.Key, err error) {
	err = s.read(ctx, func() error {
		workers, runs = s.workersOf(queueNo), make(map[string][]schedule.Key)
		held := slices.DeleteFunc(s.ofQueue(queueNo, schedule.QueueRunning), func(r *schedule.Run) bool { return r.Queue.Worker == "" })
		slices.SortFunc(held, func(a, b *schedule.Run) int {
			return cmp.Or(cmp.Compare(a.Queue.WorkerSlot, b.Queue.WorkerSlot), bytes.Compare(a.Key[:], b.Key[:]))
		})
		for _, r := range held {
			runs[r.Queue.Worker] = append(runs[r.Queue.Worker], r.Key)
		}
		return nil
	})
	return workers, runs, err
}
