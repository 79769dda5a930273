package schedule

import "time"

// Lag is the overdue work over all shards.
type Lag struct {
	Due        int // runs whose fire_at has come, not claimed and not waiting
	OldestDue  time.Time
	Unplanned  int // schedules whose plan_at has come
	OldestPlan time.Time
}

// Upkeep is what background work has left undone, over all shards. Each count stops at
// 1000.
type Upkeep struct {
	Unswept   int               // runs in flight that a sweep should have looked at a minute ago
	EndedOpen int               // of the runs in flight that were due first: those whose end is in history
	DeadRows  int64             // of open_runs, which vacuum has not removed; 0 on SQLite
	SeenUntil map[int]time.Time // by shard: up to when its leaders have seen all that was due
}
