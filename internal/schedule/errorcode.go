package schedule

import "strings"

// ErrorCode is a run's error_code, a machine-readable word that is more specific than the reason.
// Carillon writes one of ErrorCodes, or http_NNN or a gRPC code in lower case if an executor
// refused without naming one. Executors may report others, in the form of ExecutorErrorCode.
type ErrorCode string

// The error codes, each with the reasons that it occurs with.
const (
	CodeInvalidInput         ErrorCode = "invalid_input"         // launch_refused: input is not JSON
	CodeKeyConflict          ErrorCode = "key_conflict"          // key_conflict
	CodeWorkflowNotFound     ErrorCode = "workflow_not_found"    // workflow_not_found
	CodeWorkflowInvalid      ErrorCode = "workflow_invalid"      // launch_refused: the stored workflow is no DAG
	CodeWorkflowIDUnsafe     ErrorCode = "workflow_id_unsafe"    // launch_refused: the id cannot be part of a path
	CodeDAGInvalid           ErrorCode = "dag_invalid"           // launch_refused: the local executor cannot run this DAG
	CodeRequestInvalid       ErrorCode = "request_invalid"       // launch_refused: the call cannot be written as JSON
	CodeDefinitionUnreadable ErrorCode = "definition_unreadable" // launch_refused: the revision's row is damaged
	CodeRunUnreadable        ErrorCode = "run_unreadable"        // launch_refused: the run's own row is damaged
	CodeGrantExpired         ErrorCode = "grant_expired"         // grant_expired
	CodeGrantRevoked         ErrorCode = "grant_revoked"         // grant_revoked
	CodeGrantDenied          ErrorCode = "grant_denied"          // grant_denied
	CodeExecutorUnreachable  ErrorCode = "executor_unreachable"  // launch_unavailable, lost: no connection took the call
	CodeExecutorTimeout      ErrorCode = "executor_timeout"      // lost: the call was sent and got no answer
	CodeExecutorError        ErrorCode = "executor_error"        // lost: 5xx, 408, 409, 425, 429, or a gRPC code that refuses nothing for good
	CodeExecutorBadAnswer    ErrorCode = "executor_bad_answer"   // lost: the answer breaks the contract (a redirect, HTML, no status)
	CodeLauncherUnreachable  ErrorCode = "launcher_unreachable"  // launch_unavailable, lost: the launcher at LAUNCHER_ADDR gave no answer
	CodeQueueUnavailable     ErrorCode = "queue_unavailable"     // launch_unavailable, lost: the launch queue could not be reached
	CodeWorkflowUnavailable  ErrorCode = "workflow_unavailable"  // launch_unavailable, lost: the workflow store could not be read
	CodeLaunchTimeout        ErrorCode = "launch_timeout"        // launch_unavailable, lost: the time was over before any attempt failed
	CodeOutcomeUnknown       ErrorCode = "outcome_unknown"       // lost: an attempt failed at an unknown step
	CodeCancelled            ErrorCode = "cancelled"             // cancelled, replaced: the local executor ended it
	CodeLost                 ErrorCode = "lost"                  // lost: the local executor's process died with it
	CodeInterrupted          ErrorCode = "interrupted"           // interrupted: a shutdown of the executor stopped the run
	CodeSnoozed              ErrorCode = "snoozed"               // workflow_failed: the executor snoozed a graph run
	CodeCommitInvalid        ErrorCode = "commit_invalid"        // workflow_failed: the run succeeded, but its commit breaks a rule
	CodeOther                ErrorCode = "other"                 // workflow_failed: the executor's code had no valid character
)

// ErrorCodes is the closed set.
var ErrorCodes = []ErrorCode{
	CodeInvalidInput, CodeKeyConflict, CodeWorkflowNotFound, CodeWorkflowInvalid, CodeWorkflowIDUnsafe,
	CodeDAGInvalid, CodeRequestInvalid, CodeDefinitionUnreadable, CodeRunUnreadable,
	CodeGrantExpired, CodeGrantRevoked, CodeGrantDenied,
	CodeExecutorUnreachable, CodeExecutorTimeout, CodeExecutorError, CodeExecutorBadAnswer,
	CodeLauncherUnreachable, CodeQueueUnavailable, CodeWorkflowUnavailable, CodeLaunchTimeout,
	CodeOutcomeUnknown, CodeCancelled, CodeLost, CodeInterrupted, CodeSnoozed, CodeCommitInvalid, CodeOther,
}

// OfLaunch reports whether the code describes a failed launch attempt. An executor may report the
// same word, so use it only for runs that no executor accepted.
func (c ErrorCode) OfLaunch() bool {
	switch c {
	case CodeExecutorUnreachable, CodeExecutorTimeout, CodeExecutorError, CodeExecutorBadAnswer,
		CodeLauncherUnreachable, CodeQueueUnavailable, CodeWorkflowUnavailable:
		return true
	}
	return false
}

// ExecutorErrorCode normalizes an error code that an executor chose: 1 to MaxErrorCode of A–Z a–z
// 0–9 . _ : -, other characters between them replaced by one underscore. It is "" for an empty
// code and CodeOther if nothing is left. Dashboards and alerts group by it, so it must not be a
// sentence.
func ExecutorErrorCode(said string) string {
	const scan = 8 // bytes looked at per byte kept
	said = said[:min(len(said), scan*MaxErrorCode)]
	if strings.TrimSpace(said) == "" {
		return ""
	}
	kept := make([]byte, 0, min(len(said), MaxErrorCode))
	gap := false
	for i := 0; i < len(said) && len(kept) < MaxErrorCode; i++ {
		if !ValidID(said[i : i+1]) {
			gap = len(kept) > 0
			continue
		}
		if gap {
			kept, gap = append(kept, '_'), false
		}
		kept = append(kept, said[i])
	}
	if len(kept) == 0 {
		return string(CodeOther)
	}
	return string(kept[:min(len(kept), MaxErrorCode)])
}
