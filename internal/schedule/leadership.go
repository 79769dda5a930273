package schedule

import "time"

// MaxShards bounds SHARDS: each worker holds a database session for each.
const MaxShards = 64

// TakeoverRequest asks for the leadership of a shard.
type TakeoverRequest struct {
	Shard    int
	Shards   int // the number that this worker was started with; 0 counts as 1
	Holder   string
	Host     string // host:pid, for people
	TTL      time.Duration
	LockHeld bool
	// LockKind names the kind of lock that Holder waits for. A leader's lock proves nothing to a
	// worker of another kind; an empty kind counts as the same.
	LockKind string
	Now      time.Time
}

// RenewRequest extends a term.
type RenewRequest struct {
	TTL time.Duration
	// LockHeld says whether the leader holds the lock too. One that took over an expired row may
	// lead without it: then a freed lock proves nothing about the leader.
	LockHeld bool
	Now      time.Time
	// Stall is a time before this renewal in which none was answered; nil: none.
	Stall *Stall
}

// Leadership is the leaders row of one shard, for display and for balancing.
type Leadership struct {
	Term
	ExpiresAt time.Time
	Expired   bool // by the clock that judges takeovers
	LockHeld  bool
	LockKind  string // of the leader; empty: unknown
	AskedTo   bool   // its leader was asked to resign and has not yet
}

// SameLock reports whether a lock of one kind proves anything about a leader that uses the other.
func SameLock(kind, other string) bool { return kind == "" || other == "" || kind == other }

// LeaseExtension keeps an open call's key for longer.
type LeaseExtension struct {
	Key   Key
	Held  time.Time // KeyLease.Until as last granted or extended: identifies the call
	Lease time.Duration
}

// KeyRelease ends the lease of a call with an unknown outcome.
type KeyRelease struct {
	Key   Key
	Held  time.Time // KeyLease.Until as last granted or extended: identifies the call
	Calls int32     // how many calls of the key may have reached the executor
}

// Gauges are the ledger's counts for one shard.
type Gauges struct {
	InFlight int
	Waiting  int
	Due      int
}
