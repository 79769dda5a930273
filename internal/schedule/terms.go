package schedule

import "time"

// EndReason says why a leadership term ended; a closed set.
type EndReason string

// The reasons. A running leader writes its own. The last three are inferred by the next leader
// about one that wrote none.
const (
	EndResigned      EndReason = "resigned"             // requested by an operator
	EndBalanced      EndReason = "balanced"             // gave the shard to a worker with fewer
	EndUnhealthy     EndReason = "unhealthy"            // its launches would fail, those of another worker would not
	EndStopped       EndReason = "stopped"              // its process was told to end
	EndDatabase      EndReason = "database_unreachable" // no renewal was answered in time
	EndLock          EndReason = "lock_lost"            // the shard's lock was gone, and the database answered
	EndClock         EndReason = "clock"                // its clock is too far off
	EndSuspended     EndReason = "process_suspended"    // the process did not run: stopped, frozen or starved
	EndReplaced      EndReason = "replaced"             // another worker took over; the leader does not know why
	EndShardsChanged EndReason = "shards_changed"       // another number of shards was recorded
	EndExpired       EndReason = "expired"              // no renewal before its TTL was over
	EndLockFreed     EndReason = "lock_freed"           // its lock came free: it died, or lost its connection
	EndUnknown       EndReason = "unknown"              // not recorded, e.g. by an older version
)

// EndReasons is the closed set.
var EndReasons = []EndReason{
	EndResigned, EndBalanced, EndUnhealthy, EndStopped, EndDatabase, EndLock, EndClock, EndSuspended, EndReplaced,
	EndShardsChanged, EndExpired, EndLockFreed, EndUnknown,
}

// Lost reports whether the leader ended involuntarily: its last renewal is then its last proof of
// life.
func (r EndReason) Lost() bool {
	switch r {
	case EndDatabase, EndLock, EndClock, EndSuspended, EndReplaced, EndExpired, EndLockFreed:
		return true
	}
	return false
}

// Inferred reports whether another worker inferred the reason. The leader itself may replace it.
func (r EndReason) Inferred() bool {
	return r == EndExpired || r == EndLockFreed || r == EndUnknown
}

// Amends reports whether the reason says more than an inferred one.
func (r EndReason) Amends() bool { return !r.Inferred() && r != EndReplaced }

var endWords = map[EndReason]string{
	EndResigned:      "asked to resign",
	EndBalanced:      "handed over to a worker with fewer shards",
	EndUnhealthy:     "its launcher was unreachable",
	EndStopped:       "process stopped",
	EndDatabase:      "database unreachable",
	EndLock:          "leader lock lost",
	EndClock:         "clock too far off",
	EndSuspended:     "process suspended or starved",
	EndReplaced:      "replaced by another worker",
	EndShardsChanged: "number of shards changed",
	EndExpired:       "leader stopped renewing: killed, hung or cut off",
	EndLockFreed:     "leader's lock came free: killed or cut off",
	EndUnknown:       "reason not recorded",
}

// Words is the reason for display.
func (r EndReason) Words() string {
	if words, ok := endWords[r]; ok {
		return words
	}
	return string(r)
}

// TermEnd is why a term ended.
type TermEnd struct {
	Reason EndReason
	Detail string // the error, if there was one
}

// MaxEndDetail bounds TermEnd.Detail, in bytes.
const MaxEndDetail = 300

// Resignation ends a term. The zero End is EndResigned.
type Resignation struct {
	Now time.Time // SQLite's clock; Postgres uses its own
	End TermEnd
}

// Stall is a time within a term in which no renewal was answered. Both bounds
// are distances from now, because the leader's clock is not the store's.
type Stall struct {
	FromAgo, UntilAgo time.Duration
	End               TermEnd
}

// LeaderTerm is one row of leader_terms: a time in which a worker provably led a shard. A term
// with stalls has several rows of one epoch.
type LeaderTerm struct {
	Shard     int
	Epoch     int64
	WorkerID  string
	Host      string // host:pid
	StartedAt time.Time
	EndedAt   time.Time // last proof of life; zero: it has not ended
	RenewedAt time.Time // of a term that has not ended: its last renewal
	Expired   bool      // of a term that has not ended: it has expired without a successor
	End       TermEnd
}

// TermFilter narrows a list of terms, newest first.
type TermFilter struct {
	Shard *int
	Limit int
	Now   time.Time // judges Expired on SQLite
}

// TermWindow asks for the terms that decide who led a hash bucket in [From,
// Until]: the last that began by From, all that began within, and the first that
// began after.
type TermWindow struct {
	Bucket      int
	From, Until time.Time
	Now         time.Time // judges Expired on SQLite
}

// MaxWindowTerms bounds the terms that begin within a TermWindow.
const MaxWindowTerms = 200
