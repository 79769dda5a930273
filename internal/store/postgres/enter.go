package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/revision"
	"github.com/carillon/carillon/internal/store/tables"
)

// Queues returns queues by id. Nobody changes them before the claim is committed.
func (r *claimReader) Queues(ids []string) (map[string]*schedule.Queue, error) {
	return dialect.QueuesByID(r.ctx, queries{r.tx}, ids)
}

// Waiting counts the runs that wait in a queue.
func (r *claimReader) Waiting(queueNo int32, limit int) (int, error) {
	return tables.CountWaiting(r.ctx, queries{r.tx}, queueNo, limit)
}

// writeEntries puts the runs of slots into their queues: each row is written again.
func (c *claimWrite) writeEntries(ctx context.Context) error {
	all := c.claimed.Verdicts.Entries
	c.claimed.Verdicts.Entries = nil
	var together []ledger.Entry
	for _, e := range all {
		if run, _ := c.claim.State.Run(e.Key); !c.mode.single || !run.Exclusive {
			together = append(together, e)
			continue
		}
		before := c.groups.Clone()
		err := pgx.BeginFunc(ctx, c.tx, func(savepoint pgx.Tx) error { return c.enter(ctx, savepoint, []ledger.Entry{e}) })
		if violates(err, oneInFlight) {
			c.groups = before
			c.claimed.Refused = append(c.claimed.Refused, e.Key)
		} else if err != nil {
			return fmt.Errorf("put run %s into its queue: %w", e.Key, err)
		}
	}
	if err := c.enter(ctx, c.tx, together); err != nil {
		return fmt.Errorf("put %d runs into their queues: %w", len(together), err)
	}
	return dialect.WriteSlotGroups(ctx, queries{c.tx}, c.groups)
}

func (c *claimWrite) enter(ctx context.Context, tx pgx.Tx, entries []ledger.Entry) error {
	if len(entries) == 0 {
		return nil
	}
	rows, err := takeRuns(ctx, tx, sqlTakePlanned, inKeyOrder(column(entries, func(e *ledger.Entry) schedule.Key { return e.Key })))
	if err := c.wrote(len(rows), len(entries), err); err != nil {
		return err
	}
	if err := nameSchedules(ctx, tx, rows); err != nil {
		return err
	}
	var (
		byKey   = rowsByKey(rows)
		kept    []ledger.Entry
		entered []schedule.Run
		damaged []*openRow
	)
	for _, e := range entries {
		r := byKey[e.Key]
		if !c.claim.IsAsJudged(&r.Run) {
			return errRunsMoved
		}
		if c.store.logUnreadable(ctx, r) {
			end := unreadableEnd(e.Key)
			r.settle(&end, c.req.Now)
			damaged, c.claimed.Missing = append(damaged, r), append(c.claimed.Missing, e.Key)
			continue
		}
		definition := c.reader.definitions[revision.Of(&r.Run)]
		run := c.req.EnterQueue(r.Run, definition, e.Queue)
		c.groups.Join(&e, &run)
		identify(&run, definition)
		kept, entered = append(kept, e), append(entered, run)
	}
	if err := dialect.PlaceLast(ctx, queries{tx}, entered); err != nil {
		return err
	}
	if err := c.insertEntered(ctx, tx, entered, byKey); err != nil {
		return err
	}
	c.claimed.Verdicts.Entries = append(c.claimed.Verdicts.Entries, kept...)
	c.claimed.Entered = append(c.claimed.Entered, entered...)
	return endAll(ctx, tx, damaged, c.req.Now)
}

// insertEntered writes the rows. The leader knows them: no change names them.
func (c *claimWrite) insertEntered(ctx context.Context, tx pgx.Tx, runs []schedule.Run, before map[schedule.Key]*openRow) error {
	if len(runs) == 0 {
		return nil
	}
	to := newCopied(len(runs), 384)
	for _, r := range openRowsOf(runs, func(r *schedule.Run) int32 { return before[r.Key].SID }, c.req.Now) {
		columnsAdded.copied(to, r)
	}
	if _, err := to.into(ctx, tx, copyRuns); err != nil {
		return fmt.Errorf("insert runs of queues: %w", err)
	}
	wakeQueues(c.tx) // a savepoint wakes nobody
	return nil
}
