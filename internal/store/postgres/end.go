package postgres

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/tables"
)

// Finish settles the runs of keys with definite answers; see launcher.Store.
func (s *Store) Finish(ctx context.Context, done []schedule.FinishRequest, now time.Time) ([]schedule.Finished, error) {
	if len(done) == 0 {
		return nil, nil
	}
	finished := make([]schedule.Finished, len(done))
	err := s.transact(ctx, func(tx pgx.Tx) error { return finish(ctx, tx, done, finished, now) })
	if err != nil {
		return nil, fmt.Errorf("finish: %w", err)
	}
	return finished, nil
}

func finish(ctx context.Context, tx pgx.Tx, done []schedule.FinishRequest, finished []schedule.Finished, now time.Time) error {
	rows, err := takeAnswered(ctx, tx, done)
	if err != nil {
		return err
	}
	var (
		open = rowsByKey(rows)
		wake = make(map[*openRow]bool)
		rest []int // in done
	)
	for i := range done {
		f, r := &done[i], open[done[i].Key]
		switch {
		case r == nil:
			rest = append(rest, i)
		case !ledger.MayAnswer(&r.Run, &f.Outcome):
			finished[i] = schedule.Finished{Outcome: ledger.OutcomeOf(&r.Run)}
		default:
			s := ledger.SettlementOf(&r.Run, f, now)
			finished[i] = schedule.Finished{Outcome: f.Outcome, Settled: r.settle(&s, now)}
			wake[r] = wake[r] || f.WakeLeader || r.Queue.In() && !r.IsJob()
		}
	}
	ended, err := writeMoved(ctx, tx, rows, now)
	if err != nil {
		return err
	}
	waking := slices.DeleteFunc(ended, func(r *openRow) bool { return !wake[r] })
	wakeLeaders(tx, waking)
	return finishRest(ctx, tx, done, rest, finished, now)
}

// takeAnswered takes the runs that answers end: every definite answer ends a LAUNCHING
// run (ledger.MayAnswer), and nearly all are LAUNCHING or in a queue, dispatching. It locks the others that are open.
func takeAnswered(ctx context.Context, tx pgx.Tx, done []schedule.FinishRequest) ([]*openRow, error) {
	ends := make(map[schedule.Key]bool, len(done)) // false: an answer leaves it open
	for i := range done {
		key, end := done[i].Key, done[i].Outcome.Status.Terminal()
		if earlier, known := ends[key]; known {
			end = end && earlier
		}
		ends[key] = end
	}
	ending := make([]schedule.Key, 0, len(ends))
	for key, end := range ends {
		if end {
			ending = append(ending, key)
		}
	}
	rows, err := takeRuns(ctx, tx, sqlTakeLaunching, ending)
	if err != nil {
		return nil, err
	}
	for _, r := range rows {
		delete(ends, r.Key)
	}
	others, err := lockKeys(ctx, tx, slices.Collect(maps.Keys(ends)))
	return append(rows, others...), err
}

// finishRest answers for keys whose run has ended, or that the ledger does not have.
func finishRest(ctx context.Context, tx pgx.Tx, done []schedule.FinishRequest, rest []int, finished []schedule.Finished, now time.Time) error {
	if len(rest) == 0 {
		return nil
	}
	keys := make([]schedule.Key, len(rest))
	for i, at := range rest {
		keys[i] = done[at].Key
	}
	runs, err := collectRuns(ctx, tx, sqlEndedRuns, keyBytes(keys))
	if err != nil {
		return fmt.Errorf("read ended runs: %w", err)
	}
	events, outside := ledger.AnswerEnded(done, rest, runs, finished, now)
	if err := insertEvents(ctx, tx, events); err != nil {
		return err
	}
	return dialect.FinishRecords(ctx, queries{tx}, done, outside, finished, now)
}

