package schedule

import "time"

// TakeoverRequest asks for the leadership of a shard.
type TakeoverRequest struct {
	Shard    int
	Holder   string
	TTL      time.Duration
	LockHeld bool
	Now      time.Time
}

// Gauges are the ledger's own counts.
type Gauges struct {
	InFlight int
	Waiting  int
	Due      int
}
