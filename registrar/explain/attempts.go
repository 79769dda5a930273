package explain

import (
	"fmt"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/schedule/describe"
)

// retrying tells why a run is not launched yet and when it is tried again.
func (t *text) retrying() {
	r := t.Run
	t.say("%s failed. The last error is %s", describe.Count(int(r.FailedAttempts), "launch attempt"), errorWords(r.ErrorCode, r.ErrorMessage))
	next := "An attempt is running now"
	if at := schedule.NextAttempt(r, t.Attempts); !at.IsZero() {
		next = "The next attempt is due at " + describe.Instant(at)
	}
	t.say("%s. The run fails at %s unless the executor accepts it before (%s)", next, describe.Instant(r.TimeoutAt), t.launchBound())
}

// launchBound names the setting that bounds the launch.
func (t *text) launchBound() string {
	if t.Rule != nil && t.Rule.Definition.LaunchTimeoutMS > 0 {
		return "launch_timeout_ms of the schedule"
	}
	return "LAUNCH_RETRY_FOR_MS"
}

func errorWords(code, message string) string {
	switch {
	case message == "":
		return code
	case code == "":
		return message
	}
	return code + ": " + message
}

// result says why a part of what the executor returned was not kept.
func (t *text) result() {
	if problem := t.Result.ProblemText(); problem != "" {
		t.say("The end counts, but not all that the executor returned with it could be kept: %s", problem)
	}
}

// attempts lists the launch attempts of a run if some failed.
func (t *text) attempts() {
	r := t.Run
	if r == nil || r.FailedAttempts == 0 {
		return
	}
	t.say("%s reached the executor", reached(int(r.Deliveries), int(r.Attempts())))
	if kept := len(t.Attempts); kept > 0 && kept < int(r.FailedAttempts) {
		t.say("Only the last %d failed attempts are kept", kept)
	}
	for i := range t.Attempts {
		a := &t.Attempts[i]
		s := fmt.Sprintf("Attempt at %s: %s", describe.Instant(a.At), attemptResults[a.Result])
		if a.Took >= 1 {
			s += " after " + describe.Span(a.Took)
		}
		if words := errorWords(a.ErrorCode, a.ErrorMessage); words != "" {
			s += ": " + words
		}
		t.say("%s", s)
	}
}

// reached begins a sentence about how many attempts reached the executor.
func reached(calls, attempts int) string {
	switch {
	case calls == 0 && attempts == 1:
		return "The launch attempt has not"
	case calls == 0:
		return fmt.Sprintf("None of %d launch attempts", attempts)
	case attempts == 1:
		return "The launch attempt"
	}
	return fmt.Sprintf("%d of %d launch attempts", calls, attempts)
}

var attemptResults = map[schedule.LaunchResult]string{
	schedule.LaunchAccepted: "the executor accepted the run",
	schedule.LaunchRefused:  "refused",
	schedule.LaunchNotSent:  "not sent",
	schedule.LaunchUnknown:  "no valid answer",
}
