package tables

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/revision"
	"github.com/carillon/carillon/internal/topic"
)

// Wake rows and what runs have taken.
const (
	sqlDropWake  = `DELETE FROM wakes WHERE sid = $1`
	sqlDeferWake = `UPDATE wakes SET fire_at = $2 WHERE sid = $1`

	sqlInsertTaken = `INSERT INTO handler_runs (idempotency_key, sid, root_run, event_count, events_digest, created_at) VALUES ($1, $2, $3, $4, $5, $6)`
	sqlPassTaken   = `INSERT INTO handler_runs (idempotency_key, sid, root_run, event_count, events_digest, created_at)
SELECT $2, h.sid, h.root_run, h.event_count, h.events_digest, $3 FROM handler_runs h WHERE h.idempotency_key = $1`
	sqlPassEvents = `UPDATE inbox SET run_key = $2, attempts = attempts + $3 WHERE run_key = $1 AND state = 2`
	sqlEndEvents  = `UPDATE inbox SET state = $2, reason = $3, attempts = attempts + $4, ended_at = $5 WHERE run_key = $1 AND state = 2`
	sqlFreeEvents = `UPDATE inbox SET state = 1, run_key = NULL WHERE run_key = $1 AND state = 2`

	sqlTakenBy = `SELECT h.event_count, h.events_digest, h.root_run FROM handler_runs h WHERE h.idempotency_key = $1`
	sqlBatchOf = `SELECT ` + EventColumns + `, e.data, i.round FROM inbox i JOIN events e ON e.seq = i.seq WHERE i.run_key = $1 ORDER BY i.seq, i.round`
)

// wakeRow is a wake row with its schedule.
type wakeRow struct {
	ledger.Consumer
	overlapKey string
	priority   int32
	definition string
}

func wakeFields(r *wakeRow) []any {
	return []any{
		&r.SID, &r.ScheduleID, &r.Revision, &r.FireAt, &r.Deleted, &r.Pause.Paused, &r.Pause.Note, &r.Pause.By, &r.Pause.Until,
		&r.overlapKey, &r.priority, &r.definition,
	}
}

func (r *wakeRow) wake() ledger.Wake {
	w := ledger.Wake{ScheduleID: r.ScheduleID, OverlapKey: r.overlapKey, FireAt: r.FireAt, Priority: r.priority}
	if !r.Deleted {
		w.Pause = r.Pause
	}
	return w
}

// WakesOf returns the wake rows of schedules, or without ids those of a range of buckets.
func (d *Dialect) WakesOf(ctx context.Context, q Queries, scheduleIDs []string, first, last int) ([]ledger.Wake, error) {
	statement, args := d.WakesOfBuckets, []any{first, last}
	if scheduleIDs != nil {
		statement, args = d.WakesOfSchedules, []any{scheduleIDs}
	}
	rows, err := collect(ctx, q, wakeFields, statement, args...)
	if err != nil {
		return nil, fmt.Errorf("read wake rows: %w", err)
	}
	found := make([]ledger.Wake, 0, len(rows))
	for i := range rows {
		if b := schedule.Bucket(rows[i].overlapKey); b >= first && b <= last {
			found = append(found, rows[i].wake())
		}
	}
	return found, nil
}

// Take looks at consumers, and inserts a planned run for each that takes events. The caller has checked
// the term.
func (d *Dialect) Take(ctx context.Context, q Queries, req *ledger.TakeRequest) (out ledger.Taken, err error) {
	rows, err := collect(ctx, q, wakeFields, d.LockWakes, req.ScheduleIDs)
	if err != nil {
		return out, fmt.Errorf("lock wake rows: %w", err)
	}
	if err := d.sortOut(ctx, q, req, rows, &out); err != nil {
		return out, err
	}
	consumers := make([]*ledger.Consumer, len(rows))
	for i := range rows {
		consumers[i] = &rows[i].Consumer
		consumers[i].Definition = revision.Readable(rows[i].definition)
	}
	// A later statement than the one that has locked the rows: it finds what publishers have written who
	// had these locks before.
	if err := d.readReady(ctx, q, consumers); err != nil {
		return out, err
	}
	w := takeWrite{d: d, q: q, now: req.Now}
	for i, c := range consumers {
		look := ledger.LookNow(c, req.Now)
		if err := w.mark(ctx, c, &look); err != nil {
			return out, fmt.Errorf("write the inbox of %s: %w", c.ScheduleID, err)
		}
		if look.Again.IsZero() {
			out.Gone = append(out.Gone, c.ScheduleID)
		} else {
			left := rows[i].wake()
			left.FireAt = look.Again
			out.Wakes = append(out.Wakes, left)
		}
		out.Events, out.Skipped = out.Events+len(look.Take), out.Skipped+len(look.Skip)
	}
	out.Runs = w.runs
	return out, w.write(ctx)
}

