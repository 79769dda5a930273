package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/tables"
)

// Prune deletes a portion of the rows that are older than before; tombstones only after
// all of their runs.
func (s *Store) Prune(ctx context.Context, term schedule.Term, before time.Time, limit int) (int, error) {
	parts, err := s.keepPartitions(ctx, before)
	if err != nil {
		return 0, fmt.Errorf("prune: %w", err)
	}
	gone := 0
	err = s.fenced(ctx, term, func(tx pgx.Tx) error {
		gone = 0
		if _, err := affect(ctx, tx, sqlPruneLastRuns, before, limit, parts.begin(), parts.end()); err != nil {
			return err
		}
		var err error
		if gone, err = pruneChanges(ctx, tx, limit); err != nil {
			return err
		}
		var runs int
		if err := tx.QueryRow(ctx, sqlPruneRuns, before, limit, parts.begin(), parts.end()).Scan(&runs); err != nil {
			return err
		}
		instances, err := affect(ctx, tx, sqlPruneInstances, limit)
		if err != nil {
			return err
		}
		gone += runs + instances
		for _, statement := range append([]string{sqlPruneEvents, sqlPruneRequests, sqlPruneDeploys, sqlPruneTerms, sqlPruneAudit, sqlPruneBackfillRuns, sqlPruneBackfills, sqlPruneAlerts, sqlPruneDeliveries, sqlPruneNotices, sqlPruneLostNotices, sqlPruneGroups}, tables.PruneOthers...) {
			n, err := affect(ctx, tx, statement, before, limit)
			if err != nil {
				return err
			}
			gone += n
		}
		free, err := tables.PruneUniques(ctx, queries{tx}, s.Now(), limit)
		if err != nil {
			return err
		}
		gone += free
		schedules, err := s.pruneSchedules(ctx, tx, before, limit)
		gone += schedules
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("prune: %w", err)
	}
	return gone, nil
}

// pruneSchedules deletes tombstones and unused templates, and counts revisions as well.
func (s *Store) pruneSchedules(ctx context.Context, tx pgx.Tx, before time.Time, limit int) (gone int, err error) {
	ids, err := idsOf(ctx, tx, sqlPruneTombstones, before, limit)
	if err != nil {
		return 0, err
	}
	unused, err := idsOf(ctx, tx, sqlUnusedTemplates, before, limit)
	if err == nil && len(unused) > 0 {
		unused, err = idsOf(ctx, tx, sqlPruneTemplates, unused)
	}
	if ids = append(ids, unused...); err != nil || len(ids) == 0 {
		return 0, err
	}
	s.definitions.Forget() // such an id may begin again at revision 1
	revisions, err := affect(ctx, tx, sqlPruneRevisions, ids)
	if err != nil {
		return 0, err
	}
	_, err = affect(ctx, tx, sqlDropFailures, ids) // of runs that ended after the deletion
	return len(ids) + revisions, err
}

func idsOf(ctx context.Context, tx pgx.Tx, statement string, args ...any) (ids []string, err error) {
	var id string
	err = each(ctx, tx, []any{&id}, func() error {
		ids = append(ids, id)
		return nil
	}, statement, args...)
	return ids, err
}

func pruneChanges(ctx context.Context, tx pgx.Tx, limit int) (int, error) {
	if _, err := tx.Exec(ctx, sqlSnapshot); err != nil {
		return 0, fmt.Errorf("record a snapshot: %w", err)
	}
	gone, err := affect(ctx, tx, sqlPruneChanges, limit)
	if err != nil {
		return 0, fmt.Errorf("prune changes: %w", err)
	}
	_, err = tx.Exec(ctx, sqlPruneSnapshots)
	return gone, err
}
