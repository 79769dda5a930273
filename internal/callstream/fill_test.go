package callstream

import (
	"testing"
	"time"
)

// An internal test: a process that was stopped writes before its timers fire, and that
// cannot be brought about from outside.
func TestTheWriterLeavesOutCallsThatAreLate(t *testing.T) {
	type one struct{}
	s := New(RPC[one, []*one, one, one]{
		Message: func(calls []*one, _ []uint64) *[]*one { return &calls },
		Size:    func(*one) int { return 1 },
	})
	now := time.Now()
	for _, by := range []time.Time{now.Add(time.Hour), now, now.Add(-time.Second), {}} {
		s.pending = append(s.pending, &call[one, []*one, one, one]{group: &group[one]{by: by}, msg: new(one)})
	}
	msg, by, late := s.fill(&batch[one, []*one, one, one]{open: make(map[uint64]*call[one, []*one, one, one])})
	if len(*msg) != 2 || len(late) != 2 || !by.Equal(now.Add(time.Hour)) {
		t.Errorf("%d calls to be written by %s, and %d late, want the two that are in time", len(*msg), by, len(late))
	}
}