// sortOut says of the rows that were not locked whether a publisher has them, or they are gone.
func (d *Dialect) sortOut(ctx context.Context, q Queries, req *ledger.TakeRequest, rows []wakeRow, out *ledger.Taken) error {
	if len(rows) == len(req.ScheduleIDs) {
		return nil
	}
	locked := make(map[string]bool, len(rows))
	for i := range rows {
		locked[rows[i].ScheduleID] = true
	}
	there, err := d.WakesOf(ctx, q, req.ScheduleIDs, 0, schedule.Buckets-1)
	if err != nil {
		return err
	}
	exists := make(map[string]bool, len(there))
	for i := range there {
		exists[there[i].ScheduleID] = true
	}
	for _, id := range req.ScheduleIDs {
		switch {
		case locked[id]:
		case exists[id]:
			out.Locked = append(out.Locked, id)
		default:
			out.Gone = append(out.Gone, id)
		}
	}
	return nil
}

// readReady reads for each consumer what it looks at.
func (d *Dialect) readReady(ctx context.Context, q Queries, consumers []*ledger.Consumer) error {
	var sids []int32
	most := 0
	of := make(map[int32]*ledger.Consumer, len(consumers))
	for _, c := range consumers {
		sids, most = append(sids, c.SID), max(most, c.LookAt())
		of[c.SID] = c
	}
	if len(sids) == 0 {
		return nil
	}
	var sid int32
	var e topic.Offered
	err := q.Each(ctx, d.ReadReady, []any{&sid, &e.Seq, &e.Round, &e.CreatedAt, &e.Topic, &e.Source, &e.EventID, &e.PublishedAt, &e.Bytes}, func(bad error) error {
		if c := of[sid]; len(c.Ready) < c.LookAt() {
			c.Ready = append(c.Ready, e)
		}
		return bad
	}, Rows{sids}, most)
	if err != nil {
		return fmt.Errorf("read inboxes: %w", err)
	}
	return nil
}

// takeWrite writes what a take has decided.
type takeWrite struct {
	d     *Dialect
	q     Queries
	now   time.Time
	runs  []schedule.Run
	calls []Call // of batches and wake rows
}

// mark changes the entries of a consumer, which were read as pending, and plans its run.
func (w *takeWrite) mark(ctx context.Context, c *ledger.Consumer, look *ledger.Look) error {
	if len(look.Skip) > 0 {
		if err := w.markEach(ctx, w.d.SkipEvents, c, look.Skip, string(look.Reason)); err != nil {
			return err
		}
	}
	if len(look.Take) > 0 {
		run := ledger.EventsRun(c, look.Take, w.now)
		if err := w.markEach(ctx, w.d.ReserveEvents, c, look.Take, run.Key); err != nil {
			return err
		}
		w.runs = append(w.runs, run)
		w.calls = append(w.calls, Call{sqlInsertTaken, []any{run.Key, c.SID, run.Key, len(look.Take), topic.Digest(look.Take), w.now}})
	}
	if look.Again.IsZero() {
		w.calls = append(w.calls, Call{sqlDropWake, []any{c.SID}})
	} else if !look.Again.Equal(c.FireAt) {
		w.calls = append(w.calls, Call{sqlDeferWake, []any{c.SID, look.Again}})
	}
	return nil
}

func (w *takeWrite) markEach(ctx context.Context, statement string, c *ledger.Consumer, events []topic.Offered, as any) error {
	var seqs []int64
	var rounds []int32
	for i := range events {
		seqs, rounds = append(seqs, events[i].Seq), append(rounds, events[i].Round)
	}
	n, err := w.q.Exec(ctx, statement, c.SID, w.now, as, Rows{seqs, rounds})
	if err == nil && n != len(events) {
		err = fmt.Errorf("%d of %d entries were pending", n, len(events))
	}
	return err
}

