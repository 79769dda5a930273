package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/revision"
	"github.com/carillon/carillon/internal/store/tables"
)

// aloneInQueue begins a transaction that keeps other processes out of a queue: a stopped
// process loses the lock after two seconds.
var aloneInQueue = pgx.TxOptions{BeginQuery: genericPlans.BeginQuery + shortIdle}

const (
	// sqlTryQueue takes the queue and draws the number of the visit. NULL: another process
	// admits.
	sqlTryQueue = `SELECT CASE WHEN pg_try_advisory_xact_lock(1667330673, $1) THEN nextval('queue_positions') END`
	// sqlTrySweep keeps sweeps of queues apart. The class is that of queues; none has the
	// number 0.
	sqlTrySweep = `SELECT pg_try_advisory_xact_lock(1667330673, 0)`

	// sqlDispatch writes locked runs. It does not ask for queue_state: the planner would read
	// all waiting runs for each key.
	sqlDispatch = `
UPDATE open_runs o SET queue_state = 4, deliveries = u.deliveries, claimed_at = u.claimed_at, holder = u.holder, lease_until = u.lease_until,
	due_at = u.lease_until, timeout_at = u.timeout_at, send_after = NULL, first_sent_at = coalesce(o.first_sent_at, $1), updated_at = $1,
	admission = $9, admitted_as = u.admitted_as
FROM unnest($2::bytea[], $3::integer[], $4::timestamptz[], $5::integer[], $6::timestamptz[], $7::timestamptz[], $8::smallint[])
	AS u(key, deliveries, claimed_at, holder, lease_until, timeout_at, admitted_as)
WHERE o.idempotency_key = ANY(ARRAY[u.key]) AND o.status = 3`

	// sqlNumberAdmission numbers runs that a worker has fetched.
	sqlNumberAdmission = `UPDATE open_runs SET admission = $2 WHERE idempotency_key = ANY($1::bytea[]) AND status = 4`

	// sqlMoveQueued writes runs of queues that no call holds, as a rule has made them.
	sqlMoveQueued = `
UPDATE open_runs o SET queue_state = u.queue_state, fire_at = u.fire_at, due_at = u.due_at, timeout_at = u.timeout_at, send_after = u.send_after,
	updated_at = u.updated_at, fair_key = u.fair_key, fair_order = u.fair_order
FROM unnest($1::bytea[], $2::smallint[], $3::timestamptz[], $4::timestamptz[], $5::timestamptz[], $6::timestamptz[], $7::timestamptz[], $8::text[], $9::bigint[])
	AS u(key, queue_state, fire_at, due_at, timeout_at, send_after, updated_at, fair_key, fair_order)
WHERE o.idempotency_key = ANY(ARRAY[u.key]) AND o.status > 1`

	sqlNextQueuedDue = `
SELECT o.due_at FROM (
	(SELECT o.due_at FROM open_runs o WHERE o.state = 4 AND o.due_at >= $1 AND o.due_at < $2 ORDER BY o.due_at LIMIT 1)
	UNION ALL
	(SELECT o.due_at FROM open_runs o WHERE o.state = 5 AND o.due_at >= $1 AND o.due_at < $2 ORDER BY o.due_at LIMIT 1)) o
ORDER BY o.due_at LIMIT 1`
)

// sqlLockQueuedDue skips what others have locked: the next sweep looks again.
var sqlLockQueuedDue = lockOpenRuns + `o.state = $3 AND o.due_at >= $4 AND o.due_at <= $1 ORDER BY o.due_at LIMIT $2 FOR UPDATE OF o SKIP LOCKED`

