package auth

import (
	"context"
	"strings"
)

// Call describes one call in progress: the gate sets the identity, and the access log and the audit
// trail read it at the end.
type Call struct {
	Method   string // full, as in RuleOf
	Identity Identity
	// RequestID and Target come from the request, for the audit trail.
	RequestID, Target string
	// Audited: the audit trail has to record the call. Recorded: its entry was already written, in the
	// transaction of the change.
	Audited, Recorded bool
	// Revoked is closed when the credentials of a bidirectional stream are no longer accepted. The
	// stream's context ends seconds later, so that open requests can be answered. nil: no warning.
	Revoked <-chan struct{}
}

// Name is the method without its service, such as PauseSchedule.
func (c *Call) Name() string { return c.Method[strings.LastIndex(c.Method, "/")+1:] }

type callKey struct{}

// WithCall returns ctx with a Call; an existing one is kept.
func WithCall(ctx context.Context, method string) (context.Context, *Call) {
	if call := CallFrom(ctx); call != nil {
		return ctx, call
	}
	call := &Call{Method: method}
	return context.WithValue(ctx, callKey{}, call), call
}

// CallFrom returns the Call of WithCall, or nil.
func CallFrom(ctx context.Context) *Call {
	call, _ := ctx.Value(callKey{}).(*Call)
	return call
}
