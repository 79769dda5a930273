package memory

import (
	"context"
	"fmt"

	"github.com/carillon/carillon/internal/schedule"
)

// RedriveRuns hands dead runs to decide and inserts the new runs that it makes of them, in
// one transaction; see registrar.RunStore.
func (s *Store) RedriveRuns(ctx context.Context, f schedule.RunFilter, decide func([]schedule.RunInput) (schedule.RedriveChange, error)) (page schedule.RunPage, err error) {
	f.Dead, f.Ascending = true, true
	var refused error
	err = s.write(ctx, func(t *tx) error {
		found := t.listed(&f)
		found = found[:min(len(found), f.Limit)]
		page = schedule.PageOf(found)
		inputs := make([]schedule.RunInput, len(found))
		for i := range found {
			inputs[i] = t.runInput(&found[i], schedule.Key{})
			inputs[i].InFlight = 0 // as the databases, which do not count them
		}
		change, err := decide(inputs)
		if err != nil {
			refused = err
			return err
		}
		t.redrive(&change)
		return nil
	})
	if refused != nil {
		return schedule.RunPage{}, refused
	}
	if err != nil {
		return schedule.RunPage{}, fmt.Errorf("redrive runs: %w", err)
	}
	return page, nil
}

func (t *tx) redrive(change *schedule.RedriveChange) {
	for i := range change.Runs {
		row := change.Runs[i]
		t.drawFair(change.Now, &row)
		t.insert(row, change.Now)
		if dead := t.runs[change.Runs[i].RetryOf]; dead.IsDead() {
			t.change(dead, func(r *schedule.Run) { r.Dead = new(bool) })
		}
	}
	for i := range change.Events {
		t.note(change.Events[i].ScheduleID, change.Events[i:i+1], change.Now)
	}
	for i := range change.Audit {
		t.audit(&change.Audit[i], change.Now)
	}
	t.wake = t.wake || len(change.Runs) > 0
}
