package sqlite

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/carillon/carillon/internal/schedule"
)

// revisionID names one row of schedule_revisions.
type revisionID struct {
	scheduleID string
	revision   int64
}

// maxDefinitions bounds what is kept decoded: about 20 MB. The one to go is
// taken at random, since schedules come round in turn and the least recently
// used would be the next.
const maxDefinitions = 20_000

// definitions remembers decoded revisions, which are immutable: a claim of
// 1,000 runs would otherwise read as many definitions, minute after minute.
type definitions struct {
	mu    sync.Mutex
	known map[revisionID]*schedule.Definition
}

func newDefinitions() *definitions {
	return &definitions{known: make(map[revisionID]*schedule.Definition)}
}

func (d *definitions) forget() {
	d.mu.Lock()
	defer d.mu.Unlock()
	clear(d.known)
}

// read returns the definitions of the revisions; one that is missing, or not
// readable, is left out.
func (d *definitions) read(ctx context.Context, q querier, ids []revisionID) (map[revisionID]*schedule.Definition, error) {
	out := make(map[revisionID]*schedule.Definition, len(ids))
	var unknown [][2]any
	d.mu.Lock()
	for _, id := range ids {
		if definition := d.known[id]; definition != nil {
			out[id] = definition
		} else if _, asked := out[id]; !asked {
			out[id] = nil
			unknown = append(unknown, [2]any{id.scheduleID, id.revision})
		}
	}
	d.mu.Unlock()
	if len(unknown) == 0 {
		return out, nil
	}
	wanted, err := json.Marshal(unknown)
	if err != nil {
		return nil, fmt.Errorf("read definitions: %w", err)
	}
	var scheduleID, definition text
	var revision number
	err = q.query(ctx, sqlDefinitions, func(scan scan) error {
		if err := scan(&scheduleID, &revision, &definition); err != nil {
			return err
		}
		read := new(schedule.Definition)
		if json.Unmarshal([]byte(definition), read) == nil {
			out[revisionID{string(scheduleID), int64(revision)}] = read
		}
		return nil
	}, string(wanted))
	if err != nil {
		return nil, fmt.Errorf("read definitions: %w", err)
	}
	d.remember(out)
	return out, nil
}

func (d *definitions) remember(read map[revisionID]*schedule.Definition) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for id, definition := range read {
		if definition == nil {
			continue
		}
		if len(d.known) >= maxDefinitions {
			for victim := range d.known {
				delete(d.known, victim)
				break
			}
		}
		d.known[id] = definition
	}
}
