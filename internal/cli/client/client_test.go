package client

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// running is a context whose timer has not fired.
type running struct {
	context.Context
	deadline time.Time
}

func (r running) Deadline() (time.Time, bool) { return r.deadline, true }

func TestACallTimedOutBeforeItsOwnTimerFires(t *testing.T) {
	for _, tt := range []struct {
		name string
		left time.Duration
		code codes.Code
		want bool
	}{
		{name: "the server resets the call just before the deadline", left: 50 * time.Millisecond, code: codes.Canceled, want: true},
		{name: "the server resets the call after the deadline", left: -time.Millisecond, code: codes.DeadlineExceeded, want: true},
		{name: "the server resets the call long before", left: time.Hour, code: codes.Canceled},
		{name: "a timeout of the server's own", left: time.Hour, code: codes.DeadlineExceeded},
		{name: "another error at the deadline", left: -time.Millisecond, code: codes.Unavailable},
	} {
		t.Run(tt.name, func(t *testing.T) {
			call := running{Context: t.Context(), deadline: time.Now().Add(tt.left)}
			if got := timedOut(call, status.Error(tt.code, "")); got != tt.want {
				t.Errorf("got %t", got)
			}
		})
	}
}
