package tables

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

// errReservationGone says that a sweep has ended a reservation meanwhile.
var errReservationGone = errors.New("the reservation has ended meanwhile")

func reservationFields(r *schedule.Reservation) []any {
	return []any{&r.ID, &r.QueueNo, &r.QueueID, &r.UserID, &r.RequestedBy, &r.Limits, &r.Position, &r.HoldMS, &r.GrantedAt, &r.EndsAt, &r.CreatedAt}
}

// ChangeReservations changes the reservations of a queue as decide says, in one transaction and
// under the lock of the queue, and grants what the queue has room for. decide may be called again.
// It returns the queue after the change.
func (t *Tables) ChangeReservations(ctx context.Context, req schedule.ReserveRequest, decide func(ledger.QueueFacts, *schedule.EnqueueRecord) (schedule.ReserveChange, error)) (after ledger.QueueFacts, out ledger.Reserved, err error) {
	for {
		err = t.write(ctx, func(ctx context.Context, q Queries) error {
			after, out, err = t.dialect.changeReservations(ctx, q, &req, decide)
			return err
		})
		if !errors.Is(err, errEnqueued) && !errors.Is(err, errReservationGone) {
			break
		}
	}
	if err != nil {
		return ledger.QueueFacts{}, ledger.Reserved{}, fmt.Errorf("change the reservations of queue %s: %w", schedule.Quote(req.QueueID), err)
	}
	return after, out, nil
}

func (d *Dialect) changeReservations(ctx context.Context, q Queries, req *schedule.ReserveRequest, decide func(ledger.QueueFacts, *schedule.EnqueueRecord) (schedule.ReserveChange, error)) (f ledger.QueueFacts, out ledger.Reserved, err error) {
	queue, err := d.lockQueue(ctx, q, req.QueueID)
	if err != nil {
		return f, out, err
	}
	var earlier *schedule.EnqueueRecord
	if queue != nil {
		if f, _, err = d.readQueueFacts(ctx, q, queue.No, 0); err != nil {
			return f, out, err
		}
		if req.RequestID != "" {
			if earlier, err = enqueuedBefore(ctx, q, queue.No, &schedule.EnqueueRequest{UserID: req.UserID, RequestID: req.RequestID}); err != nil {
				return f, out, fmt.Errorf("read an earlier request: %w", err)
			}
		}
	}
	change, err := decide(f, earlier)
	if err != nil || f.Queue == nil {
		return f, out, err
	}
	if change.Add != nil {
		if err := d.addReservation(ctx, q, req, queue.No, &change); err != nil {
			return f, out, err
		}
	}
	out = f.ChangeReservations(&change)
	if err := d.writeEndedReservations(ctx, q, &out); err != nil {
		return f, out, err
	}
	if err := d.readLimits(ctx, q, &f, nil, change.Now, true); err != nil {
		return f, out, err
	}
	f.GrantReservations(change.Now, &out)
	if err := d.WriteReservations(ctx, q, &out); err != nil {
		return f, out, err
	}
	if len(out.Ended) > 0 {
		d.WakeQueues(q) // a run may start now
	}
	if change.Audit == nil {
		return f, out, nil
	}
	return f, out, d.InsertAudit(ctx, q, []schedule.AuditEntry{*change.Audit})
}

// addReservation inserts the reservation of a request, behind all others.
func (d *Dialect) addReservation(ctx context.Context, q Queries, req *schedule.ReserveRequest, queueNo int32, c *schedule.ReserveChange) error {
	positions, err := d.lastPositions(ctx, q, 1)
	if err != nil {
		return err
	}
	added := *c.Add
	added.QueueNo, added.QueueID, added.Position = queueNo, req.QueueID, positions[0]
	c.Add = &added
	if req.RequestID != "" {
		n, err := q.Exec(ctx, sqlNoteEnqueued, queueNo, req.UserID, req.RequestID, schedule.Key(c.BodyHash), added.ID.String(), c.Now, nil)
		if err == nil && n == 0 {
			err = errEnqueued
		}
		if err != nil {
			return fmt.Errorf("note the request: %w", err)
		}
	}
	if _, err := q.Exec(ctx, sqlInsertReservation, added.ID, queueNo, added.UserID, orNull(added.RequestedBy), string(added.Limits), added.Position,
		added.HoldMS, added.GrantedAt, added.EndsAt, added.CreatedAt); err != nil {
		return fmt.Errorf("insert a reservation: %w", err)
	}
	return nil
}

