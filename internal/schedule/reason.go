package schedule

// Reason says why a run is SKIPPED, FAILED or CANCELLED, or how to read a SUCCESS. It is a closed
// list: row, log, metric, API and docs use the same word.
type Reason string

// WithCode is the reason and the error code of a failed run for people. A code
// that equals the reason is left out.
func (r Reason) WithCode(code string) string {
	switch {
	case code == "" || code == string(r):
		return string(r)
	case r == ReasonNone: // a run whose launch is retried
		return code
	}
	return string(r) + ": " + code
}

// The reasons.
const (
	ReasonNone              Reason = ""
	ReasonOverlap           Reason = "overlap"            // SKIPPED: a run of the same overlap key was in flight
	ReasonMissed            Reason = "missed"             // SKIPPED: first judged later than the misfire grace
	ReasonQueueFull         Reason = "queue_full"         // SKIPPED: max_queued slots were waiting already, or max_waiting runs in its dispatch queue
	ReasonQueueClosed       Reason = "queue_closed"       // SKIPPED: its dispatch queue was closed
	ReasonExpired           Reason = "expired"            // SKIPPED: it waited in its dispatch queue for expires_ms
	ReasonQueueNotFound     Reason = "queue_not_found"    // FAILED: no dispatch queue that its owner may use has the id
	ReasonCoalesced         Reason = "coalesced"          // SKIPPED: a newer slot took its place
	ReasonPaused            Reason = "paused"             // SKIPPED: the schedule was paused
	ReasonDeleted           Reason = "deleted"            // CANCELLED: the schedule was deleted, or the queue while the run entered it
	ReasonGrantExpired      Reason = "grant_expired"      // SKIPPED
	ReasonGrantRevoked      Reason = "grant_revoked"      // SKIPPED
	ReasonGrantDenied       Reason = "grant_denied"       // SKIPPED
	ReasonLaunchRefused     Reason = "launch_refused"     // FAILED: the executor definitely refused it
	ReasonLaunchUnavailable Reason = "launch_unavailable" // FAILED: no request could be delivered in time
	ReasonWorkflowNotFound  Reason = "workflow_not_found" // FAILED: no such version is stored that the owner may run
	ReasonWorkflowFailed    Reason = "workflow_failed"    // FAILED: the executor reported a failure
	ReasonTimeout           Reason = "timeout"            // FAILED: no sign of life within the run timeout
	ReasonDeadline          Reason = "deadline"           // FAILED: it was not over max_run_ms after its acceptance
	ReasonLost              Reason = "lost"               // FAILED: the outcome of the launch never became known
	ReasonReplaced          Reason = "replaced"           // CANCELLED: a newer slot replaced it
	ReasonCancelled         Reason = "cancelled"          // CANCELLED: requested by a user
	ReasonKeyConflict       Reason = "key_conflict"       // FAILED: the key was used before for another request
	ReasonSnoozed           Reason = "snoozed"            // SKIPPED: the executor asked to get it again later
	ReasonSnoozeLimit       Reason = "snooze_limit"       // FAILED: the executor asked so after MaxSnoozes
	ReasonInterrupted       Reason = "interrupted"        // FAILED: a shutdown of the executor stopped it
	ReasonPredecessorFailed Reason = "predecessor_failed" // CANCELLED: a member of its group before it has failed
	ReasonAccepted          Reason = "accepted"           // SUCCESS without feedback: accepted is all that is known
)

// Reasons is the closed set, without the empty one.
var Reasons = []Reason{
	ReasonOverlap, ReasonMissed, ReasonQueueFull, ReasonQueueClosed, ReasonExpired, ReasonCoalesced, ReasonPaused, ReasonDeleted,
	ReasonGrantExpired, ReasonGrantRevoked, ReasonGrantDenied,
	ReasonLaunchRefused, ReasonLaunchUnavailable, ReasonWorkflowNotFound, ReasonQueueNotFound, ReasonWorkflowFailed,
	ReasonTimeout, ReasonDeadline, ReasonLost, ReasonReplaced, ReasonCancelled, ReasonKeyConflict,
	ReasonSnoozed, ReasonSnoozeLimit, ReasonInterrupted, ReasonPredecessorFailed, ReasonAccepted,
}

// Ending is the status that a run with this reason ends in.
func Ending(r Reason) Status {
	switch r {
	case ReasonOverlap, ReasonMissed, ReasonQueueFull, ReasonQueueClosed, ReasonExpired, ReasonCoalesced, ReasonPaused,
		ReasonGrantExpired, ReasonGrantRevoked, ReasonGrantDenied, ReasonSnoozed:
		return StatusSkipped
	case ReasonLaunchRefused, ReasonLaunchUnavailable, ReasonWorkflowNotFound, ReasonQueueNotFound, ReasonWorkflowFailed,
		ReasonTimeout, ReasonDeadline, ReasonLost, ReasonKeyConflict, ReasonSnoozeLimit, ReasonInterrupted:
		return StatusFailed
	case ReasonDeleted, ReasonReplaced, ReasonCancelled, ReasonPredecessorFailed:
		return StatusCancelled
	case ReasonAccepted:
		return StatusSuccess
	}
	return ""
}
