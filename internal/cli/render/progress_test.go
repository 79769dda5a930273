package render

import (
	"bytes"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// screen is a terminal that remembers all that was ever drawn.
type screen struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

func TestAMeterShowsLongWorkOnATerminalAlone(t *testing.T) {
	for _, tt := range []struct {
		name     string
		terminal bool
		lasts    time.Duration
		total    int
		want     string // drawn; empty: nothing at all
	}{
		{name: "quick work on a terminal", terminal: true, lasts: progressDelay / 2},
		{name: "long work in a pipe", lasts: 5 * time.Second},
		{name: "long work of an unknown length", terminal: true, lasts: 5 * time.Second, want: "3 of many, 2s"},
		{name: "long work of a known length", terminal: true, lasts: 5 * time.Second, total: 6, want: "3 of many, 2s"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				to := &screen{}
				m := NewProgress(nil, "begins")
				if tt.terminal {
					m = NewProgress(to, "begins")
				}
				m.Set(3, tt.total, "%d of many", 3)
				time.Sleep(tt.lasts)
				var out bytes.Buffer
				_, _ = m.EndBefore(&out).Write([]byte("the answer")) // a buffer takes everything
				m.End()
				drawn := to.String()
				if got := strings.Contains(drawn, tt.want); !got || (tt.want == "") != (drawn == "") {
					t.Errorf("drawn is %q, want %q in it", drawn, tt.want)
				}
				if hasBar := strings.Contains(drawn, "[=="); hasBar != (tt.total > 0) {
					t.Errorf("a bar: %t in %q", hasBar, drawn)
				}
				if out.String() != "the answer" {
					t.Errorf("written is %q", out.String())
				}
			})
		})
	}
}

func TestABarIsAsLongAsItsLength(t *testing.T) {
	for _, tt := range []struct {
		name        string
		done, total int
		want        string
	}{
		{name: "nothing is done", total: 4, want: "[----]"},
		{name: "half is done", done: 2, total: 4, want: "[=>--]"},
		{name: "all is done", done: 4, total: 4, want: "[====]"},
		{name: "more than all", done: 9, total: 4, want: "[====]"},
		{name: "nobody knows how much there is", done: 9, want: "[----]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := Bar(tt.done, tt.total, 4); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}
