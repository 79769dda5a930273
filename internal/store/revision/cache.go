package revision

import (
	"iter"
	"sync"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// The size of the cache in bytes: enough for a burst of a hundred thousand short
// definitions, for so long. Age matters because an id that was pruned, by this process or
// by another, may begin again at revision 1.
const (
	cacheBytes = 64 << 20
	cacheAge   = time.Hour
)

// Cache remembers decoded definitions: a claim of 1,000 runs would otherwise read
// as many, minute after minute. What goes is taken at random, since schedules come
// round in turn, and the least recently used would be the next. Its zero value is
// empty.
type Cache struct {
	mu    sync.Mutex
	known map[ID]*schedule.Definition
	bytes int
	began time.Time
}

// Known gives what it has of the ids, and names the others, once each.
func (c *Cache) Known(ids iter.Seq[ID]) (known map[ID]*schedule.Definition, missing []ID) {
	known = make(map[ID]*schedule.Definition)
	named := make(map[ID]bool)
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.began) > cacheAge {
		c.forget()
	}
	for id := range ids {
		if d := c.known[id]; d != nil {
			known[id] = d
		} else if !named[id] {
			named[id] = true
			missing = append(missing, id)
		}
	}
	return known, missing
}

// Keep remembers what was read.
func (c *Cache) Keep(read map[ID]*schedule.Definition) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, d := range read {
		c.keep(id, d)
	}
}

// Foresee remembers the definitions under which rows were planned of candidates: a
// burst is then claimed without reading all of its in the second before its instant.
// Of schedules that have no slot yet it keeps nothing: they may be a million.
func (c *Cache) Foresee(candidates []schedule.PlanCandidate, rows []schedule.Run) {
	planned := make(map[ID]bool)
	for i := range rows {
		planned[Of(&rows[i])] = true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range candidates {
		s := &candidates[i].Schedule
		id := ID{ScheduleID: s.ScheduleID, Revision: s.Revision}
		if !planned[id] || candidates[i].Unreadable != nil || c.known[id] != nil {
			continue
		}
		d := s.Definition
		c.keep(id, &d)
	}
}

// Forget is for when ids may begin again.
func (c *Cache) Forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forget()
}

func (c *Cache) forget() {
	c.known, c.bytes, c.began = make(map[ID]*schedule.Definition), 0, time.Now()
}

func (c *Cache) keep(id ID, d *schedule.Definition) {
	if c.known == nil {
		c.forget()
	}
	if c.known[id] != nil {
		return
	}
	c.known[id] = d
	c.bytes += sizeOf(d)
	for victim, old := range c.known {
		if c.bytes <= cacheBytes {
			return
		}
		delete(c.known, victim)
		c.bytes -= sizeOf(old)
	}
}

func sizeOf(d *schedule.Definition) int {
	size := 600 + len(d.Input) // the struct, its short strings, the map's slot
	for name, value := range d.Labels {
		size += 32 + len(name) + len(value)
	}
	return size
}
