package sim

import (
	"context"
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

// QueuesWaiting and the methods below are the calls of a dispatcher.
func (s store) QueuesWaiting(ctx context.Context) (queues []schedule.QueueNow, err error) {
	err = s.tell(ctx, siteQueuesWaiting, 0, func() (err error) {
		queues, err = s.ledger.QueuesWaiting(context.WithoutCancel(ctx))
		return err
	})
	if err != nil {
		return nil, err
	}
	return queues, nil
}

func (s store) Admit(ctx context.Context, req schedule.AdmitRequest) (out ledger.Dispatched, err error) {
	err = s.tell(ctx, siteAdmit, uint64(req.QueueNo), func() (err error) {
		before, copied := s.played(&req)
		out, err = s.ledger.Admit(context.WithoutCancel(ctx), req)
		s.admitted(&req, &out)
		if err == nil && req.Fetch != nil && out.Alone {
			s.watch.fetchedBy(req.Fetch.Worker, req.Now)
		}
		if copied && err == nil && out.Alone {
			s.checkPlay(&req, &before, &out)
		}
		return err
	})
	if err != nil {
		return ledger.Dispatched{}, err
	}
	return out, nil
}

// admitted notes the calls that an admission has recorded, and who makes them.
func (s store) admitted(req *schedule.AdmitRequest, out *ledger.Dispatched) {
	for i := range out.Dispatches {
		d := &out.Dispatches[i]
		reqs, results := []schedule.BeginRequest{{Key: d.Run.Key, Holder: req.Holder}}, []schedule.BeginResult{d.Begun}
		s.executor.granted(reqs, results)
		s.beganBy(reqs, results)
		s.watch.admittedBy(d.Run.Key, s.name)
		s.watch.startsAt(d.Run.Key, d.StartAt, req.Now)
	}
}

func (s store) PutBack(ctx context.Context, backs []schedule.PutBack, stalls []schedule.StallChange, now time.Time) (put []bool, err error) {
	id := idOfAll(backs, func(b *schedule.PutBack) schedule.Key { return b.Key })
	for i := range stalls {
		id ^= uint64(stalls[i].QueueNo)
	}
	err = s.tell(ctx, sitePutBack, id, func() (err error) {
		put, err = s.ledger.PutBack(context.WithoutCancel(ctx), backs, stalls, now)
		return err
	})
	if err != nil {
		return nil, err
	}
	return put, nil
}

func (s store) SweepQueues(ctx context.Context, req schedule.QueueSweep) (out ledger.SweptQueues, err error) {
	err = s.tell(ctx, siteSweepQueues, 0, func() (err error) {
		out, err = s.ledger.SweepQueues(context.WithoutCancel(ctx), req)
		if out.Orphans > 0 { // the sweep must not hide that they were left
			s.violation("%s has found %d uses of limits without a run", s.name, out.Orphans)
		}
		return err
	})
	if err != nil {
		return ledger.SweptQueues{}, err
	}
	return out, nil
}

func (s store) SettleLaunched(ctx context.Context, now time.Time, settlements []schedule.Settlement) (moved []schedule.Moved, err error) {
	id := idOfAll(settlements, func(x *schedule.Settlement) schedule.Key { return x.Key })
	err = s.tell(ctx, siteSettleLaunched, id, func() (err error) {
		moved, err = s.ledger.SettleLaunched(context.WithoutCancel(ctx), now, settlements)
		return err
	})
	if err != nil {
		return nil, err
	}
	return moved, nil
}

func (s store) JobGroupID(ctx context.Context, groupNo int32) (string, error) {
	return s.ledger.JobGroupID(ctx, groupNo)
}

// MeasureQueues does not fail: nothing depends on it.
func (s store) MeasureQueues(context.Context, int, int, time.Time) ([]schedule.QueueMeasure, error) {
	return nil, nil
}

// ListenQueues does not fail: a call that is missing costs a second.
func (s store) ListenQueues(ctx context.Context, wake func()) error {
	return s.ledger.ListenQueues(ctx, wake)
}

// Enqueue and the methods below are calls of the registrar that can fail.
func (a apiStore) Enqueue(ctx context.Context, req schedule.EnqueueRequest, decide func(schedule.EnqueueFacts) (schedule.Enqueue, error)) error {
	return a.away.tell(ctx, siteEnqueue, 0, func() error {
		return a.Store.Enqueue(context.WithoutCancel(ctx), req, func(f schedule.EnqueueFacts) (schedule.Enqueue, error) {
			out, err := decide(f)
			a.away.watch.judged(&req, &f, &out, err)
			return out, err
		})
	})
}

// ChangeQueue see Enqueue.
func (a apiStore) ChangeQueue(ctx context.Context, queueID string, decide func(*schedule.Queue) (schedule.QueueChange, error)) (after *schedule.Queue, err error) {
	err = a.away.tell(ctx, siteChangeQueue, 0, func() (err error) {
		after, err = a.Store.ChangeQueue(context.WithoutCancel(ctx), queueID, decide)
		return err
	})
	if err != nil {
		return nil, err
	}
	return after, nil
}

// ChangeLimit see Enqueue.
func (a apiStore) ChangeLimit(ctx context.Context, limitID string, decide func(schedule.LimitFacts) (schedule.LimitChange, error)) (after *schedule.Limit, err error) {
	err = a.away.tell(ctx, siteChangeLimit, 0, func() (err error) {
		after, err = a.Store.ChangeLimit(context.WithoutCancel(ctx), limitID, decide)
		return err
	})
	if err != nil {
		return nil, err
	}
	return after, nil
}

// ChangeReservations see Enqueue.
func (a apiStore) ChangeReservations(ctx context.Context, req schedule.ReserveRequest, decide func(ledger.QueueFacts, *schedule.EnqueueRecord) (schedule.ReserveChange, error)) (after ledger.QueueFacts, out ledger.Reserved, err error) {
	err = a.away.tell(ctx, siteReserve, 0, func() (err error) {
		after, out, err = a.Store.ChangeReservations(context.WithoutCancel(ctx), req, decide)
		return err
	})
	if err != nil {
		return ledger.QueueFacts{}, ledger.Reserved{}, err
	}
	return after, out, nil
}

// ChangeQueued see Enqueue.
func (a apiStore) ChangeQueued(ctx context.Context, key schedule.Key, decide func(*schedule.Run) (schedule.QueuedChange, error)) (after *schedule.Run, err error) {
	err = a.away.tell(ctx, siteChangeQueued, idOf(key), func() (err error) {
		after, err = a.Store.ChangeQueued(context.WithoutCancel(ctx), key, decide)
		return err
	})
	if err != nil {
		return nil, err
	}
	return after, nil
}

func (s store) GetQueue(ctx context.Context, queueID string) (*schedule.Queue, error) {
	return s.ledger.GetQueue(ctx, queueID)
}
