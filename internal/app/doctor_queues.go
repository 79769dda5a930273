package app

import (
	"context"
	"fmt"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/schedule/describe"
)

// The bounds of the check of queues.
const (
	doctorQueues    = 1000
	doctorRuns      = 100_000
	queueStuckAfter = 5 * time.Minute
)

// brokenPromise says what to do about a promise, up to the id of the queue.
var brokenPromise = map[string]string{
	"wait_within_ms": "see what waits and why: `carillon queue waiting ",
	"dead_at_most":   "see why they failed, and retry them: `carillon queue redrive ",
}

// queues looks for dispatch queues with runs that do not start.
func (d *doctor) queues(ctx context.Context, store Store) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	now := store.Now()
	queues, err := store.MeasureQueues(ctx, doctorQueues, doctorRuns, time.Now())
	if err != nil {
		d.unread("queues", err)
		return
	}
	if len(queues) == 0 {
		return
	}
	before, waiting := len(d.findings), 0
	for i := range queues {
		q := &queues[i]
		waiting += q.Waiting
		switch waits := now.Sub(q.WaitingSince).Round(time.Second); {
		case q.Unreadable:
			d.fail("queues", fmt.Sprintf("the definition of queue %s is damaged: none of its runs starts, and %s", q.QueueID, runsWait(q.Waiting)), "register it again: `carillon queue upsert`")
		case q.Stall.Until.After(now):
			d.warn("queues", fmt.Sprintf("queue %s waits until %s, with %s: %s", q.QueueID, q.Stall.Until.Format(time.RFC3339), describe.Count(q.Waiting, "run"), q.Stall.Reason), "check the executor; the runs keep their order and their attempts")
		case q.Waiting == 0:
		case q.Pause.Active(now):
			d.warn("queues", fmt.Sprintf("queue %s is paused, and %s, the first for %s", q.QueueID, runsWait(q.Waiting), waits), "resume it when what it was paused for is done: `carillon queue resume "+q.QueueID+"`")
		case q.Pulled() && q.Fetching(now) == 0:
			d.warn("queues", fmt.Sprintf("%s in queue %s, the first for %s, and no worker has fetched within %s", runsWait(q.Waiting), q.QueueID, waits, q.Heartbeat()), "start a worker: `carillon pull "+q.QueueID+" -- COMMAND`")
		case q.Reserved > 0 && q.InFlight+q.Reserved >= int(q.MaxInFlight) && waits > queueStuckAfter:
			d.warn("queues", fmt.Sprintf("queue %s is full (%d in flight, %d reserved), and %s, the first for %s", q.QueueID, q.InFlight, q.Reserved, runsWait(q.Waiting), waits), "see who has its slots: `carillon queue reservations "+q.QueueID+"`")
		case q.InFlight == 0 && waits > queueStuckAfter:
			d.stuck(ctx, store, q, fmt.Sprintf("%s in queue %s, the first for %s", runsWait(q.Waiting), q.QueueID, waits))
		case q.InFlight >= int(q.MaxInFlight) && waits > queueStuckAfter:
			d.warn("queues", fmt.Sprintf("queue %s is full (%d in flight), and %s, the first for %s", q.QueueID, q.InFlight, runsWait(q.Waiting), waits), "raise max_in_flight if the executor can take more, or check what is in flight: `carillon run list --queue "+q.QueueID+"`")
		}
	}
	for i := range queues {
		q := &queues[i]
		for _, p := range q.Expect.Promises(q.WaitingSince, q.Dead, now) {
			if !p.Kept {
				d.warn("queues", fmt.Sprintf("queue %s breaks a promise, %s: %s", q.QueueID, p.Field, p.Says), brokenPromise[p.Field]+q.QueueID+"`")
			}
		}
	}
	if len(d.findings) == before {
		d.ok("queues", "%d, with %s", len(queues), describe.Count(waiting, "waiting run"))
	}
}

// stuck says why no run of a queue is in flight: its first run waits for a limit or a rate, or
// nothing admits it.
func (d *doctor) stuck(ctx context.Context, store Store, q *schedule.QueueMeasure, waits string) {
	first, err := store.ListWaiting(ctx, schedule.WaitingFilter{QueueNo: q.No, Limit: 1})
	if err != nil {
		d.unread("queues", err)
		return
	}
	if len(first) > 0 {
		run := &first[0]
		now := store.Now()
		place, err := store.ReadWaitingPlace(ctx, run, 1, 1, now)
		if err != nil {
			d.unread("queues", err)
			return
		}
		if place.Queue != nil {
			for _, b := range place.Blocks(now) {
				if b.Limit.ID != "" {
					key := run.Key.String()[:20]
					d.warn("queues", fmt.Sprintf("%s: run %s waits for limit %s", waits, key, b.Limit), "see what has the limit: `carillon explain "+key+"`")
					return
				}
			}
		}
	}
	d.fail("queues", waits+", and none is in flight", "check that a process with the role launcher runs on this database, and its log")
}

func runsWait(n int) string {
	if n == 1 {
		return "1 run waits"
	}
	return fmt.Sprintf("%d runs wait", n)
}
