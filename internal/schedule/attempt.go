package schedule

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// LaunchResult is the result of one attempt to launch a run.
type LaunchResult string

// The results.
const (
	LaunchAccepted LaunchResult = "accepted" // the executor took the run
	LaunchRefused  LaunchResult = "refused"  // definitely not launched: refused by the executor or by a check before the call
	LaunchNotSent  LaunchResult = "not_sent" // no byte of the call reached a connection
	LaunchUnknown  LaunchResult = "unknown"  // the executor may have received the call
)

// LaunchResults is the closed set.
var LaunchResults = []LaunchResult{LaunchAccepted, LaunchRefused, LaunchNotSent, LaunchUnknown}

// LaunchAttempt is one attempt to launch a run. Only failed attempts are stored: the last attempt
// of a launched run follows from its row (see Run.LastAttempt).
type LaunchAttempt struct {
	At           time.Time // the executor was called, or the attempt failed before
	Took         time.Duration
	Result       LaunchResult
	ErrorCode    string
	ErrorMessage string    // at most MaxAttemptMessage bytes
	NextAt       time.Time // when the next attempt was to follow
}

// KeptAttempts is how many attempts of a run are kept, the newest ones.
const KeptAttempts = 10

// MaxAttemptMessage bounds the error of one attempt, in bytes. The run's own
// error_message keeps more of the last one.
const MaxAttemptMessage = 512

// attemptJSON is how a store keeps an attempt; times are microseconds since 1970.
type attemptJSON struct {
	At      int64        `json:"at"`
	TookMS  int64        `json:"took_ms,omitzero"`
	Result  LaunchResult `json:"result"`
	Code    string       `json:"code,omitzero"`
	Message string       `json:"message,omitzero"`
	NextAt  int64        `json:"next_at,omitzero"`
}

// Text is the attempt as the stores keep it: a JSON object.
func (a *LaunchAttempt) Text() string {
	stored := attemptJSON{
		At: a.At.UnixMicro(), TookMS: a.Took.Milliseconds(), Result: a.Result,
		Code: a.ErrorCode, Message: Storable(a.ErrorMessage, MaxAttemptMessage),
	}
	if !a.NextAt.IsZero() {
		stored.NextAt = a.NextAt.UnixMicro()
	}
	text, err := json.Marshal(stored)
	if err != nil {
		panic(err) // strings and integers only
	}
	return string(text)
}

// ReadAttempts reads a JSON array of Text, oldest first; "" is none.
func ReadAttempts(text string) ([]LaunchAttempt, error) {
	if text == "" {
		return nil, nil
	}
	var stored []attemptJSON
	if err := json.Unmarshal([]byte(text), &stored); err != nil {
		return nil, fmt.Errorf("read launch attempts: %w", err)
	}
	attempts := make([]LaunchAttempt, len(stored))
	for i, s := range stored {
		attempts[i] = LaunchAttempt{
			At: time.UnixMicro(s.At).UTC(), Took: time.Duration(s.TookMS) * time.Millisecond,
			Result: s.Result, ErrorCode: s.Code, ErrorMessage: s.Message,
		}
		if s.NextAt != 0 {
			attempts[i].NextAt = time.UnixMicro(s.NextAt).UTC()
		}
	}
	return attempts, nil
}

// LastAttempt is the attempt that ended the run's launch; false: none, or it is among the failed
// ones.
func (r *Run) LastAttempt() (LaunchAttempt, bool) {
	switch {
	case !r.LaunchedAt.IsZero():
		return LaunchAttempt{At: r.LaunchedAt, Result: LaunchAccepted}, true
	case r.Reason == ReasonLaunchRefused || r.Reason == ReasonWorkflowNotFound || r.Reason == ReasonKeyConflict:
		return LaunchAttempt{
			At: r.CompletedAt, Result: LaunchRefused, ErrorCode: r.ErrorCode, ErrorMessage: Storable(r.ErrorMessage, MaxAttemptMessage),
		}, true
	}
	return LaunchAttempt{}, false
}

// Attempts is how often the launch of the run was tried. An attempt is not counted if its process
// died before recording it.
func (r *Run) Attempts() int32 {
	if _, ended := r.LastAttempt(); ended {
		return r.FailedAttempts + 1
	}
	return r.FailedAttempts
}

// Retrying reports whether the launch of the run has failed and is tried again.
func (r *Run) Retrying() bool {
	return r.Stage() == StatusLaunching && r.FailedAttempts > 0 && r.CancelRequestedAt.IsZero()
}

// NextAttempt is when a failed launch is tried again; zero: an attempt is in progress, or none
// will follow. log are its last attempts.
func NextAttempt(r *Run, log []LaunchAttempt) time.Time {
	if !r.Retrying() || len(log) == 0 {
		return time.Time{}
	}
	// A claim for the next attempt moves claimed_until forward; a success of another run moves it
	// back (see retry.Launches.Recovered).
	if planned := log[len(log)-1].NextAt; r.ClaimedUntil.After(planned) {
		return time.Time{}
	}
	return r.ClaimedUntil
}

// GiveUp ends the launch of a run with the error of the last attempt. sent: a call of it may have
// reached the executor.
func (r *Run) GiveUp(sent bool) {
	r.Status, r.Reason = StatusFailed, ReasonLaunchUnavailable
	if sent {
		r.Reason = ReasonLost
	}
	if r.ErrorCode == "" {
		r.ErrorCode = string(CodeLaunchTimeout)
	}
}

// LaunchError is an attempt without a definite answer: the same key may be sent again.
type LaunchError struct {
	Code    ErrorCode
	Reached bool // the executor may have received the call
	// NotTaken: of a run of a queue; the executor has said that it did not take it, and wants
	// no calls for so long.
	NotTaken time.Duration
	// Deliveries is Run.Deliveries after the attempt; 0: unchanged.
	Deliveries int32
	At         time.Time // the executor was called; zero: it was not
	Took       time.Duration
	Err        error
}

func (e *LaunchError) Error() string { return e.Err.Error() }
func (e *LaunchError) Unwrap() error { return e.Err }

// LaunchErrorOf is err as a LaunchError. Other errors leave the outcome unknown.
func LaunchErrorOf(err error) *LaunchError {
	if e, ok := errors.AsType[*LaunchError](err); ok {
		// Err keeps what was wrapped around it.
		whole := *e
		whole.Err = err
		return &whole
	}
	if errors.Is(err, ErrQueueAway) {
		return &LaunchError{Code: CodeQueueUnavailable, Err: err}
	}
	return &LaunchError{Code: CodeOutcomeUnknown, Reached: true, Err: err}
}

// Result is the result of the attempt, for the record.
func (e *LaunchError) Result() LaunchResult {
	if e.Reached {
		return LaunchUnknown
	}
	return LaunchNotSent
}
