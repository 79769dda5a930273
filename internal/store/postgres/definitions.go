package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/carillon/carillon/internal/schedule"
)

// storedDefinition is a definition as schedule_revisions keeps it. Input
// stands in it as text: as a member it would be compacted, and raw JSON is kept
// byte for byte.
type storedDefinition struct {
	schedule.Definition
	Input string `json:"input,omitempty"`
}

func encodeDefinition(d *schedule.Definition) (string, error) {
	stored := storedDefinition{Definition: *d, Input: string(d.Input)}
	for _, at := range []*time.Time{&stored.OnceAt, &stored.StartAt, &stored.EndAt} {
		*at = at.UTC().Truncate(time.Microsecond)
	}
	raw, err := json.Marshal(&stored)
	return string(raw), err
}

func decodeDefinition(raw string) (*schedule.Definition, error) {
	var stored storedDefinition
	if err := json.Unmarshal([]byte(raw), &stored); err != nil {
		return nil, err
	}
	d := stored.Definition
	if stored.Input != "" {
		d.Input = json.RawMessage(stored.Input)
	}
	return &d, nil
}

// revisionRef names a revision.
type revisionRef struct {
	scheduleID string
	revision   int64
}

func refOf(r *schedule.Run) revisionRef { return revisionRef{r.ScheduleID, r.Revision} }

// definitionsOf gives the definitions of revisions, from the cache where it has
// them. One that is missing or cannot be read is not in the answer.
func (s *Store) definitionsOf(ctx context.Context, q querier, refs map[revisionRef]struct{}) (map[revisionRef]*schedule.Definition, error) {
	found := make(map[revisionRef]*schedule.Definition, len(refs))
	var missing []revisionRef
	for ref := range refs {
		if d := s.definitions.get(ref); d != nil {
			found[ref] = d
		} else {
			missing = append(missing, ref)
		}
	}
	if len(missing) == 0 {
		return found, nil
	}
	var (
		ref revisionRef
		raw string
	)
	err := each(ctx, q, []any{&ref.scheduleID, &ref.revision, &raw}, func() error {
		d, err := decodeDefinition(raw)
		if err != nil {
			s.log.WarnContext(ctx, "revision unreadable", "schedule_id", ref.scheduleID, "revision", ref.revision, "err", err)
			return nil
		}
		found[ref] = d
		s.definitions.put(ref, d)
		return nil
	}, sqlDefinitions,
		column(missing, func(r *revisionRef) string { return r.scheduleID }),
		column(missing, func(r *revisionRef) int64 { return r.revision }))
	if err != nil {
		return nil, fmt.Errorf("read definitions: %w", err)
	}
	return found, nil
}

// warm has the definitions of what was planned in the cache before it is claimed:
// a herd of 10,000 schedules that fire once a day has them all read in the second
// before its instant otherwise, which is full with claims. Where that fails, the
// claim reads them.
func (s *Store) warm(ctx context.Context, refs map[revisionRef]struct{}) {
	for ref := range refs {
		if s.definitions.get(ref) != nil {
			delete(refs, ref)
		}
	}
	if len(refs) == 0 {
		return
	}
	err := s.once(ctx, func(tx pgx.Tx) error {
		_, err := s.definitionsOf(ctx, tx, refs)
		return err
	})
	if err != nil {
		s.log.DebugContext(ctx, "definitions not read ahead", "err", err)
	}
}

// refsOf are the revisions that runs name, once each.
func refsOf(runs []schedule.Run) map[revisionRef]struct{} {
	refs := make(map[revisionRef]struct{}, len(runs))
	for i := range runs {
		refs[refOf(&runs[i])] = struct{}{}
	}
	return refs
}

// identify gives a run what is read from its revision.
func identify(r *schedule.Run, d *schedule.Definition) {
	if d != nil {
		r.UserID, r.WorkflowID, r.Version = d.UserID, d.WorkflowID, d.Version
	}
}

// The bounds of half of the cache: a rough measure of its size, and its age.
const (
	generationBytes = 16 << 20
	generationAge   = time.Hour
)

// definitionCache keeps definitions by revision; they never change. It has two
// generations: when the young one is full or aged it becomes the old one, and
// what was not asked for since is gone. Age matters because long after a
// deletion an id may begin again at revision 1.
type definitionCache struct {
	mu         sync.Mutex
	young, old map[revisionRef]*schedule.Definition
	size       int
	began      time.Time
}

func (c *definitionCache) get(ref revisionRef) *schedule.Definition {
	c.mu.Lock()
	defer c.mu.Unlock()
	if age := time.Since(c.began); age > generationAge {
		c.turn()
		if age > 2*generationAge {
			c.old = nil
		}
	}
	if d := c.young[ref]; d != nil {
		return d
	}
	d := c.old[ref]
	if d != nil {
		c.keep(ref, d)
	}
	return d
}

func (c *definitionCache) put(ref revisionRef, d *schedule.Definition) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.young[ref] == nil {
		c.keep(ref, d)
	}
}

func (c *definitionCache) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.turn()
	c.old = nil
}

func (c *definitionCache) keep(ref revisionRef, d *schedule.Definition) {
	const fixed = 600 // the struct, its short strings and the map's slot
	size := fixed + len(d.Input)
	for name, value := range d.Labels {
		size += 32 + len(name) + len(value)
	}
	if c.young == nil || c.size+size > generationBytes {
		c.turn()
	}
	c.young[ref] = d
	c.size += size
}

func (c *definitionCache) turn() {
	c.old, c.young, c.size, c.began = c.young, make(map[revisionRef]*schedule.Definition), 0, time.Now()
}
