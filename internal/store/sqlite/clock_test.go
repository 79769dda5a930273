package sqlite_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/sqlite"
)

func TestNowHoldsStillOrSaysThatItStepped(t *testing.T) {
	t.Parallel()
	second := time.Second
	for _, c := range []struct {
		name  string
		host  []time.Duration // readings of the host's clock, after noon
		want  []time.Duration // what Now says
		steps int             // how often OnClockStep heard of it
	}{
		{name: "a clock that goes on is passed on", host: []time.Duration{0, second, 2 * second}, want: []time.Duration{0, second, 2 * second}},
		{name: "a jump ahead is passed on", host: []time.Duration{0, time.Hour}, want: []time.Duration{0, time.Hour}},
		{
			name: "a small step back is held until the host has caught up",
			host: []time.Duration{60 * second, 30 * second, 59 * second, 60 * second, 61 * second},
			want: []time.Duration{60 * second, 60 * second, 60 * second, 60 * second, 61 * second},
		},
		{
			name: "a step back of the whole hold is still held",
			host: []time.Duration{60 * second, 0, 61 * second},
			want: []time.Duration{60 * second, 60 * second, 61 * second},
		},
		{
			name: "a larger step back is believed, once",
			host: []time.Duration{60 * second, -second, 0, second},
			want: []time.Duration{60 * second, -second, 0, second}, steps: 1,
		},
		{
			name: "small steps do not add up to a large one unheard",
			host: []time.Duration{60 * second, 30 * second, -10 * second, 0},
			want: []time.Duration{60 * second, 60 * second, -10 * second, 0}, steps: 1,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			reading, steps := 0, 0
			s := open(t, filepath.Join(t.TempDir(), "carillon.db"), sqlite.Options{
				HostClock: func() time.Time { return noon.Add(c.host[reading]) },
				OnClockStep: func(from, to time.Time) {
					steps++
					if want := noon.Add(c.want[reading-1]); !from.Equal(want) || !to.Equal(noon.Add(c.host[reading])) {
						t.Errorf("stepped from %s to %s", from, to)
					}
				},
			})
			for reading = range c.host {
				if got, want := s.Now(), noon.Add(c.want[reading]); !got.Equal(want) || got.Location() != time.UTC {
					t.Errorf("reading %d: got %s, want %s", reading, got, want)
				}
			}
			if steps != c.steps {
				t.Errorf("%d steps were reported, want %d", steps, c.steps)
			}
		})
	}
}

func TestWhatAWorkerSawOutlivesTheProcess(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		back  time.Duration // how far the clock is behind after the restart
		held  bool
		steps int
	}{
		{name: "a step within the hold is held across a restart", back: 59 * time.Second, held: true},
		{name: "a larger one is believed and reported once", back: time.Hour, steps: 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "carillon.db")
			before := open(t, path, sqlite.Options{HostClock: func() time.Time { return noon }})
			for _, worker := range []string{"one", "two"} {
				if err := before.Heartbeat(t.Context(), schedule.Instance{ID: worker, StartedAt: noon}); err != nil {
					t.Fatal(err)
				}
			}
			if err := before.Close(); err != nil {
				t.Fatal(err)
			}

			steps := 0
			opts := sqlite.Options{
				HostClock:   func() time.Time { return noon.Add(-c.back) },
				OnClockStep: func(time.Time, time.Time) { steps++ },
			}
			want := noon.Add(-c.back)
			if c.held {
				want = noon
			}
			// The third start must not take for a step what the second accepted.
			for range 2 {
				after := open(t, path, opts)
				if got := after.Now(); !got.Equal(want) {
					t.Errorf("now is %s, want %s", got, want)
				}
				if err := after.Heartbeat(t.Context(), schedule.Instance{ID: "one", StartedAt: noon}); err != nil {
					t.Fatal(err)
				}
				if err := after.Close(); err != nil {
					t.Fatal(err)
				}
			}
			if steps != c.steps {
				t.Errorf("%d steps were reported, want %d", steps, c.steps)
			}
		})
	}
}
