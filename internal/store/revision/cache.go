package revision

import (
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// cacheAge bounds what a cache may believe. An id that was pruned, by this process or by
// another, can begin again at revision 1, and a restored database can give a sid to another
// schedule.
const cacheAge = time.Hour

// cache is a map of limited size that forgets everything after cacheAge. It removes entries
// at random: schedules come in turn, so the least recently used would be needed next. Its
// zero value is empty.
type cache[K comparable, V any] struct {
	mu    sync.Mutex
	known map[K]V
	size  int
	began time.Time
}

// find returns what it has of the keys, and the missing keys, once each.
func (c *cache[K, V]) find(keys iter.Seq[K]) (known map[K]V, missing []K) {
	known = make(map[K]V)
	named := make(map[K]bool) // in missing
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.began) > cacheAge {
		c.forget()
	}
	for key := range keys {
		if v, ok := c.known[key]; ok {
			known[key] = v
		} else if !named[key] {
			named[key] = true
			missing = append(missing, key)
		}
	}
	return known, missing
}

func (c *cache[K, V]) forget() {
	c.known, c.size, c.began = make(map[K]V), 0, time.Now()
}

// keep adds entries.
func (c *cache[K, V]) keep(read map[K]V, sizeOf func(V) int, limit int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, v := range read {
		c.put(key, v, sizeOf, limit)
	}
}

// put adds an entry if it is new. c.mu is held.
func (c *cache[K, V]) put(key K, v V, sizeOf func(V) int, limit int) {
	if c.known == nil {
		c.forget()
	}
	if _, ok := c.known[key]; ok {
		return
	}
	c.known[key] = v
	c.size += sizeOf(v)
	for victim, old := range c.known {
		if c.size <= limit {
			return
		}
		delete(c.known, victim)
		c.size -= sizeOf(old)
	}
}

// cacheBytes bounds Cache: enough for a burst of a hundred thousand short definitions.
const cacheBytes = 64 << 20

// Cache holds decoded definitions: without it, each claim of 1,000 runs would read as
// many. Its zero value is empty.
type Cache struct {
	cache[ID, *schedule.Definition]
}

// Known returns the definitions that it has, and the other ids, once each.
func (c *Cache) Known(ids iter.Seq[ID]) (known map[ID]*schedule.Definition, missing []ID) {
	return c.find(ids)
}

// Keep adds definitions.
func (c *Cache) Keep(read map[ID]*schedule.Definition) { c.keep(read, sizeOf, cacheBytes) }

// KeepPlanned adds the definitions of candidates that rows were planned of: the claim of a
// burst then reads none of them in the second before its instant. It leaves out schedules
// without such a row, which may be a million.
func (c *Cache) KeepPlanned(candidates []schedule.PlanCandidate, rows []schedule.Run) {
	planned := make(map[ID]bool)
	for i := range rows {
		planned[Of(&rows[i])] = true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range candidates {
		s := &candidates[i].Schedule
		id := ID{ScheduleID: s.ScheduleID, Revision: s.Revision}
		if planned[id] && candidates[i].Unreadable == nil && c.known[id] == nil {
			d := s.Definition
			c.put(id, &d, sizeOf, cacheBytes)
		}
	}
}

// Forget empties the cache. Call it when ids may begin again.
func (c *Cache) Forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forget()
}

func sizeOf(d *schedule.Definition) int {
	size := 600 + len(d.Input) // the struct, its short strings, the map's slot
	for name, value := range d.Labels {
		size += 32 + len(name) + len(value)
	}
	return size
}

// mostNames bounds Names: a hundred bytes each.
const mostNames = 500_000

// Names holds the schedule of each sid, which never changes. Its zero value is empty.
type Names struct {
	cache[int32, string]
}

// Known returns the names that it has, and the other sids, once each.
func (n *Names) Known(sids []int32) (known map[int32]string, missing []int32) {
	return n.find(slices.Values(sids))
}

// Keep adds names.
func (n *Names) Keep(names map[int32]string) {
	n.keep(names, func(string) int { return 1 }, mostNames)
}
