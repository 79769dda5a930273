package render

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// progressDelay is the time before progress is shown, so that fast work does not
// flicker.
const progressDelay = 500 * time.Millisecond

// Progress shows the progress of long work on a terminal. It shows nothing in a pipe
// and in the rounds of --watch.
type Progress struct {
	mu    sync.Mutex
	to    io.Writer // nil: show nothing
	began time.Time
	timer *time.Timer
	words string
	done  int
	total int // 0: unknown
	ended bool
	drawn *LiveLine // nil: not shown
}

// NewProgress starts showing progress on a terminal; screen nil: it shows nothing.
// End must be called.
func NewProgress(screen io.Writer, format string, args ...any) *Progress {
	m := &Progress{words: Legible(fmt.Sprintf(format, args...)), began: time.Now()}
	if screen != nil {
		m.to = screen
		m.timer = time.AfterFunc(progressDelay, m.open)
	}
	return m
}

func (m *Progress) open() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ended {
		return
	}
	m.drawn = NewLiveLine(m.to, m.text)
}

// text is called by the line's own goroutine.
func (m *Progress) text() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	took := time.Since(m.began)
	shape := spinner(took)
	if m.total > 0 {
		shape = Bar(m.done, m.total, 30)
	}
	return fmt.Sprintf("%s %s, %s", shape, m.words, took.Round(time.Second))
}

// Describe changes the text.
func (m *Progress) Describe(format string, args ...any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.words = Legible(fmt.Sprintf(format, args...))
}

// Set changes the text and the amount that is done. With a total a bar is shown.
func (m *Progress) Set(done, total int, format string, args ...any) {
	m.Describe(format, args...)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.done, m.total = done, total
}

// End removes the progress from the terminal. A second call does nothing.
func (m *Progress) End() {
	m.mu.Lock()
	ended, drawn := m.ended, m.drawn
	m.ended = true
	m.mu.Unlock()
	if m.timer != nil {
		m.timer.Stop()
	}
	if !ended && drawn != nil {
		drawn.Clear()
	}
}

// EndBefore wraps w: the first write ends the progress.
func (m *Progress) EndBefore(w io.Writer) io.Writer { return &endingWriter{m: m, to: w} }

type endingWriter struct {
	m  *Progress
	to io.Writer
}

func (w *endingWriter) Write(p []byte) (int, error) {
	w.m.End()
	return w.to.Write(p)
}
