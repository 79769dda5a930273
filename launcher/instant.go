package launcher

import (
	"sync/atomic"
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
// they are due: at most so many parts ahead as checkLife is long, so a ring of
// twice that has room for those that are late, too. It decides nothing but how
// long an outcome waits.
type instants struct {
	now   func() time.Time
	calls [instantParts]atomic.Int32
}

const (
	// instantPart is the width of one count.
	instantPart  = int64(16 * time.Millisecond)
	instantParts = 128
)

func (n *instants) partOf(at time.Time) *atomic.Int32 {
	return &n.calls[uint64(at.UnixNano()/instantPart)%instantParts]
}

// expect notes a call that is due at an instant, until it has begun.
func (n *instants) expect(at time.Time) { n.partOf(at).Add(1) }
func (n *instants) begun(at time.Time)  { n.partOf(at).Add(-1) }

// crowded reports whether many calls are due about now and have not begun. What
// has been due for longer than holdFor is not late for its instant alone.
func (n *instants) crowded() bool {
	now, due := n.now(), int32(0)
	for back := time.Duration(0); back <= holdFor; back += time.Duration(instantPart) {
		due += n.partOf(now.Add(-back)).Load()
	}
	return due >= crowd
}

// pass returns once the calls that are due have begun, or after holdFor.
func (n *instants) pass() {
	for began := time.Now(); n.crowded() && time.Since(began) < holdFor; {
		time.Sleep(holdLook)
	}
}
