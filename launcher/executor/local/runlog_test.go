package local_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/output"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/launcher/executor/local"
)

// shelf keeps logs as a store does.
type shelf struct {
	mu    sync.Mutex
	away  bool
	parts []schedule.LogPart
}

func (s *shelf) AppendRunLog(_ context.Context, a schedule.RunLogAppend) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away {
		return errors.New("the database is away")
	}
	s.parts = append(s.parts, a.Parts...)
	for _, seq := range a.Drop {
		for i := range s.parts {
			if s.parts[i].Seq == seq {
				s.parts = append(s.parts[:i], s.parts[i+1:]...)
				break
			}
		}
	}
	return nil
}

func (s *shelf) setAway(away bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.away = away
}

func (s *shelf) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all strings.Builder
	for _, p := range s.parts {
		all.WriteString(p.Text)
	}
	return all.String()
}

func TestAStepsLogIsStoredByWholeLinesWithinBounds(t *testing.T) {
	long := strings.Repeat("x", 40<<10)
	for _, c := range []struct {
		name   string
		writes []string // a flush after each
		want   string   // what is stored in the end
		bytes  int      // at most
	}{
		{"lines as they come", []string{"one\ntw", "o\n", "three"}, "one\ntwo\nthree\n", 100},
		{"a secret that comes in two pieces", []string{"pw hun", "ter2!\n"}, "pw ***\n", 100},
		{"a secret of several writes on a long line", []string{"pw hunter2! " + long, "\n"}, "pw *** xxx", 17 << 10},
		{"a secret that a long line's cut would halve", []string{strings.Repeat("y", 17<<10-3) + "hunter2!\n"}, "yyy", 17 << 10},
		{"more lines than wait for a write", []string{strings.Repeat("line\n", 100_000) + "last\n"}, "line\nlast\n", 33 << 10},
		{"more than a step may have", slicesOf(strings.Repeat("line\n", 6000), 40), "line\n", 256 << 10},
	} {
		t.Run(c.name, func(t *testing.T) {
			store := &shelf{}
			log := local.NewRunLog(schedule.Key{1}, store, time.Now)
			step := log.Open("s", new(output.Masker).With("hunter2!"))
			for _, w := range c.writes {
				step.Write([]byte(w))
				if err := log.Flush(t.Context(), false); err != nil {
					t.Fatal(err)
				}
			}
			if err := log.Flush(t.Context(), true); err != nil {
				t.Fatal(err)
			}
			got := store.text()
			if !strings.Contains(got, c.want) || len(got) > c.bytes || strings.Contains(got, "hun") {
				t.Errorf("%d bytes are stored, at most %d wanted: %.60q … %.60q", len(got), c.bytes, got, got[max(0, len(got)-60):])
			}
			if c.bytes == 100 && got != c.want {
				t.Errorf("stored %q, want %q", got, c.want)
			}
			var until int64
			for i, p := range store.parts {
				if p.From < until || p.To < p.From || i > 0 && p.Seq <= store.parts[i-1].Seq {
					t.Errorf("part %d stands for %d to %d behind %d", p.Seq, p.From, p.To, until)
				}
				until = p.To
			}
		})
	}
}

func slicesOf(text string, n int) (all []string) {
	for range n {
		all = append(all, text)
	}
	return all
}

func TestALogOutlivesAnOutageOfTheStore(t *testing.T) {
	store := &shelf{away: true}
	log := local.NewRunLog(schedule.Key{1}, store, time.Now)
	step := log.Open("s", nil)
	step.Write([]byte("one\n"))
	if err := log.Flush(t.Context(), false); err == nil {
		t.Fatal("the store is away")
	}
	step.Write([]byte("two\n"))
	store.setAway(false)
	if err := log.Flush(t.Context(), true); err != nil || store.text() != "one\ntwo\n" {
		t.Errorf("%v: %q", err, store.text())
	}
}
