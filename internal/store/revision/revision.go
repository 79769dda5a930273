// Package revision keeps the definitions of schedules under their revisions: as
// the text of schedule_revisions, and decoded in memory.
package revision

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// ID names one row of schedule_revisions. Its definition never changes.
type ID = schedule.RevisionID

// Of is the revision under which a run was planned.
func Of(r *schedule.Run) ID { return ID{ScheduleID: r.ScheduleID, Revision: r.Revision} }

// stored is a definition in its row. Input is text: as a JSON member it would be
// compacted, and raw JSON is kept byte for byte.
type stored struct {
	schedule.Definition
	Input string `json:"input,omitempty"`
}

// Encode is the text of a row.
func Encode(d *schedule.Definition) (string, error) {
	s := stored{Definition: *d, Input: string(d.Input)}
	for _, at := range []*time.Time{&s.OnceAt, &s.StartAt, &s.EndAt} {
		*at = at.UTC().Truncate(time.Microsecond)
	}
	var text strings.Builder
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false) // the filter of a consumer is kept as it was sent
	if err := e.Encode(&s); err != nil {
		return "", fmt.Errorf("write definition: %w", err)
	}
	return strings.TrimSuffix(text.String(), "\n"), nil
}

// Decode reads it.
func Decode(text string) (*schedule.Definition, error) {
	var s stored
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return nil, fmt.Errorf("read definition: %w", err)
	}
	if s.Input != "" {
		s.Definition.Input = json.RawMessage(s.Input)
	}
	return &s.Definition, nil
}

// Readable is Decode, but nil for a text that is missing or cannot be read.
func Readable(text string) *schedule.Definition {
	d, err := Decode(text)
	if err != nil {
		return nil
	}
	return d
}
