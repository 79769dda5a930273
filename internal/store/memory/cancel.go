package memory

import (
	"context"
	"fmt"

	"github.com/carillon/carillon/internal/schedule"
)

// CancelRuns hands open runs to decide and cancels those that it names, in one transaction; see
// registrar.RunStore.
func (s *Store) CancelRuns(ctx context.Context, f schedule.RunFilter, decide func([]schedule.Run) (schedule.CancelChange, error)) (page schedule.RunPage, err error) {
	f.Statuses = schedule.OpenStatuses
	var refused error
	err = s.write(ctx, func(t *tx) error {
		found := t.listed(&f)
		found = found[:min(len(found), f.Limit)]
		page = schedule.PageOf(found)
		change, err := decide(found)
		if err != nil {
			refused = err
			return err
		}
		t.cancel(&change)
		return nil
	})
	if refused != nil {
		return schedule.RunPage{}, refused
	}
	if err != nil {
		return schedule.RunPage{}, fmt.Errorf("cancel runs: %w", err)
	}
	return page, nil
}

func (t *tx) cancel(change *schedule.CancelChange) {
	for i := range change.End {
		t.settle(&change.End[i], change.Now)
	}
	for _, key := range change.Ask {
		t.askCancel(t.runs[key], change.Reason, change.Now)
	}
	for i := range change.Events {
		t.note(change.Events[i].ScheduleID, change.Events[i:i+1], change.Now)
	}
	for i := range change.Audit {
		t.audit(&change.Audit[i], change.Now)
	}
	t.wake = t.wake || len(change.End)+len(change.Ask) > 0
}