// writeEndedReservations deletes reservations that are over, and what they use.
func (d *Dialect) writeEndedReservations(ctx context.Context, q Queries, out *ledger.Reserved) error {
	for i := range out.Ended {
		n, err := q.Exec(ctx, sqlDeleteReservation, out.Ended[i].ID)
		if err == nil && n == 0 {
			err = errReservationGone
		}
		if err != nil {
			return fmt.Errorf("delete reservation %s: %w", out.Ended[i].ID, err)
		}
	}
	return d.freeReserved(ctx, q, out)
}

// freeReserved deletes what ended reservations use.
func (d *Dialect) freeReserved(ctx context.Context, q Queries, out *ledger.Reserved) error {
	var users []schedule.Key
	for i := range out.Ended {
		if r := &out.Ended[i]; r.Granted() && r.Limits != "" {
			users = append(users, r.ID)
		}
	}
	if len(users) == 0 {
		return nil
	}
	if _, err := q.Exec(ctx, d.FreeLimitUses, users); err != nil {
		return fmt.Errorf("free limits: %w", err)
	}
	return nil
}

// WriteReservations writes grants, new ends and the log.
func (d *Dialect) WriteReservations(ctx context.Context, q Queries, out *ledger.Reserved) error {
	for _, changed := range [][]schedule.Reservation{out.Moved, out.Granted} {
		for i := range changed {
			r := &changed[i]
			n, err := q.Exec(ctx, sqlChangeReservation, r.ID, r.GrantedAt, r.EndsAt)
			if err == nil && n == 0 {
				err = errReservationGone
			}
			if err != nil {
				return fmt.Errorf("write reservation %s: %w", r.ID, err)
			}
		}
	}
	if err := d.takeUses(ctx, q, out.Uses); err != nil {
		return err
	}
	return insertQueueEvents(ctx, q, out.Events)
}

// SweepReservations ends the reservations of all queues that are over.
func (d *Dialect) SweepReservations(ctx context.Context, q Queries, req *schedule.QueueSweep, swept *ledger.SweptQueues) error {
	found, err := collect(ctx, q, reservationFields, sqlDueReservations, req.Limit)
	if err != nil {
		return fmt.Errorf("look for reservations that are over: %w", err)
	}
	var all []schedule.Reservation
	for i := range found {
		if r := &found[i]; r.Over(req.Now) {
			n, err := q.Exec(ctx, sqlEndReservation, r.ID, req.Now)
			if err != nil {
				return fmt.Errorf("delete reservation %s: %w", r.ID, err)
			}
			if n == 0 {
				continue // it was extended or released meanwhile
			}
		}
		all = append(all, found[i])
	}
	out := swept.SweptReservations(all, req.Now, req.Limit)
	if len(out.Ended) == 0 {
		return nil
	}
	if err := d.freeReserved(ctx, q, &out); err != nil {
		return err
	}
	d.WakeQueues(q)
	return insertQueueEvents(ctx, q, out.Events)
}

// GetReservation returns a reservation, or schedule.ErrNotFound.
func (t *Tables) GetReservation(ctx context.Context, id schedule.Key) (*schedule.Reservation, error) {
	found, err := collect(ctx, t.read, reservationFields, sqlGetReservation, id)
	if err == nil && len(found) == 0 {
		err = schedule.ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("reservation %s: %w", id, err)
	}
	return &found[0], nil
}

// ReadReservations returns the queue with its reservations and their limits, as an admission would
// find them. Nothing is locked.
func (t *Tables) ReadReservations(ctx context.Context, queueNo int32, now time.Time) (f ledger.QueueFacts, err error) {
	if f, _, err = t.dialect.readQueueFacts(ctx, t.read, queueNo, 0); err != nil || f.Queue == nil {
		return f, err
	}
	return f, t.dialect.readLimits(ctx, t.read, &f, nil, now, false)
}
