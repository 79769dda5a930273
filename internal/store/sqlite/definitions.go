package sqlite

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/revision"
)

// definitionsOf returns the definitions of revisions, from the cache or the table. It
// leaves out missing and unreadable ones.
func (s *Store) definitionsOf(ctx context.Context, q querier, ids []revision.ID) (map[revision.ID]*schedule.Definition, error) {
	found, missing := s.definitions.Known(slices.Values(ids))
	if len(missing) == 0 {
		return found, nil
	}
	wanted := make([][2]any, len(missing))
	for i, id := range missing {
		wanted[i] = [2]any{id.ScheduleID, id.Revision}
	}
	list, err := json.Marshal(wanted)
	if err != nil {
		return nil, fmt.Errorf("read definitions: %w", err)
	}
	var (
		scheduleID, definition text
		number                 number
		read                   = make(map[revision.ID]*schedule.Definition, len(missing))
	)
	err = q.query(ctx, sqlDefinitions, func(scan scan) error {
		if err := scan(&scheduleID, &number, &definition); err != nil {
			return err
		}
		if d, err := revision.Decode(string(definition)); err == nil {
			read[revision.ID{ScheduleID: string(scheduleID), Revision: int64(number)}] = d
		}
		return nil
	}, string(list))
	if err != nil {
		return nil, fmt.Errorf("read definitions: %w", err)
	}
	s.definitions.Keep(read)
	maps.Copy(found, read)
	return found, nil
}
