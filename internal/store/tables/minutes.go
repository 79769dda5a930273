package tables

import (
	"context"
	"fmt"
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

// Ends of queues that keep only failures, by the minute.
const (
	// sqlQueueMinutes bounds the rows before it groups them.
	sqlQueueMinutes = `SELECT m.queue_no, m.minute, m.workflow_id, m.ended, CAST(sum(m.n) AS bigint), CAST(sum(m.wait_ms) AS bigint), CAST(sum(m.run_ms) AS bigint)
FROM (SELECT * FROM queue_minutes m WHERE m.queue_no = $1 AND m.minute >= $2 ORDER BY m.minute DESC LIMIT $3) m
GROUP BY m.queue_no, m.minute, m.workflow_id, m.ended ORDER BY m.minute DESC, m.workflow_id, m.ended`
	sqlQueuePace = `SELECT
	(SELECT CAST(coalesce(sum(m.n), 0) AS bigint) FROM queue_minutes m WHERE m.queue_no = $1 AND m.minute >= $2 AND NOT m.ended),
	(SELECT CAST(coalesce(sum(m.n), 0) AS bigint) FROM queue_minutes m WHERE m.queue_no = $1 AND m.minute >= $2 AND m.ended),
	(SELECT count(*) FROM (SELECT 1 FROM open_runs o WHERE o.queue_no = $1 AND o.queue_state >= 4 AND o.claimed_at >= $2 LIMIT $3) c),
	count(CASE WHEN c.claimed_at >= $2 THEN 1 END), count(*), min(c.completed_at)
FROM (SELECT e.claimed_at, e.completed_at FROM ended_runs e WHERE e.queue_no = $1 AND e.completed_at >= $2 ORDER BY e.completed_at DESC LIMIT $3) c`
	sqlPruneQueueMinutes = `DELETE FROM queue_minutes WHERE (queue_no, minute, workflow_id, ended, writer) IN (
	SELECT queue_no, minute, workflow_id, ended, writer FROM queue_minutes WHERE minute < $1 ORDER BY minute LIMIT $2)`
)

// QueueEnd is what the end of a run needs to know of its queue; zero outside of queues.
type QueueEnd struct {
	History schedule.History // "": all
	Webhook string           // as schedule.QueueWebhook writes it
}

// QueueEnds reads it for the queues of n runs, by their numbers.
func QueueEnds(ctx context.Context, q Queries, n int, run func(i int) *schedule.Run) (map[int32]QueueEnd, error) {
	of := make(map[int32]QueueEnd)
	for i := range n {
		no := run(i).Queue.No
		if _, known := of[no]; known || no == 0 {
			continue
		}
		var e QueueEnd
		if _, err := one(ctx, q, []any{&e.Webhook, &e.History}, sqlQueueEnd, no); err != nil {
			return nil, fmt.Errorf("read queue %d: %w", no, err)
		}
		of[no] = e
	}
	return of, nil
}

// SplitEnded divides runs that have ended into those that get a row of history and those that are
// only counted. facts are a run and whether the executor returned a result.
func SplitEnded[R any](rows []R, queues map[int32]QueueEnd, holds []schedule.UniqueHold, facts func(R) (run *schedule.Run, returned bool)) (kept, counted []R) {
	byRun := make(map[schedule.Key]*schedule.UniqueHold, len(holds))
	for i := range holds {
		byRun[holds[i].RunKey] = &holds[i]
	}
	for _, row := range rows {
		run, returned := facts(row)
		if queue := queues[run.Queue.No]; ledger.CountedOnly(run, queue.History, queue.Webhook, byRun[run.Key], returned) {
			counted = append(counted, row)
		} else {
			kept = append(kept, row)
		}
	}
	return kept, counted
}

// CountEnds adds n ends without a row of history to their minutes, in the transaction of the ends.
// ended is the i-th one with the number of its schedule.
func (d *Dialect) CountEnds(ctx context.Context, q Queries, n int, ended func(i int) (run *schedule.Run, sid int32)) error {
	if n == 0 {
		return nil
	}
	counts := ledger.CountMinutes(n, ended)
	calls := make([]Call, len(counts))
	for i := range counts {
		c := &counts[i]
		calls[i] = Call{d.CountMinute, []any{c.QueueNo, c.Minute, c.Of, c.Ended, c.Runs, c.WaitMS, c.RunMS}}
	}
	if err := q.ExecAll(ctx, calls); err != nil {
		return fmt.Errorf("count %d ends: %w", n, err)
	}
	return nil
}

// QueueMinutes are the minutes of a queue since an instant, newest first: those of up to limit rows.
func (t *Tables) QueueMinutes(ctx context.Context, queueNo int32, since time.Time, limit int) ([]schedule.QueueMinute, error) {
	type row struct {
		schedule.QueueMinute
		waitMS, runMS int64
	}
	if since.IsZero() {
		since = time.Unix(0, 0) // NULL would find none
	}
	rows, err := collect(ctx, t.read, func(r *row) []any {
		return []any{&r.QueueNo, &r.Minute, &r.WorkflowID, &r.Ended, &r.Runs, &r.waitMS, &r.runMS}
	}, sqlQueueMinutes, queueNo, since, limit)
	if err != nil {
		return nil, fmt.Errorf("read the minutes of queue %d: %w", queueNo, err)
	}
	minutes := make([]schedule.QueueMinute, len(rows))
	for i := range rows {
		r := &rows[i]
		minutes[i] = r.QueueMinute
		minutes[i].Wait, minutes[i].Run = time.Duration(r.waitMS)*time.Millisecond, time.Duration(r.runMS)*time.Millisecond
	}
	return minutes, nil
}

// QueuePace counts the starts and ends of a queue in the last minutes. Rows of ended runs are counted
// up to limit; with more of them, the newest ones stand for all.
func (t *Tables) QueuePace(ctx context.Context, queueNo int32, now time.Time, limit int) (p schedule.QueuePace, err error) {
	p.Since = schedule.PaceSince(now)
	var started, ended, flying, startedRows, endedRows int
	var oldest time.Time
	if _, err := one(ctx, t.read, []any{&started, &ended, &flying, &startedRows, &endedRows, &oldest}, sqlQueuePace, queueNo, p.Since, limit); err != nil {
		return p, fmt.Errorf("count the starts and ends of queue %d: %w", queueNo, err)
	}
	if endedRows >= limit {
		startedRows, endedRows = p.Extend(startedRows, oldest, now), p.Extend(endedRows, oldest, now)
	}
	p.Starts, p.Ends = started+flying+startedRows, ended+endedRows
	return p, nil
}
