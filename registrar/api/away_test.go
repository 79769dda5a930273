package api

import (
	"errors"
	"fmt"
	"io"
	"net"
	"testing"

	"google.golang.org/grpc/codes"
)

type sqlState string

func (s sqlState) Error() string    { return "refused" }
func (s sqlState) SQLState() string { return string(s) }

func TestADatabaseThatIsAwayIsUnavailableAndNoFaultOfOurs(t *testing.T) {
	for _, c := range []struct {
		name string
		err  error
		want codes.Code
	}{
		{"nobody listens", &net.OpError{Op: "dial", Err: errors.New("connection refused")}, codes.Unavailable},
		{"the connection broke", io.ErrUnexpectedEOF, codes.Unavailable},
		{"it is shutting down", sqlState("57P01"), codes.Unavailable},
		{"it is starting up", sqlState("57P03"), codes.Unavailable},
		{"it has too many connections", sqlState("53300"), codes.Unavailable},
		{"it takes no writes", sqlState("25006"), codes.Unavailable},
		{"a statement is wrong", sqlState("42601"), codes.Internal},
		{"anything else", errors.New("boom"), codes.Internal},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := statusOf(fmt.Errorf("get run: %w", c.err)).Code(); got != c.want {
				t.Errorf("code is %s; want %s", got, c.want)
			}
		})
	}
}
