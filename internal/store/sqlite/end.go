package sqlite

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/tables"
)

// due_at only comes closer: a heartbeat then changes no index entry but its own, and the
// sweep moves due_at on.
var sqlWriteOpen = `UPDATE open_runs SET status = ?2, due_at = min(due_at, ?3), ` + columnsThatMove.assignments() + ` WHERE idempotency_key = ?1 AND state IN (3, 4, 5)`

// Runs on their way into history.
var (
	sqlOpenRows    = `SELECT ` + openRowColumns + ` FROM json_each(?) j CROSS JOIN open_runs o ON o.idempotency_key = unhex(j.value)` + ofOpen
	sqlInsertEnded = `INSERT INTO ended_runs (` + columnsOfHistory.names() + `) VALUES ` + columnsOfHistory.row()

	// OR IGNORE: for a statement of several rows that can fail, SQLite copies each page
	// that it changes, which costs 6 % of an end.
	sqlInsertManyEnded = strings.Replace(ofMany(sqlInsertEnded, columnsOfHistory.row()), "INSERT", "INSERT OR IGNORE", 1)
)

const (
	sqlDeleteOpen = `DELETE FROM open_runs WHERE idempotency_key IN (SELECT unhex(value) FROM json_each(?))`
	// sqlNewestEnded reads the last inserted runs: each takes the next rowid.
	sqlNewestEnded = `SELECT idempotency_key FROM ended_runs WHERE rowid > (SELECT max(rowid) FROM ended_runs) - ?`
	sqlEndedTwice  = `SELECT EXISTS (SELECT 1 FROM ended_runs e INDEXED BY ended_runs_slot WHERE e.run_at = ?2 AND e.sid = ?3 AND e.idempotency_key = ?1)`
)

