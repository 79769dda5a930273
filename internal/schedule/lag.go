package schedule

import "time"

// Lag is the overdue work over all shards.
type Lag struct {
	Due        int // runs whose fire_at has come, not claimed and not waiting
	OldestDue  time.Time
	Unplanned  int // schedules whose plan_at has come
	OldestPlan time.Time
}
