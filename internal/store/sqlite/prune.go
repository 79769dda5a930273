package sqlite

import (
	"context"
	"fmt"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/tables"
)

// Prune deletes rows that are older than before, up to limit rows of each kind.
func (s *Store) Prune(ctx context.Context, term schedule.Term, before time.Time, limit int) (int, error) {
	if err := s.removePresenceFiles(ctx); err != nil {
		return 0, fmt.Errorf("prune: %w", err)
	}
	pruned := 0
	err := s.write(ctx, func(ctx context.Context, t tx) error {
		pruned = 0
		if err := fence(ctx, t, term); err != nil {
			return err
		}
		if _, err := t.exec(ctx, sqlPruneLastRuns, before.UnixMicro(), limit); err != nil {
			return err
		}
		for _, statement := range append([]string{sqlPruneRuns, sqlPruneEvents, sqlPruneRequests, sqlPruneDeploys, sqlPruneTerms, sqlPruneAudit, sqlPruneBackfillRuns, sqlPruneBackfills, sqlPruneAlerts, sqlPruneDeliveries, sqlPruneNotices, sqlPruneLostNotices, sqlPruneGroups}, tables.PruneOthers...) {
			n, err := t.exec(ctx, statement, before.UnixMicro(), limit)
			if err != nil {
				return err
			}
			pruned += int(n)
		}
		instances, err := t.exec(ctx, sqlPruneInstances, s.Now().Add(-instancesFor).UnixMicro(), limit)
		if err != nil {
			return err
		}
		free, err := tables.PruneUniques(ctx, queries{t}, s.Now(), limit)
		if err != nil {
			return err
		}
		pruned += free
		n, err := s.pruneSchedules(ctx, t, before, limit)
		if err != nil {
			return err
		}
		changes, err := pruneChanges(ctx, t, s.Now(), limit)
		pruned += int(instances) + n + changes
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("prune: %w", err)
	}
	return pruned, nil
}

// pruneSchedules deletes tombstones and unused templates, and counts revisions as well.
func (s *Store) pruneSchedules(ctx context.Context, t tx, before time.Time, limit int) (pruned int, err error) {
	var ids []string
	for _, statement := range []string{sqlPruneTombstones, sqlUnusedTemplates} {
		err = t.query(ctx, statement, func(scan scan) error {
			var id string
			err := scan(&id)
			ids = append(ids, id)
			return err
		}, before.UnixMicro(), limit)
		if err != nil {
			return 0, err
		}
	}
	if len(ids) == 0 {
		return 0, nil
	}
	// The id may come to life again with revision 1 of another definition.
	s.definitions.Forget()
	for _, statement := range []string{sqlPruneRevisions, sqlPruneSchedules, sqlDropFailures} {
		n, err := t.exec(ctx, statement, list(ids))
		if err != nil {
			return 0, err
		}
		pruned += int(n)
	}
	return pruned, nil
}
