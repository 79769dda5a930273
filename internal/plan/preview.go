package plan

import "time"

// Preview lists up to n slots in (after, until] that the planner would plan, with the instants at
// which the worker would fire. A zero until means no end.
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
