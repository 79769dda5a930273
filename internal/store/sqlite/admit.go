package sqlite

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/revision"
	"github.com/carillon/carillon/internal/store/tables"
)

// errNotWaiting: a transaction has read the row as one of its queue.
var errNotWaiting = errors.New("the run is not as it was read")

// Admit admits runs of a queue; see dispatch.Store. The write lock keeps others out.
func (s *Store) Admit(ctx context.Context, req schedule.AdmitRequest) (out ledger.Dispatched, err error) {
	err = s.write(ctx, func(ctx context.Context, t tx) error {
		out = ledger.Dispatched{Alone: true}
		facts, _, err := dialect.ReadAdmission(ctx, queries{t}, &req, 0)
		if err != nil || facts.Queue == nil {
			return err
		}
		rows, err := readPlain(ctx, t, &req, &facts)
		if err != nil {
			return err
		}
		choice := ledger.ChooseRuns(&req, &facts)
		if !facts.Plain && len(choice.Runs) > 0 {
			if rows, err = openRowsOf(ctx, t, choice.Keys()); err != nil {
				return err
			}
		}
		found, err := s.permits(ctx, t, &req, rows)
		if err != nil {
			return err
		}
		out = ledger.AdmitRuns(&req, &facts, choice, found)
		out.Alone = true
		return writeDispatched(ctx, t, &req, rows, &out)
	})
	if err != nil {
		return ledger.Dispatched{}, fmt.Errorf("admit runs of queue %d: %w", req.QueueNo, err)
	}
	return out, nil
}

// readPlain reads the first runs of a plain queue, and adds them to the facts.
func readPlain(ctx context.Context, t tx, req *schedule.AdmitRequest, f *ledger.QueueFacts) (map[schedule.Key]*openRow, error) {
	room := f.Room(req)
	if !f.Plain || room == 0 {
		return nil, nil
	}
	rows, err := readOpenRows(ctx, t, sqlWaiting, int64(req.QueueNo), room)
	if err != nil {
		return nil, err
	}
	byKey := make(map[schedule.Key]*openRow, len(rows))
	runs := make([]*schedule.Run, len(rows))
	for i, r := range rows {
		byKey[r.Key], runs[i] = r, &r.Run
	}
	f.AddPlain(runs, room)
	return byKey, nil
}

// permits reads what permits runs.
func (s *Store) permits(ctx context.Context, t tx, req *schedule.AdmitRequest, rows map[schedule.Key]*openRow) ([]ledger.WaitingFacts, error) {
	if len(rows) == 0 {
		return nil, nil
	}
	definitions, err := s.definitionsOf(ctx, t, revisionsOf(slices.Collect(maps.Values(rows))))
	if err != nil {
		return nil, err
	}
	runs := make([]schedule.Run, 0, len(rows))
	for _, r := range rows {
		runs = append(runs, r.Run)
	}
	return dialect.Permits(ctx, queries{t}, req, runs, definitions)
}

func revisionsOf(rows []*openRow) []revision.ID {
	ids := make([]revision.ID, len(rows))
	for i, r := range rows {
		ids[i] = revision.Of(&r.Run)
	}
	return ids
}

func writeDispatched(ctx context.Context, t tx, req *schedule.AdmitRequest, rows map[schedule.Key]*openRow, out *ledger.Dispatched) error {
	var over []*openRow
	for i := range out.Ended {
		if r := rows[out.Ended[i].Key]; r.settle(&out.Ended[i], req.Now) {
			over = append(over, r)
		}
	}
	if err := endRuns(ctx, t, over, req.Now); err != nil {
		return err
	}
	if err := dialect.WriteAdmission(ctx, queries{t}, req.QueueNo, out); err != nil {
		return err
	}
	if req.Fetch != nil {
		return tables.HandOver(ctx, queries{t}, out, req.Now)
	}
	for i := range out.Dispatches {
		d := &out.Dispatches[i]
		lease := d.Begun.Request.Lease
		n, err := t.exec(ctx, sqlDispatch, keyArg(d.Run.Key), int64(d.Run.Deliveries), micros(d.Run.ClaimedAt), int64(lease.Holder), micros(lease.Until),
			micros(d.Run.TimeoutAt), micros(req.Now), int64(d.Run.Queue.AdmittedAs.Code()))
		if err == nil && n != 1 {
			err = errNotWaiting
		}
		if err != nil {
			return fmt.Errorf("write admitted run %s: %w", d.Run.Key, err)
		}
	}
	return nil
}

