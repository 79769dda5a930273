package postgres

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/carillon/carillon/internal/schedule"
)

// beginDeploy starts a change of a set of schedules: it waits for earlier deploys of the
// set, checks whether the request was handled before, and stores workflow versions and
// grants, in one lock order, so that it cannot deadlock.
func beginDeploy(ctx context.Context, tx pgx.Tx, req schedule.ChangeRequest) error {
	if req.Managed.By != "" {
		if _, err := tx.Exec(ctx, sqlManagedLock, req.Managed.By); err != nil {
			return fmt.Errorf("wait for other changes of what %s manages: %w", req.Managed.By, err)
		}
	}
	if req.Deploy != nil {
		if err := rememberDeploy(ctx, tx, req.Managed, req.Deploy); err != nil {
			return err
		}
	}
	for _, w := range slices.SortedFunc(slices.Values(req.Workflows), schedule.CompareVersions) {
		if err := putWorkflow(ctx, tx, w); err != nil {
			return err
		}
	}
	for _, g := range slices.SortedFunc(slices.Values(req.Grants), func(a, b schedule.Grant) int {
		return cmp.Or(strings.Compare(a.UserID, b.UserID), strings.Compare(a.GrantID, b.GrantID))
	}) {
		if err := putGrant(ctx, tx, &g); err != nil {
			return err
		}
	}
	return nil
}

func rememberDeploy(ctx context.Context, tx pgx.Tx, m schedule.Managed, d *schedule.Deploy) error {
	inserted, err := affect(ctx, tx, sqlInsertDeploy, m.By, m.UserID, d.RequestID, d.Hash[:], d.Now)
	if err != nil {
		return fmt.Errorf("remember the deploy: %w", err)
	}
	if inserted > 0 {
		return nil
	}
	var hash []byte
	if err := tx.QueryRow(ctx, sqlDeployHash, m.By, m.UserID, d.RequestID).Scan(&hash); err != nil {
		return fmt.Errorf("read the deploy: %w", err)
	}
	return schedule.RepeatedDeploy(d, hash)
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
