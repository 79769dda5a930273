package schedule

import "slices"

// Creators are the owners with new schedules in changes, sorted and unique: those with a count
// that may have grown.
func Creators(changes []Change) []string {
	var owners []string
	for i := range changes {
		if c := &changes[i]; c.Created && c.Row != nil {
			owners = append(owners, c.Row.UserID)
		}
	}
	slices.Sort(owners)
	return slices.Compact(owners)
}

// CheckQuota refuses more living schedules of an owner than limit; 0 allows
// any number.
func CheckQuota(owner string, living, limit int) error {
	if limit <= 0 || living <= limit {
		return nil
	}
	return Explain(ErrExhausted, "owner %s would have %d schedules, more than %d; delete some, or ask the operator to raise OWNER_MAX_SCHEDULES", Quote(owner), living, limit)
}
