package sqlite

import (
	"context"
	"fmt"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/revision"
	"github.com/carillon/carillon/internal/store/tables"
)

// sqlOneInFlight: another exclusive run of the overlap key is in flight.
const sqlOneInFlight = `SELECT EXISTS (SELECT 1 FROM open_runs INDEXED BY open_runs_one_in_flight WHERE overlap_key = ?1 AND exclusive_flight)`

func entryKeys(entries []ledger.Entry) []schedule.Key {
	keys := make([]schedule.Key, len(entries))
	for i := range entries {
		keys[i] = entries[i].Key
	}
	return keys
}

// entryReader reads what an entry into a queue needs.
type entryReader struct {
	ctx context.Context // ledger.Reader's methods take none
	t   tx
}

// Queues returns queues by id.
func (r entryReader) Queues(ids []string) (map[string]*schedule.Queue, error) {
	return dialect.QueuesByID(r.ctx, queries{r.t}, ids)
}

// Waiting counts the runs that wait in a queue.
func (r entryReader) Waiting(queueNo int32, limit int) (int, error) {
	return tables.CountWaiting(r.ctx, queries{r.t}, queueNo, limit)
}

// enter puts the runs of slots into their queues: each row is written again.
func (c *claiming) enter(ctx context.Context) error {
	entries := c.out.Verdicts.Entries
	if len(entries) == 0 {
		return nil
	}
	rows, err := openRowsOf(ctx, c.t, entryKeys(entries))
	if err != nil {
		return err
	}
	groups, err := dialect.LockSlotGroups(ctx, queries{c.t}, entries, c.req.Now)
	if err != nil {
		return err
	}
	var kept []ledger.Entry
	var entered []schedule.Run
	for _, e := range entries {
		r := rows[e.Key]
		if r == nil {
			return fmt.Errorf("run %s is not open", e.Key)
		}
		refused := false
		if r.Exclusive {
			if err := c.t.query(ctx, sqlOneInFlight, func(scan scan) error { return scan(&refused) }, r.OverlapKey); err != nil {
				return fmt.Errorf("look for another run of %s in flight: %w", r.OverlapKey, err)
			}
		}
		if refused {
			c.out.Refused = append(c.out.Refused, e.Key)
			continue
		}
		run := c.req.EnterQueue(r.Run, c.definitions[revision.Of(&r.Run)], e.Queue)
		groups.Join(&e, &run)
		kept, entered = append(kept, e), append(entered, run)
	}
	c.out.Verdicts.Entries, c.out.Entered = kept, entered
	if err := dialect.WriteSlotGroups(ctx, queries{c.t}, groups); err != nil || len(entered) == 0 {
		return err
	}
	if err := dialect.PlaceLast(ctx, queries{c.t}, entered); err != nil {
		return err
	}
	if _, err := c.t.exec(ctx, sqlDeleteOpen, keyList(entryKeys(kept))); err != nil {
		return fmt.Errorf("move %d runs into their queues: %w", len(entered), err)
	}
	schedules, err := numbersOf(ctx, c.t, entered)
	if err != nil {
		return err
	}
	*c.t.queues = true
	_, err = insertNew(ctx, c.t, entered, schedules, func(*schedule.Run) bool { return false }, c.req.Now)
	return err
}
