package plan

import "time"

// gapSteps bounds one search for a gap: a limit of an hour over a year.
const gapSteps = 10_000

// Gap finds, between from and until, two neighbouring slots that lie limit or
// more apart. It leaps from a slot to the last one less than limit behind it, so
// what fires every second is no longer a search than what fires every hour; it
// ends early where that takes too many leaps.
func (t *Timetable) Gap(from, until time.Time, limit time.Duration) (before, after time.Time, found bool) {
	at, ok := t.Next(from)
	for range gapSteps {
		if !ok || !at.Before(until) {
			break
		}
		last, any := t.last(at.Add(time.Second), at.Add(limit))
		if any {
			at = last
			continue
		}
		next, more := t.Next(at)
		if !more {
			break // it ends: nothing is asked for behind it
		}
		return at, next, true
	}
	return before, after, false
}
