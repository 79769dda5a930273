package memory

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

// ChangeReservations changes the reservations of a queue as decide says, in one transaction, and
// grants what the queue has room for.
func (s *Store) ChangeReservations(ctx context.Context, req schedule.ReserveRequest, decide func(ledger.QueueFacts, *schedule.EnqueueRecord) (schedule.ReserveChange, error)) (after ledger.QueueFacts, out ledger.Reserved, err error) {
	err = s.write(ctx, func(t *tx) error {
		after, out = ledger.QueueFacts{}, ledger.Reserved{}
		q := t.queues[req.QueueID]
		var earlier *schedule.EnqueueRecord
		var id enqueueID
		if q != nil {
			copied := *q
			after, id = t.queueFacts(&copied), enqueueID{q.No, req.UserID, req.RequestID}
			if there, ok := t.enqueued[id]; ok && req.RequestID != "" {
				earlier = &there.EnqueueRecord
			}
		}
		change, err := decide(after, earlier)
		if err != nil || q == nil {
			return err
		}
		if change.Add != nil {
			added := *change.Add
			added.QueueNo, added.QueueID, added.Position = q.No, q.QueueID, t.lastPositions(1)[0]
			added.CreatedAt, added.EndsAt = at(added.CreatedAt), at(added.EndsAt)
			change.Add = &added
			if req.RequestID != "" {
				record := enqueueRecord{schedule.EnqueueRecord{BodyHash: change.BodyHash, Keys: []schedule.Key{added.ID}}, at(change.Now)}
				putUndone(t, t.enqueued, id, record, true)
			}
		}
		out = after.ChangeReservations(&change)
		if out.Added != nil {
			t.setReservation(out.Added)
		}
		t.endReservations(&out)
		t.limitsNow(&after, change.Now)
		after.GrantReservations(change.Now, &out)
		t.writeReservations(&out)
		t.queued = t.queued || len(out.Ended) > 0
		t.audit(change.Audit, s.Now())
		return nil
	})
	if err != nil {
		return ledger.QueueFacts{}, ledger.Reserved{}, fmt.Errorf("change the reservations of queue %s: %w", schedule.Quote(req.QueueID), err)
	}
	return after, out, nil
}

// reservationsOf are the reservations of a queue, in order of arrival.
func (s *Store) reservationsOf(queueNo int32) (found []schedule.Reservation) {
	for _, r := range s.reservations {
		if r.QueueNo == queueNo {
			found = append(found, r)
		}
	}
	slices.SortFunc(found, func(a, b schedule.Reservation) int { return cmp.Compare(a.Position, b.Position) })
	return found
}

func (t *tx) setReservation(r *schedule.Reservation) {
	t.tellReservation(r.ID, r)
	putUndone(t, t.reservations, r.ID, *r, true)
}

func (t *tx) endReservations(out *ledger.Reserved) {
	for i := range out.Ended {
		id := out.Ended[i].ID
		t.tellReservation(id, nil)
		putUndone(t, t.reservations, id, schedule.Reservation{}, false)
		putUndone(t, t.uses, id, nil, false)
	}
}

func (t *tx) tellReservation(id schedule.Key, after *schedule.Reservation) {
	if t.opts.Watch.Reservation == nil {
		return
	}
	var before *schedule.Reservation
	if r, there := t.reservations[id]; there {
		before = &r
	}
	if after != nil {
		copied := *after
		after = &copied
	}
	t.told = append(t.told, func() { t.opts.Watch.Reservation(before, after) })
}

// writeReservations writes grants, new ends and the log.
func (t *tx) writeReservations(out *ledger.Reserved) {
	for _, changed := range [][]schedule.Reservation{out.Moved, out.Granted} {
		for i := range changed {
			t.setReservation(&changed[i])
		}
	}
	t.takeUses(out.Uses)
	for _, e := range out.Events {
		t.noteQueue(e)
	}
}

// sweepReservations ends the reservations of all queues that are over.
func (t *tx) sweepReservations(req *schedule.QueueSweep, swept *ledger.SweptQueues) {
	all := slices.SortedFunc(maps.Values(t.reservations), func(a, b schedule.Reservation) int {
		return cmp.Or(a.EndsAt.Compare(b.EndsAt), slices.Compare(a.ID[:], b.ID[:]))
	})
	out := swept.SweptReservations(all[:min(len(all), req.Limit)], req.Now, req.Limit)
	t.endReservations(&out)
	t.queued = t.queued || len(out.Ended) > 0
	for _, e := range out.Events {
		t.noteQueue(e)
	}
}

// GetReservation returns a reservation, or schedule.ErrNotFound.
func (s *Store) GetReservation(ctx context.Context, id schedule.Key) (found *schedule.Reservation, err error) {
	err = s.read(ctx, func() error {
		r, there := s.reservations[id]
		if !there {
			return fmt.Errorf("reservation %s: %w", id, schedule.ErrNotFound)
		}
		found = &r
		return nil
	})
	return found, err
}

// ReadReservations returns the queue with its reservations and their limits, as an admission would
// find them.
func (s *Store) ReadReservations(ctx context.Context, queueNo int32, now time.Time) (f ledger.QueueFacts, err error) {
	err = s.read(ctx, func() error {
		q := s.queueOf(queueNo)
		if q == nil {
			return nil
		}
		copied := *q
		f = s.queueFacts(&copied)
		s.limitsNow(&f, now)
		return nil
	})
	return f, err
}