// Admit admits runs of a queue; see dispatch.Store.
func (s *Store) Admit(ctx context.Context, req schedule.AdmitRequest) (out ledger.Dispatched, err error) {
	var plain []*openRow
	err = s.transactWith(ctx, aloneInQueue, func(tx pgx.Tx) error {
		out, plain = ledger.Dispatched{}, nil
		var visit pgtype.Int8
		if err := tx.QueryRow(ctx, sqlTryQueue, req.QueueNo).Scan(&visit); err != nil || !visit.Valid {
			return err
		}
		out.Alone = true
		facts, first, err := dialect.ReadAdmission(ctx, queries{tx}, &req, s.fronts.admission(req.QueueNo, visit.Int64))
		if err != nil || facts.Queue == nil {
			return err
		}
		if facts.InFlight == 0 {
			first = visit.Int64
		}
		s.fronts.admitting(req.QueueNo, first)
		rows, err := s.lockPlain(ctx, tx, &req, &facts)
		if err != nil {
			return err
		}
		choice := ledger.ChooseRuns(&req, &facts)
		if !facts.Plain {
			if rows, err = lockKeys(ctx, tx, choice.Keys()); err != nil {
				return err
			}
		}
		found, err := s.permits(ctx, tx, &req, rows)
		if err != nil {
			return err
		}
		out = ledger.AdmitRuns(&req, &facts, choice, found)
		out.Alone = true
		if facts.Plain {
			plain = rows
		}
		return writeDispatched(ctx, tx, &req, visit.Int64, rowsByKey(rows), &out)
	})
	if err != nil {
		return ledger.Dispatched{}, fmt.Errorf("admit runs of queue %d: %w", req.QueueNo, err)
	}
	s.fronts.admitted(req.QueueNo, plain, &out)
	return out, nil
}

// lockPlain locks the first runs of a plain queue, and adds them to the facts.
func (s *Store) lockPlain(ctx context.Context, tx pgx.Tx, req *schedule.AdmitRequest, f *ledger.QueueFacts) ([]*openRow, error) {
	room := f.Room(req)
	if !f.Plain || room == 0 {
		return nil, nil
	}
	rows, err := s.lockFirst(ctx, tx, req.QueueNo, room)
	if err != nil {
		return nil, err
	}
	runs := make([]*schedule.Run, len(rows))
	for i, r := range rows {
		runs[i] = &r.Run
	}
	f.AddPlain(runs, room)
	return rows, nil
}

// permits reads what permits locked runs.
func (s *Store) permits(ctx context.Context, tx pgx.Tx, req *schedule.AdmitRequest, rows []*openRow) ([]ledger.WaitingFacts, error) {
	if len(rows) == 0 {
		return nil, nil
	}
	if err := nameSchedules(ctx, tx, rows); err != nil {
		return nil, err
	}
	runs := make([]schedule.Run, 0, len(rows))
	for _, r := range rows {
		s.logUnreadable(ctx, r)
		runs = append(runs, r.Run)
	}
	definitions, err := s.definitionsOf(ctx, tx, revisionsOf(runs))
	if err != nil {
		return nil, err
	}
	for i := range runs {
		identify(&runs[i], definitions[revision.Of(&runs[i])])
	}
	return dialect.Permits(ctx, queries{tx}, req, runs, definitions)
}

func writeDispatched(ctx context.Context, tx pgx.Tx, req *schedule.AdmitRequest, visit int64, rows map[schedule.Key]*openRow, out *ledger.Dispatched) error {
	var over []*openRow
	for i := range out.Ended {
		r := rows[out.Ended[i].Key]
		if r.settle(&out.Ended[i], req.Now) {
			over = append(over, r)
		}
	}
	if err := endRuns(ctx, tx, over, req.Now); err != nil {
		return err
	}
	if err := dialect.WriteAdmission(ctx, queries{tx}, req.QueueNo, out); err != nil || len(out.Dispatches) == 0 {
		return err
	}
	if req.Fetch != nil {
		if err := tables.HandOver(ctx, queries{tx}, out, req.Now); err != nil {
			return err
		}
		keys := column(out.Dispatches, func(d *ledger.Dispatch) schedule.Key { return d.Run.Key })
		if _, err := tx.Exec(ctx, sqlNumberAdmission, keyBytes(keys), visit); err != nil {
			return fmt.Errorf("number an admission: %w", err)
		}
		return nil
	}
	type dispatch = ledger.Dispatch
	n, err := affect(ctx, tx, sqlDispatch, req.Now,
		column(out.Dispatches, func(d *dispatch) []byte { return d.Run.Key[:] }),
		column(out.Dispatches, func(d *dispatch) int32 { return d.Run.Deliveries }),
		column(out.Dispatches, func(d *dispatch) time.Time { return d.Run.ClaimedAt }),
		column(out.Dispatches, func(d *dispatch) pgtype.Int8 { return noneOrInt(int64(d.Begun.Request.Lease.Holder)) }),
		column(out.Dispatches, func(d *dispatch) time.Time { return d.Begun.Request.Lease.Until }),
		column(out.Dispatches, func(d *dispatch) time.Time { return d.Run.TimeoutAt }),
		column(out.Dispatches, func(d *dispatch) int16 { return d.Run.Queue.AdmittedAs.Code() }), visit)
	if err == nil && n != len(out.Dispatches) {
		err = fmt.Errorf("%d of %d locked runs were there", n, len(out.Dispatches))
	}
	if err != nil {
		return fmt.Errorf("write admitted runs: %w", err)
	}
	return nil
}

