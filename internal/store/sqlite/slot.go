package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/tables"
)

// ReadSlot reads all facts about one instant of a schedule.
func (s *Store) ReadSlot(ctx context.Context, q schedule.SlotQuery) (f schedule.SlotFacts, err error) {
	err = s.readers.snapshot(ctx, func(r querier) error {
		f, err = readSlot(ctx, r, q)
		return err
	})
	if err != nil {
		return schedule.SlotFacts{}, fmt.Errorf("read slot of schedule %s: %w", schedule.Quote(q.ScheduleID), err)
	}
	return f, nil
}

func readSlot(ctx context.Context, r querier, q schedule.SlotQuery) (f schedule.SlotFacts, err error) {
	rows, err := readSchedules(ctx, r, sqlGetSchedule, q.ScheduleID)
	switch {
	case err != nil:
		return f, err
	case len(rows) == 0:
		return f, schedule.ErrNotFound
	case rows[0].problem != nil:
		return f, rows[0].problem
	}
	f.Schedule = &rows[0].Schedule
	at := q.At.UnixMicro()
	f.Runs, err = readRuns(ctx, r, sqlSlotRuns, q.ScheduleID, at, at+time.Second.Microseconds(),
		keyArg(schedule.SlotKey(q.ScheduleID, q.At)), schedule.SlotRuns)
	if err != nil {
		return f, fmt.Errorf("runs: %w", err)
	}
	named := make([]string, len(f.Runs))
	for i := range f.Runs {
		named[i] = strconv.FormatInt(f.Runs[i].Revision, 10)
	}
	if f.Revisions, err = tables.Revisions(ctx, queries{r}, sqlSlotRevisions, q.ScheduleID, at, list(named)); err != nil {
		return f, fmt.Errorf("revisions: %w", err)
	}
	f.Events, err = tables.Events(ctx, queries{r}, sqlSlotEvents, q.ScheduleID, at,
		list(schedule.LifeEvents), list(schedule.PauseEvents), list(schedule.PlanFailureEvents), list(schedule.RangeEvents),
		schedule.SlotChanges, schedule.SlotRanges)
	if err != nil {
		return f, fmt.Errorf("events: %w", err)
	}
	f.Blocking, err = blocking(ctx, r, f.AskBlocking(q))
	return f, err
}

// blocking searches the most likely places first.
func blocking(ctx context.Context, r querier, b schedule.Blocking) (runs []schedule.Run, err error) {
	if !b.Asks() {
		return nil, nil
	}
	if b.At.IsZero() {
		runs, err = readRuns(ctx, r, sqlBlockingNow, b.OverlapKey, b.Not[:], schedule.SlotBlocking)
	} else {
		slack := schedule.BlockingSlack
		for _, try := range []struct {
			statement, of string
			slack         time.Duration
		}{
			{sqlBlockingKin, b.ScheduleID, 0}, {sqlBlockingKin, b.ScheduleID, slack}, {sqlBlockingOwner, schedule.Owner(b.OverlapKey), slack},
		} {
			runs, err = readRuns(ctx, r, try.statement, b.OverlapKey, b.Not[:], schedule.SlotBlocking,
				b.At.Add(try.slack).UnixMicro(), b.At.Add(-try.slack).UnixMicro(), try.of)
			if err != nil || len(runs) > 0 {
				break
			}
		}
	}
	if err != nil {
		return nil, fmt.Errorf("what was in flight: %w", err)
	}
	return runs, nil
}

// snapshot reads one state of the file throughout.
func (r *readers) snapshot(ctx context.Context, read func(querier) error) (err error) {
	conn, err := r.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { err = closing(conn, err) }()
	if _, err := conn.ExecContext(ctx, sqlBeginReading); err != nil {
		return err
	}
	err = read(reading{conn})
	// Not by the caller's ctx: the connection goes back to the others.
	if _, endErr := conn.ExecContext(context.WithoutCancel(ctx), sqlRollback); err == nil {
		err = endErr
	}
	return err
}

func closing(conn *sql.Conn, err error) error {
	if closeErr := conn.Close(); err == nil {
		err = closeErr
	}
	return err
}

// reading is a transaction that only reads.
type reading struct{ conn *sql.Conn }

func (r reading) query(ctx context.Context, statement string, each func(scan) error, args ...any) error {
	rows, err := r.conn.QueryContext(ctx, statement, args...)
	return eachRow(rows, err, each)
}
