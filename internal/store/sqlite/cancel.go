package sqlite

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
	wake := false
	err = s.write(ctx, func(ctx context.Context, t tx) error {
		refused, wake = nil, false
		found, err := listRuns(ctx, t, &f)
		if err != nil {
			return fmt.Errorf("list open runs: %w", err)
		}
		page = schedule.PageOf(found)
		change, err := decide(found)
		if err != nil {
			refused = err
			return err
		}
		wake = len(change.End)+len(change.Ask) > 0
		return writeCancel(ctx, t, found, &change)
	})
	if refused != nil {
		return schedule.RunPage{}, refused
	}
	if err != nil {
		return schedule.RunPage{}, fmt.Errorf("cancel runs: %w", err)
	}
	if wake {
		s.wakes.call()
	}
	return page, nil
}

func writeCancel(ctx context.Context, t tx, found []schedule.Run, change *schedule.CancelChange) error {
	if _, _, err := settle(ctx, t, change.End, change.Now); err != nil {
		return err
	}
	runs := make(map[schedule.Key]*schedule.Run, len(found))
	for i := range found {
		runs[found[i].Key] = &found[i]
	}
	for _, key := range change.Ask {
		n, err := t.exec(ctx, sqlAskCancel, change.Now.UnixMicro(), word(change.Reason), keyArg(key))
		if err != nil {
			return fmt.Errorf("ask for cancel: %w", err)
		}
		if n == 1 {
			t.noteRun(cancelRequested, runs[key])
		}
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
