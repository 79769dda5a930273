package auth

import (
	"context"
	"strings"
)

// Call is what is known of one call while it is made: the gate fills in who
// makes it, and the access log and the audit trail read it when it ends.
type Call struct {
	Method   string // full, as in RuleOf
	Identity Identity
	// RequestID and Target are what the request says of itself, for the trail.
	RequestID, Target string
	// Audited says that the call belongs into the audit trail, and Recorded that
	// what it changed stands there already, written with the change itself.
	Audited, Recorded bool
	// Revoked is closed when the caller of a stream in both directions is accepted
	// no longer. The stream's context ends seconds later: until then what is open
	// can be answered. nil: there is no such warning.
	Revoked <-chan struct{}
}

// Name is the method without its service, such as PauseSchedule.
func (c *Call) Name() string { return c.Method[strings.LastIndex(c.Method, "/")+1:] }

type callKey struct{}

// WithCall is ctx with a Call of its own; one that is there already stays.
func WithCall(ctx context.Context, method string) (context.Context, *Call) {
	if call := CallFrom(ctx); call != nil {
		return ctx, call
	}
	call := &Call{Method: method}
	return context.WithValue(ctx, callKey{}, call), call
}

// CallFrom is the Call that WithCall put there, or nil.
func CallFrom(ctx context.Context) *Call {
	call, _ := ctx.Value(callKey{}).(*Call)
	return call
}
