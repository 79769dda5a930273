package command

import (
	"context"
	"io"
	"time"
)

// CLI is what commands use of the process. Tests pass their own.
type CLI struct {
	In          io.Reader
	Out, ErrOut io.Writer
	Now         func() time.Time
	Env         func(string) string
	Version     string // of this binary
	Color       bool   // Out is a terminal that shows colours
	Terminal    bool   // Out is a terminal

	Screen io.Writer // terminal for progress bars; nil: no bars

	Wait func(ctx context.Context, d time.Duration) error // pause between rounds of --watch; nil: a timer
}
