package cli

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// meterAfter is how long work takes before a meter shows it: what is quick
// does not flicker.
const meterAfter = 500 * time.Millisecond

// meter shows on a terminal that long work goes on, and how far it is. In a
// pipe, and in the rounds of --watch, it shows nothing.
type meter struct {
	mu    sync.Mutex
	to    io.Writer // nil: nothing is to be shown
	began time.Time
	timer *time.Timer
	words string
	done  int
	total int // 0: nobody knows
	ended bool
	drawn *liveLine // nil: not yet, or never
}

// newMeter begins one on the terminal screen; nil: it shows nothing. It must be ended.
func newMeter(screen io.Writer, format string, args ...any) *meter {
	m := &meter{words: legible(fmt.Sprintf(format, args...)), began: time.Now()}
	if screen != nil {
		m.to = screen
		m.timer = time.AfterFunc(meterAfter, m.open)
	}
	return m
}

func (m *meter) open() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ended {
		return
	}
	m.drawn = newLiveLine(m.to, m.text)
}

// text is called by the line's own goroutine.
func (m *meter) text() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	took := time.Since(m.began)
	shape := spinner(took)
	if m.total > 0 {
		shape = bar(m.done, m.total, 30)
	}
	return fmt.Sprintf("%s %s, %s", shape, m.words, took.Round(time.Second))
}

// say changes what is said to go on.
func (m *meter) say(format string, args ...any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.words = legible(fmt.Sprintf(format, args...))
}

// at says how much of the work is done; a total makes it a bar.
func (m *meter) at(done, total int, format string, args ...any) {
	m.say(format, args...)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.done, m.total = done, total
}

// end removes the meter. A second call does nothing.
func (m *meter) end() {
	m.mu.Lock()
	ended, drawn := m.ended, m.drawn
	m.ended = true
	m.mu.Unlock()
	if m.timer != nil {
		m.timer.Stop()
	}
	if !ended && drawn != nil {
		drawn.clear()
	}
}

// before ends the meter with the first byte that is written to w.
func (m *meter) before(w io.Writer) io.Writer { return &clearing{m: m, to: w} }

type clearing struct {
	m  *meter
	to io.Writer
}

func (w *clearing) Write(p []byte) (int, error) {
	w.m.end()
	return w.to.Write(p)
}
