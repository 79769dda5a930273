package render

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

const redrawEvery = 150 * time.Millisecond

// LiveLine redraws one line of a terminal until it ends.
type LiveLine struct {
	to      io.Writer
	text    func() string
	stop    chan struct{}
	drawing sync.WaitGroup
}

// NewLiveLine starts redrawing. Keep or Clear must end it. text is called by another
// goroutine.
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

// draw switches line wrap off (CSI ?7l): on a narrow terminal a wrapped second line
// would never be removed.
func (l *LiveLine) draw() {
	_, _ = fmt.Fprintf(l.to, "\r\x1b[?7l%s\x1b[K\x1b[?7h", l.text()) // a closed terminal is no error
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

// Bar is [====>----], with length characters between the brackets.
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

// spinner is the next character of an animation, for work of unknown length.
func spinner(took time.Duration) string {
	shapes := `|/-\`
	at := int(took/redrawEvery) % len(shapes)
	return shapes[at : at+1]
}
