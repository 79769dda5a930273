package client

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/carillon/carillon/internal/cli/command"
	"github.com/carillon/carillon/internal/cli/render"
)

// Limits of --watch.
const (
	defaultWatch = 2 * time.Second
	minWatch     = 500 * time.Millisecond
	maxWatch     = time.Hour
)

// WithWatch adds --watch, which repeats a command. On a terminal each answer replaces
// the previous one; in a pipe the answers follow each other.
func (c *Client) WithWatch(cmd *cobra.Command) *cobra.Command {
	var every time.Duration
	f := cmd.Flags()
	f.DurationVar(&every, "watch", 0, "refresh every `DURATION` (--watch=5s; default 2s) until Ctrl-C")
	f.Lookup("watch").NoOptDefVal = defaultWatch.String()
	f.Lookup("watch").DefValue = "no"
	once := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case !cmd.Flags().Changed("watch"):
			return once(cmd, args)
		case every < minWatch || every > maxWatch:
			return command.Usage(cmd, "--watch=%s is not within %s to %s", every, minWatch, maxWatch)
		}
		return c.repeat(cmd.Context(), every, func() error { return once(cmd, args) })
	}
	return cmd
}

// repeat ends with an error of the first round, or a later one unless the server did
// not answer: then it tries again.
func (c *Client) repeat(ctx context.Context, every time.Duration, once func() error) error {
	for round := 0; ; round++ {
		text, err := c.capture(once)
		switch {
		case ctx.Err() != nil:
			return nil // the user ended it
		case command.IsShown(err):
		case err != nil && (round == 0 || !Unanswered(err)):
			return err
		case err != nil:
			text = append(text, "carillon: "+render.Legible(err.Error())+"\n"...)
		}
		if err := c.draw(text, every, round); err != nil {
			return err
		}
		if err := pause(ctx, c.CLI, every); err != nil {
			return nil // the user ended it
		}
	}
}

// capture returns the output of a command.
func (c *Client) capture(once func() error) ([]byte, error) {
	var out bytes.Buffer
	real := c.CLI
	taken := *real
	taken.Out, taken.Screen, c.CLI = &out, nil, &taken
	defer func() { c.CLI = real }()
	err := once()
	return out.Bytes(), err
}

// draw writes an answer over the last one, or after it.
func (c *Client) draw(text []byte, every time.Duration, round int) error {
	var out bytes.Buffer
	now := c.Now().UTC().Format(time.RFC3339)
	switch {
	case c.Terminal && c.Format.ForPeople():
		// Clear the rest of each line and below the text: clearing the screen flickers.
		text = bytes.ReplaceAll(text, []byte("\n"), []byte("\x1b[K\n"))
		if round == 0 {
			out.WriteString("\x1b[2J")
		}
		fmt.Fprintf(&out, "\x1b[H%s, every %s, Ctrl-C to stop\x1b[K\n\x1b[K\n%s\x1b[J", now, every, text)
	case c.Format.ForPeople():
		fmt.Fprintf(&out, "# %s\n%s", now, text)
	case c.Format == render.FormatYAML:
		fmt.Fprintf(&out, "---\n%s", text)
	default:
		out.Write(text)
	}
	_, err := io.Copy(c.Out, &out)
	return err
}

// pause waits, unless ctx ends first.
func pause(ctx context.Context, c *command.CLI, d time.Duration) error {
	if c.Wait != nil {
		return c.Wait(ctx, d)
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
