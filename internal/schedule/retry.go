package schedule

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// FailureClass says whether a failed run may succeed when it is tried again. An executor
// reports one of ReportedClasses; Carillon derives the others from the reason.
type FailureClass string

// The failure classes.
const (
	ClassTransient      FailureClass = "transient"      // expected to pass without a change
	ClassLogic          FailureClass = "logic"          // code or input is wrong
	ClassApproval       FailureClass = "approval"       // a person must grant access or sign in
	ClassReconciliation FailureClass = "reconciliation" // it is unknown whether the effect happened
	ClassInternal       FailureClass = "internal"       // a defect of the executor's host
	ClassTimeout        FailureClass = "timeout"        // no sign of life within the run timeout
	ClassLost           FailureClass = "lost"           // the outcome of the launch never became known
	ClassDeadline       FailureClass = "deadline"       // it was not over in time
)

// FailureClasses is the closed set. ReportedClasses are those that an executor may report.
var (
	FailureClasses = []FailureClass{
		ClassTransient, ClassLogic, ClassApproval, ClassReconciliation, ClassInternal, ClassTimeout, ClassLost, ClassDeadline,
	}
	ReportedClasses = FailureClasses[:5:5]
)

// ClassOf is the class of a failed run: as the executor reported it, else by the reason.
func ClassOf(reason Reason, reported FailureClass) FailureClass {
	switch reason {
	case ReasonTimeout:
		return ClassTimeout
	case ReasonDeadline:
		return ClassDeadline
	case ReasonLost, ReasonInterrupted:
		return ClassLost
	case ReasonSnoozeLimit:
		return ClassLogic
	}
	if slices.Contains(ReportedClasses, reported) {
		return reported
	}
	switch reason {
	case ReasonLaunchRefused, ReasonWorkflowNotFound, ReasonQueueNotFound, ReasonKeyConflict:
		return ClassLogic
	}
	return ClassTransient
}

// RetryPolicy says how often and when a failed run of a schedule is tried again. The zero
// value means never.
type RetryPolicy struct {
	MaxAttempts   uint32 `json:"max_attempts"` // the first one included
	BackoffMS     uint32 `json:"backoff_ms"`   // before the first retry
	FactorPercent uint32 `json:"factor_percent"`
	MaxBackoffMS  uint32 `json:"max_backoff_ms"`
	// On has the retried classes, joined by commas in the order of FailureClasses.
	On RetryOn `json:"on"`
}

// RetryOn is a set of failure classes. It is a text, so that definitions stay comparable.
type RetryOn string

// RetryOnOf is the set of some classes.
func RetryOnOf(classes ...FailureClass) RetryOn {
	var in []string
	for _, class := range FailureClasses {
		if slices.Contains(classes, class) {
			in = append(in, string(class))
		}
	}
	return RetryOn(strings.Join(in, ","))
}

// Classes are the members in the order of FailureClasses.
func (on RetryOn) Classes() (classes []FailureClass) {
	for _, class := range FailureClasses {
		if on.Has(class) {
			classes = append(classes, class)
		}
	}
	return classes
}

// Has reports whether a class is in the set.
func (on RetryOn) Has(class FailureClass) bool {
	return class != "" && slices.Contains(strings.Split(string(on), ","), string(class))
}

// DefaultRetry has the defaults of a policy.
var DefaultRetry = RetryPolicy{
	MaxAttempts: 1, BackoffMS: 10_000, FactorPercent: 200, MaxBackoffMS: 3_600_000,
	On: RetryOnOf(ClassTransient, ClassTimeout, ClassLost, ClassDeadline),
}

// The limits of a policy.
const (
	MaxRetryAttempts   = 25
	MinRetryBackoff    = time.Second
	MaxRetryBackoff    = 24 * time.Hour
	MinRetryFactor     = 100
	MaxRetryFactor     = 1000
	retryJitterPercent = 10
)

// QueuedRetry is the policy of runs in queues where neither their schedule nor their queue has one:
// DefaultRetry with the waits that the settings name; 0: those of DefaultRetry.
func QueuedRetry(maxAttempts, backoffMS, maxBackoffMS uint32) RetryPolicy {
	return RetryPolicy{MaxAttempts: max(maxAttempts, 1), BackoffMS: backoffMS, MaxBackoffMS: maxBackoffMS}.Resolved()
}

// Resolved fills in the defaults. The zero policy stays: it means no retry. A max_backoff_ms
// that is not set is at least backoff_ms.
func (p RetryPolicy) Resolved() RetryPolicy { return p.ResolvedBy(DefaultRetry) }

// ResolvedBy is Resolved with other defaults.
func (p RetryPolicy) ResolvedBy(d RetryPolicy) RetryPolicy {
	if p == (RetryPolicy{}) {
		return p
	}
	fill := func(value *uint32, fallback uint32) {
		if *value == 0 {
			*value = fallback
		}
	}
	fill(&p.MaxAttempts, d.MaxAttempts)
	fill(&p.BackoffMS, d.BackoffMS)
	fill(&p.FactorPercent, d.FactorPercent)
	fill(&p.MaxBackoffMS, max(d.MaxBackoffMS, p.BackoffMS))
	if p.On == "" {
		p.On = d.On
	}
	return p
}

