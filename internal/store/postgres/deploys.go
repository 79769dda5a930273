package postgres

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/carillon/carillon/internal/schedule"
)

// beginDeploy starts a change of a set of schedules: it waits for earlier deploys of the
// set.
func beginDeploy(ctx context.Context, tx pgx.Tx, req schedule.ChangeRequest) error {
	if req.Managed.By != "" {
		if _, err := tx.Exec(ctx, sqlManagedLock, req.Managed.By); err != nil {
			return fmt.Errorf("wait for other changes of what %s manages: %w", req.Managed.By, err)
		}
	}
	return dialect.BeginDeploy(ctx, queries{tx}, &req)
}

// askedFor returns the ids that a change names, then those of its managed schedules.
func askedFor(ctx context.Context, q querier, req schedule.ChangeRequest) ([]string, error) {
	if req.Managed.By == "" {
		return req.ScheduleIDs, nil
	}
	named := make(map[string]bool, len(req.ScheduleIDs))
	for _, id := range req.ScheduleIDs {
		named[id] = true
	}
	asked := slices.Clone(req.ScheduleIDs)
	var id string
	err := each(ctx, q, []any{&id}, func() error {
		if !named[id] {
			asked = append(asked, id)
		}
		return nil
	}, sqlManaged, req.Managed.By, req.Managed.UserID)
	if err != nil {
		return nil, fmt.Errorf("find what %s manages: %w", req.Managed.By, err)
	}
	return asked, nil
}
