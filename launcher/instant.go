package launcher

import (
	"sync"
	"time"
)

// Recording an outcome costs a hundred times what calling the executor does, and
// both want the same cores: where many calls are due at one instant, the first
// outcomes would make the last calls late. So outcomes wait for the calls of
// their instant, for a moment.
const (
	// holdFor is the longest that an outcome waits.
	holdFor = 100 * time.Millisecond
	// holdLook is how often it is looked whether the calls have begun.
	holdLook = 2 * time.Millisecond
	// crowd is how many calls make outcomes wait.
	crowd = 32
)

// instants counts the calls that are to begin, by the part of a second in which
// they are due.
type instants struct {
	now   func() time.Time
	mu    sync.Mutex
	calls map[int64]int
}

// instantPart is the width of one count.
const instantPart = int64(16 * time.Millisecond)

func partOf(at time.Time) int64 { return at.UnixNano() / instantPart }

// expect notes a call that is due at an instant, until it has begun.
func (n *instants) expect(at time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.calls[partOf(at)]++
}

func (n *instants) begun(at time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.calls[partOf(at)]--; n.calls[partOf(at)] == 0 {
		delete(n.calls, partOf(at))
	}
}

// crowded reports whether many calls are due about now and have not begun. What
// has been due for longer than holdFor is not late for its instant alone.
func (n *instants) crowded() bool {
	now := n.now()
	n.mu.Lock()
	defer n.mu.Unlock()
	due := 0
	for part := partOf(now.Add(-holdFor)); part <= partOf(now); part++ {
		due += n.calls[part]
	}
	return due >= crowd
}

// pass returns once the calls that are due have begun, or after holdFor.
func (n *instants) pass() {
	for began := time.Now(); n.crowded() && time.Since(began) < holdFor; {
		time.Sleep(holdLook)
	}
}
