package main

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
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

	bars *mpb.Progress
	bar  *mpb.Bar
}

// meter begins one. It must be ended.
func (c *cli) meter(format string, args ...any) *meter {
	m := &meter{words: legible(fmt.Sprintf(format, args...)), began: time.Now()}
	if c.screen != nil {
		m.to = c.screen
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
	m.bars = mpb.New(mpb.WithOutput(m.to), mpb.WithWidth(30), mpb.WithAutoRefresh())
	if m.total > 0 {
		m.bar = m.bars.AddBar(int64(m.total), mpb.AppendDecorators(decor.Any(m.text)))
		m.bar.SetCurrent(int64(m.done))
		return
	}
	m.bar = m.bars.New(0, mpb.SpinnerStyle().PositionLeft(), mpb.BarWidth(2), mpb.AppendDecorators(decor.Any(m.text)))
}

// text is called by the bar's own goroutine.
func (m *meter) text(decor.Statistics) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return fmt.Sprintf(" %s, %s", m.words, time.Since(m.began).Round(time.Second))
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
	m.done, m.total = done, total
	bar := m.bar
	m.mu.Unlock()
	if bar != nil && total > 0 {
		bar.SetTotal(int64(total), false)
		bar.SetCurrent(int64(done))
	}
}

// end takes the meter away. What ended already is let be.
func (m *meter) end() {
	m.mu.Lock()
	ended := m.ended
	m.ended = true
	bars, bar := m.bars, m.bar
	m.mu.Unlock()
	if m.timer != nil {
		m.timer.Stop()
	}
	if ended || bars == nil {
		return
	}
	bar.Abort(true)
	bars.Wait()
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
