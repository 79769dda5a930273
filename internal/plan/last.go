package plan

import "time"

// Last is the newest slot in [from, until); false where there is none.
func (t *Timetable) Last(from, until time.Time) (time.Time, bool) {
	last, ok := t.last(from, until)
	if !ok {
		return last, false
	}
	// The neighbour that an interval has on paper before its first slot is none.
	slot, ok := t.Next(last.Add(-time.Second))
	return last, ok && slot.Equal(last)
}
