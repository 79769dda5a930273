package sqlite

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// revisionID names one row of schedule_revisions.
type revisionID struct {
	scheduleID string
	revision   int64
}

// What is kept decoded: about so many bytes, for so long. Age matters because
// an id that was pruned may begin again at revision 1.
const (
	definitionBytes = 32 << 20
	definitionAge   = time.Hour
)

// definitions remembers decoded revisions, which are immutable: a claim of
// 1,000 runs would otherwise read as many definitions, minute after minute.
// The ones to go are taken at random, since schedules come round in turn and
// the least recently used would be the next.
type definitions struct {
	mu    sync.Mutex
	known map[revisionID]*schedule.Definition
	bytes int
	began time.Time
}

func newDefinitions() *definitions {
	return &definitions{known: make(map[revisionID]*schedule.Definition)}
}

func (d *definitions) forget() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.clear()
}

func (d *definitions) clear() {
	clear(d.known)
	d.bytes, d.began = 0, time.Now()
}

// read returns the definitions of the revisions; one that is missing, or not
// readable, is left out.
func (d *definitions) read(ctx context.Context, q querier, ids []revisionID) (map[revisionID]*schedule.Definition, error) {
	out := make(map[revisionID]*schedule.Definition, len(ids))
	var unknown [][2]any
	d.mu.Lock()
	if time.Since(d.began) > definitionAge {
		d.clear()
	}
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
		if read, err := decodeDefinition(string(definition)); err == nil {
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

// foresee keeps the definitions of what has been planned: a herd is then claimed
// without reading 10,000 of them in its last second.
func (d *definitions) foresee(planned []schedule.PlanCandidate) {
	unknown := make(map[revisionID]*schedule.Definition)
	d.mu.Lock()
	for i := range planned {
		s := &planned[i].Schedule
		if id := (revisionID{s.ScheduleID, s.Revision}); planned[i].Unreadable == nil && d.known[id] == nil {
			definition := s.Definition
			unknown[id] = &definition
		}
	}
	d.mu.Unlock()
	d.remember(unknown)
}

func (d *definitions) remember(read map[revisionID]*schedule.Definition) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for id, definition := range read {
		if definition == nil || d.known[id] != nil {
			continue
		}
		d.known[id] = definition
		d.bytes += sizeOf(definition)
		for victim, old := range d.known {
			if d.bytes <= definitionBytes {
				break
			}
			delete(d.known, victim)
			d.bytes -= sizeOf(old)
		}
	}
}

func sizeOf(d *schedule.Definition) int {
	size := 600 + len(d.Input) // the struct, its short strings, the map's slot
	for name, value := range d.Labels {
		size += 32 + len(name) + len(value)
	}
	return size
}

// storedDefinition is the JSON of schedule_revisions. Input is in it as a
// string: as JSON within JSON it would lose white space and be escaped.
type storedDefinition struct {
	schedule.Definition
	Input string `json:"input,omitempty"`
}

func encodeDefinition(d schedule.Definition) (string, error) {
	for _, at := range []*time.Time{&d.OnceAt, &d.StartAt, &d.EndAt} {
		*at = at.UTC().Truncate(time.Microsecond)
	}
	out, err := json.Marshal(storedDefinition{Definition: d, Input: string(d.Input)})
	if err != nil {
		return "", fmt.Errorf("write definition: %w", err)
	}
	return string(out), nil
}

func decodeDefinition(definition string) (*schedule.Definition, error) {
	var stored storedDefinition
	if err := json.Unmarshal([]byte(definition), &stored); err != nil {
		return nil, fmt.Errorf("read definition: %w", err)
	}
	if stored.Input != "" {
		stored.Definition.Input = json.RawMessage(stored.Input)
	}
	return &stored.Definition, nil
}
