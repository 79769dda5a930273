package render

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

const redrawEvery = 150 * time.Millisecond

// LiveLine is a line of a terminal that is drawn again until it ends.
type LiveLine struct {
	to      io.Writer
	text    func() string
	stop    chan struct{}
	drawing sync.WaitGroup
}

// NewLiveLine begins one. It must be ended by keep or clear; text is called by
// another goroutine.
func NewLiveLine(to io.Writer, text func() string) *LiveLine {
	l := &LiveLine{to: to, text: text, stop: make(chan struct{})}
	l.drawing.Go(func() {
		tick := time.NewTicker(redrawEvery)
		defer tick.Stop()
		for {
			l.draw()
			select {
			case <-l.stop:
				return
			case <-tick.C:
			}
		}
	})
	return l
}

// draw turns line wrap off meanwhile (CSI ?7l), so that a narrow terminal cuts
// what would otherwise become a second line, which would never be removed.
func (l *LiveLine) draw() {
	_, _ = fmt.Fprintf(l.to, "\r\x1b[?7l%s\x1b[K\x1b[?7h", l.text()) // nobody may be reading
}

// Keep ends the line as it is now.
func (l *LiveLine) Keep() {
	close(l.stop)
	l.drawing.Wait()
	l.draw()
	_, _ = io.WriteString(l.to, "\n")
}

// Clear ends the line and removes it.
func (l *LiveLine) Clear() {
	close(l.stop)
	l.drawing.Wait()
	_, _ = io.WriteString(l.to, "\r\x1b[K")
}

// Bar is [====>----], of so many characters between the brackets.
func Bar(done, total, length int) string {
	full := 0
	if total > 0 {
		full = min(max(done, 0)*length/total, length)
	}
	head := ""
	if full > 0 && full < length {
		head = ">"
	}
	return "[" + strings.Repeat("=", full-len(head)) + head + strings.Repeat("-", length-full) + "]"
}

// spinner shows that work of an unknown length goes on.
func spinner(took time.Duration) string {
	shapes := `|/-\`
	at := int(took/redrawEvery) % len(shapes)
	return shapes[at : at+1]
}
