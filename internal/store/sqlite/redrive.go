package sqlite

import (
	"context"
	"fmt"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/revision"
	"github.com/carillon/carillon/internal/store/tables"
)

// RedriveRuns hands dead runs to decide and inserts the new runs that it makes of them, in
// one transaction; see registrar.RunStore.
func (s *Store) RedriveRuns(ctx context.Context, f schedule.RunFilter, decide func([]schedule.RunInput) (schedule.RedriveChange, error)) (page schedule.RunPage, err error) {
	f.Dead, f.Ascending = true, true
	var refused error
	wake := false
	err = s.write(ctx, func(ctx context.Context, t tx) error {
		refused, wake = nil, false
		found, err := listRuns(ctx, t, &f)
		if err != nil {
			return fmt.Errorf("list dead runs: %w", err)
		}
		page = schedule.PageOf(found)
		inputs, err := s.redriveInputs(ctx, t, found)
		if err != nil {
			return err
		}
		change, err := decide(inputs)
		if err != nil {
			refused = err
			return err
		}
		wake = len(change.Runs) > 0
		return writeRedrive(ctx, t, &change)
	})
	if refused != nil {
		return schedule.RunPage{}, refused
	}
	if err != nil {
		return schedule.RunPage{}, fmt.Errorf("redrive runs: %w", err)
	}
	if wake {
		s.wakes.call()
	}
	return page, nil
}

func (s *Store) redriveInputs(ctx context.Context, t tx, found []schedule.Run) ([]schedule.RunInput, error) {
	inputs := make([]schedule.RunInput, len(found))
	schedules := make(map[string]*schedule.Schedule)
	revisions := make(map[revision.ID]struct{})
	var ids []revision.ID
	for i := range found {
		r := &found[i]
		if _, known := schedules[r.ScheduleID]; !known {
			rows, err := readSchedules(ctx, t, sqlGetSchedule, r.ScheduleID)
			if err != nil {
				return nil, fmt.Errorf("read schedule %s: %w", r.ScheduleID, err)
			}
			if schedules[r.ScheduleID] = nil; len(rows) == 1 {
				schedules[r.ScheduleID] = &rows[0].Schedule
			}
		}
		id := revision.Of(r)
		if _, known := revisions[id]; !known {
			revisions[id], ids = struct{}{}, append(ids, id)
		}
		inputs[i] = schedule.RunInput{Run: *r, Schedule: schedules[r.ScheduleID]}
	}
	definitions, err := s.definitionsOf(ctx, t, ids)
	if err != nil {
		return nil, err
	}
	for i := range inputs {
		inputs[i].Definition = definitions[revision.Of(&found[i])]
	}
	return inputs, tables.AddQueues(ctx, queries{t}, inputs)
}

func writeRedrive(ctx context.Context, t tx, change *schedule.RedriveChange) error {
	if _, err := insertRuns(ctx, t, change.Runs, change.Now); err != nil {
		return err
	}
	if err := noteRedriven(ctx, t, change.Runs); err != nil {
		return err
	}
	if err := t.insertEvents(ctx, "", change.Events, change.Now); err != nil {
		return err
	}
	for i := range change.Audit {
		if err := t.insertAudit(ctx, &change.Audit[i], change.Now); err != nil {
			return err
		}
	}
	return nil
}

// noteRedriven takes the mark of dead runs off those that new runs retry.
func noteRedriven(ctx context.Context, t tx, runs []schedule.Run) error {
	keys := make([]schedule.Key, len(runs))
	for i := range runs {
		keys[i] = runs[i].RetryOf
	}
	if len(keys) == 0 {
		return nil
	}
	if _, err := t.exec(ctx, sqlRedriven, keyList(keys)); err != nil {
		return fmt.Errorf("note that runs were retried by hand: %w", err)
	}
	return nil
}
