package client

import (
	"errors"
	"time"

	"google.golang.org/grpc/codes"
)

// Pauses between the calls of a command that waits.
const (
	FirstPause = 100 * time.Millisecond
	MaxPause   = 2 * time.Second
	// OutageTimeout is how long a command waits for a server that does not answer, such as
	// during a deployment.
	OutageTimeout = time.Minute
)

// Unanswered reports whether the server did not answer at all.
func Unanswered(err error) bool {
	var refused *CallError
	return errors.As(err, &refused) && (refused.Code == codes.Unavailable || refused.Code == codes.DeadlineExceeded)
}

// Exhausted reports whether the server refused a call that may pass later.
func Exhausted(err error) bool {
	var refused *CallError
	return errors.As(err, &refused) && refused.Code == codes.ResourceExhausted
}