// PutBack lets admitted runs wait again that the executor certainly does not have, and writes
// stalls; see dispatch.Store.
func (s *Store) PutBack(ctx context.Context, backs []schedule.PutBack, stalls []schedule.StallChange, now time.Time) (put []bool, err error) {
	err = s.write(ctx, func(ctx context.Context, t tx) error {
		put = make([]bool, len(backs))
		keys := make([]schedule.Key, len(backs))
		for i := range backs {
			keys[i] = backs[i].Key
		}
		rows, err := openRowsOf(ctx, t, keys)
		if err != nil {
			return err
		}
		var freed []*schedule.Run
		for i := range backs {
			r := rows[backs[i].Key]
			if r == nil {
				continue
			}
			if r.Run, put[i] = ledger.PutBack(r.Run, r.Lease, &backs[i], now); !put[i] {
				continue
			}
			if err := moveQueued(ctx, t, &r.Run, ledger.DueAt(&r.Run)); err != nil {
				return err
			}
			freed = append(freed, &r.Run)
		}
		if err := dialect.FreeUses(ctx, queries{t}, len(freed), func(i int) *schedule.Run { return freed[i] }); err != nil {
			return err
		}
		return tables.WriteStalls(ctx, queries{t}, stalls)
	})
	if err != nil {
		return nil, fmt.Errorf("let %d runs wait again: %w", len(backs), err)
	}
	return put, nil
}

// moveQueued writes a run of a queue as a rule has made it; due is when it is due next.
func moveQueued(ctx context.Context, t tx, r *schedule.Run, due time.Time) error {
	n, err := t.exec(ctx, sqlMoveQueued, keyArg(r.Key), int64(r.Queue.State.Code()), micros(r.FireAt), microsOrNever(due), micros(r.TimeoutAt),
		micros(r.ClaimedUntil), micros(r.UpdatedAt), word(r.Queue.FairKey), r.Queue.FairOrder)
	if err == nil && n != 1 {
		err = errNotWaiting
	}
	if err != nil {
		return fmt.Errorf("move run %s of a queue: %w", r.Key, err)
	}
	return nil
}

