package httpexecutor

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/carillon/carillon/internal/result"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/launcher"
	"github.com/carillon/carillon/launcher/executor"
)

// answer is the status line, the header and the first 512 KiB of the body.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// said holds the fields that we read of an executor's JSON, in either dialect.
type said struct {
	RunID        string `json:"run_id"`
	Status       string `json:"status"`
	TraceID      string `json:"trace_id"`
	ErrorCode    string `json:"error_code"`
	ErrorMessage string `json:"error_message"`
	FailureClass string `json:"failure_class"`
	// DelayMS is read of SNOOZE only: another answer may have any member of this name.
	DelayMS json.RawMessage `json:"delay_ms"`
	result.Members
	result.CommitMembers
}

// reader reads a body in a dialect.
type reader func(body []byte) (said, error)

// outcome interprets an answer; see the package comment.
func (a answer) outcome(key schedule.Key, read reader) (schedule.Outcome, error) {
	switch {
	case a.status == http.StatusOK:
		return a.finished(key, read)
	case a.status == http.StatusAccepted:
		return a.accepted(read)
	case a.refuses():
		return schedule.Outcome{}, a.refusal(read)
	}
	if a.status >= 400 {
		return schedule.Outcome{}, &launcher.CallError{Code: schedule.CodeExecutorError, Err: fmt.Errorf("%s", a.describe()), NotTaken: a.notTaken(time.Now())}
	}
	return schedule.Outcome{}, badAnswer("%s", a.describe())
}

// The bounds of Retry-After.
const (
	leastPause = time.Second
	mostPause  = time.Hour
)

// notTaken is how long the executor wants no calls: 429, or 503 with Retry-After, says that
// it has not taken this one. Zero: it does not say so.
func (a answer) notTaken(now time.Time) time.Duration {
	after := a.header.Get("Retry-After")
	if a.status != http.StatusTooManyRequests && (a.status != http.StatusServiceUnavailable || after == "") {
		return 0
	}
	pause := leastPause
	if seconds, err := strconv.Atoi(after); err == nil {
		pause = time.Duration(min(seconds, int(mostPause/time.Second))) * time.Second
	} else if at, err := http.ParseTime(after); err == nil {
		pause = at.Sub(now)
	}
	return min(max(pause, leastPause), mostPause)
}

func (a answer) finished(key schedule.Key, read reader) (schedule.Outcome, error) {
	s, err := a.read(read)
	if err != nil {
		return schedule.Outcome{}, err
	}
	o := schedule.Outcome{RunID: s.RunID, TraceID: s.TraceID}
	o.ExitCode, o.Result = s.Read()
	switch s.Status {
	case string(schedule.StatusSuccess):
		o.Status = schedule.StatusSuccess
	case string(schedule.StatusFailed):
		o.Status, o.Reason = schedule.StatusFailed, schedule.ReasonWorkflowFailed
		o.ErrorCode = schedule.ExecutorErrorCode(s.ErrorCode)
		o.ErrorMessage = executor.Text(s.ErrorMessage, executor.MaxMessage)
		o.FailureClass = schedule.FailureClass(s.FailureClass)
	case string(schedule.StatusSnooze):
		delay, err := s.delay()
		if err != nil {
			return schedule.Outcome{}, badAnswer("the executor answered SNOOZE: %w", err)
		}
		o.Status, o.Reason, o.SnoozeFor = schedule.StatusSkipped, schedule.ReasonSnoozed, delay
	default:
		return schedule.Outcome{}, badAnswer("the executor answered 200 with status %s; it must be SUCCESS, FAILED or SNOOZE, or 202 if the run continues",
			schedule.Quote(s.Status))
	}
	commit, err := s.Commit(key)
	result.Enter(&o, commit, err)
	return o, nil
}

// delay reads delay_ms; a missing one is 0.
func (s *said) delay() (time.Duration, error) {
	var ms int64
	if len(s.DelayMS) > 0 {
		if err := json.Unmarshal(s.DelayMS, &ms); err != nil {
			return 0, schedule.Invalid("delay_ms", string(s.DelayMS), "is not a whole number", "")
		}
	}
	return schedule.SnoozeDelay(ms)
}

// accepted believes the status: a 202 with an empty body or without a run_id has
// accepted the run.
func (a answer) accepted(read reader) (schedule.Outcome, error) {
	if len(strings.TrimSpace(string(a.body))) == 0 {
		return schedule.Outcome{Status: schedule.StatusEnqueued}, nil
	}
	s, err := a.read(read)
	if err != nil {
		return schedule.Outcome{}, err
	}
	return schedule.Outcome{Status: schedule.StatusEnqueued, RunID: s.RunID, TraceID: s.TraceID}, nil
}

