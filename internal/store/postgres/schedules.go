package postgres

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/revision"
	"github.com/carillon/carillon/internal/store/tables"
)

// ChangeSchedules locks the named schedules, gives them to decide and writes the changes
// in one transaction; see registrar.ScheduleStore.
func (s *Store) ChangeSchedules(ctx context.Context, req schedule.ChangeRequest, decide func([]schedule.ChangeInput) ([]schedule.Change, error)) error {
	if !groupable(&req) {
		return s.changeAlone(ctx, req, decide)
	}
	switch answer, err := s.changes.DoUntil(ctx, changeCall{ctx, req, decide}); {
	case err != nil:
		return fmt.Errorf("change schedules: %w", err)
	case !answer.alone:
		return answer.err
	}
	return s.changeAlone(ctx, req, decide)
}

func (s *Store) changeAlone(ctx context.Context, req schedule.ChangeRequest, decide func([]schedule.ChangeInput) ([]schedule.Change, error)) error {
	var refusal error
	err := s.transact(ctx, func(tx pgx.Tx) error {
		refusal = nil
		if err := beginDeploy(ctx, tx, req); err != nil {
			return err
		}
		inputs, known, err := readForChange(ctx, tx, req)
		if err != nil {
			return err
		}
		changes, touched, err := schedule.Decide(inputs, decide)
		if err != nil {
			refusal = err
			return err
		}
		if len(changes) == 0 {
			return nil
		}
		if err := writeChanges(ctx, tx, changes, known); err != nil {
			return err
		}
		if err := wakeExpectations(ctx, tx, touched, changes[0].Now); err != nil {
			return err
		}
		if refusal, err = checkQuotas(ctx, tx, changes, req.OwnerLimit); err != nil {
			return err
		}
		return refusal
	})
	if refusal != nil {
		return refusal // as it is
	}
	switch {
	case stateOf(err) == stateLockTimeout && req.Managed.By != "":
		return fmt.Errorf("change schedules: %w: another change of what %s manages is under way, try again: %w", schedule.ErrUnavailable, req.Managed.By, err)
	case err != nil:
		return fmt.Errorf("change schedules: %w", err)
	}
	return nil
}

// ReadSchedules reads what ChangeSchedules would give to decide, without locks.
func (s *Store) ReadSchedules(ctx context.Context, req schedule.ChangeRequest) ([]schedule.ChangeInput, error) {
	asked, err := askedFor(ctx, s.pool, req)
	if err != nil {
		return nil, err
	}
	rows, err := collectSchedules(ctx, s.pool, sqlReadSchedules, asked)
	if err != nil {
		return nil, fmt.Errorf("read schedules: %w", err)
	}
	if err := attachPlanned(ctx, s.pool, byID(rows)); err != nil {
		return nil, err
	}
	var inFlight map[string]int
	if req.CountInFlight {
		if inFlight, err = countInFlight(ctx, s.pool, rows); err != nil {
			return nil, err
		}
	}
	inputs := inputsOf(asked, rows, inFlight)
	return inputs, dialect.AttachFacts(ctx, queries{s.pool}, &req, inputs)
}

// readForChange locks the existing schedules and returns all in the given order; known
// has the ids with a row.
func readForChange(ctx context.Context, tx pgx.Tx, req schedule.ChangeRequest) (inputs []schedule.ChangeInput, known map[string]bool, err error) {
	asked, err := askedFor(ctx, tx, req)
	if err != nil {
		return nil, nil, err
	}
	rows, err := collectSchedules(ctx, tx, sqlChangeLock, asked)
	if err != nil {
		return nil, nil, fmt.Errorf("lock schedules: %w", err)
	}
	known = make(map[string]bool, len(rows))
	for i := range rows {
		known[rows[i].ScheduleID] = true
	}
	if err := attachPlanned(ctx, tx, byID(rows)); err != nil {
		return nil, nil, err
	}
	var inFlight map[string]int
	if req.CountInFlight {
		if inFlight, err = countInFlight(ctx, tx, rows); err != nil {
			return nil, nil, err
		}
	}
	inputs = inputsOf(asked, rows, inFlight)
	return inputs, known, dialect.AttachFacts(ctx, queries{tx}, &req, inputs)
}