// Settle moves runs forward if their status allows; the i-th answer is for the i-th
// settlement. Settlements of one run apply in their order.
func (s *Store) Settle(ctx context.Context, term schedule.Term, now time.Time, settlements []schedule.Settlement) ([]schedule.Moved, error) {
	var moved []schedule.Moved
	err := s.fenced(ctx, term, func(tx pgx.Tx) (err error) {
		moved, _, err = settleAll(ctx, tx, now, settlements)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("settle runs: %w", err)
	}
	return moved, nil
}

// SettleLaunched is Settle for a launcher, which has no term: only the status of each run
// decides.
func (s *Store) SettleLaunched(ctx context.Context, now time.Time, settlements []schedule.Settlement) ([]schedule.Moved, error) {
	var moved []schedule.Moved
	err := s.transact(ctx, func(tx pgx.Tx) error {
		var ended []*openRow
		var err error
		if moved, ended, err = settleAll(ctx, tx, now, settlements); err != nil {
			return err
		}
		wakeLeaders(tx, ended)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("settle launched runs: %w", err)
	}
	return moved, nil
}

// wakeLeaders wakes the leaders of runs that were ended without a term.
func wakeLeaders(tx pgx.Tx, ended []*openRow) {
	if len(ended) == 0 {
		return
	}
	overlapKeys := make([]string, len(ended))
	for i, r := range ended {
		overlapKeys[i] = r.OverlapKey
	}
	wakeListeners(tx, overlapKeys...)
}

// settleAll locks runs and writes their settlements, in order.
func settleAll(ctx context.Context, tx pgx.Tx, now time.Time, settlements []schedule.Settlement) (moved []schedule.Moved, ended []*openRow, err error) {
	if len(settlements) == 0 {
		return nil, nil, nil
	}
	keys := make([]schedule.Key, len(settlements))
	for i := range settlements {
		keys[i] = settlements[i].Key
	}
	rows, err := lockKeys(ctx, tx, keys)
	if err != nil {
		return nil, nil, err
	}
	moved = make([]schedule.Moved, len(settlements))
	open := rowsByKey(rows)
	for i := range settlements {
		if r := open[settlements[i].Key]; r != nil && r.settle(&settlements[i], now) {
			moved[i] = r.Moved()
		}
	}
	ended, err = writeMoved(ctx, tx, rows, now)
	return moved, ended, err
}

// endRuns writes runs to history, as they are after the rule that ended them, and notes
// them for the leader. All ends go through it or endAll. Runs that are only counted have
// openRow.counted afterwards.
func endRuns(ctx context.Context, tx pgx.Tx, rows []*openRow, now time.Time) error {
	if err := endAll(ctx, tx, rows, now); err != nil {
		return err
	}
	if slices.ContainsFunc(rows, func(r *openRow) bool { return r.Queue.In() }) {
		wakeQueues(tx)
		rows = slices.DeleteFunc(slices.Clone(rows), func(r *openRow) bool { return r.IsJob() }) // nobody leads them
	}
	return note(ctx, tx, changeEnd, rows)
}

// endAll is endRuns for the verdicts of a claim, whose leader knows them.
func endAll(ctx context.Context, tx pgx.Tx, rows []*openRow, now time.Time) error {
	if err := endRows(ctx, tx, rows, now); err != nil {
		return err
	}
	if err := settleGroups(ctx, tx, rows, now); err != nil {
		return err
	}
	return countEnds(ctx, tx, rows)
}

// endRows is endAll without what the ends make of groups.
func endRows(ctx context.Context, tx pgx.Tx, rows []*openRow, now time.Time) error {
	if len(rows) == 0 {
		return nil
	}
	attempts, err := conclude(ctx, tx, rows, now)
	if err != nil {
		return err
	}
	passes, err := dialect.KeepUses(ctx, queries{tx}, len(rows), func(i int) (ended, next *schedule.Run) { return &rows[i].Run, attempts[rows[i]] })
	if err != nil {
		return err
	}
	over := rows
	if err := removeLocked(ctx, tx, rows); err != nil {
		return err
	}
	queues, err := tables.QueueEnds(ctx, queries{tx}, len(rows), func(i int) *schedule.Run { return &rows[i].Run })
	if err != nil {
		return err
	}
	holds, err := dialect.UniquesOf(ctx, queries{tx}, len(rows), func(i int) *schedule.Run { return &rows[i].Run })
	if err != nil {
		return err
	}
	rows, counted := tables.SplitEnded(rows, queues, holds, func(r *openRow) (*schedule.Run, bool) { return &r.Run, r.result != nil || r.commit != nil })
	if one, ok := tx.(oneByOne); ok {
		rows, err = one.insertEnded(ctx, rows, now)
	} else if len(rows) > 0 {
		err = insertEnded(ctx, tx, rows)
	}
	if err != nil {
		return err
	}
	for _, r := range counted {
		r.counted = true
	}
	if len(counted) > 0 {
		rows = slices.Concat(rows, counted)
	}
	if err := dialect.SettleUniques(ctx, queries{tx}, holds, len(rows), func(i int) *schedule.Run { return &rows[i].Run }); err != nil {
		return err
	}
	if err := followUp(ctx, tx, rows); err != nil {
		return err
	}
	returned := func(i int) (schedule.Key, *schedule.RunResult) { return rows[i].Key, rows[i].result }
	if err := tables.InsertResults(ctx, queries{tx}, len(rows), returned); err != nil {
		return err
	}
	if err := dialect.InsertMessages(ctx, queries{tx}, len(rows), queues, func(i int) *schedule.Run { return &rows[i].Run }); err != nil {
		return err
	}
	if err := insertAttempts(ctx, tx, rows, attempts, now); err != nil {
		return err
	}
	if err := dialect.SettleUses(ctx, queries{tx}, passes, len(over), func(i int) *schedule.Run { return &over[i].Run }); err != nil {
		return err
	}
	return dialect.EndHandlers(ctx, queries{tx}, len(rows), now, func(i int) tables.HandlerEnd { return rows[i].handlerEnd(attempts[rows[i]]) })
}

// handlerEnd is a run that is over, with the one that follows it.
func (r *openRow) handlerEnd(next *schedule.Run) tables.HandlerEnd {
	return tables.HandlerEnd{Run: &r.Run, Next: next, SID: r.SID, Commit: r.commit}
}

// removeLocked removes those of the runs that are still in open_runs.
func removeLocked(ctx context.Context, tx pgx.Tx, rows []*openRow) error {
	var locked []schedule.Key
	for _, r := range rows {
		if !r.taken {
			locked = append(locked, r.Key)
		}
	}
	if len(locked) == 0 {
		return nil
	}
	n, err := affect(ctx, tx, sqlRemoveRuns, keyBytes(locked))
	if err == nil && n != len(locked) {
		err = fmt.Errorf("%d of %d locked rows were there", n, len(locked))
	}
	if err != nil {
		return fmt.Errorf("remove ended runs: %w", err)
	}
	return nil
}

const sqlRemoveRuns = `
DELETE FROM open_runs WHERE idempotency_key = ANY($1::bytea[])`

var copyEnded = `
COPY ended_runs (` + columnsOfHistory.list(func(c *runColumn) string { return c.ended }) + `) FROM STDIN (FORMAT binary)`

func insertEnded(ctx context.Context, tx pgx.Tx, rows []*openRow) error {
	c := newCopied(len(rows), 512)
	for _, r := range rows {
		columnsOfHistory.copied(c, r)
	}
	if _, err := c.into(ctx, tx, copyEnded); err != nil {
		return fmt.Errorf("insert ended runs: %w", err)
	}
	return nil
}

// asEnded makes the run what history has of it.
func (r *openRow) asEnded(now time.Time) {
	r.CompletedAt, r.UpdatedAt = cmp.Or(r.CompletedAt, now), now
	if r.Deliveries < 2 { // only a run that was sent again keeps it
		r.FirstSentAt = time.Time{}
	}
}

// oneByOne is a transaction that is repeated because history refused a run: it has a run
// of the slot with the same nth. Each run then ends under its own savepoint.
type oneByOne struct {
	pgx.Tx
	store *Store
}

// insertEnded returns the runs that history did not have.
func (tx oneByOne) insertEnded(ctx context.Context, rows []*openRow, now time.Time) (ended []*openRow, err error) {
	for _, r := range rows {
		there, err := tx.insertOne(ctx, r)
		if err != nil {
			return nil, err
		}
		if there { // the first end stays
			if err := tx.noteEndedTwice(ctx, r, now); err != nil {
				return nil, err
			}
			continue
		}
		ended = append(ended, r)
	}
	return ended, nil
}

func (tx oneByOne) noteEndedTwice(ctx context.Context, r *openRow, now time.Time) error {
	if err := nameSchedules(ctx, tx, []*openRow{r}); err != nil {
		return err
	}
	tx.store.endedTwice.Add(1)
	tx.store.log.ErrorContext(ctx, "a run has ended twice", "key", r.Key, "schedule_id", r.ScheduleID, "run_at", r.RunAt, "status", r.Status)
	return insertEvents(ctx, tx, []schedule.Event{ledger.EndedTwice(&r.Run, now)})
}

// EndedTwice counts the runs that this process ended although history had their end.
func (s *Store) EndedTwice() uint64 { return s.endedTwice.Load() }

func (tx oneByOne) insertOne(ctx context.Context, r *openRow) (there bool, err error) {
	insert := func() error {
		return pgx.BeginFunc(ctx, tx.Tx, func(savepoint pgx.Tx) error { return insertEnded(ctx, savepoint, []*openRow{r}) })
	}
	if err = insert(); !nthTaken(err) {
		return false, err
	}
	if err := tx.QueryRow(ctx, sqlSlotEnded, r.RunAt, r.SID, r.Key[:]).Scan(&there, &r.Nth); err != nil {
		return false, fmt.Errorf("look for run %s in history: %w", r.Key, err)
	}
	if there {
		return true, nil
	}
	return false, insert()
}

// sqlSlotEnded: whether history has the run of a key, and the next free nth of its slot.
const sqlSlotEnded = `
SELECT coalesce(bool_or(e.idempotency_key = $3), false), coalesce(max(e.nth), 0) + 1
FROM ended_runs e WHERE e.run_at = $1 AND e.sid = $2`
