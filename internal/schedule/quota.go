package schedule

import (
	"slices"
	"time"
)

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

// CheckQueueQuota refuses more living queues of an owner than limit; 0 allows any number.
func CheckQueueQuota(owner string, living, limit int) error {
	if limit <= 0 || living <= limit {
		return nil
	}
	return Explain(ErrExhausted, "owner %s would have %d queues, more than %d; delete some, or ask the operator to raise OWNER_MAX_QUEUES", Quote(owner), living, limit)
}

// CheckWaitingQuota refuses more runs that wait in queues of all owners than limit, of one owner; 0
// allows any number. again is when they are counted again.
func CheckWaitingQuota(owner string, waiting, more, limit int, again time.Duration) error {
	if limit <= 0 || more == 0 || waiting+more <= limit {
		return nil
	}
	return RetryLater(again, "owner %s has %d runs that wait in queues, and %d more would be over the limit of %d; try again in %s, cancel some, or ask the operator to raise OWNER_MAX_WAITING",
		Quote(owner), waiting, more, limit, again)
}

// CheckPendingQuota refuses events while as many entries of an owner's consumers are pending as limit
// says; 0 allows any number. again is when they are counted again.
func CheckPendingQuota(owner string, pending, limit int, again time.Duration) error {
	if limit <= 0 || pending < limit {
		return nil
	}
	return RetryLater(again, "max_pending: %d events of owner %s wait for its consumers, and its limit is %d; try again in %s, see why its consumers do not run, or ask the operator to raise OWNER_MAX_PENDING",
		pending, Quote(owner), limit, again)
}

// CheckQuota refuses more living schedules of an owner than limit; 0 allows
// any number.
func CheckQuota(owner string, living, limit int) error {
	if limit <= 0 || living <= limit {
		return nil
	}
	return Explain(ErrExhausted, "owner %s would have %d schedules, more than %d; delete some, or ask the operator to raise OWNER_MAX_SCHEDULES", Quote(owner), living, limit)
}
