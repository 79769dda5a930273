package postgres

import (
	"context"
	"fmt"
	"maps"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/revision"
)

// definitionsOf returns the definitions of revisions, from the cache or the table. It
// leaves out missing and unreadable ones.
func (s *Store) definitionsOf(ctx context.Context, q querier, ids map[revision.ID]struct{}) (map[revision.ID]*schedule.Definition, error) {
	found, missing := s.definitions.Known(maps.Keys(ids))
	if len(missing) == 0 {
		return found, nil
	}
	var (
		id   revision.ID
		text string
		read = make(map[revision.ID]*schedule.Definition, len(missing))
	)
	err := each(ctx, q, []any{&id.ScheduleID, &id.Revision, &text}, func() error {
		d, err := revision.Decode(text)
		if err != nil {
			s.log.WarnContext(ctx, "revision unreadable", "schedule_id", id.ScheduleID, "revision", id.Revision, "err", err)
			return nil
		}
		read[id] = d
		return nil
	}, sqlDefinitions,
		column(missing, func(id *revision.ID) string { return id.ScheduleID }),
		column(missing, func(id *revision.ID) int64 { return id.Revision }))
	if err != nil {
		return nil, fmt.Errorf("read definitions: %w", err)
	}
	s.definitions.Keep(read)
	maps.Copy(found, read)
	return found, nil
}

// revisionsOf are those that runs name, once each.
func revisionsOf(runs []schedule.Run) map[revision.ID]struct{} {
	ids := make(map[revision.ID]struct{}, len(runs))
	for i := range runs {
		ids[revision.Of(&runs[i])] = struct{}{}
	}
	return ids
}

// identify sets the fields of a run that come from its revision.
func identify(r *schedule.Run, d *schedule.Definition) {
	if d != nil {
		r.UserID, r.WorkflowID, r.Version = d.UserID, d.WorkflowID, d.Version
	}
}
