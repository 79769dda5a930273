package plan

import "time"

// Last is the newest slot in [from, until); false where there is none.
func (t *Timetable) Last(from, until time.Time) (time.Time, bool) { return t.last(from, until) }