func (w *takeWrite) write(ctx context.Context) error {
	if len(w.runs) > 0 {
		n, err := w.d.InsertPlanned(ctx, w.q, w.runs, w.now)
		if err == nil && n != len(w.runs) { // the clock was set back to an instant of an earlier take
			err = fmt.Errorf("%d of %d keys are new", n, len(w.runs))
		}
		if err != nil {
			return fmt.Errorf("plan the runs of consumers: %w", err)
		}
	}
	if err := w.q.ExecAll(ctx, w.calls); err != nil {
		return fmt.Errorf("write batches and wake rows: %w", err)
	}
	return nil
}

// HandlerEnd is a run that is over, with the run that follows it and what it commits.
type HandlerEnd struct {
	Run, Next *schedule.Run
	SID       int32 // of its schedule
	Commit    *schedule.Commit
}

// EndHandlers ends the events of runs that are over, or gives them to the runs that follow, writes what
// runs commit, and wakes the consumers. ends returns the i-th of n. Other runs cost nothing.
func (d *Dialect) EndHandlers(ctx context.Context, q Queries, n int, now time.Time, ends func(i int) HandlerEnd) error {
	var committed []HandlerEnd
	events := make(map[schedule.Key]ledger.EventsEnd)
	for i := range n {
		end := ends(i)
		if ledger.MayHaveEvents(end.Run) {
			events[end.Run.Key] = ledger.EventsAfter(end.Run, end.Next, now)
		}
		if end.Commit != nil {
			committed = append(committed, end)
		}
	}
	if len(events)+len(committed) == 0 {
		return nil
	}
	published, err := d.commit(ctx, q, committed, now)
	if err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	freed, err := d.endEvents(ctx, q, events, now)
	if err != nil {
		return err
	}
	return d.wakeConsumers(ctx, q, slices.Concat(published, freed))
}

// endEvents ends the events of runs, and returns the consumers to wake.
func (d *Dialect) endEvents(ctx context.Context, q Queries, ends map[schedule.Key]ledger.EventsEnd, now time.Time) (wake []WokenConsumer, err error) {
	if len(ends) == 0 {
		return nil, nil
	}
	type taken struct {
		WokenConsumer
		key schedule.Key
	}
	found, err := collect(ctx, q, func(t *taken) []any { return []any{&t.key, &t.SID, &t.ScheduleID, &t.OverlapKey} }, d.HandlersOf, slices.Collect(maps.Keys(ends)))
	if err != nil {
		return nil, fmt.Errorf("read what runs have taken: %w", err)
	}
	var calls []Call
	for i := range found {
		t := &found[i]
		end := ends[t.key]
		calls = append(calls, eventsEnd(t.key, &end, now)...)
		if t.At = end.WakeAt; !t.At.IsZero() {
			wake = append(wake, t.WokenConsumer)
		}
	}
	if err := q.ExecAll(ctx, calls); err != nil {
		return nil, fmt.Errorf("end the events of %d runs: %w", len(found), err)
	}
	return wake, nil
}

func eventsEnd(key schedule.Key, end *ledger.EventsEnd, now time.Time) []Call {
	switch end.To {
	case topic.Reserved:
		return []Call{
			{sqlPassEvents, []any{key, end.Next, end.Failed}},
			{sqlPassTaken, []any{key, end.Next, now}},
		}
	case topic.Pending:
		return []Call{{sqlFreeEvents, []any{key}}}
	}
	return []Call{{sqlEndEvents, []any{key, int16(end.To), orNull(string(end.Reason)), end.Failed, now}}}
}

// EventsOf returns what a run of a consumer has taken, in the order of the events; nil: it is none.
func (t *Tables) EventsOf(ctx context.Context, key schedule.Key) (*topic.Batch, error) {
	var b topic.Batch
	there, err := one(ctx, t.read, []any{&b.Count, &b.Digest, &b.Root}, sqlTakenBy, key)
	if err != nil || !there {
		return nil, err
	}
	b.Events, err = collect(ctx, t.read, func(e *topic.Offered) []any {
		return append(eventFields(&e.Event), &e.Data, &e.Round)
	}, sqlBatchOf, key)
	if err != nil {
		return nil, fmt.Errorf("read the events of run %s: %w", key, err)
	}
	return &b, nil
}
