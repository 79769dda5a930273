package cli

import (
	"errors"
	"time"

	"google.golang.org/grpc/codes"
)

// How often a command that waits calls the server.
const (
	waitFirst = 100 * time.Millisecond
	waitMost  = 2 * time.Second
	// waitSilent is how long the server may be away, as at a deploy.
	waitSilent = time.Minute
)

// away reports whether the server did not answer at all.
func away(err error) bool {
	var refused *callError
	return errors.As(err, &refused) && (refused.code == codes.Unavailable || refused.code == codes.DeadlineExceeded)
}