// refuses reports whether the status is a definite refusal. The four exceptions
// mean "not now" (408, 425, 429) or "this key is being worked on" (409).
func (a answer) refuses() bool {
	switch a.status {
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusTooEarly, http.StatusTooManyRequests:
		return false
	}
	return a.status >= 400 && a.status < 500
}

// refusal is a definite refusal, with the executor's own message if there is one.
func (a answer) refusal(read reader) *launcher.Refusal {
	r := &launcher.Refusal{Code: fmt.Sprintf("http_%d", a.status), Message: a.words()}
	if s, err := read(a.body); err == nil && s.ErrorCode != "" && len(a.body) <= maxAnswer {
		r.Code = schedule.ExecutorErrorCode(s.ErrorCode)
	}
	return r
}

// read parses the body and refuses one that cannot be stored.
func (a answer) read(read reader) (said, error) {
	if len(a.body) > maxAnswer {
		return said{}, badAnswer("the executor answered %d with more than %d bytes", a.status, maxAnswer)
	}
	s, err := read(a.body)
	if err != nil {
		return said{}, badAnswer("the executor answered %d with something other than the JSON object of the contract: %v: %s",
			a.status, err, schedule.Quote(string(a.body)))
	}
	if !executor.ValidRunID(s.RunID) {
		return said{}, badAnswer("the executor answered %d with run_id %s, which cannot be stored (at most %d bytes, no control characters)",
			a.status, schedule.Quote(s.RunID), executor.MaxRunID)
	}
	if !executor.ValidRunID(s.TraceID) {
		s.TraceID = "" // an invalid one does not fail the run: ours is used
	}
	return s, nil
}

// words is the reason in an answer: its error_message or message member, else the
// beginning of its body.
func (a answer) words() string {
	var members struct {
		ErrorMessage string `json:"error_message"`
		Message      string `json:"message"`
	}
	text := string(a.body)
	if json.Unmarshal(a.body, &members) == nil {
		switch {
		case members.ErrorMessage != "":
			text = members.ErrorMessage
		case members.Message != "":
			text = members.Message
		}
	}
	if text = executor.Text(text, executor.MaxMessage); text == "" {
		return "the executor answered " + statusLine(a.status)
	}
	return text
}

// describe is the answer in one line, for an outcome that stays unknown.
func (a answer) describe() string {
	line := "the executor answered " + statusLine(a.status)
	if a.status >= 300 && a.status < 400 {
		return line + " to " + redirectTarget(a.header) + "; redirects are not followed: set the URL to the final address"
	}
	if text := executor.Text(string(a.body), 200); text != "" {
		return line + ": " + text
	}
	return line
}

// redirectTarget names only the host: a Location may carry secrets.
func redirectTarget(h http.Header) string {
	u, err := url.Parse(h.Get("Location"))
	if err != nil || u.Host == "" {
		return "another path"
	}
	return executor.Text(u.Host, 100)
}

func statusLine(status int) string {
	return strings.TrimSpace(fmt.Sprintf("%d %s", status, http.StatusText(status)))
}

// badAnswer is an answer that breaks the contract.
func badAnswer(format string, args ...any) error {
	return &launcher.CallError{Code: schedule.CodeExecutorBadAnswer, Err: fmt.Errorf(format, args...)}
}

func readCarillon(body []byte) (said, error) {
	var s *said
	if err := json.Unmarshal(body, &s); err != nil {
		return said{}, err
	}
	if s == nil {
		return said{}, fmt.Errorf("it is null")
	}
	return *s, nil
}

// graphConflict sets the reason of 422: the key was used for another request.
func graphConflict(status int, err error) error {
	refusal, ok := errors.AsType[*launcher.Refusal](err)
	if !ok || status != http.StatusUnprocessableEntity {
		return err
	}
	return &launcher.Refusal{Code: string(schedule.CodeKeyConflict), Message: refusal.Message, Reason: schedule.ReasonKeyConflict}
}

// readGraph reads {"ok", "runId", "traceId", "errorCode"}, the answer after the
// graph has ended.
func readGraph(body []byte) (said, error) {
	var g struct {
		OK        *bool  `json:"ok"`
		RunID     string `json:"runId"`
		TraceID   string `json:"traceId"`
		ErrorCode string `json:"errorCode"`
	}
	if err := json.Unmarshal(body, &g); err != nil {
		return said{}, err
	}
	s := said{RunID: g.RunID, TraceID: g.TraceID, ErrorCode: g.ErrorCode}
	switch {
	case g.OK == nil: // unknown at 200; at 202 nothing is missing
	case *g.OK:
		s.Status = string(schedule.StatusSuccess)
	default:
		s.Status = string(schedule.StatusFailed)
	}
	return s, nil
}
