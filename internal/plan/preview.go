package plan

import "time"

// Preview lists up to n slots later than after and, unless until is zero, not
// later than until: what the planner would plan, with the instants at which
// the worker would fire.
func (t *Timetable) Preview(after, until time.Time, n int) []Slot {
	var slots []Slot
	for at, ok := t.Next(after); ok && len(slots) < n; at, ok = t.Next(at) {
		if !until.IsZero() && at.After(until) {
			break
		}
		slots = append(slots, t.Slot(at))
	}
	return slots
}
