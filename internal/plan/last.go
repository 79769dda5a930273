package plan

import "time"

// Last is the newest slot in [from, until); false: none.
func (t *Timetable) Last(from, until time.Time) (time.Time, bool) {
	last, ok := t.last(from, until)
	if !ok {
		return last, false
	}
	// An interval has a computed neighbour before its first slot; it is no slot.
	slot, ok := t.Next(last.Add(-time.Second))
	return last, ok && slot.Equal(last)
}
