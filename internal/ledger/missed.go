package ledger

import (
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// Missable reports whether a run is missed unless a leader looks at it within the grace: a
// planned slot that does not wait and that fires after seen_until of its shard. Only slots
// of a schedule are missed: a missed slot that fires after all is not missed again, and a
// run that was asked for waits as long as it must.
func Missable(r *schedule.Run, seenUntil time.Time) bool {
	return RowStateOf(r) == RowPlanned && r.Trigger == schedule.TriggerSchedule && r.FireAt.After(seenUntil)
}

// pastGrace reports whether a slot is later than the grace: both its instants are before
// cut, which is now − grace. A slot with run_at ahead is never missed, even if jitter put
// its fire_at before.
func pastGrace(runAt, fireAt, cut int64) bool { return fireAt < cut && runAt < cut }

// Unseen is where the slots of a shard lie that no leader has seen in time: they fire after
// After and before Before.
type Unseen struct {
	FirstBucket, LastBucket int
	After, Before           time.Time
}

// UnseenSlots is where missed slots of all shards lie. A slot may be of another shard than
// its schedule, from before an edit.
type UnseenSlots []Unseen

// UnseenBy returns where no leader has looked in time. seenUntil has seen_until of each
// shard that was ever led. A shard whose leader is not behind is left out, so mostly the
// answer is empty.
func UnseenBy(term schedule.Term, now time.Time, grace time.Duration, seenUntil map[int]time.Time) UnseenSlots {
	cut := stored(now.Add(-grace))
	var all UnseenSlots
	add := func(shard schedule.Term) {
		u := Unseen{After: seenUntil[shard.Shard], Before: cut}
		if u.FirstBucket, u.LastBucket = shard.Buckets(); u.After.Before(u.Before) {
			all = append(all, u)
		}
	}
	if term.Shards <= 1 {
		add(term)
		return all
	}
	for i := range term.Shards {
		add(schedule.Term{Shard: i, Shards: term.Shards})
	}
	return all
}

// Missed reports whether a run is missed: the planner decides whether it still fires.
func (all UnseenSlots) Missed(r *schedule.Run) bool {
	bucket := schedule.Bucket(r.OverlapKey)
	for i := range all {
		if u := &all[i]; u.FirstBucket <= bucket && bucket <= u.LastBucket {
			return Missable(r, u.After) && pastGrace(micro(r.RunAt), micro(r.FireAt), micro(u.Before))
		}
	}
	return false
}