// PutBack lets admitted runs wait again that the executor certainly does not have, and writes
// stalls; see dispatch.Store.
func (s *Store) PutBack(ctx context.Context, backs []schedule.PutBack, stalls []schedule.StallChange, now time.Time) (put []bool, err error) {
	err = s.transact(ctx, func(tx pgx.Tx) error {
		put = make([]bool, len(backs))
		keys := make([]schedule.Key, len(backs))
		for i := range backs {
			keys[i] = backs[i].Key
		}
		rows, err := lockKeys(ctx, tx, keys)
		if err != nil {
			return err
		}
		byKey, moved := rowsByKey(rows), []movedQueued(nil)
		for i := range backs {
			r := byKey[backs[i].Key]
			if r == nil {
				continue
			}
			if r.Run, put[i] = ledger.PutBack(r.Run, r.Lease, &backs[i], now); put[i] {
				moved = append(moved, movedQueued{r.Run, ledger.DueAt(&r.Run)})
			}
		}
		if err := moveQueued(ctx, tx, moved); err != nil {
			return err
		}
		if err := dialect.FreeUses(ctx, queries{tx}, len(moved), func(i int) *schedule.Run { return &moved[i].Run }); err != nil {
			return err
		}
		return tables.WriteStalls(ctx, queries{tx}, stalls)
	})
	if err != nil {
		return nil, fmt.Errorf("let %d runs wait again: %w", len(backs), err)
	}
	return put, nil
}

// movedQueued is a run of a queue as a rule has made it, and when it is due next.
type movedQueued struct {
	schedule.Run
	due time.Time
}

func moveQueued(ctx context.Context, tx pgx.Tx, moved []movedQueued) error {
	if len(moved) == 0 {
		return nil
	}
	for i := range moved {
		asWaking(tx).placed(&moved[i].Run)
	}
	type m = movedQueued
	n, err := affect(ctx, tx, sqlMoveQueued,
		column(moved, func(m *m) []byte { return m.Key[:] }),
		column(moved, func(m *m) int16 { return m.Queue.State.Code() }),
		column(moved, func(m *m) time.Time { return m.FireAt }),
		column(moved, func(m *m) pgtype.Timestamptz { return timeOr(m.due, pgtype.Infinity) }),
		column(moved, func(m *m) pgtype.Timestamptz { return noneOrTime(m.TimeoutAt) }),
		column(moved, func(m *m) pgtype.Timestamptz { return noneOrTime(m.ClaimedUntil) }),
		column(moved, func(m *m) time.Time { return m.UpdatedAt }),
		column(moved, func(m *m) pgtype.Text { return noneOrText(m.Queue.FairKey) }),
		column(moved, func(m *m) int64 { return m.Queue.FairOrder }))
	if err == nil && n != len(moved) {
		err = fmt.Errorf("%d of %d locked runs were there", n, len(moved))
	}
	if err != nil {
		return fmt.Errorf("move runs of queues: %w", err)
	}
	return nil
}