// Finish settles the runs of keys with definite answers.
func (s *Store) Finish(ctx context.Context, done []schedule.FinishRequest, now time.Time) (finished []schedule.Finished, err error) {
	wake := false
	err = s.write(ctx, func(ctx context.Context, t tx) error {
		finished = make([]schedule.Finished, len(done))
		wake, err = finish(ctx, t, done, finished, now)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("finish calls: %w", err)
	}
	if wake {
		s.wakes.call()
	}
	return finished, nil
}

func finish(ctx context.Context, t tx, done []schedule.FinishRequest, finished []schedule.Finished, now time.Time) (wake bool, err error) {
	keys := make([]schedule.Key, len(done))
	for i := range done {
		keys[i] = done[i].Key
	}
	open, err := openRowsOf(ctx, t, keys)
	if err != nil {
		return false, err
	}
	var all settled
	var rest []int // in done
	for i := range done {
		f, r := &done[i], open[done[i].Key]
		switch {
		case r == nil:
			rest = append(rest, i)
		case !ledger.MayAnswer(&r.Run, &f.Outcome):
			finished[i] = schedule.Finished{Outcome: ledger.OutcomeOf(&r.Run)}
		default:
			e := ledger.SettlementOf(&r.Run, f, now)
			finished[i] = schedule.Finished{Outcome: f.Outcome, Settled: all.settle(r, &e, now)}
			wake = wake || (f.WakeLeader || r.Queue.In() && !r.IsJob()) && r.Status.Terminal()
		}
	}
	if err := writeMoved(ctx, t, all, now); err != nil {
		return false, err
	}
	return wake, finishRest(ctx, t, done, rest, finished, now)
}

// finishRest answers for keys whose run has ended, or that the ledger does not have.
func finishRest(ctx context.Context, t tx, done []schedule.FinishRequest, rest []int, finished []schedule.Finished, now time.Time) error {
	if len(rest) == 0 {
		return nil
	}
	keys := make([]schedule.Key, len(rest))
	for i, at := range rest {
		keys[i] = done[at].Key
	}
	runs, err := readRuns(ctx, t, sqlEndedRuns, keyList(keys))
	if err != nil {
		return fmt.Errorf("read ended runs: %w", err)
	}
	events, outside := ledger.AnswerEnded(done, rest, runs, finished, now)
	if err := t.insertEvents(ctx, "", events, now); err != nil {
		return err
	}
	return dialect.FinishRecords(ctx, queries{t}, done, outside, finished, now)
}

// Settle moves runs forward, each where its status allows.
func (s *Store) Settle(ctx context.Context, term schedule.Term, now time.Time, settlements []schedule.Settlement) (moved []schedule.Moved, err error) {
	moved, err = s.settleAll(ctx, now, settlements, func(ctx context.Context, t tx) error { return fence(ctx, t, term) })
	if err != nil {
		return nil, fmt.Errorf("settle runs: %w", err)
	}
	return moved, nil
}

// SettleLaunched is Settle for a launcher, which has no term: only the status of each run
// decides.
func (s *Store) SettleLaunched(ctx context.Context, now time.Time, settlements []schedule.Settlement) (moved []schedule.Moved, err error) {
	moved, err = s.settleAll(ctx, now, settlements, func(context.Context, tx) error { return nil })
	if err != nil {
		return nil, fmt.Errorf("settle launched runs: %w", err)
	}
	if schedule.AnyEnded(moved) {
		s.wakes.call()
	}
	return moved, nil
}

func (s *Store) settleAll(ctx context.Context, now time.Time, settlements []schedule.Settlement, allowed func(context.Context, tx) error) (moved []schedule.Moved, err error) {
	err = s.write(ctx, func(ctx context.Context, t tx) (err error) {
		if err := allowed(ctx, t); err != nil {
			return err
		}
		moved, _, err = settle(ctx, t, settlements, now)
		return err
	})
	return moved, err
}

// settle moves open runs, each where its status allows. Several settlements of one
// run take effect one after the other.
func settle(ctx context.Context, t tx, settlements []schedule.Settlement, now time.Time) (moved []schedule.Moved, all settled, err error) {
	keys := make([]schedule.Key, len(settlements))
	for i := range settlements {
		keys[i] = settlements[i].Key
	}
	rows, err := openRowsOf(ctx, t, keys)
	if err != nil {
		return nil, nil, err
	}
	moved = make([]schedule.Moved, len(settlements))
	for i := range settlements {
		if r := rows[settlements[i].Key]; r != nil && all.settle(r, &settlements[i], now) {
			moved[i] = r.Moved()
		}
	}
	return moved, all, writeMoved(ctx, t, all, now)
}

// writeMoved writes runs as a rule has left them: ended, or still open.
func writeMoved(ctx context.Context, t tx, rows []*openRow, now time.Time) error {
	var ended []*openRow
	for _, r := range rows {
		if r.Status.Terminal() {
			ended = append(ended, r)
			continue
		}
		if err := r.update(ctx, t); err != nil {
			return err
		}
		if r.Status == schedule.StatusLaunching { // the leader reads again when to send it next
			t.changed.run(runChanged, r.Key, schedule.Bucket(r.OverlapKey))
		}
	}
	return endRuns(ctx, t, ended, now)
}

// endBy settles all runs of a statement that selects openRowColumns in the same way,
// which ends them.
func endBy(ctx context.Context, t tx, e schedule.Settlement, now time.Time, statement string, args ...any) error {
	rows, err := readOpenRows(ctx, t, statement, args...)
	if err != nil {
		return err
	}
	var ended []*openRow
	for _, r := range rows {
		if e.Key = r.Key; r.settle(&e, now) {
			ended = append(ended, r)
		}
	}
	return endRuns(ctx, t, ended, now)
}

// settle applies a settlement if the status allows it.
func (r *openRow) settle(e *schedule.Settlement, now time.Time) (moved bool) {
	if r.Run, moved = ledger.Settle(r.Run, r.Lease, e, now); moved {
		r.moved, r.Lease = true, ledger.LeaseAfter(&r.Run, r.Lease)
		r.AttemptLog = ledger.LogAttempt(r.AttemptLog, e)
		r.result, r.commit = ledger.ResultOf(&r.Run, e), ledger.CommitOf(&r.Run, e)
	}
	return moved
}

// update writes what a rule may have changed of a run that stays open.
func (r *openRow) update(ctx context.Context, t tx) error {
	args := columnsThatMove.args([]any{keyArg(r.Key), int64(r.Status.Code()), dueAt(&r.Run)}, r)
	n, err := t.exec(ctx, sqlWriteOpen, args...)
	if err != nil {
		return fmt.Errorf("update run %s: %w", r.Key, err)
	}
	if n != 1 {
		return fmt.Errorf("update run %s: it is not in flight", r.Key)
	}
	return nil
}

// endRuns moves runs from open_runs to ended_runs, as they are after the rule that
// ended them. All ends go through it. Runs that are only counted have openRow.counted afterwards.
func endRuns(ctx context.Context, t tx, rows []*openRow, now time.Time) error {
	for _, r := range rows {
		t.noteRun(runEnded, &r.Run)
	}
	return endUnnoted(ctx, t, rows, now)
}

// endUnnoted is endRuns for the verdicts of a claim, whose leader knows them.
func endUnnoted(ctx context.Context, t tx, rows []*openRow, now time.Time) error {
	if err := endRows(ctx, t, rows, now); err != nil {
		return err
	}
	if err := settleGroups(ctx, t, rows, now); err != nil {
		return err
	}
	return countEnds(ctx, t, rows)
}

// endRows is endUnnoted without what the ends make of groups.
func endRows(ctx context.Context, t tx, rows []*openRow, now time.Time) error {
	if len(rows) == 0 {
		return nil
	}
	attempts, err := conclude(ctx, t, rows, now)
	if err != nil {
		return err
	}
	keys := make([]schedule.Key, len(rows))
	for i, r := range rows {
		keys[i] = r.Key
	}
	passes, err := dialect.KeepUses(ctx, queries{t}, len(rows), func(i int) (ended, next *schedule.Run) { return &rows[i].Run, attempts[rows[i]] })
	if err != nil {
		return err
	}
	n, err := t.exec(ctx, sqlDeleteOpen, keyList(keys))
	if err == nil && n != int64(len(rows)) {
		err = fmt.Errorf("%d are open", n)
	}
	if err != nil {
		return fmt.Errorf("remove %d open runs: %w", len(rows), err)
	}
	queues, err := tables.QueueEnds(ctx, queries{t}, len(rows), func(i int) *schedule.Run { return &rows[i].Run })
	if err != nil {
		return err
	}
	holds, err := dialect.UniquesOf(ctx, queries{t}, len(rows), func(i int) *schedule.Run { return &rows[i].Run })
	if err != nil {
		return err
	}
	kept, counted := tables.SplitEnded(rows, queues, holds, func(r *openRow) (*schedule.Run, bool) { return &r.Run, r.result != nil || r.commit != nil })
	added, err := insertEnded(ctx, t, kept, now)
	if err != nil {
		return err
	}
	for _, r := range counted {
		r.counted = true
	}
	added = append(added, counted...)
	if err := dialect.SettleUniques(ctx, queries{t}, holds, len(added), func(i int) *schedule.Run { return &added[i].Run }); err != nil {
		return err
	}
	if err := followUp(ctx, t, added); err != nil {
		return err
	}
	returned := func(i int) (schedule.Key, *schedule.RunResult) { return added[i].Key, added[i].result }
	if err := tables.InsertResults(ctx, queries{t}, len(added), returned); err != nil {
		return err
	}
	if err := dialect.InsertMessages(ctx, queries{t}, len(added), queues, func(i int) *schedule.Run { return &added[i].Run }); err != nil {
		return err
	}
	if err := insertAttempts(ctx, t, added, attempts, now); err != nil {
		return err
	}
	if err := dialect.SettleUses(ctx, queries{t}, passes, len(rows), func(i int) *schedule.Run { return &rows[i].Run }); err != nil {
		return err
	}
	return dialect.EndHandlers(ctx, queries{t}, len(added), now, func(i int) tables.HandlerEnd { return added[i].handlerEnd(attempts[added[i]]) })
}

// handlerEnd is a run that is over, with the one that follows it.
func (r *openRow) handlerEnd(next *schedule.Run) tables.HandlerEnd {
	return tables.HandlerEnd{Run: &r.Run, Next: next, SID: r.SID, Commit: r.commit}
}

// insertEnded writes runs to history, and returns those that it did not have.
func insertEnded(ctx context.Context, t tx, rows []*openRow, now time.Time) (added []*openRow, err error) {
	args := make([]any, 0, len(columnsOfHistory)*manyRows)
	for left := rows; len(left) > 0; {
		statement, n := portion(sqlInsertEnded, sqlInsertManyEnded, len(left))
		args = args[:0]
		for _, r := range left[:n] {
			args = columnsOfHistory.args(args, r)
		}
		inserted, err := t.exec(ctx, statement, args...)
		if err != nil && !isUnique(err) { // of a single row
			return nil, fmt.Errorf("write history of run %s, or one of the %d after it: %w", left[0].Key, n-1, err)
		}
		if inserted == int64(n) {
			added = append(added, left[:n]...)
		} else {
			alone, err := endRest(ctx, t, left[:n], inserted, now)
			if err != nil {
				return nil, err
			}
			added = append(added, alone...)
		}
		left = left[n:]
	}
	return added, nil
}

// endRest ends those of the runs that are not among the last inserted of history.
func endRest(ctx context.Context, t tx, rows []*openRow, inserted int64, now time.Time) (added []*openRow, err error) {
	there := make(map[schedule.Key]bool, inserted)
	err = t.query(ctx, sqlNewestEnded, func(scan scan) error {
		var k key
		err := scan(&k)
		there[schedule.Key(k)] = true
		return err
	}, inserted)
	if err != nil {
		return nil, fmt.Errorf("read which of %d runs are in history: %w", len(rows), err)
	}
	var rest []*openRow
	for _, r := range rows {
		if there[r.Key] {
			added = append(added, r)
		} else {
			rest = append(rest, r)
		}
	}
	alone, err := endAlone(ctx, t, rest, now)
	return append(added, alone...), err
}

// endAlone inserts run by run: two runs of a slot can draw the same nth, and the later
// one takes the next free number. If history has the run already, the first end stays.
func endAlone(ctx context.Context, t tx, rows []*openRow, now time.Time) (added []*openRow, err error) {
	for _, r := range rows {
		there, err := isInHistory(ctx, t, r)
		if err != nil {
			return nil, err
		}
		if there {
			t.w.endedTwice.Add(1)
			t.w.log.Error("a run has ended twice", "key", r.Key, "schedule_id", r.ScheduleID, "run_at", r.RunAt, "status", r.Status)
			if err := t.insertEvents(ctx, r.ScheduleID, []schedule.Event{ledger.EndedTwice(&r.Run, now)}, now); err != nil {
				return nil, err
			}
			continue
		}
		_, err = t.exec(ctx, sqlInsertEnded, columnsOfHistory.args(nil, r)...)
		for ; isUnique(err); _, err = t.exec(ctx, sqlInsertEnded, columnsOfHistory.args(nil, r)...) {
			r.Nth = max(r.Nth+1, 1)
		}
		if err != nil {
			return nil, fmt.Errorf("write history of run %s: %w", r.Key, err)
		}
		added = append(added, r)
	}
	return added, nil
}

// EndedTwice counts the runs that this process ended although history had their end.
func (s *Store) EndedTwice() uint64 { return s.writer.endedTwice.Load() }

func isInHistory(ctx context.Context, t tx, r *openRow) (there bool, err error) {
	err = t.query(ctx, sqlEndedTwice, func(scan scan) error { return scan(&there) }, keyArg(r.Key), r.RunAt.UnixMicro(), int64(r.SID))
	if err != nil {
		return false, fmt.Errorf("look for run %s in history: %w", r.Key, err)
	}
	return there, nil
}

// asEnded makes the run what history has of it.
func (r *openRow) asEnded(now time.Time) {
	r.CompletedAt, r.UpdatedAt = either(r.CompletedAt, now), now
	if r.Deliveries < 2 { // only a run that was sent again keeps it
		r.FirstSentAt = time.Time{}
	}
}
