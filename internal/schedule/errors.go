package schedule

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// The sentinels; see registrar/api for their gRPC and HTTP codes.
var (
	ErrNotFound      = errors.New("not found")           // also: another owner's
	ErrExists        = errors.New("already exists")      // the name is taken by another owner
	ErrPrecondition  = errors.New("precondition failed") // e.g. trigger under skip with a run in flight
	ErrUnpayable     = errors.New("payment required")    // the billing account cannot pay for the schedule's model
	ErrKeyConflict   = errors.New("the key was used before for another request")
	ErrRunIDMismatch = errors.New("another run_id is recorded")
	ErrFenced        = errors.New("no longer the leader") // the epoch has moved on
	ErrUnavailable   = errors.New("unavailable")
	ErrUnsupported   = errors.New("not supported by this executor")
	ErrShardCount    = errors.New("another number of shards is recorded")
	ErrStale         = errors.New("the schedule was changed in the meantime")
	ErrBusy          = errors.New("a call with this key is in progress")      // of the launcher: retry shortly
	ErrWithheld      = errors.New("not to be sent now")                       // of the launcher: a check failed, not for good
	ErrOverdue       = fmt.Errorf("%w: its launch time is over", ErrWithheld) // nothing of the run will be sent
	ErrExhausted     = errors.New("quota exhausted")                          // of an owner
	ErrQueueAway     = errors.New("the launch queue is unavailable")
	ErrRepeated      = errors.New("was done before") // of the stores: the registrar answers with the current state
	// ErrTemplateGone is of the stores: the registrar makes the template again.
	ErrTemplateGone = fmt.Errorf("%w: the schedule that a queue had made for a workflow version was deleted meanwhile, try again", ErrUnavailable)
)

// Violation is one invalid field.
type Violation struct {
	Field   string // as in the API, e.g. "cron_expr"
	Problem string // which value and what is wrong with it
	Hint    string // what to write instead; may be empty
}

// String is the violation as one sentence.
func (v Violation) String() string {
	if v.Hint == "" {
		return v.Field + ": " + v.Problem
	}
	return v.Field + ": " + v.Problem + "; " + v.Hint
}

// InvalidError lists every invalid field. Nothing was written.
type InvalidError struct{ Violations []Violation }

func (e *InvalidError) Error() string {
	parts := make([]string, len(e.Violations))
	for i, v := range e.Violations {
		parts[i] = v.String()
	}
	return "invalid: " + strings.Join(parts, "; ")
}

// Invalid is an InvalidError for one field. Value is quoted and cut to a
// readable length.
func Invalid(field string, value any, problem, hint string) *InvalidError {
	shown := Quote(value)
	if strings.HasSuffix(field, "_ms") {
		switch ms := value.(type) {
		case uint32:
			shown = Milliseconds(time.Duration(ms) * time.Millisecond)
		case int64:
			shown = Milliseconds(time.Duration(ms) * time.Millisecond)
		}
	}
	return &InvalidError{Violations: []Violation{{Field: field, Problem: shown + " " + problem, Hint: hint}}}
}

// Quote shows a refused value safely: control characters escaped, at most 80 bytes.
func Quote(value any) string {
	s := fmt.Sprint(value)
	const limit = 80
	if len(s) > limit {
		return strconv.Quote(s[:limit]) + fmt.Sprintf("… (%d bytes)", len(s))
	}
	if _, isString := value.(string); isString {
		return strconv.Quote(s)
	}
	return s
}

// Collect gathers violations into one error.
type Collect struct{ violations []Violation }

// Add records that field's value is refused.
func (c *Collect) Add(field string, value any, problem, hint string) {
	c.violations = append(c.violations, Invalid(field, value, problem, hint).Violations...)
}

// Note records a violation without a value to show.
func (c *Collect) Note(field, problem, hint string) {
	c.violations = append(c.violations, Violation{Field: field, Problem: problem, Hint: hint})
}

func (c *Collect) Err() error {
	if len(c.violations) == 0 {
		return nil
	}
	return &InvalidError{Violations: c.violations}
}

// Explain wraps a sentinel with what a caller can do about it. The text of an ErrPrecondition
// appears without a prefix: "cannot retry: the run succeeded".
func Explain(sentinel error, format string, args ...any) error {
	text := fmt.Sprintf(format, args...)
	if errors.Is(sentinel, ErrPrecondition) {
		return preconditionError(text)
	}
	return fmt.Errorf("%w: %s", sentinel, text)
}

// preconditionError is an ErrPrecondition without the sentinel's own text.
type preconditionError string

func (e preconditionError) Error() string { return string(e) }
func (e preconditionError) Unwrap() error { return ErrPrecondition }

// ErrUnauthenticated is the error of an invalid token.
var ErrUnauthenticated = errors.New("not authenticated")

// ErrForbidden is the error of an authenticated caller without permission.
var ErrForbidden = errors.New("not allowed")

// LaterError is an ErrExhausted with the time after which the same request may pass.
type LaterError struct {
	text string
	// Wait is how long the caller should wait.
	Wait time.Duration
}

// RetryLater is a LaterError.
func RetryLater(wait time.Duration, format string, args ...any) *LaterError {
	return &LaterError{text: fmt.Sprintf(format, args...), Wait: wait}
}

func (e *LaterError) Error() string { return e.text }

// Unwrap makes it an ErrExhausted.
func (e *LaterError) Unwrap() error { return ErrExhausted }