// inputsOf returns one input for each id, in their order.
func inputsOf(asked []string, rows []schedule.Schedule, inFlight map[string]int) []schedule.ChangeInput {
	found := byID(rows)
	inputs := make([]schedule.ChangeInput, len(asked))
	for i, id := range asked {
		if row := found[id]; row != nil {
			inputs[i] = schedule.ChangeInput{Schedule: row, InFlight: inFlight[row.QualifiedOverlapKey()]}
		}
	}
	return inputs
}

func byID(rows []schedule.Schedule) map[string]*schedule.Schedule {
	found := make(map[string]*schedule.Schedule, len(rows))
	for i := range rows {
		found[rows[i].ScheduleID] = &rows[i]
	}
	return found
}

// attachPlanned adds the slots that have a row to open backlogs.
func attachPlanned(ctx context.Context, q querier, byID map[string]*schedule.Schedule) error {
	var open []string
	for id, s := range byID {
		if s.Backlog.Open() {
			open = append(open, id)
		}
	}
	if len(open) == 0 {
		return nil
	}
	var (
		id    string
		runAt time.Time
	)
	err := each(ctx, q, []any{&id, &runAt}, func() error {
		byID[id].Planned = append(byID[id].Planned, runAt.UTC())
		return nil
	}, sqlPlanned, open)
	if err != nil {
		return fmt.Errorf("read what is planned since a backlog began: %w", err)
	}
	return nil
}

// countInFlight counts by overlap key.
func countInFlight(ctx context.Context, q querier, rows []schedule.Schedule) (map[string]int, error) {
	var (
		key   string
		count int
	)
	counts := make(map[string]int, len(rows))
	err := each(ctx, q, []any{&key, &count}, func() error {
		counts[key] = count
		return nil
	}, sqlCountInFlight, column(rows, func(s *schedule.Schedule) string { return s.QualifiedOverlapKey() }))
	if err != nil {
		return nil, fmt.Errorf("count runs in flight: %w", err)
	}
	return counts, nil
}

// writeChanges writes in the order of the locks: schedules, then runs.
func writeChanges(ctx context.Context, tx pgx.Tx, changes []schedule.Change, known map[string]bool) error {
	if err := writeRows(ctx, tx, changes, known); err != nil {
		return err
	}
	if err := writeRevisions(ctx, tx, changes); err != nil {
		return err
	}
	if err := changePlanned(ctx, tx, changes, known); err != nil {
		return err
	}
	for now, runs := range runsByInstant(changes) {
		if _, err := insertRuns(ctx, tx, runs, now); err != nil {
			return err
		}
	}
	var events []schedule.Event
	for i := range changes {
		events = append(events, eventsOf(changes[i].ScheduleID, changes[i].Events, changes[i].Now)...)
	}
	if err := insertEvents(ctx, tx, events); err != nil {
		return err
	}
	if err := insertAudit(ctx, tx, auditOf(changes)); err != nil {
		return err
	}
	if err := giveWorkflows(ctx, tx, changes); err != nil {
		return err
	}
	if err := dialect.Subscribe(ctx, queries{tx}, changes, func(id string) bool { return known[id] }); err != nil {
		return err
	}
	if inserted := overlapKeysInserted(changes); len(inserted) > 0 {
		wakeListeners(tx, inserted...)
	}
	return nil
}

// overlapKeysInserted returns the overlap keys of inserted runs, which may be due before
// the next tick of their leader. The planner handles all other changes at its tick.
func overlapKeysInserted(changes []schedule.Change) []string {
	var keys []string
	for i := range changes {
		for j := range changes[i].Runs {
			keys = append(keys, changes[i].Runs[j].OverlapKey)
		}
	}
	return keys
}

