package cli

import (
	"context"
	"io"
	"time"
)

// cli is what the commands take from their surroundings; tests bring their own.
type cli struct {
	in        io.Reader
	out, errs io.Writer
	now       func() time.Time
	env       func(string) string
	version   string // of this binary
	color     bool   // out is a terminal that wants colours
	terminal  bool   // out is a terminal

	screen io.Writer // where bars are drawn; nil: nowhere

	wait func(ctx context.Context, d time.Duration) error // between two rounds of --watch; nil: as long as it says
}