// Check adds what is wrong with a resolved policy.
func (p RetryPolicy) Check(c *Collect) {
	if p == (RetryPolicy{}) {
		return
	}
	within := func(field string, value, least, most uint32) {
		if value < least || value > most {
			c.Add("retry."+field, value, fmt.Sprintf("is not within %d to %d", least, most), "")
		}
	}
	least, most := uint32(MinRetryBackoff.Milliseconds()), uint32(MaxRetryBackoff.Milliseconds())
	within("max_attempts", p.MaxAttempts, 1, MaxRetryAttempts)
	within("backoff_ms", p.BackoffMS, least, most)
	within("factor_percent", p.FactorPercent, MinRetryFactor, MaxRetryFactor)
	if within("max_backoff_ms", p.MaxBackoffMS, least, most); p.MaxBackoffMS < p.BackoffMS {
		c.Add("retry.max_backoff_ms", p.MaxBackoffMS, fmt.Sprintf("is below backoff_ms %d", p.BackoffMS), "give backoff_ms at least")
	}
	for _, class := range strings.Split(string(p.On), ",") {
		if !slices.Contains(FailureClasses, FailureClass(class)) {
			c.Add("retry.on", class, fmt.Sprintf("is not one of %v", FailureClasses), "")
		}
	}
}

// Attempts is how many attempts a run has; at least 1.
func (p RetryPolicy) Attempts() int32 { return int32(max(p.MaxAttempts, 1)) }

// QueuedAttempts is how many attempts a run in a queue has by the policy of its schedule: without
// one as many as its queue says (nil: nothing), else as the setting for runs in queues says.
func (p RetryPolicy) QueuedAttempts(q *Queue, setting uint32) int32 {
	switch none := (RetryPolicy{}); {
	case p != none:
		return p.Attempts()
	case q != nil && q.Retry != none:
		return q.Retry.Attempts()
	}
	return int32(max(setting, 1))
}

// Wait is how long after a failure the n-th retry of a budget starts, n counted from 1: within
// 10 % of min(max_backoff, backoff · factor^(n−1)), drawn from the key of the new attempt.
func (p RetryPolicy) Wait(n int, key Key) time.Duration {
	wait, most := millis(p.BackoffMS), millis(p.MaxBackoffMS)
	for i := 1; i < n && wait < most && p.FactorPercent > 100; i++ {
		wait = wait * time.Duration(p.FactorPercent) / 100
	}
	wait = min(wait, most)
	jitter := wait * retryJitterPercent / 100
	return wait - jitter + time.Duration(key.Fraction(uint64(2*jitter)+1))
}

// Text is the stored form: JSON, or empty.
func (p RetryPolicy) Text() string {
	if p == (RetryPolicy{}) {
		return ""
	}
	raw, err := json.Marshal(p)
	if err != nil {
		panic("numbers are not JSON: " + err.Error()) // they always are
	}
	return string(raw)
}

// ParseRetry reads the stored form.
func ParseRetry(text string) (p RetryPolicy, err error) {
	if text == "" {
		return p, nil
	}
	err = json.Unmarshal([]byte(text), &p)
	return p, err
}

// IsAutomaticRetry reports whether Carillon planned the run by itself, because the run before it
// failed or was snoozed. A retry by hand has another key.
func (r *Run) IsAutomaticRetry() bool {
	return r.Trigger == TriggerRetry && !r.RetryOf.IsZero() && (r.Key == AttemptKey(r.RetryOf) || r.Key == SnoozeKey(r.RetryOf) || r.Key == AgainKey(r.RetryOf))
}

// MaxInterruptions is how often in a row an interrupted attempt starts again. After that an
// interruption is a failure like any other.
const MaxInterruptions = 3

// StartsAgain reports whether the run was interrupted, and the same attempt may start again.
func (r *Run) StartsAgain() bool {
	return r.Status == StatusFailed && r.Reason == ReasonInterrupted && r.Interruptions < MaxInterruptions && r.MaxAttempts > 1
}

// IsDead reports whether the run failed for good and nobody has retried it.
func (r *Run) IsDead() bool { return r.Dead != nil && *r.Dead }

// RetriedBy is the key of the run that Carillon has planned after a failed or snoozed one;
// ok = false: there is none.
func (r *Run) RetriedBy() (key Key, ok bool) {
	if r.Snoozed() {
		return SnoozeKey(r.Key), r.Dead == nil
	}
	if r.StartsAgain() {
		return AgainKey(r.Key), r.Dead == nil
	}
	if r.Status != StatusFailed || r.Dead != nil || r.Attempt >= r.MaxAttempts {
		return key, false
	}
	return AttemptKey(r.Key), true
}