// writeRows locks no existing row: readForChange has. The primary key separates two
// transactions that insert one id at once: the second waits for the first and calls
// decide again.
func writeRows(ctx context.Context, tx pgx.Tx, changes []schedule.Change, known map[string]bool) error {
	var fresh, changed []*schedule.Schedule
	for i := range changes {
		switch {
		case changes[i].Row == nil:
		case known[changes[i].Row.ScheduleID]:
			changed = append(changed, changes[i].Row)
		default:
			fresh = append(fresh, changes[i].Row)
		}
	}
	if len(fresh) > 0 {
		slices.SortFunc(fresh, func(a, b *schedule.Schedule) int { return strings.Compare(a.ScheduleID, b.ScheduleID) })
		switch n, err := affect(ctx, tx, sqlInsertSchedules, scheduleArgs(fresh)...); {
		case err != nil:
			return fmt.Errorf("insert schedules: %w", err)
		case n < len(fresh): // created since the lock found none
			return fmt.Errorf("insert schedules: %w", errAgain)
		}
	}
	if len(changed) > 0 {
		if _, err := tx.Exec(ctx, sqlUpdateSchedules, scheduleArgs(changed)...); err != nil {
			return fmt.Errorf("update schedules: %w", err)
		}
	}
	return dropFailures(ctx, tx, changes)
}

func writeRevisions(ctx context.Context, tx pgx.Tx, changes []schedule.Change) error {
	var (
		revised     []schedule.Change
		definitions []string
	)
	for i := range changes {
		if !changes[i].NewRevision || changes[i].Row == nil {
			continue
		}
		raw, err := revision.Encode(&changes[i].Row.Definition)
		if err != nil {
			return fmt.Errorf("encode definition of %s: %w", changes[i].ScheduleID, err)
		}
		revised, definitions = append(revised, changes[i]), append(definitions, raw)
	}
	if len(revised) == 0 {
		return nil
	}
	type change = schedule.Change
	_, err := tx.Exec(ctx, sqlInsertRevisions,
		column(revised, func(c *change) string { return c.Row.ScheduleID }),
		column(revised, func(c *change) int64 { return c.Row.Revision }),
		definitions,
		column(revised, func(c *change) string { return c.Row.WorkflowID }),
		column(revised, func(c *change) int32 { return c.Row.Version }),
		column(revised, func(c *change) string { return c.Row.UserID }),
		column(revised, func(c *change) pgtype.Text { return noneOrText(c.ChangedBy) }),
		column(revised, func(c *change) pgtype.Timestamptz { return pgtype.Timestamptz{Time: c.Now, Valid: true} }))
	if err != nil {
		return fmt.Errorf("insert revisions: %w", err)
	}
	return nil
}

// GetSchedule returns one schedule, which may be a tombstone.
func (s *Store) GetSchedule(ctx context.Context, scheduleID string) (*schedule.Schedule, error) {
	return s.getSchedule(ctx, sqlGetSchedule, scheduleID)
}

// PeekSchedule is GetSchedule with last_run_at as it was last written.
func (s *Store) PeekSchedule(ctx context.Context, scheduleID string) (*schedule.Schedule, error) {
	return s.getSchedule(ctx, sqlPeekSchedule, scheduleID)
}

func (s *Store) getSchedule(ctx context.Context, statement, scheduleID string) (*schedule.Schedule, error) {
	found, err := oneSchedule(ctx, s.pool, statement, scheduleID)
	if err != nil {
		return nil, fmt.Errorf("get schedule %s: %w", schedule.Quote(scheduleID), err)
	}
	return found, nil
}

// ListSchedules returns schedules in order of schedule_id, without tombstones.
func (s *Store) ListSchedules(ctx context.Context, f schedule.ScheduleFilter) ([]schedule.Schedule, error) {
	statement := sqlListSchedules
	switch {
	case f.Failing:
		statement = sqlListFailing
	case f.OmitDetails:
		statement = leanSchedules
	}
	return tables.ListSchedules(ctx, queries{s.pool}, s.log, f, func(f *schedule.ScheduleFilter) tables.Call {
		return tables.Call{Statement: statement, Args: append(scheduleFilterArgs(f), f.After, f.Limit)}
	})
}

// leanSchedules is sqlListSchedules without what ScheduleFilter.OmitDetails leaves out.
var leanSchedules = strings.NewReplacer("s.input,", "NULL::text,", " s.labels::text,", " NULL::text,", lastRun, "NULL::timestamptz").Replace(sqlListSchedules)

// scheduleFilterArgs are $1 to $9 of a list's statement.
func scheduleFilterArgs(f *schedule.ScheduleFilter) []any {
	return []any{
		f.UserID, f.WorkflowID, f.ManagedBy, f.GrantID, f.LabelKey, f.LabelValue, schedule.FoldText(f.Text), string(f.State), f.Now,
	}
}
