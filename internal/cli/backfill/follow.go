package backfill

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/carillon/carillon/internal/cli/client"
	"github.com/carillon/carillon/internal/cli/command"
	"github.com/carillon/carillon/internal/cli/render"
	"github.com/carillon/carillon/internal/schedule"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// Pauses between two calls, and between two lines of progress in a log.
const (
	followInterval = 500 * time.Millisecond
	lineInterval   = 10 * time.Second
)

// waitAndShow shows the progress of a backfill on the error output until it has ended,
// then prints the backfill. An interrupt does not cancel the backfill.
func waitAndShow(ctx context.Context, c *client.Client, l *client.Link, b *carillonv1.Backfill) error {
	b, err := follow(ctx, c, l, b)
	if ctx.Err() != nil {
		return fmt.Errorf("backfill %s is still running; cancel it with: carillon backfill cancel %s", b.GetBackfillId(), b.GetBackfillId())
	}
	if err != nil {
		return err
	}
	if err := c.Show(&carillonv1.GetBackfillResponse{Backfill: b}, func(p *render.Page) { writeBackfill(p, b) }); err != nil {
		return err
	}
	switch g := b.GetProgress(); {
	case b.GetState() != string(schedule.BackfillFinished):
		return fmt.Errorf("backfill %s is %s", b.GetBackfillId(), b.GetState())
	case g.GetSucceeded() < g.GetStarted():
		return fmt.Errorf("%[2]d of %[1]d runs did not succeed", g.GetStarted(), g.GetStarted()-g.GetSucceeded())
	}
	return nil
}

// follow calls GetBackfill until the backfill has ended or is paused.
func follow(ctx context.Context, c *client.Client, l *client.Link, b *carillonv1.Backfill) (*carillonv1.Backfill, error) {
	shown := newProgress(c.CLI, l.Progress, b)
	defer func() { shown.end() }()
	answered := time.Now()
	for b.GetState() == string(schedule.BackfillRunning) || cancelling(b) {
		shown.show(b)
		select {
		case <-ctx.Done():
			return b, ctx.Err()
		case <-time.After(followInterval):
		}
		resp, err := client.Call(ctx, l, l.Schedules().GetBackfill, &carillonv1.GetBackfillRequest{BackfillId: b.GetBackfillId()})
		switch {
		case err == nil:
			b, answered = resp.GetBackfill(), time.Now()
		case !client.Unanswered(err) || time.Since(answered) > client.OutageTimeout:
			return b, err
		}
	}
	shown.show(b)
	return b, nil
}

// cancelling reports whether a cancelled backfill still has runs in flight.
func cancelling(b *carillonv1.Backfill) bool {
	return b.GetState() == string(schedule.BackfillCancelled) && b.GetProgress().GetInFlight() > 0
}

// progress shows the progress of a backfill: a bar on a terminal, else a line from
// time to time.
type progress struct {
	lines    io.Writer // nil: a bar
	lastLine time.Time

	drawn *render.LiveLine
	mu    sync.Mutex
	now   *carillonv1.Backfill // of the last show; read by the line's goroutine
}

func newProgress(c *command.CLI, before *render.Progress, b *carillonv1.Backfill) *progress {
	if c.Screen == nil {
		return &progress{lines: c.ErrOut}
	}
	before.End()
	p := &progress{now: b}
	p.drawn = render.NewLiveLine(c.Screen, p.text)
	return p
}

// text is called by the line's own goroutine.
func (p *progress) text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	g := p.now.GetProgress()
	done, total := int(doneSlots(g)), int(g.GetTotal())
	text := fmt.Sprintf("%s %s %d %%  %s", render.Legible(p.now.GetScheduleId()), render.Bar(done, total, 38), done*100/max(total, 1), progressText(p.now))
	if g.GetEta() != nil {
		text += fmt.Sprintf(", about %s left", max(0, time.Until(g.GetEta().AsTime())).Round(time.Second))
	}
	return text
}

func (p *progress) show(b *carillonv1.Backfill) {
	if p.lines == nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.now = b
		return
	}
	if time.Since(p.lastLine) >= lineInterval {
		p.lastLine = time.Now()
		_, _ = fmt.Fprintf(p.lines, "backfill %s: %s, %s\n", b.GetBackfillId(), b.GetState(), progressText(b)) // a closed stream is no error
	}
}

// end stops redrawing and leaves the bar on the terminal.
func (p *progress) end() {
	if p.drawn != nil {
		p.drawn.Keep()
	}
}
