package revision

import (
	"maps"
	"sync"
	"time"
)

// mostNames bounds Names: a hundred bytes each.
const mostNames = 500_000

// Names remembers the schedule of each sid, which never changes. If there are too many,
// some are removed at random. After an hour all are: a restored database can give a sid to
// another schedule. The zero value is empty.
type Names struct {
	mu    sync.Mutex
	known map[int32]string
	began time.Time
}

// Known gives the names that it has, and the sids of the others, once each.
func (n *Names) Known(sids []int32) (known map[int32]string, missing []int32) {
	known = make(map[int32]string, len(sids))
	n.mu.Lock()
	defer n.mu.Unlock()
	if time.Since(n.began) > cacheAge {
		n.known, n.began = make(map[int32]string), time.Now()
	}
	for _, sid := range sids {
		if _, named := known[sid]; named {
			continue
		}
		known[sid] = n.known[sid]
		if known[sid] == "" {
			missing = append(missing, sid)
		}
	}
	return known, missing
}

// Keep adds names.
func (n *Names) Keep(names map[int32]string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.known == nil {
		n.known, n.began = make(map[int32]string), time.Now()
	}
	maps.Copy(n.known, names)
	for victim := range n.known {
		if len(n.known) <= mostNames {
			return
		}
		delete(n.known, victim)
	}
}
