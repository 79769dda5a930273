package command

import (
	"context"
	"io"
	"time"
)

// CLI is what the commands take from their surroundings; tests bring their own.
type CLI struct {
	In          io.Reader
	Out, ErrOut io.Writer
	Now         func() time.Time
	Env         func(string) string
	Version     string // of this binary
	Color       bool   // out is a terminal that wants colours
	Terminal    bool   // out is a terminal

	Screen io.Writer // where bars are drawn; nil: nowhere

	Wait func(ctx context.Context, d time.Duration) error // between two rounds of --watch; nil: as long as it says
}
