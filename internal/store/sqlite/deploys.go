package sqlite

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// beginDeploy starts a change of a set of schedules: it checks whether the request was
// handled before, and stores workflow versions and grants. There is one writer, so
// nothing comes between.
func beginDeploy(ctx context.Context, t tx, req schedule.ChangeRequest, now time.Time) error {
	if req.Deploy != nil {
		if err := rememberDeploy(ctx, t, req.Managed, req.Deploy); err != nil {
			return err
		}
	}
	for _, w := range slices.SortedFunc(slices.Values(req.Workflows), schedule.CompareVersions) {
		if err := putWorkflow(ctx, t, w, now); err != nil {
			return err
		}
	}
	for i := range req.Grants {
		if err := putGrant(ctx, t, &req.Grants[i], now); err != nil {
			return err
		}
	}
	return nil
}

func rememberDeploy(ctx context.Context, t tx, m schedule.Managed, d *schedule.Deploy) error {
	n, err := t.exec(ctx, sqlInsertDeploy, m.By, m.UserID, d.RequestID, d.Hash[:], d.Now.UnixMicro())
	if err != nil {
		return fmt.Errorf("remember the deploy: %w", err)
	}
	if n == 1 {
		return nil
	}
	var known key
	err = t.query(ctx, sqlDeployHash, func(scan scan) error { return scan(&known) }, m.By, m.UserID, d.RequestID)
	if err != nil {
		return fmt.Errorf("read the deploy: %w", err)
	}
	return schedule.RepeatedDeploy(d, known[:])
}
