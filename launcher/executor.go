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
)

// Executor runs workflows. Implementations stand under launcher/executor. They
// hand over the key with every call; the other side must honour it, so that a
// second delivery has no second effect.
type Executor interface {
	// Run hands one run over. The outcome's Status is ENQUEUED (accepted, a
	// report will follow), SUCCESS or FAILED (finished already). The error is a
	// *Refusal (definite: it was not and will not be run), one that wraps
	// ErrNotSent (no byte of the request reached a connection), or anything else:
	// the outcome is unknown.
	Run(ctx context.Context, call Call) (schedule.Outcome, error)
	// Cancel asks for the end of a run. nil: confirmed, it does not run any more;
	// ErrCancelAccepted: it ends later, and a report follows;
	// schedule.ErrNotFound: the executor does not know the key or run;
	// ErrUnsupported: it cannot cancel; anything else: unknown.
	Cancel(ctx context.Context, ref schedule.CancelRequest) error
	// GetByKey asks what became of a key: an outcome as from Run (a finished
	// run's SUCCESS or FAILED, ENQUEUED while it runs), schedule.ErrNotFound when
	// the executor never saw it, ErrUnsupported when it cannot say.
	GetByKey(ctx context.Context, ref schedule.RunRef) (schedule.Outcome, error)
}

// Call is one run as an executor receives it.
type Call struct {
	schedule.StartRequest
	DAG         json.RawMessage // nil with WORKFLOW_STORE=none
	ReportURL   string          // where a REST report goes; empty: nowhere to report to
	ReportToken string
	ClientKey   string    // of a GraphRun: the key as its caller wrote it
	Deadline    time.Time // of the call itself, not of the run
	// SendBy is how long the check of pause, deletion, cancel and grant is good:
	// what is not written to a connection before it is not written any more, and
	// if nothing was, that is ErrNotSent. Zero: no bound. An executor in this
	// process, which has no connection, is called in time and may ignore it.
	SendBy time.Time
}

// Refusal is an executor's definite no.
type Refusal struct {
	Code    string // e.g. "http_403", "invalid_argument", or the executor's own error_code
	Message string
	Reason  schedule.Reason // "": launch_refused
	Unsent  bool            // the executor was not called
}

func (r *Refusal) Error() string { return fmt.Sprintf("refused: %s: %s", r.Code, r.Message) }

// ErrNotSent says that no request was ever written to a connection, so the
// executor cannot have seen the key in this attempt.
var ErrNotSent = errors.New("not sent")

// CallError is an executor's error with the code that says what went wrong. What
// it wraps says whether the call was sent.
type CallError struct {
	Code schedule.ErrorCode // one of executor_*
	Text string             // for people; empty: that of Err
	Err  error
}

func (e *CallError) Error() string { return cmp.Or(e.Text, e.Err.Error()) }
func (e *CallError) Unwrap() error { return e.Err }

// CallCode is the code of an executor's error that is no Refusal.
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
// waited is how long it took, at most timeout (EXECUTOR_TIMEOUT_MS).
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

// ErrCancelAccepted says that an executor ends the run later.
var ErrCancelAccepted = errors.New("cancel accepted; the run ends later")

// ErrUnsupported says that an executor has no such call.
var ErrUnsupported = schedule.ErrUnsupported

// Reporter takes what an executor in this process says of its runs. The registrar
// implements it.
type Reporter interface {
	ReportOutcome(ctx context.Context, r schedule.ExecutorReport) error
}