// SweepQueues looks at the runs of queues that are due; see dispatch.Store.
func (s *Store) SweepQueues(ctx context.Context, req schedule.QueueSweep) (out ledger.SweptQueues, err error) {
	err = s.write(ctx, func(ctx context.Context, t tx) error {
		out = ledger.SweptQueues{}
		if err := s.sweepQueued(ctx, t, &req, &out); err != nil {
			return err
		}
		var next instant
		if err := t.query(ctx, sqlNextQueuedDue, func(scan scan) error { return scan(&next) }); err != nil {
			return fmt.Errorf("look for the next run that is due: %w", err)
		}
		out.NextDue = next.Time
		if err := dialect.SweepReservations(ctx, queries{t}, &req, &out); err != nil {
			return err
		}
		return tables.SweepOrphanUses(ctx, queries{t}, &req, &out)
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

func (s *Store) sweepQueued(ctx context.Context, t tx, req *schedule.QueueSweep, out *ledger.SweptQueues) error {
	if err := tables.DueInDeleted(ctx, queries{t}, req); err != nil {
		return err
	}
	if err := s.freeOfGone(ctx, t, req.Now); err != nil {
		return err
	}
	var rows []*openRow
	for _, state := range []ledger.RowState{ledger.RowInQueue, ledger.RowJob} {
		due, err := readOpenRows(ctx, t, sqlQueuedDue, micros(req.Now), req.Limit-len(rows), int64(state))
		if err != nil {
			return err
		}
		rows = append(rows, due...)
	}
	definitions, err := s.definitionsOf(ctx, t, revisionsOf(rows))
	if err != nil {
		return err
	}
	runs := make([]*schedule.Run, len(rows))
	for i, r := range rows {
		runs[i] = &r.Run
	}
	queues, err := tables.QueuesOf(ctx, queries{t}, runs)
	if err != nil {
		return err
	}
	if req.Seen, err = tables.ReadSeen(ctx, queries{t}, runs); err != nil {
		return err
	}
	var over []*openRow
	for _, r := range rows {
		after, due, ends := out.Add(req, r.Run, r.Lease, definitions[revision.Of(&r.Run)], queues[r.Queue.No])
		if r.Run = after; ends {
			over = append(over, r)
			continue
		}
		if err := dialect.DrawFair(ctx, queries{t}, []*schedule.Run{&after}, queues, req.Now); err != nil {
			return err
		}
		if err := moveQueued(ctx, t, &after, due); err != nil {
			return err
		}
	}
	out.More = len(rows) == req.Limit
	if err := endSwept(ctx, t, over); err != nil {
		return err
	}
	for i, r := range over {
		out.Ended[i].Run = r.Run
	}
	return nil
}

// OpenAmong are those of the runs that are not over.
func (s *Store) OpenAmong(ctx context.Context, keys []schedule.Key) (map[schedule.Key]bool, error) {
	open := make(map[schedule.Key]bool)
	var found schedule.Key
	err := s.readers.query(ctx, sqlOpenAmong, func(scan scan) error {
		err := scan((*key)(&found))
		open[found] = true
		return err
	}, keyList(keys))
	if err != nil {
		return nil, fmt.Errorf("look for %d open runs: %w", len(keys), err)
	}
	return open, nil
}

// ListWaiting lists the runs of a queue that are not admitted, in its order.
func (s *Store) ListWaiting(ctx context.Context, f schedule.WaitingFilter) ([]schedule.Run, error) {
	list := func(statement string) func(limit, offset int) ([]schedule.Run, error) {
		return func(limit, offset int) ([]schedule.Run, error) {
			return readRuns(ctx, s.readers, statement, int64(f.QueueNo), limit, offset)
		}
	}
	count := func(state schedule.QueueState) (n int, err error) {
		statement := sqlCountQueued
		if state == schedule.QueueDelayed {
			statement = sqlCountDelayed
		}
		err = s.readers.query(ctx, statement, func(scan scan) error { return scan(&n) }, int64(f.QueueNo))
		return n, err
	}
	return tables.ListWaiting(f, count, tables.WaitingKind{State: schedule.QueueWaiting, List: list(sqlListWaiting)},
		tables.WaitingKind{State: schedule.QueueDelayed, List: list(sqlListDelayed)}, tables.WaitingKind{State: schedule.QueueChained, List: list(sqlListChained)})
}

// writeQueued writes what may change of a run that waits, unless it was admitted meanwhile.
func writeQueued(ctx context.Context, t tx, r *schedule.Run) (int, error) {
	n, err := t.exec(ctx, sqlChangeQueued, keyArg(r.Key), rawArg(r.Input), int64(r.Priority), int64(r.Queue.Priority), micros(r.RunAt),
		micros(r.FireAt), int64(r.Queue.State.Code()), dueAt(r), micros(r.UpdatedAt), string(r.Queue.Limits), micros(r.StartBy), r.Queue.FairOrder, word(r.Queue.FairKey))
	return int(n), err
}

// ChangeQueued changes a run that waits in a queue, as decide says, in one transaction, and
// returns the run after it. The input of one that was admitted before stays.
func (s *Store) ChangeQueued(ctx context.Context, key schedule.Key, decide func(*schedule.Run) (schedule.QueuedChange, error)) (after *schedule.Run, err error) {
	err = s.write(ctx, func(ctx context.Context, t tx) error {
		runs, err := readRuns(ctx, t, sqlGetOpenRun, keyArg(key))
		if err == nil && len(runs) == 0 {
			err = schedule.ErrNotFound
		}
		if err != nil {
			return err
		}
		before := runs[0]
		change, err := decide(&runs[0])
		if after = &runs[0]; err != nil || change.Run == nil {
			return err
		}
		after = change.Run
		after.UpdatedAt = change.Now
		if ledger.DrawsAgain(&before, after) {
			if err := dialect.DrawFair(ctx, queries{t}, []*schedule.Run{after}, nil, change.Now); err != nil {
				return err
			}
		}
		n, err := writeQueued(ctx, t, after)
		if err == nil && n == 0 {
			err = ledger.ErrAdmitted
		}
		if err != nil {
			return fmt.Errorf("write: %w", err)
		}
		*t.queues = true
		return t.insertAudit(ctx, change.Audit, change.Now)
	})
	if err != nil {
		return nil, fmt.Errorf("change run %s: %w", key, err)
	}
	return after, nil
}
