package plan

import "time"

// gapSteps bounds one search for a gap: a limit of an hour over a year.
const gapSteps = 10_000

// Gap finds two neighbouring slots in [from, until) that are at least limit apart. It jumps from a
// slot to the last one less than limit after it, so the search costs the same for every second as
// for every hour. It stops early after gapSteps jumps.
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
			break // the schedule ends
		}
		return at, next, true
	}
	return before, after, false
}
