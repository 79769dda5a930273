package schedule

import (
	"encoding/json"
	"time"
)

// BeginRequest asks to call the executor for a key.
type BeginRequest struct {
	Key          Key
	RequestHash  [32]byte // compared for keys without a run in the ledger
	ScheduleID   string
	ScheduledFor time.Time
	Trigger      Trigger
	Version      int32
	Input        json.RawMessage
	Grant        GrantUse  // permission that the run needs
	FireAt       time.Time // a refusal is final only from then on
	Lease        time.Duration
	Holder       int32 // instance_no of the process that will call; 0: it has no presence lock
	Queued       bool  // the run was admitted from a dispatch queue: the ledger has had it
}

// Permission says what Begin allows.
type Permission int

// The permissions.
const (
	// Granted: the key is ours, call the executor.
	Granted Permission = iota + 1
	// GrantedAgain: an earlier call began and its outcome is unknown; ask the
	// executor by key where it can answer, else send the same key again.
	GrantedAgain
	// Recorded: the outcome is known; answer Request.Outcome.
	Recorded
	// Busy: another call holds the lease.
	Busy
	// Conflict: the key is that of another request.
	Conflict
	// Refused: a check failed and no call has begun; the run has ended with
	// Request.Outcome: SKIPPED(paused|grant_*) or CANCELLED(deleted|cancelled).
	Refused
	// Withheld: a check failed but that is not final (fire_at lies ahead, an
	// earlier call's outcome is unknown, or the run is PLANNED): do not send.
	Withheld
)

// BeginResult answers one BeginRequest.
type BeginResult struct {
	Permission Permission
	Sent       bool             // an earlier attempt may have reached the executor
	Reason     Reason           // Refused, Withheld: which check
	Request    ExecutionRequest // the key after it; Withheld: none. Lease.Until identifies a granted call
	Settled    bool             // Refused: the run in the ledger has ended with it
	TakenOver  TakeoverProof    // GrantedAgain: why the key of another holder is free
	State      State            // Granted, GrantedAgain: of the schedule of a run
	CheckedAt  time.Time        // when pause, cancel and grant were checked; zero: at the instant of the request
}

// TakeoverProof is why a key that another process held is free.
type TakeoverProof string

// The proofs.
const (
	NotTakenOver    TakeoverProof = ""
	ProofOfPresence TakeoverProof = "presence" // the holder's presence lock is free
	ProofOfLease    TakeoverProof = "lease"    // the holder did not extend the lease
)

// KeyMove asks that keys of one instance number become those of another: the same
// process has registered again.
type KeyMove struct {
	Keys     []Key
	From, To int32
}

// FinishRequest records one definite outcome and settles the run of its key.
type FinishRequest struct {
	Key        Key
	Outcome    Outcome
	LaunchedAt time.Time     // when the call was made that it answers; may be zero
	Deliveries int32         // Run.Deliveries after it; 0: unchanged
	RunTimeout time.Duration // ENQUEUED: the run times out so long after now
	MaxRun     time.Duration // ENQUEUED: the run fails so long after now; 0: no bound
	Unsent     bool          // the call that Begin counted was not made
	WakeLeader bool          // wake the leader if the run ends: it does not wait for the answer
}

// Finished is the result of a FinishRequest.
type Finished struct {
	Outcome Outcome // the one that counts, which can be an earlier one of the key
	Settled bool    // the request has settled the run in the ledger
}
