package grant

import "github.com/carillon/carillon/internal/schedule"

// Only returns the one grant of a list that was read by grant_id, or
// schedule.ErrNotFound. Several owners may use the same grant_id: field is the caller's
// field that selects the owner.
func Only(found []schedule.Grant, grantID, field string) (*schedule.Grant, error) {
	switch len(found) {
	case 0:
		return nil, schedule.Explain(schedule.ErrNotFound, "there is no execution grant %s", schedule.Quote(grantID))
	case 1:
		return &found[0], nil
	}
	return nil, &schedule.InvalidError{Violations: []schedule.Violation{{
		Field: field, Problem: "is required: several owners have an execution grant " + schedule.Quote(grantID), Hint: "set it to the owner of the grant",
	}}}
}
