package launcher

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/schedule/describe"
	"github.com/carillon/carillon/internal/topic"
)

// Executor runs workflows. Implementations are below launcher/executor. They send
// the key with every call, and the other side must honour it, so that a second
// delivery has no second effect.
type Executor interface {
	// Run sends one run. The outcome's Status is ENQUEUED (accepted, a report
	// follows), SUCCESS or FAILED (finished already). The error is a *Refusal
	// (definite: the run will not happen), wraps ErrNotSent (no byte of the request
	// reached a connection), or is any other: the outcome is unknown.
	Run(ctx context.Context, call Call) (schedule.Outcome, error)
	// Cancel requests the end of a run. nil: confirmed, it no longer runs;
	// ErrCancelAccepted: it ends later and a report follows; schedule.ErrNotFound:
	// the executor does not know the key or run; ErrUnsupported: it cannot cancel;
	// any other error: unknown.
	Cancel(ctx context.Context, ref schedule.CancelRequest) error
	// GetByKey returns the outcome of a key, as from Run: SUCCESS or FAILED of a
	// finished run, ENQUEUED while it runs. schedule.ErrNotFound: the executor never
	// saw the key; ErrUnsupported: it cannot answer.
	GetByKey(ctx context.Context, ref schedule.RunRef) (schedule.Outcome, error)
}

// Call is one run as it is sent to an executor.
type Call struct {
	schedule.StartRequest
	DAG         json.RawMessage // nil with WORKFLOW_STORE=none
	Events      *topic.Batch    // of a run of a consumer; else nil
	State       schedule.State  // of its schedule
	ReportURL   string          // for reports over REST; empty: none
	ReportToken string
	ClientKey   string    // of a GraphRun: the key as its caller wrote it
	Deadline    time.Time // of the call, not of the run
	// SendBy is when the check of pause, deletion, cancel and grant expires. An
	// executor writes nothing to a connection after it and returns ErrNotSent if it
	// wrote nothing before. Zero: no bound. An executor in this process has no
	// connection and may ignore it.
	SendBy time.Time
}

// Refusal is the error of an executor that definitely did not and will not run it.
type Refusal struct {
	Code    string // e.g. "http_403", "invalid_argument", or the executor's own error_code
	Message string
	Reason  schedule.Reason // "": launch_refused
	Unsent  bool            // the executor was not called
}

func (r *Refusal) Error() string { return fmt.Sprintf("refused: %s: %s", r.Code, r.Message) }

// ErrNotSent means that no request was written to a connection, so the executor
// cannot have seen the key in this attempt.
var ErrNotSent = errors.New("not sent")

// CallError is an executor's error with a code. The wrapped error tells whether
// the call was sent.
type CallError struct {
	Code schedule.ErrorCode // one of executor_*
	Text string             // for users; empty: that of Err
	Err  error
	// NotTaken is how long the executor wants no calls: it was asked, and says that it has
	// not taken this run. Zero: it does not say so.
	NotTaken time.Duration
}

func (e *CallError) Error() string { return cmp.Or(e.Text, e.Err.Error()) }
func (e *CallError) Unwrap() error { return e.Err }

// CallCode is the code of an executor's error that is not a Refusal.
func CallCode(err error) schedule.ErrorCode {
	if e, ok := errors.AsType[*CallError](err); ok {
		return e.Code
	}
	switch {
	case errors.Is(err, ErrNotSent):
		return schedule.CodeExecutorUnreachable
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return schedule.CodeExecutorTimeout
	}
	return schedule.CodeOutcomeUnknown
}

// Unanswered is the error of a call that was sent and has no complete answer.
// waited is its duration; the text reports at most timeout (EXECUTOR_TIMEOUT_MS).
func Unanswered(waited, timeout time.Duration, err error) error {
	text := "the connection broke before the answer was complete: " + err.Error()
	switch {
	case errors.Is(err, context.Canceled):
		text = "the call was cancelled before the answer was complete"
	case errors.Is(err, context.DeadlineExceeded):
		text = "no complete answer within " + describe.Span(min(waited, timeout).Round(100*time.Millisecond)) + " (EXECUTOR_TIMEOUT_MS)"
	}
	return &CallError{Code: schedule.CodeExecutorTimeout, Text: text, Err: err}
}

// ErrCancelAccepted means that the executor ends the run later.
var ErrCancelAccepted = errors.New("cancel accepted; the run ends later")

// ErrUnsupported means that the executor has no such call.
var ErrUnsupported = schedule.ErrUnsupported

// Reporter takes the reports of an executor in this process. The registrar
// implements it.
type Reporter interface {
	ReportOutcome(ctx context.Context, r schedule.ExecutorReport) error
}
