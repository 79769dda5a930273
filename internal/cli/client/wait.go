package client

import (
	"errors"
	"time"

	"google.golang.org/grpc/codes"
)

// How often a command that waits calls the server.
const (
	FirstPause = 100 * time.Millisecond
	MaxPause   = 2 * time.Second
	// MaxSilence is how long the server may be away, as at a deploy.
	MaxSilence = time.Minute
)

// Unanswered reports whether the server did not answer at all.
func Unanswered(err error) bool {
	var refused *CallError
	return errors.As(err, &refused) && (refused.Code == codes.Unavailable || refused.Code == codes.DeadlineExceeded)
}
