package registrar

import (
	"fmt"
	"strings"

	"github.com/carillon/carillon/internal/schedule"
)

// refuseTaken refuses to change the manager of a schedule without adopt: two
// managers would overwrite each other's definition at every deploy. A schedule
// without a manager may be taken.
func (all *upserts) refuseTaken(found []schedule.ChangeInput) error {
	const shown = 10
	var taken []string
	by := all.managed.By
	for i := range all.inputs {
		s, d := found[i].Schedule, &all.definitions[i]
		if all.adopt || all.inputs[i].Adopt || d.ManagedBy == "" || !ownedBy(s, d) || s.ManagedBy == "" || s.ManagedBy == d.ManagedBy {
			continue
		}
		by = d.ManagedBy
		taken = append(taken, fmt.Sprintf("%s (managed by %s)", s.ScheduleID, s.ManagedBy))
	}
	if len(taken) == 0 {
		return nil
	}
	more := ""
	if len(taken) > shown {
		more = fmt.Sprintf(" and %d more", len(taken)-shown)
		taken = taken[:shown]
	}
	instead := "leave it out"
	if all.managed.By == "" {
		instead = "leave managed_by out to keep the manager"
	}
	return schedule.Explain(schedule.ErrPrecondition, "%s cannot take over %s%s; %s, or set adopt (--adopt) to take over",
		by, strings.Join(taken, ", "), more, instead)
}

// ownedBy reports whether s exists and has the owner that d names. Nothing
// about another owner's schedule may show in an answer.
func ownedBy(s *schedule.Schedule, d *schedule.Definition) bool {
	return s != nil && s.Alive() && s.UserID == d.UserID
}

// managerWarning says when the manager of a schedule will overwrite a manual upsert. Deploys do
// not overwrite a pause.
func managerWarning(before, after *schedule.Schedule) string {
	if before == nil || after.ManagedBy == "" || after.ManagedBy != before.ManagedBy || before.Equal(&after.Definition) {
		return ""
	}
	overwrites := "its next deploy may overwrite this change"
	switch {
	case strings.HasPrefix(after.ManagedBy, managedBySet):
		overwrites = "the next apply of that set overwrites this change"
	case strings.HasPrefix(after.ManagedBy, managedByWorkflow):
		overwrites = "the next deploy of that workflow overwrites this change"
	}
	return fmt.Sprintf("schedule %s is managed by %s; %s", after.ScheduleID, after.ManagedBy, overwrites)
}
