package sqlite

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
)

// New runs.
const (
	sqlNumbers = `SELECT s.schedule_id, s.sid, s.planned_until FROM json_each(?) j CROSS JOIN schedules s ON s.schedule_id = j.value`

	// ?1 is a list of key, run_at and sid.
	sqlAlreadyEnded = `SELECT e.idempotency_key FROM json_each(?1) j CROSS JOIN ended_runs e INDEXED BY ended_runs_slot
 ON e.run_at = j.value ->> 1 AND e.sid = j.value ->> 2 WHERE e.idempotency_key = unhex(j.value ->> 0)`

	sqlRaisePlannedUntil = `UPDATE schedules SET planned_until = ?2 WHERE sid = ?1 AND (planned_until IS NULL OR planned_until < ?2)`
)

// A JSON array would have SQLite spend in its JSON functions what it saves.
var (
	sqlInsertOpen = `INSERT INTO open_runs (` + columnsAdded.names() + `) VALUES ` + columnsAdded.row() + `
 ON CONFLICT (idempotency_key) DO NOTHING`

	sqlInsertManyOpen = ofMany(sqlInsertOpen, columnsAdded.row())
)

// insertRuns inserts runs and notes them for the leader, those of queues for the launchers. A key that is open or
// in history is left as it is.
func insertRuns(ctx context.Context, t tx, runs []schedule.Run, now time.Time) (inserted int, err error) {
	if len(runs) == 0 {
		return 0, nil
	}
	if slices.ContainsFunc(runs, func(r schedule.Run) bool { return r.Queue.In() }) {
		runs = slices.Clone(runs)
		if err := dialect.DrawFair(ctx, queries{t}, schedule.Pointers(runs), nil, now); err != nil {
			return 0, err
		}
	}
	return insertPlaced(ctx, t, runs, now)
}

// insertPlaced is insertRuns where those of fair queues have their place.
func insertPlaced(ctx context.Context, t tx, runs []schedule.Run, now time.Time) (inserted int, err error) {
	for i := range runs {
		t.noteRun(runChanged, &runs[i])
	}
	schedules, err := numbersOf(ctx, t, runs)
	if err != nil {
		return 0, err
	}
	if inserted, err = insertNew(ctx, t, runs, schedules, func(*schedule.Run) bool { return true }, now); err != nil {
		return 0, err
	}
	for id, until := range lastSlots(runs) {
		if n := schedules[id]; n.plannedUntil.Before(until) {
			if _, err := t.exec(ctx, sqlRaisePlannedUntil, int64(n.sid), until.UnixMicro()); err != nil {
				return 0, fmt.Errorf("note how far %s is planned: %w", id, err)
			}
		}
	}
	return inserted, nil
}

// lastSlots are the greatest run_at of runs under their slot's own key, by schedule.
// planned_until must never be less: the planner does not look for later slots in
// history.
func lastSlots(runs []schedule.Run) map[string]time.Time {
	last := make(map[string]time.Time)
	for i := range runs {
		if r := &runs[i]; ledger.Nth(r) == 0 && last[r.ScheduleID].Before(r.RunAt) {
			last[r.ScheduleID] = r.RunAt
		}
	}
	return last
}

// numbers are what an insert needs of a schedule.
type numbers struct {
	sid          int32
	plannedUntil time.Time // zero: nothing was ever planned
}

// numbersOf reads the numbers of the runs' schedules.
func numbersOf(ctx context.Context, t tx, runs []schedule.Run) (map[string]numbers, error) {
	var ids []string
	for i := range runs {
		ids = append(ids, runs[i].ScheduleID)
	}
	slices.Sort(ids)
	return readNumbers(ctx, t, slices.Compact(ids))
}

func readNumbers(ctx context.Context, t tx, ids []string) (map[string]numbers, error) {
	found := make(map[string]numbers, len(ids))
	var id string
	var sid number
	var until instant
	err := t.query(ctx, sqlNumbers, func(scan scan) error {
		err := scan(&id, &sid, &until)
		found[id] = numbers{sid: int32(sid), plannedUntil: until.Time}
		return err
	}, list(ids))
	if err != nil {
		return nil, fmt.Errorf("read the numbers of schedules: %w", err)
	}
	for _, id := range ids {
		if found[id].sid == 0 {
			return nil, fmt.Errorf("insert a run of schedule %s: %w", id, schedule.ErrNotFound)
		}
	}
	return found, nil
}

// insertNew inserts the runs whose keys are neither open nor, where mayBeThere says so,
// in history. The write lock is held: what is not in history now cannot come into it.
func insertNew(ctx context.Context, t tx, runs []schedule.Run, of map[string]numbers, mayBeThere func(*schedule.Run) bool, now time.Time) (inserted int, err error) {
	ended, err := endedAmong(ctx, t, runs, of, mayBeThere)
	if err != nil {
		return 0, err
	}
	left := make([]*schedule.Run, 0, len(runs))
	for i := range runs {
		if !ended[runs[i].Key] {
			left = append(left, &runs[i])
		}
	}
	args := make([]any, 0, len(columnsAdded)*manyRows)
	for len(left) > 0 {
		statement, n := portion(sqlInsertOpen, sqlInsertManyOpen, len(left))
		args = args[:0]
		for _, r := range left[:n] {
			args = columnsAdded.args(args, plannedRow(r, of[r.ScheduleID].sid, now))
		}
		rows, err := t.exec(ctx, statement, args...)
		if err != nil {
			return inserted, fmt.Errorf("insert run %s of %s, or one of the %d after it: %w", left[0].Key, left[0].ScheduleID, n-1, err)
		}
		inserted += int(rows)
		left = left[n:]
	}
	return inserted, nil
}

// endedAmong looks for keys in history.
func endedAmong(ctx context.Context, t tx, runs []schedule.Run, of map[string]numbers, mayBeThere func(*schedule.Run) bool) (map[schedule.Key]bool, error) {
	var wanted [][3]any
	for i := range runs {
		if r := &runs[i]; mayBeThere(r) {
			wanted = append(wanted, [3]any{r.Key.String(), r.RunAt.UnixMicro(), of[r.ScheduleID].sid})
		}
	}
	if len(wanted) == 0 {
		return nil, nil
	}
	ended := make(map[schedule.Key]bool)
	var k key
	err := t.query(ctx, sqlAlreadyEnded, func(scan scan) error {
		err := scan(&k)
		ended[schedule.Key(k)] = true
		return err
	}, jsonArg(wanted))
	if err != nil {
		return nil, fmt.Errorf("look for new runs in history: %w", err)
	}
	return ended, nil
}

// plannedRow is a new run as its row has it.
func plannedRow(r *schedule.Run, sid int32, now time.Time) *openRow {
	row := openRow{Run: *r, SID: sid, Nth: ledger.Nth(r)}
	row.Enter(schedule.StatusPlanned)
	row.Attempt = max(r.Attempt, 1)
	row.CreatedAt, row.UpdatedAt = either(r.CreatedAt, now), either(r.UpdatedAt, now)
	return &row
}

// rowState is ledger.RowStateOf as the column has it.
func rowState(r *schedule.Run) int64 { return int64(ledger.RowStateOf(r)) }
