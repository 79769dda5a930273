package tables

import (
	"context"
	"fmt"
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

// DrawFair lets runs that begin to wait draw their fair orders, where their queues are fair. queues
// has the queues of the runs; nil: they are read.
func (d *Dialect) DrawFair(ctx context.Context, q Queries, runs []*schedule.Run, queues map[int32]*schedule.Queue, now time.Time) error {
	var drawing []*schedule.Run
	for _, r := range runs {
		if ledger.MayDraw(r) {
			drawing = append(drawing, r)
		}
	}
	if len(drawing) == 0 {
		return nil
	}
	if queues == nil {
		var err error
		if queues, err = QueuesOf(ctx, q, drawing); err != nil {
			return err
		}
	}
	draw := ledger.NewFairDraw(drawing, queues)
	if draw == nil {
		return nil
	}
	turns := draw.Turns()
	facts, err := d.fairFacts(ctx, q, turns, now)
	if err != nil {
		return err
	}
	if _, err := q.Exec(ctx, d.PutShares, turnRows(turns, draw.Draw(facts))); err != nil {
		return fmt.Errorf("write shares: %w", err)
	}
	return nil
}

// turnRows are turns as rows, with one more column unless it is nil.
func turnRows(turns []ledger.FairTurns, orders []int64) Rows {
	var nos, priorities []int32
	var keys []string
	for _, t := range turns {
		nos, priorities, keys = append(nos, t.QueueNo), append(priorities, t.Priority), append(keys, t.Key)
	}
	if orders == nil {
		return Rows{nos, priorities, keys}
	}
	return Rows{nos, priorities, keys, orders}
}

// fairFacts locks the shares of keys, and reads what a draw needs. The runs that wait are read in
// a later statement than the lock: it sees the runs that have drawn before.
func (d *Dialect) fairFacts(ctx context.Context, q Queries, turns []ledger.FairTurns, now time.Time) (map[ledger.FairTurns]ledger.FairFacts, error) {
	facts := make(map[ledger.FairTurns]ledger.FairFacts, len(turns))
	var t ledger.FairTurns
	var f ledger.FairFacts
	err := q.Each(ctx, d.LockShares, []any{&t.QueueNo, &t.Priority, &t.Key, &f.Share}, func(bad error) error {
		facts[t] = f
		return bad
	}, now, turnRows(turns, nil))
	if err != nil {
		return nil, fmt.Errorf("lock shares: %w", err)
	}
	err = q.Each(ctx, d.FairTurns, []any{&t.QueueNo, &t.Priority, &t.Key, &f.Clock, &f.Last}, func(bad error) error {
		f.Share = facts[t].Share
		facts[t] = f
		return bad
	}, turnRows(turns, nil))
	if err != nil {
		return nil, fmt.Errorf("read the runs of keys: %w", err)
	}
	return facts, nil
}

// drawMember lets a member of a group that was chained draw its fair order.
func (d *Dialect) drawMember(ctx context.Context, q Queries, key schedule.Key, queueNo int32, now time.Time) error {
	queue, err := QueueByNo(ctx, q, queueNo)
	if err != nil || queue == nil || !queue.IsFair() {
		return err
	}
	r := schedule.Run{Key: key}
	r.Queue.State = schedule.QueueWaiting
	there, err := one(ctx, q, []any{&r.Queue.No, &r.Queue.Priority, &r.Queue.FairKey, &r.Queue.FairOrder, &r.OverlapKey}, sqlFairMember, key)
	if err != nil || !there {
		return err
	}
	if err := d.DrawFair(ctx, q, []*schedule.Run{&r}, map[int32]*schedule.Queue{queueNo: queue}, now); err != nil {
		return err
	}
	if _, err := q.Exec(ctx, sqlSetFairOrder, key, orNull(r.Queue.FairKey), r.Queue.FairOrder); err != nil {
		return fmt.Errorf("write the fair order: %w", err)
	}
	return nil
}

// writeClocks moves the clocks of a fair queue.
func writeClocks(ctx context.Context, q Queries, queueNo int32, clocks []ledger.FairClock) error {
	for _, c := range clocks {
		if _, err := q.Exec(ctx, sqlSetFairClock, queueNo, c.Priority, c.Order); err != nil {
			return fmt.Errorf("write the clock of queue %d: %w", queueNo, err)
		}
	}
	return nil
}

// QueueShares returns up to limit keys with runs among the first counted ones that wait, the one
// with the most runs first.
func (t *Tables) QueueShares(ctx context.Context, queueNo int32, counted, limit int) ([]schedule.QueueShare, error) {
	found, err := collect(ctx, t.read, func(s *schedule.QueueShare) []any { return []any{&s.Key, &s.Waiting, &s.First} }, sqlQueueShares, queueNo, counted, limit)
	if err != nil {
		return nil, fmt.Errorf("read the shares of queue %d: %w", queueNo, err)
	}
	return found, nil
}