// SweepQueues looks at the runs of queues that are due; see dispatch.Store.
func (s *Store) SweepQueues(ctx context.Context, req schedule.QueueSweep) (out ledger.SweptQueues, err error) {
	err = s.transactWith(ctx, aloneInQueue, func(tx pgx.Tx) error {
		out = ledger.SweptQueues{}
		var alone bool
		if err := tx.QueryRow(ctx, sqlTrySweep).Scan(&alone); err != nil || !alone {
			return err
		}
		if err := tables.DueInDeleted(ctx, queries{tx}, &req); err != nil {
			return err
		}
		if err := freeOfGone(ctx, tx, req.Now); err != nil {
			return err
		}
		var rows []*openRow
		from, until := s.fronts.dueBetween(req.Now)
		began := time.Now()
		for _, state := range []ledger.RowState{ledger.RowInQueue, ledger.RowJob} {
			due, err := lockOpen(ctx, tx, sqlLockQueuedDue, req.Now, req.Limit-len(rows), int16(state), from)
			if err != nil {
				return err
			}
			rows = append(rows, due...)
		}
		took := time.Since(began)
		if err := nameSchedules(ctx, tx, rows); err != nil {
			return err
		}
		if err := s.sweepQueued(ctx, tx, &req, rows, &out); err != nil {
			return err
		}
		var next pgtype.Timestamptz
		began = time.Now()
		if err := each(ctx, tx, []any{&next}, func() error { out.NextDue = next.Time.UTC(); return nil }, sqlNextQueuedDue, from, until); err != nil {
			return fmt.Errorf("look for the next run that is due: %w", err)
		}
		if len(rows) < req.Limit {
			s.fronts.sweptDue(req.Now, took+time.Since(began), len(rows))
		}
		if err := dialect.SweepReservations(ctx, queries{tx}, &req, &out); err != nil {
			return err
		}
		return tables.SweepOrphanUses(ctx, queries{tx}, &req, &out)
	})
	var more bool
	if err == nil {
		more, err = s.SweepJobGroups(ctx, req.Now)
	}
	if err != nil {
		return ledger.SweptQueues{}, fmt.Errorf("sweep queues: %w", err)
	}
	out.More = out.More || more
	return out, nil
}

func (s *Store) sweepQueued(ctx context.Context, tx pgx.Tx, req *schedule.QueueSweep, rows []*openRow, out *ledger.SweptQueues) error {
	runs := make([]schedule.Run, len(rows))
	for i, r := range rows {
		s.logUnreadable(ctx, r)
		runs[i] = r.Run
	}
	definitions, err := s.definitionsOf(ctx, tx, revisionsOf(runs))
	if err != nil {
		return err
	}
	var (
		moved    []movedQueued
		over     []*openRow
		pointers = make([]*schedule.Run, len(rows))
	)
	for i, r := range rows {
		pointers[i] = &r.Run
	}
	queues, err := tables.QueuesOf(ctx, queries{tx}, pointers)
	if err != nil {
		return err
	}
	if req.Seen, err = tables.ReadSeen(ctx, queries{tx}, pointers); err != nil {
		return err
	}
	for _, r := range rows {
		d := definitions[revision.Of(&r.Run)]
		identify(&r.Run, d)
		after, due, ends := out.Add(req, r.Run, r.Lease, d, queues[r.Queue.No])
		if r.Run = after; ends {
			over = append(over, r)
			continue
		}
		moved = append(moved, movedQueued{after, due})
	}
	ready := make([]*schedule.Run, len(moved))
	for i := range moved {
		ready[i] = &moved[i].Run
	}
	if err := dialect.DrawFair(ctx, queries{tx}, ready, queues, req.Now); err != nil {
		return err
	}
	out.More = len(rows) == req.Limit
	if err := moveQueued(ctx, tx, moved); err != nil {
		return err
	}
	if err := endRuns(ctx, tx, over, req.Now); err != nil {
		return err
	}
	var events []schedule.Event
	for i, r := range over {
		out.Ended[i].Run = r.Run
		if r.Status == schedule.StatusCancelled && out.Ended[i].Before.InFlight() {
			events = append(events, ledger.CancelTimedOut(&r.Run))
		}
	}
	return insertEvents(ctx, tx, events)
}
